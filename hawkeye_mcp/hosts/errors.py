"""Why a host was of no use."""

from typing import Literal

# token: it asks for one, or does not take ours. tunnel: ssh could not make it. silent: no sign of life in time.
# lost: the connection ended in the middle. stranger: what answers is no server of ours. refused: it would not do it.
# judge: its judge failed. unlike: it judges by other versions or another judge than this machine.
Kind = Literal["token", "tunnel", "unreachable", "silent", "lost", "stranger", "refused", "judge", "unlike"]


class HostFailed(Exception):
    """This host did not do it; another one may. The message is one line that says why and what to do."""

    def __init__(self, kind: Kind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
