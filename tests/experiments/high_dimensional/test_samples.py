"""Samples in many dimensions: Gaussians of known divergence, images apart from each other, kept samples."""

import numpy as np
import pytest

from experiments.data import DataMissingError
from experiments.high_dimensional import features
from experiments.high_dimensional.estimators import Recipe
from experiments.high_dimensional.samples import SPOILT, gaussian_pair, image_pair, images_of, known_samples
from experiments.labelled import load


def quiet(text):
    pass


def test_gaussians_are_what_their_truth_says():
    """Within five of the library's standard errors."""
    pair = gaussian_pair(40, 3000, 10, 0.5, 1000)
    found = Recipe(1, 1e-3).fit("auto", pair, 1000, quiet).divergence("reverse_kl")
    assert found.value == pytest.approx(2.5, abs=5 * found.std_error)
    assert 5 * found.std_error < 0.4 * 2.5


def test_rows_of_a_pair_are_drawn_anew_and_once():
    real, other = (np.arange(n, dtype=np.float32)[:, None] for n in (100, 120))
    pair, again = (image_pair(real, other, 60, 30, seed) for seed in (3, 4))
    assert [len(part) for part in pair] == [60, 60, 30, 30]
    assert len(np.unique(np.concatenate([pair.original, pair.new_original]))) == 90
    assert not np.array_equal(pair.original, again.original)
    with pytest.raises(ValueError, match="110 images of each sample are needed, there are 100"):
        image_pair(real, other, 60, 50, 3)


def test_kept_samples_are_read_and_spoilt_ones_take_their_place(tmp_path):
    path, digits = tmp_path / "samples-2.npz", load("digits").train[:50]
    np.savez(path, **{str(k): np.full((20, 8, 8), 255 * k, np.uint8) for k in range(2)})
    assert known_samples((f"best={path}",)) == {"best": path}
    images = images_of("best", path, digits)
    assert images.shape == (40, 8, 8)
    assert 0 < images[:20].mean() < 1  # classes are mixed
    assert list(known_samples(())) == list(SPOILT)
    for name in SPOILT:
        spoilt = images_of(name, None, digits)
        assert spoilt.shape == digits.shape
        assert not np.array_equal(spoilt, digits)
    np.testing.assert_array_equal(images_of("real", None, digits), digits)
    with pytest.raises(ValueError, match="--generated 'best' must be NAME=FILE"):
        known_samples(("best",))


def test_a_missing_network_is_named_with_its_command(monkeypatch):
    monkeypatch.setattr(features, "find_spec", lambda name: None)
    with pytest.raises(DataMissingError, match=r"pip install 'driftline\[experiments\]'"):
        features.pretrained(64)


def test_features_are_those_of_the_last_convolution():
    pytest.importorskip("efficientnet_lite_pytorch")
    images = load("digits").train[:3]
    found = features.pretrained(64)(images)
    assert found.shape == (3, features.COLUMNS)
    assert np.isfinite(found).all()
