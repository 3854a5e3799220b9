from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_digits


class Digits(NamedTuple):
    images: np.ndarray
    labels: np.ndarray


@pytest.fixture(scope="session")
def digits():
    """scikit-learn's 8x8 digits with values in [0, 1]."""
    found = load_digits()
    return Digits(found.images / 16.0, found.target)
