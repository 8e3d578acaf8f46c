"""What a sandbox lets a candidate see and do. Findings come back as the text of an exception."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from hawkeye_mcp.candidate import isolation as confinement
from hawkeye_mcp.candidate import sandbox, supervisor
from hawkeye_mcp.candidate.isolation import isolation
from hawkeye_mcp.candidate.sandbox import Limits, Sandbox, SandboxPool
from hawkeye_mcp.chips import CHIPS

CHIP = CHIPS["v5e"]
INPUTS = {"full": [((256, 256), "float32")]}
KERNEL = """
import jax
from jax.experimental import pallas as pl

def body(x_ref, out_ref):
    out_ref[...] = x_ref[...] * 2

def workload(x):
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""
needs_bubblewrap = pytest.mark.skipif(
    isolation() != "bubblewrap", reason="bubblewrap does not work here: rlimits alone do not keep a candidate from this"
)


async def _trace(source: str, limits: Limits | None = None) -> sandbox.Ended:
    box = await Sandbox.start(CHIP, limits or Limits())
    try:
        return await box.trace(source, INPUTS, CHIP)
    finally:
        await box.close()


async def _seen(expression: str, setup: str = "") -> object:
    """What a JSON-able expression evaluates to inside a sandbox."""
    ended = await _trace(
        f"import json, os, sys, resource\n{setup}\nraise RuntimeError('SEEN ' + json.dumps({expression}))"
    )
    text = ended.reply["failed"]["text"]
    assert "SEEN " in text, text
    return json.loads(text.partition("SEEN ")[2])


@pytest.mark.anyio
async def test_a_kernel_comes_back_as_two_artifacts():
    ended = await _trace(KERNEL)
    assert set(ended.reply) == {"artifacts", "failures"}
    assert ended.reply["failures"] == {}
    assert {name: bool(data) for name, data in ended.reply["artifacts"]["full"].items()} == {"tpu": True, "cpu": True}


@pytest.mark.anyio
async def test_the_same_kernel_gives_the_same_artifact_in_every_sandbox():
    one, other = await _trace(KERNEL), await _trace(KERNEL)
    assert one.reply == other.reply


@needs_bubblewrap
@pytest.mark.anyio
async def test_only_python_and_the_system_libraries_can_be_seen():
    roots, passwords, home, processes = await _seen(
        "[sorted(os.listdir('/')), os.path.exists('/etc/passwd'), os.listdir('/tmp'),"
        " [p for p in os.listdir('/proc') if p.isdigit()]]"
    )
    needed = {Path(prefix).parts[1] for prefix in (sys.prefix, sys.base_prefix)}
    ours = {"tracer.py", "sanitizer", "port"}
    assert set(roots) <= needed | ours | {"bin", "dev", "etc", "lib", "lib32", "lib64", "proc", "tmp", "usr"}
    assert not passwords
    prefixes = (Path(prefix) for prefix in (sys.prefix, sys.base_prefix))
    assert set(home) <= {prefix.parts[2] for prefix in prefixes if prefix.is_relative_to("/tmp")}
    assert len(processes) <= 4  # itself and what bubblewrap needs


@needs_bubblewrap
@pytest.mark.anyio
async def test_what_can_be_seen_cannot_be_written_and_tmp_is_small():
    writable, written = await _seen(
        "[found, size]",
        "found = [p for p in ['/', '/usr', '/etc', '/tracer.py', '/sanitizer/inside/watch.py', *sys.path] if os.access(p, os.W_OK)]\n"
        "size = 0\n"
        "try:\n"
        "    for n in range(100):\n"
        "        open(f'/tmp/{n}', 'wb').write(bytes(1 << 20))\n"
        "        size += 1\n"
        "except OSError:\n"
        "    pass",
    )
    assert writable == []
    assert written <= 64


@needs_bubblewrap
@pytest.mark.anyio
async def test_a_candidate_is_nobody_and_can_become_nobody_else():
    uid, became_root, no_capabilities = await _seen(
        "[os.getuid(), root, 'CapEff:\\t0000000000000000' in open('/proc/self/status').read()]",
        "try:\n    os.setuid(0)\n    root = os.geteuid() == 0\nexcept OSError:\n    root = False",
    )
    assert uid != 0 or os.geteuid() != 0
    assert not (os.geteuid() == 0 and became_root)
    assert no_capabilities


