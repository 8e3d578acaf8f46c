"""Prints gigabytes. Stopped by: prints do not share the reply's pipe, and are counted and cut off."""


def workload(x, scale):
    line = "x" * (1 << 20)
    while True:
        print(line)
