"""Samples of the demo experiments: halves of the classes, noises, and their true divergences."""

import numpy as np
import pytest

from experiments.labelled import Data, load
from experiments.measures.cases import CLEAN, GREY, HALVES, Noise, corrupted, halves, noisy, truths


def numbered(size=600):
    """Images that tell which they are, of ten classes in unequal shares."""
    images = np.repeat(np.arange(size, dtype=np.float32), 16).reshape(size, 4, 4) / 997.0
    labels = np.concatenate([np.arange(size - 100) % 10, np.zeros(100)]).astype(np.int64)
    return Data(images, labels, images[:10], labels[:10])


@pytest.mark.parametrize("case", HALVES)
def test_halves_share_no_image_and_have_their_classes(case):
    data = numbered()
    found = halves(data, case, 100, 50, seed=3)
    numbers = [np.round(part[:, 0, 0] * 997).astype(int) for part in found[:4]]
    assert [len(n) for n in numbers] == [100, 100, 50, 50]
    assert len(set(np.concatenate(numbers))) == 300
    few, full = (numbers[0], numbers[1]) if case == "P half" else (numbers[1], numbers[0])
    assert set(data.train_labels[few]) == {0, 1, 2, 3, 4}
    assert len(set(data.train_labels[full])) == 10
    assert found.share == pytest.approx((250 + 100) / 600)
    again, other = halves(data, case, 100, 50, seed=3), halves(data, case, 100, 50, seed=4)
    np.testing.assert_array_equal(found.p, again.p)
    assert (found.p != other.p).any()


def test_too_many_images_are_an_error_that_says_so():
    with pytest.raises(ValueError, match=r"--rows 250 --held 50: .* 300 are needed"):
        halves(numbered(), "P half", 250, 50, seed=0)
    with pytest.raises(ValueError, match=r"--pixel-rows 280 --held 50: .* 600 images"):
        noisy(numbered(), CLEAN, 280, 50, seed=0)


@pytest.mark.parametrize("shared", [True, False])
def test_noise_is_what_it_says(shared):
    images = np.random.default_rng(0).integers(0, 256, (1000, 5, 5)).astype(np.float32) / np.float32(255)
    kept = images.copy()
    out, hit = corrupted(images, Noise(0.3, 4, shared), np.random.default_rng(1))
    np.testing.assert_array_equal(images, kept)  # a copy
    assert hit.sum() == 300
    np.testing.assert_array_equal(out[~hit], images[~hit])
    grey = (out == GREY).reshape(1000, -1)
    assert not (images == GREY).any()  # no byte is grey: a corrupted image is never a real one
    assert (grey.sum(1) == np.where(hit, 4, 0)).all()
    rest = ~grey
    np.testing.assert_array_equal(out.reshape(1000, -1)[rest], images.reshape(1000, -1)[rest])
    counts = grey.sum(0)
    if shared:
        assert sorted(counts) == [0] * 21 + [300] * 4
    else:  # each pixel of 300 images with chance 4/25: mean 48, sd 6.3
        assert (abs(counts - 48) < 5 * 6.3).all()


def test_noises_of_a_seed_are_on_the_same_images():
    data = load("digits")
    clean, few = (noisy(data, case, 300, 100, seed=1) for case in (CLEAN, "few pixels, shared"))
    np.testing.assert_array_equal(clean.p, few.p)
    changed = (clean.q != few.q).reshape(300, -1)
    assert changed.any(0).sum() == 1
    # half of 400 images; those in the first 300 are hypergeometric with sd 4.3, an image may be 0.5 there already
    assert 100 < changed.any(1).sum() < 150 + 5 * 4.3
    assert (clean.share, few.share) == (1.0, 0.5)


@pytest.mark.parametrize("share", [0.5, 0.51, 0.9, 1.0])
def test_truths_are_those_of_discrete_distributions(share):
    q, p = np.array([share / 2, share / 2, 1.0 - share]), np.array([0.5, 0.5, 0.0])
    expected = truths(share, p_within=True)
    middle = 0.5 * (p + q)
    assert expected["kl"] == pytest.approx(_kl(p, q))
    assert expected["js"] == pytest.approx(0.5 * (_kl(p, middle) + _kl(q, middle)))
    assert expected["hellinger"] == pytest.approx(1.0 - np.sqrt(p * q).sum())
    assert expected["reverse_kl"] == (0.0 if share == 1.0 else np.inf)
    turned = truths(share, p_within=False)
    assert (turned["kl"], turned["reverse_kl"]) == (expected["reverse_kl"], expected["kl"])
    assert (turned["js"], turned["hellinger"]) == (expected["js"], expected["hellinger"])


def test_known_truths():
    half = truths(0.5, p_within=True)
    assert half["kl"] == pytest.approx(np.log(2))
    assert half["js"] == pytest.approx(0.2158, abs=1e-4)
    assert half["hellinger"] == pytest.approx(0.2929, abs=1e-4)
    assert truths(0.9, p_within=True)["kl"] == pytest.approx(0.1054, abs=1e-4)


def _kl(p, q):
    held = p > 0
    return float((p[held] * np.log(p[held] / q[held])).sum())
