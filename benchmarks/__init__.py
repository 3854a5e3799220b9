"""Side-by-side runs: accuracy on simulated streams, speed against peers. ``python -m benchmarks --help``."""
