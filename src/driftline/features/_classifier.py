"""ClassifierFeatures: the last hidden layer of a small convolutional classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from driftline._inputs import Floats, resolve_seed
from driftline.features._base import FeatureNetwork, check_widths
from driftline.features._modules import ConvNet, filled
from driftline.fitting import Progress, Training, resolve_device, seeded

__all__ = ["ClassifierFeatures"]

_CHANNELS = (64, 128)
_LABELS = 10**7  # bytes of all labels, at most


class ClassifierFeatures(FeatureNetwork):
    """Activations of a classifier's last hidden layer, for data with labels.

    The paper's network: convolutions 4x4 of stride 2 with 64 and 128 channels, a dense layer of 64, a linear head;
    batch normalisation on the second convolution and the first dense layer. The paper says "two dense layers with 6272
    and 64 hidden units"; we read 6272 as the output of the second convolution (7 x 7 x 128 for 28 x 28 pixels), since a
    dense layer of that size after it would hold 39 million weights. ``dense=(6272, 64)`` is the literal reading.

    Arguments:
        width: factor on the channels of both convolutions.
        dense: widths of the dense ReLU layers; the last is the number of features.
        training: settings of the mini-batch loop; ``weight_decay`` is the paper's L2 regularisation.
        device: "cpu", "cuda" or "auto".
        random_state: random seed; None for a fresh one in each fit.
        progress: called as ``progress(epoch, epochs, loss, held_out)``, with losses in nats per row.

    Attributes:
        classes_: distinct labels, sorted.
        shape_in_: shape of one image.
        info_: diagnostics of the training, a :class:`~driftline.fitting.FitInfo`; not saved.

    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits()
    >>> net = ClassifierFeatures(width=0.125, training=Training(epochs=5, batch=64), random_state=0)
    >>> net.fit(digits.images, digits.target).transform(digits.images).shape
    (1797, 64)
    >>> net.score(digits.images, digits.target) > 0.8
    True
    """

    _default_training = Training(epochs=15, min_epochs=10, patience=5, batch=64)
    _net: ConvNet

    def __init__(
        self,
        *,
        width: float = 1.0,
        dense: Sequence[int] = (64,),
        training: Training | None = None,
        device: str = "auto",
        random_state: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.width = width
        self.dense = dense
        self.training = training
        self.device = device
        self.random_state = random_state
        self.progress = progress

    def fit(self, X: Any, y: Any) -> Self:
        """Train on images (n, h, w) or (n, c, h, w) and their labels (n,), forgetting anything learned before."""
        seed, device = resolve_seed(self.random_state), resolve_device(self.device)
        rows, shape, names = self._first(X)
        images = _images(rows, shape)
        classes, labels = np.unique(_labels(y, len(rows)), return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"y holds one class only ({classes[0]!r}): at least two are needed")
        # each channel is scaled by the images seen here, so that values from 0 to 1 and 0 to 255 train alike
        center = images.mean((0, 2, 3), keepdim=True)[0]
        scale = images.std((0, 2, 3), keepdim=True, correction=0)[0]
        scale = torch.where(scale > 1e-12 * center.abs(), scale, 1.0)
        inputs = ((images - center) / scale).float().to(device)
        targets = torch.from_numpy(labels.astype(np.int64)).to(device)
        with seeded(seed, device):
            net = ConvNet(tuple(images.shape[1:]), classes=len(classes), **self._architecture()).to(device)

        def loss(batch: Tensor, noise: torch.Generator) -> Tensor:
            return cross_entropy(net(inputs[batch]), targets[batch])

        info = self._train(net, len(inputs), seed, loss, "or look for extreme values in X")
        self._net, self._center, self._scale, self._device = net, center, scale, device
        self.classes_, self.info_ = classes, info
        self._remember(shape, names, seed)
        return self

    def transform(self, X: Any) -> Floats:
        """Return features (n, dense[-1]) of images (n, ...) of the shape that was fitted."""
        inputs = self._inputs(X)
        return self._in_batches(self._net.hidden, inputs, self._device)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most likely label of each image, (n,)."""
        inputs = self._inputs(X)
        found: npt.NDArray[Any] = self.classes_[self._in_batches(self._net, inputs, self._device).argmax(1)]
        return found

    def score(self, X: Any, y: Any) -> float:
        """Return the share of images whose label is predicted correctly."""
        found = self.predict(X)
        return float((found == _labels(y, len(found))).mean())

    def _inputs(self, X: Any) -> Tensor:
        rows = self._flat(X)
        return ((_images(rows, self.shape_in_) - self._center) / self._scale).float()

    def _architecture(self) -> dict[str, Any]:
        if not isinstance(self.width, int | float | np.number) or not 0.0 < self.width < np.inf:
            raise ValueError(f"width={self.width!r} must be a positive factor")
        channels = tuple(max(1, round(c * self.width)) for c in _CHANNELS)
        return {"channels": channels, "dense": check_widths(self.dense, "dense")}

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        net = self._net
        tensors = {f"net.{key}": value for key, value in net.state_dict().items()}
        tensors |= {"center": self._center, "scale": self._scale}
        sizes = {
            "shape": list(_image_shape(self.shape_in_)),
            "classes": len(self.classes_),
            "channels": [net.first.out_channels, net.second.out_channels],
            "dense": [layer.out_features for layer in net.dense],
        }
        return tensors, {"net": sizes, "classes": self.classes_.tolist(), "labels": str(self.classes_.dtype)}

    def _restore(
        self, tensors: Mapping[str, Tensor], meta: Mapping[str, Any], shape: tuple[int, ...], device: torch.device
    ) -> None:
        weights = {key[4:]: value for key, value in tensors.items() if key.startswith("net.")}
        net = filled(lambda: ConvNet(**meta["net"]), weights)
        self._net, self._device = net.to(device).eval(), device
        self._center, self._scale = tensors["center"], tensors["scale"]
        if {tuple(self._center.shape), tuple(self._scale.shape)} != {(net.first.in_channels, 1, 1)}:
            raise ValueError(f"images are centred by {tuple(self._center.shape)} numbers")
        classes, kind = meta["classes"], np.dtype(meta["labels"])
        if len(classes) != net.head.out_features or kind.itemsize * len(classes) > _LABELS:
            raise ValueError(f"{len(classes)} labels of type {kind} for {net.head.out_features} classes")
        if list(_image_shape(shape)) != meta["net"]["shape"]:
            raise ValueError(f"images of shape {shape}, a network for {meta['net']['shape']}")
        self.classes_ = np.asarray(classes, dtype=kind)


def _image_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    full = (1, *shape) if len(shape) == 2 else shape
    if len(full) != 3 or min(full[1:]) < 4:
        raise ValueError(f"X has rows of shape {shape}: images (h, w) or (c, h, w) of at least 4 x 4 are needed")
    return full


def _images(rows: Tensor, shape: tuple[int, ...]) -> Tensor:
    return rows.reshape(-1, *_image_shape(shape))


def _labels(y: Any, rows: int) -> npt.NDArray[Any]:
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise ValueError(f"y has shape {labels.shape}: one label for each of the {rows} rows is needed")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(f"y holds {int((~np.isfinite(labels)).sum())} labels that are NaN or infinite")
    return labels
