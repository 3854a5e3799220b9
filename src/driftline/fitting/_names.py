"""Names of the models, in a module of their own so that listing them does not import PyTorch."""

__all__ = ["MODELS"]

MODELS = ("auto", "linear", "quadratic", "quadratic-full", "mlp")
