"""Registered hosts in the place of a judge of this machine.

What is judged for long (by a server, by a bench) is kept together and set side by side, so a host counts only if it judges
as this machine would: the same versions, the same judge. What it has attached may differ: a TPU measures.
"""

import datetime
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from hawkeye_mcp import pool
from hawkeye_mcp.evaluation import Evaluation
from hawkeye_mcp.hosts import choosing, remote
from hawkeye_mcp.hosts.choosing import NoHost
from hawkeye_mcp.hosts.connection import Link
from hawkeye_mcp.hosts.errors import AFTER_NO_HOST, NO_HOST, HostFailed
from hawkeye_mcp.hosts.health import Health
from hawkeye_mcp.hosts.registry import Host
from hawkeye_mcp.hosts.remote import NoVerdict, Order
from hawkeye_mcp.kernels import sha256
from hawkeye_mcp.profile import Profile
from hawkeye_mcp.sanitizer.model import Sanitized
from hawkeye_mcp.versions import versions
from hawkeye_mcp.workloads import Workload

logger = logging.getLogger(__name__)

Result = TypeVar("Result", Evaluation, Profile, Sanitized)
Progress = Callable[[str], None]
NEXT_STEP = "`hawkeye hosts check` says what each host lacks; then ask again."


def _ignore(stage: str) -> None:
    pass


def unlike(health: Health) -> str:
    """In what a host judges otherwise than this machine; "" if in nothing."""
    if health.judge_hosts:  # they may be any, this server among them, which would then ask itself for ever
        return (
            f"it leaves judging to its own hosts ({', '.join(health.judge_hosts)}): register those here and name them"
        )
    there, here = health.versions.model_dump(), versions().model_dump()
    differing = [f"{name} {there[name]} (here {here[name]})" for name in here if there[name] != here[name]]
    if not differing and health.judge != pool.judge_code():
        differing = [f"the judge {health.judge[:12] or 'of an older version'} (here {pool.judge_code()[:12]})"]
    return f"it has {', '.join(differing)}: install the same hawkeye-mcp on both" if differing else ""


@dataclass(frozen=True)
class HostJudge:
    """One host, connected, in the place of a judge of this machine. It cannot be stopped in the middle by an estimate.

    Both methods raise HostFailed and NoVerdict; see `remote`.
    """

    link: Link
    tell: Callable[[str], None]

    async def profile(self, source: str, workload: Workload, tpu: str, **_: object) -> Profile:
        return await remote.profile(self.link, Order(source, workload, tpu, tell=self.tell))

    async def evaluate(self, source: str, workload: Workload, tpu: str) -> Evaluation:
        """On fresh seeds, whatever was said of the text before."""
        return await remote.evaluate(self.link, Order(source, workload, tpu, tell=self.tell, fresh=True))


@dataclass(frozen=True)
class AnyHost:
    """A judge: each judgement is made by the least busy of the hosts, and by the next one if that fails.

    Where none does it, that is a harness_error, and the next judgement asks them all again. All is judged anew: which
    earlier verdict holds is for whoever asks.
    """

    hosts: Mapping[str, Host]
    silence_s: float = remote.SILENCE_S

    @property
    def isolation(self) -> str:
        """Of what is judged by none of them; a verdict tells that of its host."""
        return "none: no host judged it"

    async def evaluate(self, source: str, workload: Workload, tpu: str, *, progress: Progress = _ignore) -> Evaluation:
        """The verdict of a host; see `AnyHost`."""
        try:
            return await self._on_one(remote.evaluate, source, workload, tpu, progress)
        except (NoHost, NoVerdict) as ended:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
            return Evaluation(id=uuid.uuid4().hex[:12], created=now, **self._without(ended, source, workload, tpu))

    async def profile(
        self, source: str, workload: Workload, tpu: str, *, progress: Progress = _ignore, **_: object
    ) -> Profile:
        """As `evaluate`. A host makes no estimates and gives all counters, whatever else is asked of a judge here."""
        try:
            return await self._on_one(remote.profile, source, workload, tpu, progress)
        except (NoHost, NoVerdict) as ended:
            return Profile(**self._without(ended, source, workload, tpu))

    async def sanitize(self, source: str, workload: Workload, tpu: str, *, progress: Progress = _ignore) -> Sanitized:
        """What the sanitizer of a host finds; it failed where none ran it."""
        try:
            return await self._on_one(remote.sanitize, source, workload, tpu, progress)
        except NoVerdict as late:
            message, next_step = str(late), late.next_step
        except NoHost:
            message, next_step = NO_HOST, AFTER_NO_HOST
        return Sanitized(
            status="failed", message=message, next_step=next_step, findings=[], checks=[], not_checked=[], stages_s={},
            **self._subject(source, workload, tpu),
        )  # fmt: skip

    async def _on_one(
        self,
        ask: Callable[[Link, Order], Awaitable[Result]],
        source: str,
        workload: Workload,
        tpu: str,
        progress: Progress,
    ) -> Result:
        told: list[str] = []

        def tell(line: str) -> None:
            logger.warning("%s", line)
            told.append(line)

        async def there(link: Link, health: Health) -> Result:
            if difference := unlike(health):
                raise HostFailed("unlike", difference)
            try:
                found = await ask(link, Order(source, workload, tpu, progress, tell, self.silence_s, fresh=True))
            except NoVerdict as ended:
                if ended.status == "timeout":
                    raise
                raise HostFailed("lost", f"the work ended there without a result: {ended}") from None
            if isinstance(found, Sanitized):
                return found
            return found.model_copy(update={"judged_on": link.name})

        try:
            return await choosing.on_one_of(self.hosts, there, tell, self.silence_s)
        except NoHost as none:
            raise NoHost(" ".join([*(f"{line.rstrip('.')}." for line in told), str(none)])) from None

    def _without(self, ended: NoHost | NoVerdict, source: str, workload: Workload, tpu: str) -> dict[str, Any]:
        """The fields of an answer that is no host's."""
        return self._subject(source, workload, tpu) | {
            "status": "timeout" if isinstance(ended, NoVerdict) else "harness_error",
            "message": str(ended),
            "next_step": ended.next_step if isinstance(ended, NoVerdict) else NEXT_STEP,
            "versions": versions(),
            "judged_on": ",".join(self.hosts),
        }

    def _subject(self, source: str, workload: Workload, tpu: str) -> dict[str, Any]:
        about = {"workload": workload.name, "tpu": tpu, "kernel_sha256": sha256(source)}
        return about | {"isolation": self.isolation}


@asynccontextmanager
async def open_judge(hosts: Mapping[str, Host]) -> AsyncIterator[AnyHost]:
    """The hosts as a judge; see `AnyHost`. Nothing is asked of them before the first judgement: they may be away now."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # that a request went well is no news
    yield AnyHost(hosts)
