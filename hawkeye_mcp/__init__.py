"""Judge TPU Pallas kernels with the real TPU compiler, on a machine that needs no TPU."""

__version__ = "0.1.0"
