"""Pictures of results and of placements. They need matplotlib: `pip install "kigen[picture]"`."""
