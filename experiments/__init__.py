"""The paper's experiments, one file each: ``python -m experiments NAME [--scale quick|paper]``."""
