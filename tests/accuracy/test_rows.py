import json

import pytest

from hawkeye_mcp.accuracy import command
from hawkeye_mcp.accuracy import rows as module
from hawkeye_mcp.accuracy.rows import group_of, rows

SPEC = '{"lhs":"bf16[512,256]","rhs":"bf16[4,256,128]","group_sizes":[128,128,128,128],"return_residuals":%s}'


@pytest.fixture
def tokamax(tmp_path, monkeypatch):
    """Package data of an imagined tokamax: write(folder, file, text) adds a file."""
    monkeypatch.setattr(module, "tokamax_version", lambda: "9.9")
    monkeypatch.setattr(module.resources, "files", lambda package: tmp_path / package)

    def write(folder, name, text):
        path = tmp_path / "tokamax" / "data" / "autotuning" / folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


def entry(*times_ms, spec=SPEC % "false", config='{"tile_m":128}'):
    return {spec: {config: {"evaluation_times_ms": list(times_ms)}}}


def only_tokamax():
    return [row for row in rows() if row.source.startswith("tokamax")]


def test_the_notebook_s_rows_need_no_tokamax(monkeypatch):
    monkeypatch.setattr(module, "tokamax_version", lambda: None)
    found = [row for row in rows() if not row.source.startswith("tokamax")]
    assert len(found) == 13
    assert {row.timing for row in found} == {"wall_clock"}
    relu = next(row for row in found if row.id == "jaxdoc-12")
    assert json.loads(relu.spec) == {"m": 4096, "k": 4096, "n": 4096, "relu": True}
    assert json.loads(relu.config) == {"block_m": 512, "block_k": 1024, "block_n": 1024}
    assert [row.implementation for row in found if row.id == "jaxdoc-8"] == ["xla"]
    sides = {json.loads(row.spec)["m"]: row.split for row in found}
    assert {sides[4096], sides[8192]} == {"fit", "held_out"}  # the shortest, which is not scored, takes no side


def test_the_median_of_the_times_is_what_was_measured(tokamax):
    tokamax("tpu_v5_lite", "pallas_mosaic_tpu_ragged_dot", json.dumps(entry(5.0, 1.0, 2.0)))
    (row,) = only_tokamax()
    assert (row.measured_us, row.chip, row.kernel, row.implementation) == (2000.0, "v5e", "ragged_dot", "mosaic")
    assert row.source == "tokamax 9.9 data/autotuning/tpu_v5_lite/pallas_mosaic_tpu_ragged_dot.json"


def test_an_empty_file_and_a_configuration_without_times_are_no_rows(tokamax):
    tokamax("tpu7x", "normalization", "")
    tokamax("tpu7x", "ragged_dot", json.dumps({SPEC % "false": {}, SPEC % "true": {"{}": {"compile_time_ms": 1.0}}}))
    assert only_tokamax() == []


def test_unescaped_group_sizes_are_mended(tokamax):
    good = SPEC.replace("[128,128,128,128]", '{"num_groups":4,"total_size":512}') % "false"
    text = json.dumps(entry(1.0, spec=good)).replace('{\\"num_groups\\"', '{"num_groups"')
    text = text.replace(',\\"total_size\\"', ',"total_size"')
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(text)
    tokamax("tpu7x", "ragged_dot", text)
    (row,) = only_tokamax()
    assert json.loads(row.spec)["group_sizes"] == {"num_groups": 4, "total_size": 512}


def test_variants_of_one_shape_are_one_group():
    spec = {"x": "bf16[1024,4096]", "labels": "i32[1024]", "w": "bf16[4096,8192]", "reduction": "mean"}
    backward = spec | {"x": "f32[1024,4096]", "reduction": "sum", "residuals": ["f32[1024]"], "dout": "f32[]"}
    assert group_of("cross_entropy", spec) == group_of("cross_entropy_vjp", backward)
    assert group_of("cross_entropy", spec) != group_of("cross_entropy", spec | {"x": "bf16[2048,4096]"})


def test_a_grouped_matmul_and_its_gradients_are_one_group():
    forward = {"lhs": "bf16[512,256]", "rhs": "bf16[4,256,128]"}
    of_weights = {"lhs": "bf16[512,256]", "rhs": "bf16[512,128]"}
    of_inputs = {"lhs": "bf16[512,128]", "rhs": "bf16[4,256,128]"}
    groups = {group_of("ragged_dot", spec) for spec in (forward, of_inputs)}
    assert len(groups) == 1
    assert group_of("ragged_dot", of_weights) in groups


def test_no_group_falls_on_both_sides_and_each_family_on_both(tokamax):
    entries = {}
    for m in (256, 512, 1024, 2048):
        for flag in ("true", "false"):
            entries |= entry(1.0, spec=(SPEC % flag).replace("512", str(m)))
    tokamax("tpu7x", "pallas_mosaic_tpu_ragged_dot", json.dumps(entries))
    found = only_tokamax()
    assert len(found) == 8
    sides = {}
    for row in found:
        sides.setdefault(row.group, set()).add(row.split)
    assert [len(side) for side in sides.values()] == [1, 1, 1, 1]
    assert sorted(side.pop() for side in sides.values()) == ["fit", "fit", "held_out", "held_out"]


def test_group_sizes_that_are_written_elsewhere_stand_for_their_total(tokamax):
    total = SPEC.replace("[128,128,128,128]", '{"num_groups":%d,"total_size":512}') % (4, "false")
    drawn = SPEC.replace("[128,128,128,128]", "[100,200,212]") % "false"
    tokamax("tpu_v5_lite", "ragged_dot", json.dumps(entry(1.0) | entry(1.0, spec=drawn)))
    other = total.replace('"num_groups":4', '"num_groups":3')
    tokamax("tpu7x", "pallas_mosaic_tpu_ragged_dot", json.dumps(entry(1.0, spec=total) | entry(1.0, spec=other)))
    sizes = [json.loads(row.spec)["group_sizes"] for row in only_tokamax() if row.chip == "7x"]
    assert sizes == [[128, 128, 128, 128], {"num_groups": 3, "total_size": 512}]


def test_xla_s_programs_for_whole_operations_are_chosen_only_if_asked_for(tokamax):
    tokamax("tpu7x", "dot_product_attention", json.dumps(entry(1.0, spec='{"q":"bf16[2,8,4,16]"}')))
    tokamax("tpu7x", "pallas_mosaic_tpu_ragged_dot", json.dumps(entry(1.0)))
    assert [row.kernel for row in command.chosen(["7x"])] == ["ragged_dot"]
    assert sorted(row.kernel for row in command.chosen(["7x"], every=True)) == ["attention", "ragged_dot"]
