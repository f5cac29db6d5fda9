"""Two checkouts are compared by hashes: the same fit has the same ones, another fit has others."""

import numpy as np
import pytest

from benchmarks import fingerprint
from benchmarks.__main__ import main
from vsae import VSAEConfig
from vsae.datasets import make_clinic


def modalities(epochs: int) -> dict[str, str]:
    config = VSAEConfig.paper(epochs=epochs, e_step_samples=0, latent_dim=2)
    return {name: fingerprint.sha256(x) for name, x in fingerprint.of_modalities(config)}


def test_the_same_fit_has_the_same_hashes_and_another_has_others():
    first, again, longer = (modalities(epochs) for epochs in (1, 1, 2))
    assert first == again
    assert first.keys() == longer.keys()
    assert first["impute pic"] != longer["impute pic"]
    assert {name.split()[0] for name in first} == {"mask", "impute", "generate", "draw"}


def test_all_that_an_imputer_gives_is_there():
    pytest.importorskip("pandas")
    frame = make_clinic(60).frame()
    found = dict(fingerprint.of_table(frame, config={"steps": 2}))
    assert found["impute"].shape == frame.T.shape
    assert found["draw"].shape == (5 * frame.shape[1], 60)
    assert {"interval", "sample", "sample given", "embed", "missing probability"} <= set(found)


def test_hashes_are_printed_and_outputs_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fingerprint, "outputs", lambda: iter([("a/b", np.ones(3)), ("c", np.array(["x"]))]))
    assert main(["fingerprint", "--out", str(tmp_path / "kept.npz")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{fingerprint.sha256(np.ones(3))}  a/b"
    with np.load(tmp_path / "kept.npz") as kept:
        assert sorted(kept) == ["a/b", "c"]
