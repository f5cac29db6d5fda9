"""A small convolutional network that reads digits: the judge of whether an image shows the right one.

Trained here, on MNIST's training images moved by up to two pixels, and kept in the user's cache; it reads more than
99 % of the test images right.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from vsae.data.randomness import private_rng
from vsae.datasets import load_images
from vsae.datasets.places import cache
from vsae.storage import checkpoint
from vsae.training.optimiser import AdamW

EPOCHS = 6
_BATCH, _RATE, _DECAY = 256, 2e-3, 0.01
_FARTHEST = 2  # pixels that an image is moved by
_PURPOSE, _FILE = "digit classifier", "digit-classifier.safetensors"
_AT_ONCE = 2000  # images


class DigitClassifier(nn.Module):
    """(n, 1, 28, 28) in [0, 1] → logits of the ten digits, (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.joint, self.last = nn.Linear(64 * 49, 128), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = F.max_pool2d(F.relu(self.near(x)), 2)
        h = F.max_pool2d(F.relu(self.far(h)), 2)
        logits: Tensor = self.last(F.relu(self.joint(h.flatten(1))))
        return logits

    @torch.no_grad()
    def predict(self, images: NDArray[np.floating] | NDArray[np.uint8]) -> NDArray[np.int64]:
        """Images in [0, 1] or as bytes, (n, 1, 28, 28) or (n, 28, 28) → digits, (n,)."""
        x = images.reshape(-1, 1, 28, 28).astype(np.float32) / (255 if images.dtype == np.uint8 else 1)
        device = self.last.weight.device
        parts = [self(torch.from_numpy(x[i : i + _AT_ONCE]).to(device)).argmax(1) for i in range(0, len(x), _AT_ONCE)]
        return torch.cat(parts).cpu().numpy() if parts else np.zeros(0, dtype=np.int64)


def digit_classifier(device: torch.device | str = "cpu", path: Path | None = None) -> tuple[DigitClassifier, float]:
    """The judge, and its accuracy on the test images; trained if it is not there yet."""
    path = path or cache() / _FILE
    device = torch.device(device)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        model, accuracy = train_classifier(device)
        checkpoint.write(path, _PURPOSE, model.state_dict(), {"accuracy": accuracy})
    weights, content = checkpoint.read(path, _PURPOSE)
    model = DigitClassifier()
    model.load_state_dict(weights)
    return model.to(device).eval(), float(content["accuracy"])


def train_classifier(device: torch.device, epochs: int = EPOCHS) -> tuple[DigitClassifier, float]:
    images, labels = load_images("mnist", "train")
    x = F.pad(torch.from_numpy(images.copy()), [_FARTHEST] * 4).to(device)
    y = torch.from_numpy(labels).to(device)
    with private_rng(0, device):
        model = DigitClassifier().to(device)
        optimiser, step = AdamW(model.parameters(), _DECAY), 0
        steps = epochs * math.ceil(len(x) / _BATCH)
        for _ in range(epochs):
            for rows in torch.randperm(len(x), device=device).split(_BATCH):
                gradient = optimiser.gradient(F.cross_entropy(model(_moved(x[rows])), y[rows]))
                optimiser.step(gradient, _RATE * 0.5 * (1 + math.cos(math.pi * step / steps)))
                step += 1
    images, labels = load_images("mnist", "test")
    return model, float((model.eval().predict(images) == labels).mean())


def _moved(x: Tensor) -> Tensor:
    """Padded images (B, H, W) as bytes → cut out at a place that is drawn for the batch, in [0, 1]."""
    down, right = torch.randint(2 * _FARTHEST + 1, (2,)).tolist()
    height, width = (side - 2 * _FARTHEST for side in x.shape[1:])
    return x[:, None, down : down + height, right : right + width].float() / 255
