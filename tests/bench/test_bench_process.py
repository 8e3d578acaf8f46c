"""An agent's program: what it sees, what is read of it, and that nothing of it is left, however it or the bench ends."""

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from hawkeye_bench.agents import AgentMisconfigured, process

PATIENCE_S = 120.0
# The program, a child that ignores SIGTERM in a session of its own, and that one's child: each tells its number.
FAMILY = """
import os, signal, subprocess, sys
inner = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
middle = f'''
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
subprocess.Popen([sys.executable, "-c", {inner!r}], stdin=subprocess.PIPE).wait()
'''
print(os.getpid(), flush=True)
child = subprocess.Popen([sys.executable, "-c", middle], stdin=subprocess.PIPE, start_new_session=True)
"""
WAITING = FAMILY + "child.wait()\n"
LEAVING = FAMILY + "sys.stdin.read(); sys.exit(3)\n"


def running(folder: Path, *command: str, stdin: str | None = None, **own: str):
    return process.running(
        list(command),
        env={"PATH": os.environ["PATH"], **own},
        cwd=folder,
        stderr=folder / "stderr",
        install="Install it.",
        stdin=stdin,
    )


def python(folder: Path, code: str, **options):
    return running(folder, sys.executable, "-c", code, **options)


def alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.anyio
async def test_a_program_sees_what_it_is_given_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "hidden")
    code = (
        "import os, sys; print(sorted(set(os.environ) - {'LC_CTYPE'}), os.getcwd()); print(sys.stdin.read());"
        "print('caf\\u00e9', flush=True); sys.stdout.buffer.write(b'\\xff end'); print('said', file=sys.stderr); sys.exit(7)"
    )
    async with python(tmp_path, code, stdin="the text", OWN="x") as program:
        lines = [line async for line in program.lines()]
        assert await program.returncode() == 7
    assert lines == [f"['OWN', 'PATH'] {tmp_path}", "the text", "café", "\ufffd end"]
    assert (tmp_path / "stderr").read_text() == "said\n"


def test_the_environment_holds_the_way_out_and_no_setting_of_a_person(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_MODEL", "theirs")
    monkeypatch.setenv("HTTPS_PROXY", "proxy")
    found = process.environment(tmp_path, KEY="own")
    assert (found["HOME"], found["KEY"], found["HTTPS_PROXY"]) == (str(tmp_path), "own", "proxy")
    assert "ANTHROPIC_MODEL" not in found


@pytest.mark.anyio
async def test_without_a_text_the_input_is_empty_and_a_long_line_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_LINE_BYTES", 10)
    code = "import sys; print(repr(sys.stdin.read())); print('x' * 100_000 + 'end'); print('next')"
    async with python(tmp_path, code) as program:
        assert [line async for line in program.lines()] == ["''", "x" * 10, "next"]


@pytest.mark.anyio
async def test_a_program_that_is_not_there_says_what_to_do(tmp_path):
    with pytest.raises(AgentMisconfigured, match=r"There is no program 'no-such-program'\. Install it\."):
        async with running(tmp_path, "no-such-program"):
            pass
    (tmp_path / "text").write_text("no program")
    (tmp_path / "text").chmod(0o755)
    async with running(tmp_path, str(tmp_path / "text")) as program:
        assert await program.returncode() == 126
    assert "cannot start" in (tmp_path / "stderr").read_text()


@pytest.mark.anyio
async def test_leaving_and_cancelling_end_the_whole_family(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_GRACE_S", 0.0)

    async def first_three(program):
        found = []
        async for line in program.lines():
            found.append(int(line))
            if len(found) == 3:
                return found
        raise AssertionError(found)

    async with python(tmp_path, WAITING) as program:
        left = await first_three(program)
        assert all(map(alive, left))
    assert not any(map(alive, left))

    cancelled = []
    with anyio.CancelScope() as scope:
        async with python(tmp_path, WAITING) as program:
            cancelled += await first_three(program)
            scope.cancel()
            await anyio.sleep_forever()
    assert len(cancelled) == 3
    assert not any(map(alive, cancelled))

    # A program that ends by itself, too, is not over before what it left behind is.
    async with python(tmp_path, LEAVING) as program:
        survivors = [int(line) async for line in program.lines()]
        assert await program.returncode() == 3
        assert not any(map(alive, survivors[:2]))


def test_the_family_ends_when_the_bench_is_killed(tmp_path):
    bench = f"""
import anyio, os, sys
from pathlib import Path
from hawkeye_bench.agents import process
process._GRACE_S = 0.0
async def main():
    async with process.running(
        [sys.executable, "-c", {WAITING!r}], env=dict(os.environ), cwd=Path({str(tmp_path)!r}),
        stderr=Path({str(tmp_path / "stderr")!r}), install="",
    ) as program:
        async for line in program.lines():
            print(line, flush=True)
anyio.run(main)
"""
    with subprocess.Popen([sys.executable, "-c", bench], stdout=subprocess.PIPE, text=True) as started:
        family = [int(started.stdout.readline()) for _ in range(3)]
        # Their new parent, if any, is the leash: it ends after them, and its end of the pipe tells of that.
        leash = int(Path(f"/proc/{family[0]}/stat").read_text().rpartition(")")[2].split()[1])
        watched = os.pidfd_open(leash)
        started.send_signal(signal.SIGKILL)
    ended = select.select([watched], [], [], PATIENCE_S)[0]
    os.close(watched)
    assert ended
    assert not any(map(alive, family))


@pytest.mark.anyio
async def test_the_output_of_a_program_that_ends_by_itself(tmp_path):
    async def output(code):
        return await process.output(
            [sys.executable, "-c", code], env={}, cwd=tmp_path, stderr=tmp_path / "stderr", install=""
        )

    assert await output("print('1.2.3 (Program)'); print('more')") == "1.2.3 (Program)\nmore"
    with pytest.raises(AgentMisconfigured, match=r"ended with code 1: no such option$"):
        await output("import sys; sys.exit('no such option')")
