"""Raises while it is traced. Stopped by: the tracer reports any exception with the candidate's own line."""


def workload(x, scale):
    return x[..., :undefined_width]  # noqa: F821
