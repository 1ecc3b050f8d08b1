"""The lab of Kigen: simulations in virtual time, reproductions of papers' figures, and benchmarks."""
