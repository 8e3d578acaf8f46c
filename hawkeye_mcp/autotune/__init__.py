"""Search over named integer constants of a kernel file: every point is an ordinary kernel file, judged like any other."""
