"""The models that VSAE is compared with, one file a paper, on the same networks, likelihoods and trainer, by name.

A new one is a file beside these and a line in `METHODS`; `base.Baseline` says what it has to give.
`vsae.fitting.baseline` fits them, and `VSAEImputer(method=…)` takes their names. No model is imported before it is
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vsae.baselines.base import Baseline


class Method(NamedTuple):
    """Where a model is, and what its paper calls it."""

    label: str
    module: str
    model: str

    def load(self) -> type[Baseline]:
        found: type[Baseline] = getattr(import_module(f"{__name__}.{self.module}"), self.model)
        return found


METHODS: dict[str, Method] = {
    "ae": Method("AE", "autoencoder", "Autoencoder"),
    "vae": Method("VAE", "vae", "VAE"),
    "cvae": Method("CVAE", "cvae", "CVAE"),
    "mvae": Method("MVAE", "mvae", "MVAE"),
    "hivae": Method("HI-VAE", "hivae", "HIVAE"),
    "miwae": Method("MIWAE", "miwae", "MIWAE"),
    "notmiwae": Method("not-MIWAE", "notmiwae", "NotMIWAE"),
    "notmiwae-known": Method("not-MIWAE known", "notmiwae", "KnownNotMIWAE"),
    "notmiwae-linear": Method("not-MIWAE linear", "notmiwae", "LinearNotMIWAE"),
    "notmiwae-neural": Method("not-MIWAE neural", "notmiwae", "NeuralNotMIWAE"),
    "vaeac": Method("VAEAC", "vaeac", "VAEAC"),
    "partialvae": Method("Partial VAE", "partialvae", "PartialVAE"),
    "gain": Method("GAIN", "gain", "GAIN"),
    "misgan": Method("MisGAN", "misgan", "MisGAN"),
    "remasker": Method("ReMasker", "remasker", "ReMasker"),
    "tabcsdi": Method("TabCSDI", "tabcsdi", "TabCSDI"),
}


def method_named(name: str) -> Method:
    """
    >>> method_named("miwae").load()
    <class 'vsae.baselines.miwae.MIWAE'>
    """
    if name not in METHODS:
        raise ValueError(f"there is no method {name!r}; there are vsae, {', '.join(METHODS)}")
    return METHODS[name]


def name_of(model: type[Baseline]) -> str:
    """
    >>> name_of(method_named("hivae").load())
    'hivae'
    """
    place = model.__module__.rpartition(".")[2], model.__name__
    return next(name for name, method in METHODS.items() if (method.module, method.model) == place)


class _ByLabel(Mapping[str, "type[Baseline]"]):
    """The models by the names that papers give them."""

    def __init__(self) -> None:
        self._methods = {method.label: method for method in METHODS.values()}

    def __getitem__(self, label: str) -> type[Baseline]:
        return self._methods[label].load()

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)


BASELINES: Mapping[str, type[Baseline]] = _ByLabel()

__all__ = ["BASELINES", "METHODS", "Method", "method_named", "name_of"]
