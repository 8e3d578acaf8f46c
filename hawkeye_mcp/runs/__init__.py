"""A run: the folder that keeps everything that was tried on one workload for one chip."""
