"""Commands that the lab adds to `kigen`: bench and reproduce."""
