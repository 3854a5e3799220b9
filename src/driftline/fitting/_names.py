"""Names of the models that can be chosen from, for those who must not wait for PyTorch to list them."""

__all__ = ["MODELS"]

MODELS = ("auto", "linear", "quadratic", "quadratic-full", "mlp")
