"""Which colour and shape stands for which condition, the same in every figure of a page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hawkeye_bench.analysis import Choices
from hawkeye_bench.page import charts


@dataclass(frozen=True)
class Legend:
    """One entry: a small drawing and words."""

    mark: Markup
    words: str


@dataclass(frozen=True)
class Figure:
    """What a reader sees: a title that states what is shown; says: units, how many, and whether times are predicted or
    measured. The chart is drawn for a wide page and for a phone."""

    title: str
    says: str
    wide: Markup
    narrow: Markup
    legend: Sequence[Legend] = ()


class Series(dict[str, int]):
    """The number of each condition: control first, then treatment, then the others."""

    @classmethod
    def of(cls, conditions: Iterable[str], choices: Choices) -> "Series":
        known = sorted(set(conditions), key=lambda name: (name != choices.control, name != choices.treatment, name))
        return cls({name: number for number, name in enumerate(known)})

    def legend(self, conditions: Iterable[str], *extra: Legend) -> list[Legend]:
        shown = set(conditions)
        return [
            *(Legend(key(charts.marker(self[name], 9, 8, 5, "mark")), name) for name in self if name in shown),
            *extra,
        ]


def key(*marks: Markup) -> Markup:
    """A drawing for a legend, 18 by 16 pixels."""
    return charts.tag("svg", *marks, viewBox="0 0 18 16", width=18, height=16, aria_hidden="true")
