"""Allocates 100 GB. Stopped by: the address-space limit of the sandbox."""

import numpy as np

table = np.ones(100 << 30, np.uint8)


def workload(x, scale):
    return x
