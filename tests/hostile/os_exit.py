"""Ends the process with code 0, as if all had gone well. Stopped by: no reply means no artifact, whatever the code."""

import os


def workload(x, scale):
    os._exit(0)
