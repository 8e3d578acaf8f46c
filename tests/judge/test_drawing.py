"""Draws are compiled with less care than other programs, and give the same bits."""

import jax
import numpy as np

from hawkeye_mcp import workloads
from hawkeye_mcp.judge import drawing
from hawkeye_mcp.judge.verify import module_of

CAREFULLY = {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True}


def test_a_draw_has_the_bits_that_it_has_when_compiled_with_all_care():
    name = "11p_Megablox_GMM"  # normal numbers, and integers that decide what is done
    module, dims = module_of(name), workloads.load(name).sizes["check"]
    careful = jax.jit(lambda key: module.create_inputs(key, dims), compiler_options=CAREFULLY)
    quick, wanted = (draw(jax.random.key(5)) for draw in (drawing.draw(module, dims), careful))
    assert len(quick) == len(wanted) == 3
    for got, want in zip(quick, wanted, strict=True):
        assert got.dtype == want.dtype
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes()
