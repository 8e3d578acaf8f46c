"""A way to a server that listens on another machine's 127.0.0.1: an SSH process of ours that ends with us.

Here its end is a socket in a folder that only this user can enter, so no port has to be free and nobody else of this
machine gets through.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from hawkeye_mcp.candidate import supervisor
from hawkeye_mcp.hosts.errors import HostFailed

_LOOK_S = 0.05
_OPTIONS = (
    "BatchMode=yes",  # nobody is there to type a password
    "ExitOnForwardFailure=yes",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ControlPath=none",  # a shared connection would keep the tunnel when we are gone
    "ForwardAgent=no",
)


@asynccontextmanager
async def open_tunnel(target: str, port: int, timeout_s: float) -> AsyncIterator[Path]:
    """The socket that leads to `port` of the target's 127.0.0.1, while the context lasts.

    Raises:
        HostFailed: there is no ssh, or it did not make the tunnel in time.
    """
    ssh = shutil.which("ssh")
    if ssh is None:
        raise HostFailed("tunnel", "there is no ssh on this machine: install OpenSSH, or register the host's URL")
    with tempfile.TemporaryDirectory(prefix="hawkeye-ssh-", dir=_short()) as folder:
        end, errors = Path(folder) / "end", Path(folder) / "errors"
        options = [word for option in _OPTIONS for word in ("-o", option)]
        command = [ssh, "-N", "-T", *options, "-o", f"ConnectTimeout={max(1, round(timeout_s))}"]
        command += ["-L", f"{end}:127.0.0.1:{port}", "--", target]
        leash, held = os.pipe()
        # In a session of its own: Ctrl-C must not end it before the work on the host is cancelled.
        with anyio.CancelScope(shield=True):
            try:
                with errors.open("wb") as stderr:
                    process = await anyio.open_process(
                        [sys.executable, "-I", "-S", supervisor.__file__, str(leash), *command],
                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                        start_new_session=True, pass_fds=[leash],
                    )  # fmt: skip
            except BaseException:
                os.close(held)
                raise
            finally:
                os.close(leash)
        try:
            with anyio.move_on_after(timeout_s):
                while process.returncode is None and not end.exists():
                    await anyio.sleep(_LOOK_S)
            if process.returncode is not None or not end.exists():
                raise HostFailed(
                    "tunnel", f"{_why(errors, timeout_s)}; does `ssh {target} true` work without a password?"
                )
            try:
                yield end
            except HostFailed as failed:
                if process.returncode is None:
                    raise
                raise HostFailed(failed.kind, f"{failed} ({_why(errors, timeout_s)})") from None
        finally:
            os.close(held)
            await process.aclose()


def _why(errors: Path, timeout_s: float) -> str:
    """ssh's last words, which name the reason."""
    said = [line for line in errors.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return (
        f"ssh: {said[-1].strip().removeprefix('ssh: ')[:300]}" if said else f"ssh made no tunnel within {timeout_s:g} s"
    )


def _short() -> str | None:
    """The folder for the socket, whose whole path may have about 100 bytes; None is the usual one."""
    return "/tmp" if len(tempfile.gettempdir()) > 60 else None
