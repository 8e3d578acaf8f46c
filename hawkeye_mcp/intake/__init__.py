"""Bring your own: a PyTorch module, a JAX function or a specification becomes a workload folder."""
