"""The picture of a profile: legible, the same bytes each time, nothing outside the canvas or over something else."""

import functools
import itertools
import struct
import subprocess
import sys
from unittest import mock

import matplotlib
import profiles
import pytest
from matplotlib.text import Text

from hawkeye_mcp import picture


def long_names():
    """Names at their longest, more causes than there is room for, several kernels, a formula in a name."""
    made = profiles.matmul().model_copy(deep=True)
    kernel = made.kernels[0]
    kernel.name = "a_$rather$_long_名_name_for_a_kernel_function"
    more = [f"DMA read of operand {i} bf16[1024,1024] through scratch memory" for i in range(9)]
    kernel.stalls = [kernel.stalls[0].model_copy(update={"cause": cause}) for cause in more]
    made.kernels.append(kernel.model_copy(update={"calls": 3, "name": "second"}))
    return made


def no_points():
    made = profiles.rmsnorm().model_copy(deep=True)
    made.roofline = made.roofline.model_copy(update={"intensity": None, "achieved_flops_per_s": None})
    return made


def tiny():
    """A kernel without a grid, of few cycles, of which nothing is idle."""
    made = profiles.rmsnorm().model_copy(deep=True)
    kernel = made.kernels[0]
    kernel.cycles, kernel.executed_bundles, kernel.stalls, kernel.slots = 40, 40, [], kernel.slots[:1]
    made.predicted_us = 0.027
    return made


def bytes_bind():
    """Long figures, and bytes over HBM that take longer than the schedule."""
    made = profiles.rmsnorm().model_copy(deep=True)
    kernel, op = made.kernels[0], made.timing.ops[0]
    kernel.calls = op.calls = 6_000
    op.hbm_floor_us = 2_500.0
    made.workload = "50k_Matmul_GELU_Softmax"
    made.predicted_us, made.bound = 15_000_002.0, "hbm"
    made.timing.candidate_interval_us, made.timing.indistinguishable = (14_000_000.0, 16_000_000.0), True
    return made


MADE = [profiles.matmul, profiles.rmsnorm, profiles.unknown, long_names, no_points, tiny, bytes_bind]


@functools.cache
def alone(made):
    """The texts of the picture of what `made` makes."""
    return texts([("", made())])[1]


def texts(rows):
    """The picture, and each text that is drawn on it with its extent in pixels."""
    drawn, draw = [], Text.draw

    def draw_and_note(text, renderer):
        if text.get_visible() and text.get_text().strip():
            drawn.append((text.get_text(), text.get_window_extent()))
        draw(text, renderer)

    with matplotlib.rc_context({"text.parse_math": False}), mock.patch.object(Text, "draw", draw_and_note):
        made = picture.figure(rows)
        made.canvas.draw()
    return made, drawn


