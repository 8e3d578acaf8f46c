"""`hawkeye` with the stand-in judge, as a process: `python searching.py HOLD_AFTER autotune ...`.

It profiles HOLD_AFTER points, says "holding" on stderr and waits for its end; with -1 it goes through. At its end it
writes which points it profiled on stderr.
"""

import json
import sys

from stand_in import StandIn

from hawkeye_mcp import cli
from hawkeye_mcp.judge import evaluate

if __name__ == "__main__":
    after, *arguments = sys.argv[1:]
    judge = StandIn(hold_after=None if after == "-1" else int(after))
    evaluate.open_judge = judge.open
    try:
        cli.app(arguments)
    finally:
        print(f"profiled {json.dumps(judge.profiled)}", file=sys.stderr, flush=True)
