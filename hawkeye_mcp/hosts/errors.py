"""Why a host was of no use."""

from typing import Literal

# token: it asks for one, or does not take ours. tunnel: ssh could not make it. silent: no sign of life in time.
# lost: the connection ended in the middle. stranger: what answers is no server of ours. refused: it would not do it.
# judge: its judge failed. unlike: it judges by other versions or another judge than this machine, or leaves that to others.
Kind = Literal["token", "tunnel", "unreachable", "silent", "lost", "stranger", "refused", "judge", "unlike"]

# What the client of a server is told where no host judged for it. Why is in that server's log: a host's own words may name
# what a condition here withholds.
NO_HOST = "None of the hosts that judge for this server did it. The kernel was not judged and no evaluation was spent."
AFTER_NO_HOST = (
    "Submit it again in a minute; if it fails again, tell the operator of this server: its log says why, and "
    "`hawkeye hosts check` what each host lacks."
)


class HostFailed(Exception):
    """This host did not do it; another one may. The message is one line that says why and what to do."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
