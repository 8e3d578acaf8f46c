"""The JAX port of saxpy.cu that saxpy.json names."""


def workload(x, y):
    return 2.5 * x + y
