"""Gates for the engine of this tree, beside an earlier one on the same rows: ``python -m benchmarks.gates``."""
