"""Runs agents on workloads under conditions and tallies paired speedups."""
