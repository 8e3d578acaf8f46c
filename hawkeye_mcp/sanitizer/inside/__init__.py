"""What runs beside a candidate's Python in the sandbox: it imports nothing of the rest of the package, which is hidden."""
