"""Runs the Mosaic kernels of an artifact for the TPU on a CPU, and everything around them with XLA.

`program.evaluate` takes a whole artifact; `kernel.Kernel` one kernel. No candidate's Python is executed: the artifact is
data. Workers only: it parses what others wrote and imports jax.
"""
