"""Runs a kernel under jax's TPU interpreter in the settings that matter, and says what a TPU would do with its defects."""
