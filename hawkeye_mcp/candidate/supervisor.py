"""Runs a sandbox's command and ends all of it when the judge goes, however it goes.

Trusted, and outside the sandbox: `python supervisor.py FD COMMAND...` with FD the reading end of a pipe whose other
end the judge holds. bubblewrap's own --die-with-parent takes hold only once it has set up; killing the process group
covers the time before.
"""

import os
import signal
import subprocess
import sys
import threading


def main() -> None:
    leash, command = int(sys.argv[1]), sys.argv[2:]
    child = subprocess.Popen(command)

    def watch() -> None:
        while os.read(leash, 1):
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    code = child.wait()
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
