"""Inside a worker: the facts of one chip that guides and kernels are rendered with."""

from typing import Any

from jax.experimental.pallas import tpu as pltpu

from hawkeye_mcp.chips import CHIPS
from hawkeye_mcp.profiler.units import EUP_SLOTS, LOAD_SLOTS, SCALAR_SLOTS, STORE_SLOTS, VALU_SLOTS, XLU_SLOTS

# By an MXU's side, as the clocks in chips.py are derived.
MXU_ROWS_PER_CYCLE = {128: 1, 256: 2}
POP_SLOTS = 2  # header of libtpu's utilisation dump


def facts(tpu: str) -> dict[str, Any]:
    """Figures of one JAX device, all its cores together, but for those of one core: mxus, flops_per_cycle (bfloat16),
    vmem_mib, smem_mib and slots.

    From jax's TpuInfo; clock and cores from chips.py; slots of a bundle from the header of libtpu's utilisation dump.
    A rate that TpuInfo gives as 0 is None: the chip does such products at another type's rate or not at all.
    """
    chip = CHIPS[tpu]
    info = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion(tpu), chip.cores)
    flops_per_s = info.bf16_ops_per_second * chip.cores
    bytes_per_s = info.mem_bw_bytes_per_second * chip.cores

    def tera(per_core: float) -> float | None:
        return _short(per_core * chip.cores / 1e12) if per_core else None

    return {
        "name": tpu,
        "cores": chip.cores,
        "mxus": info.num_mxus,
        "mxu_side": info.mxu_column_size,
        "clock_ghz": chip.clock_hz / 1e9,
        "flops_per_cycle": 2 * info.num_mxus * info.mxu_column_size**2 * MXU_ROWS_PER_CYCLE[info.mxu_column_size],
        "bf16_tflops": tera(info.bf16_ops_per_second),
        "int8_tops": tera(info.int8_ops_per_second),
        "fp8_tflops": tera(info.fp8_ops_per_second),
        "int4_tops": tera(info.int4_ops_per_second),
        "hbm_gb_per_s": _short(bytes_per_s / 1e9),
        "hbm_gb": _short(info.hbm_capacity_bytes * chip.cores / 1e9),
        "vmem_mib": info.vmem_capacity_bytes >> 20,
        "smem_mib": info.smem_capacity_bytes >> 20,
        "ridge": round(flops_per_s / bytes_per_s),
        "sublanes_bf16": 16,  # of a vector register: 8 sublanes of 32 bits, two bfloat16 values in each
        "slots": {
            "matmul": info.num_mxus,
            "push": info.num_mxus,
            "xlu": XLU_SLOTS[tpu],
            "valu": VALU_SLOTS,
            "pop": POP_SLOTS,
            "eup": EUP_SLOTS,
            "load": LOAD_SLOTS,
            "store": STORE_SLOTS[tpu],
            "scalar": SCALAR_SLOTS,
        },
    }


def _short(value: float) -> float | int:
    return int(value) if value == int(value) else round(value, 1)