@pytest.mark.parametrize("made", [profiles.matmul, long_names])
def test_one_profile_is_a_small_png_and_the_same_one_each_time(made):
    first = picture.png([("", made())])
    assert first[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", first[16:24]) == (1000, 560)
    assert len(first) < 150_000
    assert picture.png([("", made())]) == first


def test_two_profiles_are_two_rows_with_the_same_axes():
    rows = [("k.py", profiles.matmul()), ("other.py", profiles.rmsnorm())]
    assert struct.unpack(">II", picture.png(rows)[16:24]) == (1000, 1120)
    made, words = texts(rows)
    rooflines = [axes for axes in made.findobj(matplotlib.axes.Axes) if axes.get_xlabel()]
    assert len(rooflines) == 2
    assert rooflines[0].get_xlim() == rooflines[1].get_xlim()
    assert rooflines[0].get_ylim() == rooflines[1].get_ylim()
    assert {"k.py: 726 us [660 to 799], predicted, not measured", "other.py: 2436.2 us, predicted, not measured"} <= {
        text for text, _ in words
    }


def test_work_that_the_mxu_limits_is_at_best_at_its_peak():
    best, kernel = picture._points(profiles.matmul())
    assert best == pytest.approx((1.374e11 / (122.9 * 819e3), 1.374e11 / 697.5e-6))
    assert kernel[1] == pytest.approx(1.374e11 / 726e-6)


@pytest.mark.parametrize("made", MADE)
def test_no_text_leaves_the_canvas_or_covers_another(made):
    found = alone(made)
    for text, box in found:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= picture.WIDTH_PX and box.y1 <= picture.HEIGHT_PX, text
    for (one, box), (other, its_box) in itertools.combinations(found, 2):
        assert not box.padded(-1).overlaps(its_box.padded(-1)), (one, other)


def test_every_point_is_inside_the_axes_and_at_its_place():
    made, _ = texts([("", profiles.rmsnorm())])
    axes = next(axes for axes in made.findobj(matplotlib.axes.Axes) if axes.get_xlabel())
    points = {line.get_label(): (line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines}
    best, kernel = (next(point for label, point in points.items() if name in label) for name in ("best", "kernel"))
    assert best == pytest.approx((8.05e8 / (1310.9 * 819e3), 8.05e8 / 1310.9e-6))
    assert kernel == pytest.approx((8.05e8 / (1310.9 * 819e3) / 1.2, 8.05e8 / 2436.2e-6))
    for x, y in (best, kernel):
        assert axes.get_xlim()[0] < x < axes.get_xlim()[1]
        assert axes.get_ylim()[0] < y < axes.get_ylim()[1]
    ridge = axes.lines[0].get_xdata()[1], axes.lines[0].get_ydata()[1]
    assert ridge == pytest.approx((197e12 / 819e9, 197e12))


def test_the_title_says_predicted_and_never_claims_a_measurement():
    words = " ".join(text for text, _ in alone(profiles.matmul))
    assert "8p_GEMM on v5e: 726 us [660 to 799], predicted, not measured" in words
    assert "bound by MXU; at best 1.041 times as fast; indistinguishable" in words
    assert "jax 0.10.2" in words
    binds = " ".join(text for text, _ in alone(bytes_bind))
    assert "bound by HBM (bytes 15,000,000 us, schedule 14,607,600 us); at best" in binds
    unknown = " ".join(text for text, _ in alone(profiles.unknown))
    assert "8p_GEMM on v5e: time unknown" in unknown
    assert "the compiler aborted" in unknown.replace("\n", " ")
    measured = profiles.matmul()
    measured.measured = profiles.timing(800.0, source="measured")
    words = " ".join(text for text, _ in texts([("", measured)])[1])
    assert "8p_GEMM on v5e: 800 us measured; what follows is predicted" in words


def test_the_bar_holds_all_cycles_of_all_calls_longest_wait_first():
    made = long_names()
    spent = picture.spent(made.kernels)
    assert list(spent)[0] == "issuing bundles"
    assert spent["issuing bundles"] == 4 * 1_010_000
    assert list(picture.spent(profiles.rmsnorm().kernels).values())[1:] == [1_900_000, 430_467, 260_000, 70_000]
    assert picture.spent(profiles.unknown().kernels) == {}
    words = [text for text, _ in alone(profiles.rmsnorm)]
    assert "51.9 %  DMA read of operand 0" in words
    assert "Where the kernels' 3,660,000 cycles go" in words
    many = [text for text, _ in alone(long_names) if " %  " in text]
    assert len(many) == 6
    assert many[-1].endswith("everything else")


def test_a_cause_is_told_from_the_others_without_colour():
    styles = list(picture._CAUSES.values())
    assert len({colour for colour, _ in styles}) == len(styles)
    seen_together = [hatch for name, (_, hatch) in picture._CAUSES.items() if name != "DMA"]
    assert len(set(seen_together)) == len(seen_together)


def test_matplotlib_is_not_imported_before_a_picture_is_drawn():
    code = "import sys, hawkeye_mcp.picture, hawkeye_mcp.server, hawkeye_mcp.cli; print('matplotlib' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
