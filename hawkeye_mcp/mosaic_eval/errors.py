"""How an evaluation can end other than with values. None of these is ever turned into values."""


class Ended(Exception):
    """Base of the three ways; `where` names the kernel and, where it is known, the line of the kernel file."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(f"{what} ({where})" if where else what)
        self.what, self.where = what, where

    def at(self, where: str) -> "Ended":
        """The same, with its place, unless one is known already."""
        return self if self.where else type(self)(self.what, where)


class Unsupported(Ended):
    """The evaluator does not know an operation, a type or a variant of it; says nothing about the kernel.

    what: begins with the operation's name.
    """


class Fault(Ended):
    """The kernel does what has no defined result on a TPU: out of bounds, a wait that nothing ends, a lost transfer."""


class Exhausted(Ended):
    """More steps or memory than an evaluation may take."""
