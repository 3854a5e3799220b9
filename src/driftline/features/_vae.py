"""ContinualVAE: features without labels, from an encoder that is trained further as the stream continues."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from driftline._inputs import MIN_ROWS, Floats, as_rows, resolve_seed
from driftline.features._adapters import row_noise
from driftline.features._base import FeatureNetwork, apart, check_widths
from driftline.features._modules import VAE, Encoder, filled, pulled_loss
from driftline.fitting import (
    FitInfo,
    Progress,
    Standardizer,
    Training,
    fit_standardizer,
    plain_standardizer,
    resolve_device,
    seeded,
)

__all__ = ["ContinualVAE"]


class ContinualVAE(FeatureNetwork):
    r"""Latents of a variational autoencoder that stays close to its previous version.

    ``fit`` trains a plain variational autoencoder; each ``partial_fit`` trains it further on

    .. math::
        -E_{q_t(z|x)}[\log p(x|z)] + \text{pull} \cdot KL(q_t(z|x) \,\|\, q_{t-1}(z|x))

    averaged over the rows, where :math:`q_{t-1}` is the encoder after the previous call (in ``fit``, the prior with
    weight 1). Chen et al., *Continual density ratio estimation*, 2021, call it CVAE. It forgets earlier rows unless
    ``partial_fit`` sees them again: mix in replayed ones, as many from each task as the paper's average wants.
    Only weights are kept, never rows.

    Means also contain variation that the decoder treats as noise. Where that suffices to separate two samples
    (generated images from real ones), the ratio of their densities cannot be estimated; draws from the posterior,
    ``output="draw"``, overlap. A draw is :math:`\mu(x) + \sigma(x)\,\epsilon(x)`, with noise that is a function of the
    row, so that a row always gets the same one. Draws carry less information: where means overlap, means find more.

    Features move with each ``partial_fit``. A ratio traced in them is carried over by
    :meth:`driftline.ContinualDensityRatio.change_features`::

        vae.partial_fit(np.concatenate([replay, window]))
        est.change_features(vae.transform(last_window))
        est.partial_fit(vae.transform(window), before=vae.transform_before(window))

    Arguments:
        encoder, decoder: widths of the ReLU layers.
        latent: number of features.
        likelihood: "bernoulli" for values in [0, 1], "pixels" for the same with Gaussian ``noise``, "gaussian" for
            inputs standardised by the first rows, with one learned variance, or "auto", which decides between the first
            and the last by the range of the first rows.
        noise: standard deviation of "pixels". The authors of the paper use 0.1.
        prior: standard deviation of the latents' prior in ``fit``. The authors of the paper use 0.1.
        output: "mean" of the posterior, or a "draw" from it.
        pull: weight of the term that keeps the encoder close to the previous one; 1 in the paper.
        training: settings of the mini-batch loop; ``weight_decay`` is the paper's L2 regularisation.
        device: "cpu", "cuda" or "auto".
        random_state: random seed; None for a fresh one in each fit.
        progress: called as ``progress(epoch, epochs, loss, held_out)``, with losses in nats per row.

    Attributes:
        shape_in_: shape of one row.
        likelihood_: likelihood in use.
        t_: number of calls to ``partial_fit`` since ``fit``.
        info_: diagnostics of the last training, a :class:`~driftline.fitting.FitInfo`; not saved.

    >>> import numpy as np
    >>> images = np.random.default_rng(0).random((200, 8, 8))
    >>> vae = ContinualVAE(encoder=(16,), decoder=(16,), latent=2, training=Training(epochs=2), random_state=0)
    >>> vae.fit_transform(images).shape, vae.likelihood_
    ((200, 2), 'bernoulli')
    >>> vae.partial_fit(images).transform_before(images).shape
    (200, 2)
    """

    # more patience than for a ratio's network: within one cycle, the best epochs are the last ones
    _default_training = Training(epochs=50, min_epochs=25, patience=10, batch=128)
    _net: VAE
    _before: Encoder | None

    def __init__(
        self,
        *,
        encoder: Sequence[int] = (512, 256),
        decoder: Sequence[int] = (256, 256),
        latent: int = 64,
        likelihood: str = "auto",
        noise: float = 0.1,
        prior: float = 1.0,
        output: str = "mean",
        pull: float = 1.0,
        training: Training | None = None,
        device: str = "auto",
        random_state: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.encoder = encoder
        self.decoder = decoder
        self.latent = latent
        self.likelihood = likelihood
        self.noise = noise
        self.prior = prior
        self.output = output
        self.pull = pull
        self.training = training
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: object = None) -> Self:
        """Train on rows (n, ...), forgetting anything learned before."""
        seed, device = resolve_seed(self.random_state), resolve_device(self.device)
        rows, shape, names = self._first(X)
        likelihood = self._likelihood(rows)
        standardizer = fit_standardizer(rows.numpy()) if likelihood == "gaussian" else None
        inputs = _inputs(rows, standardizer).to(device)
        with seeded(seed, device):
            net = VAE(rows.shape[1], likelihood=likelihood, noise=_positive(self.noise, "noise"), **self._sizes())
            net = net.to(device)
        info = self._descend(net, None, inputs, seed)
        self._net, self._before, self._standardizer, self._device = net, None, standardizer, device
        self.likelihood_, self.t_, self.info_ = likelihood, 0, info
        self._remember(shape, names, seed)
        return self

    def partial_fit(self, X: Any, y: object = None) -> Self:
        """Train further on rows (n, ...), replayed and new ones; the first call is ``fit``.

        After an error the estimator is as it was before.
        """
        if not hasattr(self, "_net"):
            return self.fit(X)
        inputs = self._checked(X, min_rows=MIN_ROWS).to(self._device)
        if self._sizes() != self._net.sizes:
            raise ValueError(
                f"the fitted network has {self._net.sizes}, the parameters now say {self._sizes()}: "
                "call fit to start again"
            )
        net, before = copy.deepcopy(self._net), self._net.encoder
        info = self._descend(net, before, inputs, apart(self.seed_, self.t_ + 1))
        self._net, self._before, self.t_, self.info_ = net, before, self.t_ + 1, info
        return self

    def transform(self, X: Any) -> Floats:
        """Return features (n, latent) of rows (n, ...)."""
        inputs = self._checked(X)
        return self._encode(self._net.encoder, inputs, X)

    def transform_before(self, X: Any) -> Floats:
        """Return features by the encoder before the last ``partial_fit``, which the previous ratio needs."""
        inputs = self._checked(X)
        if self._before is None:
            raise ValueError("there is no previous encoder: partial_fit has not been called since fit")
        return self._encode(self._before, inputs, X)

    def _encode(self, encoder: Encoder, inputs: Tensor, X: Any) -> Floats:
        if self.output not in ("draw", "mean"):
            raise ValueError(f"output={self.output!r} is unknown: choose 'draw' or 'mean'")
        means = self._in_batches(lambda x: encoder(x)[0], inputs, self._device)
        if self.output == "mean":
            return means
        spreads = self._in_batches(lambda x: (0.5 * encoder(x)[1]).exp(), inputs, self._device)
        rows = self._flat(X).float()  # not standardised, which rounds differently in single precision
        return means + spreads * row_noise(rows.cpu().numpy(), means.shape[1])

    def snapshot(self) -> Self:
        """Return features that are equal now; neither changes when the other is trained. No weights are copied.

        A snapshot has no previous encoder. One that is taken before ``fit`` has only the parameters.
        """
        kept = type(self)(**self.get_params(deep=False))
        if not hasattr(self, "_net"):
            return kept
        kept._net, kept._before, kept._standardizer, kept._device = self._net, None, self._standardizer, self._device
        kept.likelihood_, kept.t_ = self.likelihood_, self.t_
        if hasattr(self, "info_"):  # not saved in files
            kept.info_ = self.info_
        kept._remember(self.shape_in_, self._names(), self.seed_)
        return kept

    def inverse_transform(self, Z: Any) -> Floats:
        """Return the decoder's means, (n, ...), of features (n, latent)."""
        check_is_fitted(self)
        rows = as_rows(Z, "Z", min_rows=0, copy=False)
        latent = self._net.sizes["latent"]
        if rows.shape[1] != latent:
            raise ValueError(f"Z has {rows.shape[1]} columns, this network has {latent} features")
        found = self._in_batches(self._net.decode, torch.from_numpy(rows).float(), self._device)
        if self._standardizer is not None:
            found = found * self._standardizer.scale + self._standardizer.mean
        return found.reshape(-1, *self.shape_in_)

    def _checked(self, X: Any, *, min_rows: int = 0) -> Tensor:
        rows = self._flat(X, min_rows=min_rows)
        if self.likelihood_ != "gaussian":
            _check_unit(rows, "this was fitted on values in [0, 1]; for others, fit with likelihood='gaussian'")
        return _inputs(rows, self._standardizer)

    def _likelihood(self, rows: Tensor) -> str:
        if self.likelihood not in (choices := ("auto", "bernoulli", "gaussian", "pixels")):
            raise ValueError(f"likelihood={self.likelihood!r} is unknown: choose one of {choices}")
        if self.likelihood in ("bernoulli", "pixels"):
            _check_unit(rows, f"likelihood={self.likelihood!r} needs values in [0, 1]: rescale them or use 'gaussian'")
        if self.likelihood == "auto":
            return "bernoulli" if float(rows.min()) >= 0.0 and float(rows.max()) <= 1.0 else "gaussian"
        return self.likelihood

    def _sizes(self) -> dict[str, Any]:
        return {
            "encoder": check_widths(self.encoder, "encoder"),
            "decoder": check_widths(self.decoder, "decoder"),
            "latent": check_widths((self.latent,), "latent")[0],
        }

    def _descend(self, net: VAE, before: Encoder | None, inputs: Tensor, seed: int) -> FitInfo:
        if not isinstance(self.pull, int | float | np.number) or not 0.0 <= self.pull < np.inf:
            raise ValueError(f"pull={self.pull!r} must be a number of at least 0")
        latent, prior = net.sizes["latent"], _positive(self.prior, "prior")

        def loss(batch: Tensor, noise: torch.Generator) -> Tensor:
            draws = torch.randn(len(batch), latent, generator=noise, device=inputs.device)
            return pulled_loss(net, before, inputs[batch], draws, float(self.pull), prior)

        return self._train(net, len(inputs), seed, loss, "or look for extreme values in X")

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"net.{key}": value for key, value in self._net.state_dict().items()}
        if self._before is not None:
            tensors |= {f"before.{key}": value for key, value in self._before.state_dict().items()}
        if self._standardizer is not None:
            tensors |= {
                f"standardizer.{k}": torch.from_numpy(getattr(self._standardizer, k)) for k in ("mean", "scale")
            }
        return tensors, {"net": self._net.sizes, "likelihood": self.likelihood_, "t": self.t_}

    def _restore(
        self, tensors: Mapping[str, Tensor], meta: Mapping[str, Any], shape: tuple[int, ...], device: torch.device
    ) -> None:
        def part(prefix: str) -> dict[str, Tensor]:
            return {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}

        first = next(v for k, v in part("net.encoder.").items() if k.endswith("weight"))
        noise = _positive(self.noise, "noise")
        net = filled(
            lambda: VAE(first.shape[1], likelihood=meta["likelihood"], noise=noise, **meta["net"]), part("net.")
        )
        before = None
        if part("before."):
            before = copy.deepcopy(net.encoder)
            before.load_state_dict(part("before."))
        scales = {key: value.numpy() for key, value in part("standardizer.").items()}
        inputs = {math.prod(shape), first.shape[1], *(value.size for value in scales.values())}
        if len(inputs) > 1 or any(value.ndim != 1 for value in scales.values()) or meta["t"] != int(meta["t"]):
            raise ValueError(f"rows of {' and '.join(map(str, sorted(inputs)))} numbers, at time {meta['t']!r}")
        self._standardizer = plain_standardizer(**scales) if scales else None
        self._net, self._before = net.to(device).eval(), None if before is None else before.to(device).eval()
        self._device, self.likelihood_, self.t_ = device, meta["likelihood"], meta["t"]


def _inputs(rows: Tensor, standardizer: Standardizer | None) -> Tensor:
    return (rows if standardizer is None else torch.from_numpy(standardizer(rows.numpy()))).float()


def _positive(value: Any, name: str) -> float:
    if not isinstance(value, int | float | np.number) or not 0.0 < value < np.inf:
        raise ValueError(f"{name}={value!r} must be a positive number")
    return float(value)


def _check_unit(rows: Tensor, advice: str) -> None:
    low, high = (float(rows.min()), float(rows.max())) if rows.numel() else (0.0, 0.0)
    if low < 0.0 or high > 1.0:
        raise ValueError(f"X holds values from {low + 0.0:.4g} to {high + 0.0:.4g}; {advice}")
