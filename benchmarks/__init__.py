"""Benchmarks: deltamerge beside delta-spark and delta-rs, in one run on one machine."""
