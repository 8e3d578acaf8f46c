import base64
import dataclasses
import json
import math

import pytest

from hawkeye_mcp import artifact
from hawkeye_mcp.accuracy import features
from hawkeye_mcp.accuracy.rows import Row
from hawkeye_mcp.profiler.mosaic import body_operations, mosaic_calls

BLOCK = 128 * 128 * 2


def prepared(size, block=128, **options):
    row = Row(
        id="a", chip="v5e", kernel="matmul", implementation="mosaic", file="measured.csv",
        spec=json.dumps({"m": size, "k": size, "n": size} | options),
        config=json.dumps({"block_m": block, "block_k": block, "block_n": block}) if block else "{}",
        measured_us=1.0, timing="wall_clock", source="", group="",
    )  # fmt: skip
    return features.prepare(dataclasses.asdict(row))


def test_a_row_s_kernel_is_built_with_its_blocks_and_its_transfers_are_counted():
    (kernel,) = prepared(512)["kernels"]
    assert kernel["grid"] == [4, 4, 4]
    assert sum(steps for _, _, steps in kernel["transfers"]) == 64
    assert kernel["window_bytes"] == 64 * 2 * BLOCK + 16 * BLOCK
    assert (kernel["first_bytes"], kernel["last_bytes"]) == (2 * BLOCK, BLOCK)
    assert kernel["by_hand_bytes"] == 0
    (job,) = kernel["jobs"]
    assert job["count"] == 64
    total = sum(weight * math.prod(point) for weight, point in zip(kernel["weights"], kernel["points"], strict=True))
    assert total == pytest.approx(64)


def test_longer_grids_of_the_same_blocks_share_their_profiles():
    short, long = (prepared(size, block=512)["kernels"][0]["jobs"][0] for size in (4096, 8192))
    assert short["points"] == long["points"]
    assert short["keys"] == long["keys"]
    assert len(set(short["keys"])) == len(short["points"]) > 1


def test_other_work_is_another_profile():
    plain, relu = (prepared(1024, **options)["kernels"][0]["jobs"][0]["keys"] for options in ({}, {"relu": True}))
    turned = prepared(1024, rhs_transposed=True)["kernels"][0]["jobs"][0]["keys"]
    assert not {*plain} & {*relu}
    assert not {*plain} & {*turned}


def test_xla_s_matmul_has_no_kernel():
    found = prepared(512, block=0)
    assert found["kernels"] == []
    program = artifact.read(base64.b64decode(found["artifact_b64"]))
    with program.context:
        assert mosaic_calls(program) == []
        assert any(op.name == "stablehlo.dot_general" for op in artifact.operations(program.module.operation))


def test_options_reach_the_kernel():
    def operations(**options):
        program = artifact.read(base64.b64decode(prepared(512, **options)["artifact_b64"]))
        with program.context:
            return body_operations(mosaic_calls(program)[0])

    assert "arith.maximumf" in operations(relu=True)
    assert "arith.maximumf" not in operations()
