"""A run's history from its logs: kernel texts in order, what became of each, and what the server said."""

import hashlib
import json

import profiles
import pytest
from hawkeye_bench.page import answers, history

from hawkeye_mcp.tools import profile_report

FIRST, SECOND = "a = 1\nb = 2\nc = 3\n", "a = 1\nb = 20\nc = 3\nd = 4\n"


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def at(second, **line):
    return {"time": f"2026-11-30T12:00:{second:02}.000+00:00", **line}


def verdict(second, text, status="correct", **facts):
    facts = {"event": "verdict", "kind": "evaluate", "cached": False} | facts
    return at(second, status=status, kernel_sha256=sha256(text), **facts)


def answer(second, text, **facts):
    told = {"status": "correct", "kernel_sha256": sha256(text), "message": "well done", "next_step": "go on"} | facts
    return at(second, kind="tool_result", tool="evaluate_kernel", text=json.dumps(told))


def written(folder, calls, transcript=(), texts=(FIRST, SECOND)):
    (folder / "kernels").mkdir(parents=True)
    for text in texts:
        (folder / "kernels" / f"{sha256(text)}.py").write_text(text)
    for name, lines in (("calls.jsonl", calls), ("transcript.jsonl", transcript)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return history.read(folder)


def test_versions_are_the_texts_in_the_order_of_their_first_submission_each_against_the_one_before(tmp_path):
    found = written(
        tmp_path,
        [
            at(1, event="submitted", kind="profile", kernel_sha256=sha256(FIRST)),
            verdict(2, SECOND, "incorrect"),
            verdict(3, FIRST, speedup=1.5),
            verdict(4, SECOND, "incorrect", cached=True),
        ],
        [answer(3, SECOND, status="incorrect", message="wrong"), answer(4, FIRST)],
    )
    one, two = found.versions
    assert (one.number, one.sha256, one.lines, two.sha256, two.lines) == (1, sha256(FIRST), 3, sha256(SECOND), 4)
    assert [line for _, line in one.diff] == ["@@ -0,0 +1,3 @@", "+a = 1", "+b = 2", "+c = 3"]
    assert two.diff == [
        ("place", "@@ -1,3 +1,4 @@"),
        ("same", " a = 1"),
        ("removed", "-b = 2"),
        ("added", "+b = 20"),
        ("same", " c = 3"),
        ("added", "+d = 4"),
    ]
    assert (one.verdict["speedup"], one.told["message"]) == (1.5, "well done")
    assert (two.verdict["status"], two.told["message"], two.told["compiler_message"]) == ("incorrect", "wrong", "")
    assert found.judgements == {"incorrect": 1, "correct": 1}  # the cached one is no judgement


def test_steps_tell_what_was_spent_and_the_best_so_far(tmp_path):
    read = {"row": "01_mxu_feed", "part": "guide"}
    found = written(
        tmp_path,
        [
            at(2, event="call_end", outcome="ok", cell_read=read),
            verdict(10, FIRST, speedup=1.5),
            verdict(20, SECOND, speedup=1.2),
            verdict(30, SECOND, speedup=1.2, cached=True),
            verdict(40, SECOND, "profiled", kind="profile", speedup=9.0),
            verdict(50, SECOND, speedup=8.0, lower_bound=True),
        ],
        [at(1, kind="model", prompt_tokens=90, completion_tokens=10), at(5, kind="edit", path="kernel.py")],
    )
    told = [(step.kind, step.at_s, step.turn, step.tokens, step.version, step.best) for step in found.steps]
    assert told == [
        ("cell", 1, 1, 100, None, None),
        ("edit", 4, 2, 100, None, None),
        ("verdict", 9, 3, 100, 1, 1.5),
        ("verdict", 19, 4, 100, 2, 1.5),
        ("cached", 29, 4, 100, 2, 1.5),
        ("profile", 39, 4, 100, 2, 1.5),
        ("verdict", 49, 5, 100, 2, 1.5),
    ]
    assert found.steps[0].what == "read 01_mxu_feed, guide"
    assert found.steps[5].speedup is None  # a profile verifies nothing


def test_a_text_that_was_not_kept_or_is_too_long_has_no_diff_and_says_why(tmp_path):
    long = "x = 1\n" * 4_001
    found = written(tmp_path, [verdict(1, FIRST), verdict(2, "gone"), verdict(3, long)], texts=(FIRST, long))
    assert [one.why_no_diff for one in found.versions] == [
        "",
        "its text was not kept",
        "4,001 lines are too many to compare",
    ]


def test_a_long_diff_is_cut_and_says_by_how_much(tmp_path):
    text = "".join(f"x{number} = 1\n" for number in range(history.MOST_DIFF_LINES + 99))
    (found,) = written(tmp_path, [verdict(1, text)], texts=(text,)).versions
    assert (len(found.diff), found.left_out_lines) == (history.MOST_DIFF_LINES, 100)  # the place is a line too


@pytest.mark.parametrize("name", ["../secret", "A" * 64, ""])
def test_only_a_hash_names_a_kernel(tmp_path, name):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "secret.py").write_text("secret")
    (tmp_path / "kernels" / f"{'A' * 64}.py").write_text("secret")
    assert history.kernel_text(tmp_path, name) is None


def test_a_folder_without_logs_has_an_empty_history(tmp_path):
    found = history.read(tmp_path)
    assert (found.logged, found.steps, found.versions, found.again) == (False, [], [], None)


def test_a_profile_is_told_by_what_binds_first_and_its_ceilings_can_be_read(tmp_path):
    look = profiles.matmul().model_copy(update={"kernel_sha256": sha256(FIRST)})
    report = profile_report.of_profile(look, "none", job_id="j", full="profile://j").model_dump_json()
    told = answers.read([at(1, kind="tool_result", tool="profile", text=report)]).profiles[sha256(FIRST)]
    lines = answers.profile_text(told).splitlines()
    assert lines[0] == look.message
    assert f"bound: {look.bound}" in lines[:4]
    assert f"executed_bundles: {look.executed_bundles:,.0f}" in lines
    assert any(line.startswith(f"finding 1: {look.findings[0].text}") for line in lines)
    assert [line for line in lines if line.endswith(":")][:2] == ["ops:", "stalls:"]
    by_unit = {ceiling.unit: ceiling for ceiling in look.roofline.ceilings}
    assert answers.ceilings(told) == {unit: (by_unit[unit].rate, by_unit[unit].source) for unit in ("hbm", "mxu")}


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda text: text,
        lambda text: f"[Tool 'evaluate_kernel' executed.]\n{text}\n[resource_link]",
        lambda text: json.dumps([{"type": "text", "text": text}]),
        lambda text: json.dumps({"content": [{"type": "text", "text": text}]}),
    ],
)
def test_answers_are_found_inside_what_a_client_put_them_in(wrapped):
    line = answer(1, FIRST)
    found = answers.read([line | {"text": wrapped(line["text"])}])
    assert found.evaluations[sha256(FIRST)]["message"] == "well done"


def test_what_is_no_answer_is_left_out():
    running = answer(1, FIRST, status="running")
    broken = at(2, kind="tool_result", text='{"kernel_sha256": "')
    deep = at(3, kind="tool_result", text="[" * 100_000)
    assert answers.read([running, broken, deep, at(4, kind="tool_result"), at(5, kind="model")]) == answers.Answers()