@pytest.mark.anyio
async def test_the_limits_bind_and_cannot_be_raised():
    limits = dataclasses.replace(Limits(), memory_bytes=6 << 30, cpu_s=50)
    source = (
        "import resource as r\n"
        "try:\n    r.setrlimit(r.RLIMIT_AS, (-1, -1))\nexcept (ValueError, OSError):\n    pass\n"
        "raise RuntimeError([r.getrlimit(x) for x in (r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_CORE)])"
    )
    ended = await _trace(source, limits)
    if os.geteuid() == 0 and isolation() != "bubblewrap":
        pytest.skip("root without bubblewrap may raise its own limits")
    assert f"[({6 << 30}, {6 << 30}), (50, 50), (0, 0)]" in ended.reply["failed"]["text"]


@pytest.mark.anyio
async def test_the_environment_holds_nothing_of_the_judges(monkeypatch):
    monkeypatch.setenv("HAWKEYE_TEST_SECRET", "1")
    names = await _seen("sorted(os.environ)")
    assert {"HOME", "PATH", "JAX_PLATFORMS"} <= set(names)
    assert not [name for name in names if "HAWKEYE" in name or name in ("USER", "VIRTUAL_ENV", "PYTHONPATH")]


@pytest.mark.anyio
async def test_one_candidate_leaves_nothing_for_the_next():
    async with anyio.create_task_group() as tasks:
        pool = SandboxPool(tasks)
        texts = []
        for _ in range(2):
            async with pool.take(CHIP) as box:
                source = (
                    "import os, sys\nseen = os.path.exists('/tmp/left') or hasattr(os, 'left')\n"
                    "open('/tmp/left', 'w').write('x') if os.path.exists('/tracer.py') else None\nos.left = 1\n"
                    "raise RuntimeError(f'seen before: {seen}')"
                )
                texts.append((await box.trace(source, INPUTS, CHIP)).reply["failed"]["text"])
        await pool.close()
    assert texts == ["RuntimeError: seen before: False"] * 2


@pytest.mark.anyio
async def test_warm_sandboxes_are_used_once_and_closed_with_the_pool():
    async with anyio.create_task_group() as tasks:
        pool = SandboxPool(tasks)
        pool.refill(CHIP)
        pool.refill(CHIP)  # one is on its way already
        async with pool.take(CHIP) as first:  # which is the one that was on its way
            assert not pool._shelves[CHIP.name].ready
            assert not pool._shelves[CHIP.name].starting
        assert not first.alive
        pool.refill(CHIP)
        while not pool._shelves[CHIP.name].ready:
            await pool._shelves[CHIP.name].changed.wait()
        (last,) = pool._shelves[CHIP.name].ready
        assert last is not first
        await pool.close()
        assert not last.alive


@pytest.mark.anyio
async def test_a_warm_sandbox_that_has_died_is_not_handed_out():
    async with anyio.create_task_group() as tasks:
        pool = SandboxPool(tasks)
        pool.refill(CHIP)
        while not pool._shelves[CHIP.name].ready:
            await pool._shelves[CHIP.name].changed.wait()
        (dead,) = pool._shelves[CHIP.name].ready
        dead._process.kill()
        await dead._process.wait()
        async with pool.take(CHIP) as box:
            assert "full" in (await box.trace(KERNEL, INPUTS, CHIP)).reply["artifacts"]
        await pool.close()


@pytest.mark.anyio
async def test_a_sandbox_that_never_gets_ready_is_no_fault_of_the_candidate(monkeypatch):
    monkeypatch.setattr(confinement, "tracer_command", lambda: [sys.executable, "-c", "raise SystemExit(7)"])
    ended = await _trace(KERNEL)
    assert not ended.started
    assert "exit code 7" in ended.why


