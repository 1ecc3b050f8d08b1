"""The laboratory of Kigen: simulations, reproductions of the papers' figures, benchmarks."""
