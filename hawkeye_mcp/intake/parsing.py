"""Python text as a syntax tree, which is all that these processes ever make of a person's program."""

import ast
import warnings
from typing import Literal


class NotPython(ValueError):
    """The text is no Python; the message says where and why."""


def parse(text: str, mode: Literal["exec", "eval"] = "exec") -> ast.AST:
    """The tree of a file, or of one expression.

    Raises:
        NotPython: it has no tree, or one too deep to be walked.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of \d in a string
            tree = ast.parse(text, mode=mode)
        for _ in ast.walk(tree):
            pass
    except SyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno and mode == "exec" else ""
        raise NotPython(f"{error.msg.rstrip('.')}{where}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPython(str(error).rstrip(".") or "it is nested too deeply") from None
    return tree
