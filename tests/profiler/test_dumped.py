from hawkeye_mcp.profiler.dumped import estimates

TEXT = """hlo_op_estimate {
  hlo_op_name: "%s"
  estimated_cycles: %d
  num_equivalent_hlos: 1
}
"""


def test_every_operation_that_was_written_has_its_cycles(tmp_path):
    (tmp_path / "fusion_TPU v5 lite_static_llo_profile.textproto").write_text(TEXT % ("fusion.1", 63694))
    (tmp_path / "copy_TPU v5 lite_static_llo_profile.textproto").write_text(TEXT % ("copy", 7))
    (tmp_path / "half_TPU v5 lite_static_llo_profile.textproto").write_text('hlo_op_estimate {\n  hlo_op_name: "ha')
    (tmp_path / "other.txt").write_text(TEXT % ("other", 1))
    assert estimates(tmp_path) == {"fusion.1": 63694, "copy": 7}
    assert estimates(tmp_path / "missing") == {}
