"""Profiles recorded on a CPU, and profiles as a TPU writes them, synthesised from the names of its planes and lines."""

from pathlib import Path

import jax
import numpy as np
import pytest

from hawkeye_mcp.judge.xplane import LINES, NoDeviceTime, busy, union_ns

DATA = Path(__file__).parent / "data"


def _recorded(name):
    return jax.profiler.ProfileData.from_file(str(DATA / f"{name}.xplane.pb"))


def _plane(name, **lines):
    """One plane as text; lines by name with "_" for a blank: (start, length) of their events in ns."""
    text = f'planes {{ name: "{name}" event_metadata {{ key: 1 value {{ id: 1 name: "op" }} }}\n'
    for line, events in lines.items():
        text += f'lines {{ name: "{line.replace("_", " ")}" timestamp_ns: 1000\n'
        for start, length in events:
            text += f"events {{ metadata_id: 1 offset_ps: {start * 1000} duration_ps: {length * 1000} }}\n"
        text += "}\n"
    return text + "}\n"


def _tpu(*planes):
    return jax.profiler.ProfileData.from_text_proto("".join(planes))


def test_a_recorded_profile_gives_the_time_of_its_operations_and_how_often_the_program_ran():
    found = busy(_recorded("cpu_five_runs"), LINES["cpu"])
    # Two operations in each of five runs, on two threads, none at the same time as another: the sum of ten durations.
    assert found.us == pytest.approx(4683.014 + 1280.490 + 630.705 + 918.086 + 4867.689)
    assert found.runs == 5


def test_operations_inside_a_loop_count_once_with_the_loop():
    profile = _recorded("cpu_three_runs_of_a_loop")
    events = [
        (int(event.start_ns), int(event.end_ns))
        for plane in profile.planes
        for line in plane.lines
        for event in line.events
        if "hlo_op" in dict(event.stats)
    ]
    first, last = min(start for start, _ in events), max(end for _, end in events)
    covered = np.zeros(last - first, dtype=bool)  # nanosecond by nanosecond
    for start, end in events:
        covered[start - first : end - first] = True
    found = busy(profile, LINES["cpu"])
    assert found.runs == 3
    assert found.us == pytest.approx(covered.sum() / 1e3)
    assert found.us < 0.6 * sum(end - start for start, end in events) / 1e3


def test_of_a_tpu_the_operations_of_its_own_plane_count():
    profile = _tpu(
        _plane(
            "/device:TPU:0",
            Steps=[(0, 9_000)],
            XLA_Modules=[(0, 4_000), (5_000, 4_000)],
            # 1000 to 3500 with one inside and one across the end; a gap; 6000 to 7000
            XLA_Ops=[(1_000, 2_000), (1_500, 500), (2_500, 1_000), (6_000, 1_000)],
            Async_XLA_Ops=[(0, 8_000)],
        ),
        _plane("/device:TPU:1", XLA_Modules=[], XLA_Ops=[]),
        _plane("/device:TPU:0 SparseCore 0", XLA_Ops=[(0, 8_000)]),
        _plane("/host:CPU", python=[(0, 9_000)]),
    )
    found = busy(profile, LINES["tpu"])
    assert (found.us, found.runs) == (3.5, 2)


def test_the_device_that_ran_need_not_be_the_first():
    profile = _tpu(_plane("/device:TPU:0", XLA_Ops=[]), _plane("/device:TPU:3", XLA_Modules=[(0, 9)], XLA_Ops=[(0, 7)]))
    found = busy(profile, LINES["tpu"])
    assert (found.us, found.runs) == (0.007, 1)


def test_two_devices_at_work_are_not_told_apart():
    profile = _tpu(_plane("/device:TPU:0", XLA_Ops=[(0, 5)]), _plane("/device:TPU:1", XLA_Ops=[(0, 5)]))
    with pytest.raises(NoDeviceTime, match=r"found on /device:TPU:0, /device:TPU:1; planes"):
        busy(profile, LINES["tpu"])


def test_a_profile_without_the_device_says_which_planes_it_has():
    with pytest.raises(NoDeviceTime, match=r"found on none; planes: .*/host:CPU"):
        busy(_recorded("cpu_five_runs"), LINES["tpu"])


@pytest.mark.parametrize(
    ("intervals", "covered"),
    [([], 0), ([(5, 9)], 4), ([(5, 9), (0, 2)], 6), ([(0, 9), (1, 2), (3, 12)], 12), ([(0, 5), (5, 7)], 7)],
)
def test_union(intervals, covered):
    assert union_ns(intervals) == covered
