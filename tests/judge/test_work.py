"""Stages overlap: what is shown is one that is still waited for."""

import pytest

from hawkeye_mcp import workloads
from hawkeye_mcp.judge.work import Work


def test_a_stage_that_outlasts_another_is_shown_again_when_that_one_ends():
    shown = []
    work = Work("", workloads.load("8p_GEMM"), "v5e", shown.append)
    with work.stage("trace"):
        pass
    with work.stage("verify"), work.stage("predict"):
        pass
    assert shown == ["trace", "verify", "predict", "verify"]
    assert list(work.stages_s) == ["trace", "predict", "verify"]


def test_work_that_ends_in_a_fault_stays_at_the_stage_that_had_it():
    shown = []
    work = Work("", workloads.load("8p_GEMM"), "v5e", shown.append)
    with pytest.raises(RuntimeError), work.stage("verify"), work.stage("predict"):
        raise RuntimeError
    assert shown == ["verify", "predict"]
