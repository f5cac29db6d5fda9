"""Part `models`: half of them damaged, half forged with a right checksum. Each is refused in one line, or works."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.attack.forge import damaged, forge
from benchmarks.attack.outcomes import Outcomes, one_line, table
from vsae import VSAEImputer, load
from vsae.storage.checkpoint import FileFormatError


def attack(count: int, seed: int, folder: Path) -> Outcomes:
    rng, out = np.random.default_rng(seed), Outcomes(worst_seconds=5.0)
    rows, changed = table(80, seed), folder / "changed.vsae"
    models = [folder / "model.vsae", folder / "groups.vsae"]
    plain = VSAEImputer(effort="fast", config={"steps": 30}, random_state=0)
    for model, imputer in zip(models, (plain, clone(plain).set_params(groups="town", order="when")), strict=True):
        imputer.fit(rows).save(model)
    few = {name: column[:6] for name, column in rows.items()}
    if any(outcome(model, few) != "works" for model in models):
        raise RuntimeError("there is no model to attack")
    for i in range(count):
        model = models[i % 6 == 5]  # a third of those that are forged
        if i % 2:
            said = forge(model, changed, rng)
        else:
            said = "damaged"
            changed.write_bytes(damaged(model.read_bytes(), rng))
        out.run(f"model {i}: {said}", lambda: outcome(changed, few))
    return out


def outcome(path: Path, rows: dict[str, Any]) -> str:
    """ "refused" or "works"; anything else that is raised is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            imputer = load(path)
        except FileFormatError as error:
            return one_line(error, "refused")
        works(imputer, rows)
    return "works"


def works(imputer: VSAEImputer, rows: dict[str, Any]) -> None:
    """All that the command line does with a model."""
    filled = imputer.transform(rows)
    imputer.draw(rows, 2)
    imputer.sample(3, with_missing=True)
    imputer.sample(3, container="dict")
    imputer.predict_proba(rows)
    imputer.predict_interval(rows)
    imputer.score_samples(rows)
    imputer.distance_to_closest(imputer.sample(3, container="dict"), rows)
    imputer.schema_.describe()
    str(imputer.fitted_.history.records[-1]["step"]), f"{imputer.fitted_.history.seconds:.0f}"
    known = {plan.label for plan in imputer.schema_.plans}
    for name in rows:
        seen = [value == value and value is not None for value in rows[name].tolist()]
        kept = [a == b for a, b, c in zip(filled[name].tolist(), rows[name].tolist(), seen, strict=True) if c]
        assert all(kept), f"column {name}: an observed cell was changed"
        if name in known and name != imputer.groups:  # others are named in a warning
            assert all(x == x and x is not None for x in filled[name].tolist()), f"column {name}: a cell is empty"
