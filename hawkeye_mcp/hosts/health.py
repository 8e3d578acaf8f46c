"""What a server says of itself to whoever has its token: which machine, which versions, how busy."""

import os
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from hawkeye_mcp import attached, pool
from hawkeye_mcp.evaluation import Versions
from hawkeye_mcp.versions import versions

PATH = "/health"
# In the _meta of a call of evaluate_kernel: judge the text anew, whatever was said of it before. No argument of the tool:
# a model has no use for it, and every client would pay for its description.
FRESH = "hawkeye/fresh"


class _Told(BaseModel):
    """A newer server may say more."""

    model_config = ConfigDict(extra="ignore")


class VersionsThere(Versions, _Told):
    """Of the server's installation."""


class Machine(_Told):
    """What stays the same while the server runs."""

    versions: VersionsThere
    tpus: list[str] = Field(description="The generation of each attached TPU chip; empty: it predicts.")
    cpus: int = Field(ge=1)
    judge: str = Field("", description="Hash of the judge's code and figures; empty: an older server does not say.")
    judge_hosts: list[str] = Field([], description="Hosts that it leaves judging to; none: it judges itself.")


class Health(Machine):
    """The machine and its load. running, queued: jobs of all owners."""

    running: int = Field(ge=0)
    queued: int = Field(ge=0)

    @property
    def load(self) -> int:
        return self.running + self.queued


def here(running: int, queued: int, judge_hosts: Sequence[str] = ()) -> Health:
    """This machine."""
    cpus, installed = len(os.sched_getaffinity(0)), VersionsThere.model_validate(versions().model_dump())
    return Health(
        versions=installed, tpus=attached.tpus(), cpus=cpus, judge=pool.judge_code(), judge_hosts=list(judge_hosts),
        running=running, queued=queued,
    )  # fmt: skip
