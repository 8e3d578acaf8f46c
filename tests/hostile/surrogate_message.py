"""Raises with text that no UTF-8 encoder takes. Stopped by: replies are cleaned before they become a verdict."""


def workload(x, scale):
    raise ValueError("half of a pair: \ud800")
