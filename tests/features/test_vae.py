"""ContinualVAE: reconstructs, stays as close to its previous encoder as set, forgets without replay, fails cleanly."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from driftline import ContinualDensityRatio, FitDivergedError, StateFileError, Training
from driftline.features import ContinualVAE
from driftline.features._modules import VAE, gaussian_kl, pulled_loss

QUICK = Training(epochs=20, batch=64, lr=1e-2, patience=10)
BRIEF = Training(epochs=1, batch=200)


def small(**params):
    given = {"encoder": (32,), "decoder": (32,), "latent": 6, "training": QUICK, "random_state": 0, "device": "cpu"}
    return ContinualVAE(**{**given, **params})


def error(vae, images):
    return float(((vae.inverse_transform(vae.transform(images)) - images) ** 2).mean())


def moved(vae, images, then):
    """Distance that features moved, in units of their spread."""
    return float(np.sqrt(((vae.transform(images) - then) ** 2).mean() / then.var()))


def test_defaults_are_the_papers_network():
    net = VAE(784, likelihood="bernoulli", **ContinualVAE()._sizes())
    shapes = {name: tuple(p.shape) for name, p in net.named_parameters() if name.endswith("weight")}
    assert list(shapes.values()) == [(512, 784), (256, 512), (64, 256), (64, 256), (256, 64), (256, 256), (784, 256)]


def test_kl_of_gaussians_is_the_mean_log_ratio():
    """Against densities of scipy, averaged over draws: within four standard errors."""
    rng = np.random.default_rng(0)
    (m, v), (b, w) = ((rng.normal(0, 1, 3), rng.uniform(0.3, 2, 3)) for _ in range(2))
    z = m + np.sqrt(v) * rng.standard_normal((100_000, 3))
    logs = multivariate_normal(m, np.diag(v)).logpdf(z) - multivariate_normal(b, np.diag(w)).logpdf(z)
    ours = gaussian_kl(*((torch.tensor(x)[None], torch.tensor(y).log()[None]) for x, y in ((m, v), (b, w))))
    assert abs(float(ours) - logs.mean()) < 4 * logs.std() / np.sqrt(len(z))


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian", "pixels"])
def test_likelihoods_are_densities(likelihood):
    torch.manual_seed(0)
    net, z = VAE(3, (4,), 2, (4,), likelihood, noise=0.2), torch.randn(5, 2)
    x = torch.rand(5, 3).round()
    with torch.no_grad():
        ours, mean = net.negative_log_likelihood(x, z), net.decode(z)
        if likelihood == "gaussian":
            net.log_noise.fill_(0.7)
            ours = net.negative_log_likelihood(x, z)
            truth = -torch.distributions.Normal(mean, np.exp(0.35)).log_prob(x).sum(1)
        elif likelihood == "pixels":
            truth = -torch.distributions.Normal(mean, 0.2).log_prob(x).sum(1)
            assert 0.0 < mean.min() < mean.max() < 1.0
        else:
            truth = -torch.distributions.Bernoulli(mean).log_prob(x).sum(1)
    torch.testing.assert_close(ours, truth)


def test_the_loss_pulls_to_the_previous_encoder_and_to_the_prior_at_first():
    torch.manual_seed(0)
    net, x, noise = VAE(3, (4,), 2, (4,), "bernoulli"), torch.rand(20, 3), torch.zeros(20, 2)
    prior = gaussian_kl(net.encoder(x)).mean()
    nll = net.negative_log_likelihood(x, net.encoder(x)[0]).mean()
    torch.testing.assert_close(pulled_loss(net, None, x, noise, 5.0), nll + prior)
    narrow = gaussian_kl(net.encoder(x), (torch.zeros(20, 2), torch.full((20, 2), np.log(0.01)))).mean()
    torch.testing.assert_close(pulled_loss(net, None, x, noise, 5.0, prior=0.1), nll + narrow)
    torch.testing.assert_close(pulled_loss(net, net.encoder, x, noise, 5.0), nll)  # nothing has moved
    other = VAE(3, (4,), 2, (4,), "bernoulli").encoder
    apart = gaussian_kl(net.encoder(x), other(x)).mean()
    loss = pulled_loss(net, other, x, noise, 5.0)
    torch.testing.assert_close(loss, nll + 5.0 * apart)
    loss.backward()
    assert all(p.grad is None for p in other.parameters())  # frozen


@pytest.mark.parametrize(("scale", "likelihood"), [(1.0, "bernoulli"), (16.0, "gaussian")])
def test_reconstruction_improves_over_training(digits, scale, likelihood):
    """Better than the mean image, the best of a collapsed code; better when trained longer; also on new rows."""
    images = scale * digits.images
    seen, new = images[:1200], images[1200:]
    brief, longer = small(training=BRIEF).fit(seen), small().fit(seen)
    assert longer.likelihood_ == likelihood
    mean_image = float(((seen.mean(0) - new) ** 2).mean())
    assert error(longer, new) < 0.75 * mean_image
    assert error(longer, new) < error(brief, new)
    assert longer.info_.held_out < brief.info_.held_out


def test_noise_leaves_the_posterior_at_the_prior(digits):
    """Coding pixels without structure does not pay: means stay at 0. Digits, the control, spread them."""
    noise = np.random.default_rng(0).random(digits.images.shape)
    spread = {name: small().fit_transform(x).var(0).sum() for name, x in (("noise", noise), ("digits", digits.images))}
    assert spread["noise"] < 0.1 < 1.0 < spread["digits"]


def test_pull_decides_how_far_features_move(digits, seed):
    """Features of old rows after training on new ones: the stronger the pull, the closer they stay."""
    old, new = digits.images[digits.labels < 5], digits.images[digits.labels >= 5]
    far, first = {}, small(random_state=seed).fit(old)
    then = first.transform(old)
    for pull in (0.0, 1.0, 1000.0):
        vae = copy.deepcopy(first).set_params(pull=pull).partial_fit(new)
        np.testing.assert_array_equal(vae.transform_before(old), then)
        far[pull] = moved(vae, old, then)
    assert far[1000.0] < far[1.0] < far[0.0]
    assert far[1000.0] < 0.1 < 1.0 < far[0.0]


def test_replay_prevents_forgetting(digits, seed):
    """Trained further on new digits only, it reconstructs old ones worse than with old ones among them."""
    old, new = digits.images[digits.labels < 5], digits.images[digits.labels >= 5]
    first = small(random_state=seed).fit(old)
    alone = copy.deepcopy(first).partial_fit(new)
    replayed = copy.deepcopy(first).partial_fit(np.concatenate([old, new]))
    assert error(replayed, old) < 1.1 * error(first, old) < error(alone, old)
    assert error(replayed, new) < 0.9 * error(first, new)  # and learns the new ones


def test_same_seed_same_features_and_the_global_generator_is_left_alone(digits):
    first, second = digits.images[:300], digits.images[300:600]
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    a = small(training=BRIEF).fit(first).partial_fit(second)
    assert torch.rand(1) == expected
    torch.manual_seed(99)
    b = small(training=BRIEF).partial_fit(first).partial_fit(second)  # the first partial_fit is fit
    np.testing.assert_array_equal(a.transform(second), b.transform(second))
    c = small(training=BRIEF, random_state=1).fit(first).partial_fit(second)
    assert not np.array_equal(a.transform(second), c.transform(second))
    assert (a.t_, a.transform(second).dtype) == (1, np.float64)
    fresh = [small(training=BRIEF, random_state=None).fit(first).seed_ for _ in range(2)]
    assert fresh[0] != fresh[1]


def test_scikit_learn_conventions(digits):
    vae = small(pull=2.0, training=BRIEF)
    with pytest.raises(NotFittedError):
        vae.transform(digits.images)
    vae.fit(digits.images)
    again = clone(vae)
    assert not hasattr(again, "shape_in_")
    assert again.get_params() == vae.get_params()
    assert (vae.shape_in_, vae.n_features_in_) == ((8, 8), 64)
    vae.partial_fit(digits.images).fit(digits.images)  # fit starts again
    np.testing.assert_array_equal(vae.transform(digits.images), again.fit_transform(digits.images))
    with pytest.raises(ValueError, match="no previous encoder"):
        vae.transform_before(digits.images)


def test_shapes_of_any_kind(digits):
    flat = digits.images.reshape(-1, 64)
    images = small(training=BRIEF).fit(digits.images)
    channels = small(training=BRIEF).fit(torch.tensor(flat.reshape(-1, 1, 8, 8)))
    rows = small(training=BRIEF).fit(flat)
    for vae, x in ((images, digits.images), (channels, flat.reshape(-1, 1, 8, 8)), (rows, flat.tolist())):
        np.testing.assert_allclose(vae.transform(x), rows.transform(flat), atol=1e-6)
    assert channels.inverse_transform(np.zeros((3, 6))).shape == (3, 1, 8, 8)
    assert images.transform(digits.images[:0]).shape == (0, 6)
    frame = pd.DataFrame(flat, columns=[f"p{i}" for i in range(64)])
    named = small(training=BRIEF).fit(frame)
    with pytest.raises(ValueError, match="missing"):
        named.transform(frame.rename(columns={"p3": "q3"}))


def test_features_do_not_depend_on_the_batch(digits, monkeypatch):
    vae = small(training=BRIEF).fit(digits.images)
    whole = vae.transform(digits.images)
    monkeypatch.setattr("driftline.features._base._BATCH", 100)
    np.testing.assert_allclose(vae.transform(digits.images), whole, atol=1e-5)


def test_progress_is_called_after_each_epoch(digits):
    calls = []
    vae = small(training=Training(epochs=3, batch=200), progress=lambda *args: calls.append(args)).fit(digits.images)
    assert [(epoch, epochs) for epoch, epochs, _, _ in calls] == [(1, 3), (2, 3), (3, 3)]
    assert vae.info_.held_out == min(held_out for _, _, _, held_out in calls)


def test_mistakes_are_named(digits):
    x = digits.images
    vae = small(training=BRIEF).fit(x)
    for use in (vae.transform, vae.partial_fit):
        with pytest.raises(ValueError, match=r"rows of shape \(8, 7\), this was fitted on rows of shape \(8, 8\)"):
            use(x[:, :, :7])
        with pytest.raises(ValueError, match=r"from 0 to 16; this was fitted on values in \[0, 1\]"):
            use(16 * x)
    with pytest.raises(ValueError, match=r"got \(64,\)"):
        vae.transform(x[0].ravel())
    with pytest.raises(ValueError, match="NaN"):
        vae.transform(np.where(x > 0.9, np.nan, x))
    with pytest.raises(ValueError, match=r"from -1 to 0; likelihood='bernoulli' needs values in \[0, 1\]"):
        small(likelihood="bernoulli").fit(-x)
    with pytest.raises(ValueError, match="5 rows, at least 10"):
        small().fit(x[:5])
    with pytest.raises(ValueError, match="Z has 5 columns, this network has 6 features"):
        vae.inverse_transform(np.zeros((2, 5)))
    with pytest.raises(ValueError, match=r"parameters now say .*'latent': 7.* call fit"):
        clone(vae).fit(x).set_params(latent=7).partial_fit(x)
    wrong = {
        "latent": 0,
        "encoder": (),
        "decoder": (8, -1),
        "pull": -1.0,
        "noise": 0.0,
        "prior": -0.1,
        "likelihood": "poisson",
        "device": "abacus",
        "random_state": -1,
        "training": Training(lr=0.0),
    }
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            small(**{name: value}).fit(x)


def test_pixels_reconstruct_within_their_noise_and_keep_it_in_files(digits, tmp_path):
    """Less noise asks for more detail; a narrow prior makes the features small."""
    x = digits.images[:600]
    fine, coarse = (small(likelihood="pixels", noise=noise, prior=0.1).fit(x) for noise in (0.1, 1.0))
    assert error(fine, x) < 0.9 * error(coarse, x)
    assert np.abs(coarse.transform(x)).max() < 1.0
    fine.save(tmp_path / "vae")
    again = ContinualVAE.load(tmp_path / "vae")
    assert (again.likelihood_, again._net.noise, again.prior) == ("pixels", 0.1, 0.1)
    np.testing.assert_array_equal(fine.partial_fit(x).transform(x), again.partial_fit(x).transform(x))
    with pytest.raises(ValueError, match=r"from 0 to 16; this was fitted on values in \[0, 1\]"):
        again.transform(16 * x)


def test_a_failure_leaves_everything_as_it_was(digits):
    vae = small(training=BRIEF).fit(digits.images).partial_fit(digits.images)
    now, before = vae.transform(digits.images), vae.transform_before(digits.images)
    with pytest.raises(FitDivergedError, match="lower the learning rate"):
        vae.set_params(training=Training(lr=1e30, epochs=2, schedule="constant")).partial_fit(digits.images)

    def interrupt(*args):
        raise KeyboardInterrupt

    vae.set_params(training=BRIEF, progress=interrupt)
    for train in (vae.fit, vae.partial_fit):
        with pytest.raises(KeyboardInterrupt):
            train(digits.images)
    np.testing.assert_array_equal(vae.transform(digits.images), now)
    np.testing.assert_array_equal(vae.transform_before(digits.images), before)
    assert vae.t_ == 1


def test_values_beyond_single_precision_are_named(digits):
    vae = small(training=BRIEF).fit(16 * digits.images)
    extreme = 16 * digits.images[:20]
    extreme[7, 3, 3] = 1e60
    with pytest.raises(ValueError, match=r"1 of 20 rows overflow single precision \(first: row 7\)"):
        vae.transform(extreme)
    extreme[:] = 1e60
    with pytest.raises(FitDivergedError, match="are the inputs extreme"):
        vae.partial_fit(extreme)


@pytest.mark.parametrize("scale", [1.0, 16.0], ids=["bernoulli", "gaussian"])
def test_files_hold_all_that_the_next_call_needs(digits, tmp_path, scale):
    x, path = scale * digits.images, tmp_path / "vae.safetensors"
    vae = small(training=BRIEF, random_state=None).fit(x[:500]).partial_fit(x[:900])
    vae.save(path)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    again = ContinualVAE.load(path)
    assert torch.rand(1) == expected
    assert again.get_params() == vae.get_params()
    for one in (vae, again):
        one.partial_fit(x[900:])
    for name in ("transform", "transform_before"):
        np.testing.assert_array_equal(getattr(again, name)(x), getattr(vae, name)(x))
    np.testing.assert_array_equal(again.inverse_transform(np.ones((2, 6))), vae.inverse_transform(np.ones((2, 6))))
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert json.loads(header["__metadata__"]["driftline"])["estimator"] == "ContinualVAE"
    path.write_bytes(content[:-4] + b"\1\1\1\1")
    with pytest.raises(StateFileError, match="digest"):
        ContinualVAE.load(path)


def test_foreign_files_are_refused(digits, tmp_path):
    ratio = ContinualDensityRatio(random_state=0).fit(np.random.default_rng(0).normal(size=(50, 2)))
    ratio.save(tmp_path / "ratio")
    with pytest.raises(StateFileError, match="not a driftline state of format 'driftline-features'"):
        ContinualVAE.load(tmp_path / "ratio")
    small(training=BRIEF).fit(digits.images).save(tmp_path / "vae")
    with pytest.raises(StateFileError, match="not a driftline state"):
        ContinualDensityRatio.load(tmp_path / "vae")


def test_draws_are_the_posterior_and_belong_to_their_rows(digits):
    """Draws minus means are normal with the posterior's spread; a row's draw does not depend on other rows."""
    vae = small(output="draw").fit(digits.images)
    drawn, means = vae.transform(digits.images), vae.set_params(output="mean").transform(digits.images)
    with torch.no_grad():
        spread = (0.5 * vae._net.encoder(torch.as_tensor(digits.images).flatten(1).float())[1]).exp().numpy()
    noise = (drawn - means) / spread
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size)
    assert abs(noise.var() - 1.0) < 4 * np.sqrt(2.0 / noise.size)
    assert np.abs(np.corrcoef(noise.T) - np.eye(6)).max() < 5 / np.sqrt(len(noise))
    vae.set_params(output="draw")
    np.testing.assert_allclose(vae.transform(digits.images[7:9]), drawn[7:9], rtol=1e-5, atol=1e-6)
    held = vae.snapshot()
    vae.partial_fit(digits.images)
    for then in (vae.transform_before(digits.images), held.transform(digits.images)):
        np.testing.assert_allclose(then, drawn, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="no previous encoder"):
        held.transform_before(digits.images)
    with pytest.raises(ValueError, match="output='median' is unknown: choose 'draw' or 'mean'"):
        vae.set_params(output="median").transform(digits.images)


def test_a_snapshot_goes_on_by_itself(digits):
    vae = small(training=BRIEF)
    twin = vae.snapshot()
    assert twin.get_params() == vae.get_params()
    twin.fit(digits.images)
    assert not hasattr(vae, "t_")
    vae.fit(digits.images)
    before, twin = vae.transform(digits.images), vae.snapshot()
    twin.partial_fit(digits.images)
    assert (vae.t_, twin.t_) == (0, 1)
    np.testing.assert_array_equal(vae.transform(digits.images), before)
    np.testing.assert_array_equal(
        vae.partial_fit(digits.images).transform(digits.images), twin.transform(digits.images)
    )


def test_draws_do_not_depend_on_the_type_of_numbers(rng):
    rows = rng.normal(3.0, 100.0, (60, 4)).astype(np.float32)
    vae = small(output="draw", latent=2, likelihood="gaussian", training=BRIEF).fit(rows)
    np.testing.assert_allclose(vae.transform(rows), vae.transform(rows.astype(np.float64)), atol=1e-4)
