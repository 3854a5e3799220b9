"""Samples in many dimensions: Gaussians of known divergence, images apart from those trained on, mixtures."""

import numpy as np
import pytest

from experiments.gans.training import Settings
from experiments.high_dimensional.estimators import Recipe
from experiments.high_dimensional.samples import gaussian_pair, generator, image_pair
from experiments.labelled import load


def quiet(text):
    pass


@pytest.mark.parametrize(("name", "columns", "truth"), [("linear", 40, 2.5), ("pca", 400, 1.25)])
def test_gaussians_are_what_their_truth_says(name, columns, truth):
    """Within five of the library's standard errors; components see half of the shift, that in leading directions."""
    pair = gaussian_pair(columns, 3000, 10, 0.5, 1000)
    found = Recipe(1.0, 60, 1, 1e-3).fit(name, pair, 1000, quiet).divergence("reverse_kl")
    assert found.value == pytest.approx(truth, abs=5 * found.std_error)
    assert 5 * found.std_error < 0.4 * truth


def test_real_images_compared_are_disjoint_and_unseen():
    data = load("digits")
    pair = image_pair(data, 700, 200, 60, 3, lambda images: images.reshape(len(images), -1), None)
    seen = {row.tobytes() for row in pair.others}
    parts = [{row.tobytes() for row in part} for part in pair[:4]]
    assert [len(part) for part in pair] == [200, 200, 60, 60, 200]
    assert sum(map(len, parts)) == len(set.union(*parts))
    assert not set.union(*parts) & seen
    with pytest.raises(ValueError, match="1200 images are needed beside the 700 to train on, there are 1097"):
        image_pair(data, 700, 500, 100, 3, lambda images: images, None)


def test_a_mixture_draws_as_it_was_fitted(tmp_path):
    """Mean pixels within five standard errors, of which clipping at 0 and 1 may move a little."""
    data = load("digits")
    made = generator("mixture", data, "digits", 1400, tmp_path, settings=Settings(), components=5, report=quiet)
    images = made.draw(5000, 1000)
    assert images.shape == (5000, 8, 8)
    assert images.min() >= 0.0
    assert images.max() <= 1.0
    assert not np.array_equal(images, made.draw(5000, 1001))
    error = data.train[:1400].std(0) / 5000**0.5
    assert (np.abs(images.mean(0) - data.train[:1400].mean(0)) < 5 * error + 0.03).all()