@needs_bubblewrap
def test_an_installation_below_tmp_can_be_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    command = [*confinement._bubblewrap(), "--", "/usr/bin/test", "-d", str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == 0


@needs_bubblewrap
@pytest.mark.anyio
async def test_no_copy_of_the_content_can_be_found_anywhere():
    found = await _seen(
        "found",
        "found = []\n"
        "for folder, folders, files in os.walk('/'):\n"
        "    folders[:] = [f for f in folders if os.path.join(folder, f) not in ('/proc', '/dev')]\n"
        "    for name in files:\n"
        "        path = os.path.join(folder, name)\n"
        "        if name in ('workload.toml', 'guide.md') or (\n"
        "            'hawkeye' in path and not folder.endswith('/bin') and os.access(path, os.R_OK) and os.path.isfile(path) and os.path.getsize(path)):\n"
        "            found.append(path)",
    )
    beside_a_port = r"/port/hawkeye_mcp/intake/(port_inside|stand_in_inside|seeded|structure|emit|emit_[a-z]+)\.py"
    assert found
    assert [path for path in found if not re.fullmatch(beside_a_port, path)] == []


def test_the_supervisor_ends_what_it_started_when_the_leash_is_let_go():
    leash, held = os.pipe()
    endless = [sys.executable, "-c", "import time\nprint('up', flush=True)\nwhile True:\n    time.sleep(60)"]
    command = [sys.executable, supervisor.__file__, str(leash), *endless]
    with subprocess.Popen(command, pass_fds=[leash], stdout=subprocess.PIPE, start_new_session=True) as process:
        os.close(leash)
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        os.close(held)
        assert process.stdout.read() == b""  # nobody is left to hold it open
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("ending", ["os._exit(3)", "ctypes.string_at(0)"])
@pytest.mark.anyio
async def test_without_bubblewrap_kernels_are_traced_and_crashes_contained_all_the_same(ending, monkeypatch):
    monkeypatch.setattr(confinement, "isolation", lambda: "rlimits")
    assert "full" in (await _trace(KERNEL)).reply["artifacts"]
    ended = await _trace(f"import ctypes, os\n{ending}")
    assert ended.reply is None
    assert "exit code 3" in ended.why or "SIGSEGV" in ended.why


@pytest.mark.anyio
async def test_prints_do_not_mix_with_the_reply_and_their_end_is_kept():
    source = "print('{\"artifacts\": {}}', flush=True)\nprint('the end of it', flush=True)" + KERNEL
    ended = await _trace(source)
    assert "full" in ended.reply["artifacts"]
    assert ended.stderr_tail.strip().endswith("the end of it")


@pytest.mark.anyio
async def test_a_reply_beyond_its_limit_is_cut_off():
    ended = await _trace(KERNEL, dataclasses.replace(Limits(), reply_bytes=100))
    assert ended.reply is None


@pytest.mark.anyio
async def test_the_candidates_line_comes_with_the_error():
    ended = await _trace("def helper(x):\n    return x.nothing\n\ndef workload(x):\n    return helper(x)\n")
    failure = ended.reply["failures"]["full"]
    assert failure["stage"] == "trace"
    assert failure["where"] == ["line 5, in workload: return helper(x)", "line 2, in helper: return x.nothing"]


@pytest.mark.parametrize(
    ("code", "phrase"),
    [
        (-11, "SIGSEGV (a native crash)"),
        (139, "SIGSEGV (a native crash)"),
        (137, "SIGKILL (killed, most likely for memory)"),
        (-24, "SIGXCPU (out of CPU time)"),
        (0, "ended by itself with exit code 0"),
        (3, "ended by itself with exit code 3"),
        (None, "was killed before the trace finished"),
    ],
)
def test_an_ending_is_named(code, phrase):
    assert phrase in sandbox._ending(code)


@pytest.mark.anyio
@pytest.mark.parametrize(("number", "killed"), [(signal.SIGKILL, True), (signal.SIGTERM, False)])
async def test_an_end_by_sigkill_is_told_from_others(number, killed):
    ended = await _trace(f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(600)")
    assert (ended.reply, ended.started, ended.killed) == (None, True, killed)
