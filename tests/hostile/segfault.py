"""Crashes the interpreter. Stopped by: tracing happens in a process of its own, whose death is reported by name."""

import ctypes


def workload(x, scale):
    ctypes.string_at(0)
