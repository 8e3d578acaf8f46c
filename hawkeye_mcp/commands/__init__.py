"""The command line by what it is about; cli.py puts it together. No command imports jax."""
