"""A file without `workload`. Stopped by: the tracer asks for it by name and lists what the file defines."""


def rms_norm(x, scale):
    return x * scale
