"""ClassifierFeatures: the paper's shapes; features separate the classes and do not depend on other rows."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from driftline import FitDivergedError, StateFileError, Training
from driftline.features import ClassifierFeatures, ContinualVAE
from driftline.features._modules import ConvNet

QUICK = Training(epochs=8, batch=64, lr=1e-2)
BRIEF = Training(epochs=1, batch=200)


def small(**params):
    given = {"width": 0.125, "dense": (16,), "training": QUICK, "random_state": 0, "device": "cpu"}
    return ClassifierFeatures(**{**given, **params})


@pytest.fixture(scope="module")
def fitted(digits):
    return small().fit(digits.images[:1200], digits.labels[:1200])


def test_defaults_are_the_papers_network():
    net = ConvNet((1, 28, 28), classes=10, **ClassifierFeatures()._architecture())
    assert net.first.weight.shape == (64, 1, 4, 4)
    assert net.second.weight.shape == (128, 64, 4, 4)
    assert net.dense[0].weight.shape == (64, 6272)
    assert net.head.weight.shape == (10, 64)
    literal = ConvNet((1, 8, 8), classes=10, **small(dense=(30, 7))._architecture())
    assert literal.dense_norm.num_features == 30  # on the first dense layer, whichever it is
    assert literal.eval().hidden(torch.zeros(2, 1, 8, 8)).shape == (2, 7)


def test_it_classifies_new_digits(digits, fitted):
    new, labels = digits.images[1200:], digits.labels[1200:]
    assert fitted.score(new, labels) > 0.85  # chance is 0.1
    assert fitted.score(new, labels) == np.mean(fitted.predict(new) == labels)
    features = fitted.transform(new)
    assert features.shape == (len(new), 16)
    assert features.dtype == np.float64
    assert features.min() >= 0.0
    linear = LogisticRegression(max_iter=1000).fit(fitted.transform(digits.images[:1200]), digits.labels[:1200])
    assert linear.score(features, labels) > 0.85


def test_features_of_a_row_do_not_depend_on_other_rows(digits, fitted):
    """Batch normalisation in evaluation mode; in training mode a row's features would follow the batch's class."""
    sevens = digits.images[digits.labels == 7]
    np.testing.assert_allclose(fitted.transform(sevens[:1]), fitted.transform(sevens)[:1], atol=1e-5)
    mixed = np.concatenate([sevens[:1], digits.images])
    np.testing.assert_allclose(fitted.transform(mixed)[:1], fitted.transform(sevens)[:1], atol=1e-5)


def test_the_scale_of_images_does_not_matter(digits):
    one = small(training=BRIEF).fit(digits.images, digits.labels)
    other = small(training=BRIEF).fit((16 * digits.images).astype(np.uint8), digits.labels)
    np.testing.assert_allclose(
        one.transform(digits.images), other.transform((16 * digits.images).astype(np.uint8)), atol=1e-4
    )


@pytest.mark.parametrize("shape", [(4, 4), (5, 9), (3, 8, 8), (1, 28, 28)])
def test_images_of_many_shapes(shape):
    rng = np.random.default_rng(0)
    images, labels = rng.random((40, *shape)), np.repeat(["cat", "dog"], 20)
    net = small(training=Training(epochs=1, batch=16)).fit(images, labels)
    assert net.transform(torch.tensor(images)).shape == (40, 16)
    assert net.transform(images[:0]).shape == (0, 16)
    assert set(net.predict(images)) <= {"cat", "dog"}


def test_same_seed_same_features_and_the_global_generator_is_left_alone(digits):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    a = small(training=BRIEF).fit(digits.images, digits.labels)
    assert torch.rand(1) == expected
    b = clone(a).fit(digits.images, digits.labels)
    np.testing.assert_array_equal(a.transform(digits.images), b.transform(digits.images))
    c = small(training=BRIEF, random_state=1).fit(digits.images, digits.labels)
    assert not np.array_equal(a.transform(digits.images), c.transform(digits.images))


@pytest.mark.parametrize("kind", [int, str, bool, float, object], ids=lambda k: k.__name__)
def test_files_give_back_features_and_labels(digits, tmp_path, kind):
    labels = (digits.labels > 4 if kind is bool else digits.labels).astype(str if kind is object else kind)
    net = small(training=BRIEF).fit(digits.images, labels.astype(kind))
    net.save(tmp_path / "net")
    again = ClassifierFeatures.load(tmp_path / "net")
    assert again.get_params() == net.get_params()
    np.testing.assert_array_equal(again.transform(digits.images), net.transform(digits.images))
    np.testing.assert_array_equal(again.predict(digits.images), net.predict(digits.images))
    assert again.classes_.dtype == net.classes_.dtype
    with pytest.raises(StateFileError, match="holds a ClassifierFeatures, not a ContinualVAE"):
        ContinualVAE.load(tmp_path / "net")


def test_progress_and_failure(digits):
    calls = []
    net = small(training=Training(epochs=2, batch=200), progress=lambda *args: calls.append(args))
    net.fit(digits.images, digits.labels)
    assert [args[:2] for args in calls] == [(1, 2), (2, 2)]
    now = net.transform(digits.images)
    with pytest.raises(FitDivergedError, match="lower the learning rate"):
        net.set_params(training=Training(lr=1e30, epochs=2, schedule="constant")).fit(digits.images, digits.labels)
    np.testing.assert_array_equal(net.transform(digits.images), now)


def test_mistakes_are_named(digits, fitted):
    x, y = digits
    with pytest.raises(NotFittedError):
        small().transform(x)
    with pytest.raises(ValueError, match=r"rows of shape \(64,\): images \(h, w\) or \(c, h, w\)"):
        small().fit(x.reshape(-1, 64), y)
    with pytest.raises(ValueError, match="at least 4 x 4"):
        small().fit(x[:, :3], y)
    with pytest.raises(ValueError, match=r"y has shape \(5,\): one label for each of the 1797"):
        small().fit(x, y[:5])
    with pytest.raises(ValueError, match=r"one class only"):
        small().fit(x, np.zeros(len(x)))
    with pytest.raises(ValueError, match="1 labels that are NaN"):
        small().fit(x, np.where(np.arange(len(x)) == 3, np.nan, y))
    with pytest.raises(ValueError, match=r"rows of shape \(8, 7\), this was fitted on rows of shape \(8, 8\)"):
        fitted.transform(x[:, :, :7])
    for wrong in ({"width": 0.0}, {"dense": ()}, {"training": Training(epochs=0)}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            small(**wrong).fit(x, y)
