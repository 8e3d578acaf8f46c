"""Runs a kernel under jax's TPU interpreter in the settings that matter, and says what a TPU would do with its defects."""

from hawkeye_mcp.sanitizer.model import Finding, NotChecked, Sanitized
from hawkeye_mcp.sanitizer.run import open_sanitizer, sanitize

__all__ = ["Finding", "NotChecked", "Sanitized", "open_sanitizer", "sanitize"]
