"""Returns a promise that looks like an array and is computed by who looks at it. Stopped by: only arrays can be exported."""

import numpy as np


class Later:
    def __init__(self, x):
        self.shape, self.dtype, self.ndim, self.x = x.shape, x.dtype, x.ndim, x

    def block_until_ready(self):
        return self

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.x)


def workload(x, scale):
    return Later(x)
