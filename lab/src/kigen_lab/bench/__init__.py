"""Benchmarks of Kigen: a folder each, registered in `kigen_lab.bench.registry`."""
