"""Accesses in no fixed order, by jax's vector clocks."""

from typing import Any

from jax._src.pallas.mosaic.interpret import race_detection_state
from jax._src.pallas.mosaic.interpret import vector_clock as clocks

from .record import active
from .shadow import Shadow, named


class Races(race_detection_state.RaceDetectionState):  # type: ignore[misc]
    """jax's happens-before check, noting the two lines instead of printing; forgets what can no longer race."""

    def __init__(self, num_cores: int) -> None:
        super().__init__(num_cores=num_cores)
        active().beside = num_cores > 1
        self._accesses: dict[Any, list[tuple[Any, Any, str, int]]] = {}

    def check_read(self, device: Any, core: Any, clock: Any, key: Any, where: Any, source_info: Any = None) -> None:
        self._check("read", clock, key, where, source_info)

    def check_write(self, device: Any, core: Any, clock: Any, key: Any, where: Any, source_info: Any = None) -> None:
        self._check("write", clock, key, where, source_info)

    def _check(self, how: str, clock: Any, key: Any, where: Any, source_info: Any) -> None:
        if not active().beside:  # on one core, what comes before the first copy comes before everything else
            return
        line = active().line(source_info)
        shadow = active().shadows.get(key)
        if shadow and shadow.role.unused:
            return
        with self.lock:
            kept = []
            for earlier in self._accesses.get(key, []):
                its_clock, its_range, its_how, its_line = earlier
                if clocks.ordered(its_clock, clock):
                    if its_range != where or (how == "read" and its_how == "write"):
                        kept.append(earlier)
                    continue
                kept.append(earlier)
                if "write" in (how, its_how) and race_detection_state._ranges_overlap(where, its_range):
                    self.races_found = True
                    first, second = sorted([(line, how), (its_line, its_how)], reverse=True)
                    active().find("race", first[0], _racing(first, second, shadow))
            kept.append((clock, where, how, line))
            self._accesses[key] = kept


def _racing(first: tuple[int, str], second: tuple[int, str], shadow: Shadow | None) -> str:
    memory_of = named(shadow) if shadow else "the same memory"
    if not first[0]:  # which is the later line: neither is the candidate's
        return f"two cores reach the same block of {memory_of} in no fixed order"
    other = f"line {second[0]}" if second[0] else "the kernel's pipeline"
    return f"a {first[1]} here and a {second[1]} by {other} reach {memory_of} in no fixed order"
