"""TPU hosts: where a person's kernels may be judged other than here."""
