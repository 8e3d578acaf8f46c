import base64
import json

import pytest

from hawkeye_mcp.profiler import xla_kernel
from hawkeye_mcp.profiler.mosaic import mosaic_calls

BODY = """module {
  func.func @main(%arg0: i32, %arg1: memref<256x128xbf16, #tpu.memory_space<vmem>>, %arg2: memref<256x128xbf16, #tpu.memory_space<vmem>>) attributes {dimension_semantics = [#tpu.dimension_semantics<parallel>], iteration_bounds = array<i64: 16>, window_params = [{transform_indices = @rows, window_bounds = array<i64: 256, 128>}, {transform_indices = @rows, window_bounds = array<i64: 256, 128>}]} {
    %c0 = arith.constant 0 : index
    %0 = vector.load %arg1[%c0, %c0] : memref<256x128xbf16, #tpu.memory_space<vmem>>, vector<256x128xbf16>
    vector.store %0, %arg2[%c0, %c0] : memref<256x128xbf16, #tpu.memory_space<vmem>>, vector<256x128xbf16>
    return
  }
  func.func @rows(%arg0: i32) -> (i32, i32) {
    %c0_i32 = arith.constant 0 : i32
    return %arg0, %c0_i32 : i32, i32
  }
}
"""  # as XLA writes the bodies of its own kernels


def _call(body=BODY, dtype="bf16"):
    array = [dtype, [4096, 128]]
    config = {"body": base64.b64encode(body.encode()).decode(), "needs_layout_passes": True}
    return {"config": config, "operands": [array], "results": [array]}


def test_a_kernel_of_xlas_own_is_read_like_a_candidates():
    program = xla_kernel.program(_call())
    assert program.inputs == program.outputs == [((4096, 128), "bfloat16")]
    with program.context:
        (kernel,) = mosaic_calls(program)
        assert kernel.grid == (16,)
        assert kernel.window_bytes() == [4096 * 128 * 2] * 2


def test_its_grid_can_be_replaced_and_nothing_else_changes():
    text = xla_kernel.alone(_call(), [3]).mlir_module()
    (config,) = (line for line in text.splitlines() if "tpu_custom_call" in line)
    quoted = config[config.index('"{') : config.index('}"') + 2]
    body = json.loads(json.loads(quoted.replace("\\22", '\\"')))["custom_call_config"]["body"]
    assert base64.b64decode(body).decode() == BODY.replace("array<i64: 16>,", "array<i64: 3>,", 1)


@pytest.mark.parametrize(
    ("call", "grid"), [(_call("module {}"), [3]), (_call(dtype="c64"), None)], ids=["no grid", "unknown dtype"]
)
def test_what_cannot_be_put_alone_is_refused(call, grid):
    with pytest.raises(ValueError, match="grids|dtype"):
        xla_kernel.alone(call, grid)
