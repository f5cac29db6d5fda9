"""Known cells to hide and to score, chosen as the table's own pattern hides cells.

The mask of a row that misses cells, the donor, is laid over another row, the recipient, and hides what is known there.
Of several recipients, the one that knows most of what the donor knows is taken, and it is left with as many cells as
the donor has: so its mask is the donor's own, or much like it, and a hidden cell is as hard to predict as one that is
missing. Columns that miss cells together are hidden together. What the pattern does not yield, as in columns that
hardly miss a cell, is hidden at random.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]
_RARELY = 0.02  # columns that miss a smaller share of their cells are hidden at random
_TOGETHER = 0.9  # columns miss cells together if both do in that share of the rows where either does
_CROWDED = 2.0  # times the share asked for, at most, is hidden of a row at random
_CANDIDATES = 32  # recipients that a donor chooses from
_ROUNDS = 20  # at most; a round fills most of what is left


def hidden_cells(
    known: Bools, missing: Bools, share: float, rng: np.random.Generator, *, used: Bools | None = None
) -> Bools:
    """The cells to hide, (n, M): about `share` of the known cells of each column, and none that was `used` before.

    `missing` cells make the pattern; a cell may be neither known nor missing, where a column does not apply.

    >>> missing = np.tile([[False, True, True], [False, False, False]], (50, 1))  # the last two miss together
    >>> hidden = hidden_cells(~missing, missing, 0.2, np.random.default_rng(0))
    >>> hidden.sum(axis=0), bool((hidden[:, 1] == hidden[:, 2]).all())
    (array([20, 10, 10]), True)
    """
    free = known if used is None else known & ~used
    quota = np.ceil(share * known.sum(axis=0)).astype(np.int64)  # (M,)
    pattern = missing & (missing.mean(axis=0) >= _RARELY)
    block = _blocks(pattern)
    hidden = _by_donors(known, free, pattern, block, quota, rng)
    short, key = quota - hidden.sum(axis=0), rng.random(known.shape)[:, block]
    rest = free & ~hidden.any(axis=1, keepdims=True) & (short > 0) & (key < _CROWDED * share)
    return hidden | _some(rest, short[None], key, axis=0)


def _by_donors(
    known: Bools, free: Bools, missing: Bools, block: Integers, quota: Integers, rng: np.random.Generator
) -> Bools:
    hidden = np.zeros(known.shape, dtype=np.bool_)
    for _ in range(_ROUNDS):
        short = hidden.sum(axis=0) < quota  # (M,)
        donors = np.flatnonzero((missing & short).any(axis=1))
        recipients = np.flatnonzero((free & short).any(axis=1) & ~hidden.any(axis=1))
        if not len(donors) or not len(recipients):
            break
        donor = rng.choice(donors, len(recipients))
        recipient = _recipients(known, free, missing, donor, recipients, rng)
        taken = np.unique(recipient, return_index=True)[1]
        taken = rng.permutation(taken[recipient[taken] >= 0])
        donor, recipient = donor[taken], recipient[taken]
        excess = known[recipient].sum(axis=1) - known[donor].sum(axis=1)
        cells = _some(
            missing[donor] & free[recipient], excess[:, None], rng.random(free[taken].shape)[:, block], axis=1
        )
        fits = (~cells | (np.cumsum(cells, axis=0) <= quota - hidden.sum(axis=0))).all(axis=1)
        hidden[recipient[fits]] = cells[fits]
    return hidden


def _recipients(
    known: Bools, free: Bools, missing: Bools, donor: Integers, among: Integers, rng: np.random.Generator
) -> Integers:
    """For each donor the row, of some that know more, that lacks fewest of the cells it knows; -1 if there is none."""
    best, fewest = np.full(len(donor), -1), np.full(len(donor), known.shape[1] + 1)
    count = known.sum(axis=1)
    for _ in range(_CANDIDATES):
        row = rng.choice(among, len(donor))
        lacks = (known[donor] & ~known[row]).sum(axis=1)
        useful = (missing[donor] & free[row]).any(axis=1) & (count[row] > count[donor])
        better = useful & (lacks < fewest)
        best, fewest = np.where(better, row, best), np.where(better, lacks, fewest)
    return best


def _blocks(missing: Bools) -> Integers:
    """For each column the first of those that miss cells together with it, (M,)."""
    counts = missing.astype(np.float32)
    both = counts.T @ counts
    either = both.diagonal()[:, None] + both.diagonal() - both
    together = (both >= _TOGETHER * either) & (both > 0)
    np.fill_diagonal(together, True)
    return together.argmax(axis=0)


def _some(cells: Bools, number: Integers, key: NDArray[np.float64], *, axis: int) -> Bools:
    """The `number` cells along an axis with the smallest keys, and those with the same key as the last."""
    key = np.where(cells, key, np.inf)
    last = np.clip(number - 1, 0, key.shape[axis] - 1)
    return cells & (key <= np.take_along_axis(np.sort(key, axis=axis), last, axis=axis))
