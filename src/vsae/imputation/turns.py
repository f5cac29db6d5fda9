"""In which turn an attribute is drawn: one after the other, or, where there are many, those together that hardly depend
on each other."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.schema import DISCRETE, Schema

MOST_TURNS = 32  # each is one pass of the networks over the rows that miss something: bounds the cost of wide tables
_MOST_ROWS = 2000  # that dependence is read off: a correlation of .1 stands out of chance


def turns_of(schema: Schema, data: Batch) -> NDArray[np.int64]:
    """(M,), from a data set (n, …): attributes that are seldom missing come first, as most is observed beside them.

    >>> from vsae.data.schema import real
    >>> mask = torch.tensor([[True, True], [False, True]])
    >>> turns_of(Schema([real("a"), real("b")]), Batch({"gaussian": torch.zeros(2, 2)}, mask))
    array([1, 0])
    """
    order = torch.argsort(1 - data.mask.double().mean(0), stable=True).tolist()
    turns = np.zeros(len(schema), dtype=np.int64)
    if len(schema) <= MOST_TURNS:
        turns[order] = np.arange(len(schema))
        return turns
    strength, room = _association(schema, data), -(-len(schema) // MOST_TURNS)
    load, together = np.zeros(MOST_TURNS), np.zeros((len(schema), MOST_TURNS))  # Σ r² with those of each turn
    for i in order:
        turn = int(np.argmin(np.where(load < room, together[i], np.inf)))
        turns[i], load[turn] = turn, load[turn] + 1
        together[:, turn] += strength[:, i]
    return turns


def _association(schema: Schema, data: Batch) -> NDArray[np.float64]:
    """r² of every two attributes, (M, M), each read as one number: levels by a random number each, vectors by a sum."""
    some = data.take(torch.linspace(0, data.rows - 1, min(data.rows, _MOST_ROWS), device=data.mask.device).long())
    mask = some.mask.float()
    x = torch.zeros_like(mask)
    rng = torch.Generator().manual_seed(0)
    for block in schema.blocks:
        if block.family in DISCRETE:
            number = torch.randn(len(block), max(block.sizes), generator=rng).to(mask)
            values = number[torch.arange(len(block), device=mask.device), some.values[block.name]]
        elif block in schema.number_blocks:
            values = some.numbers([block]).clamp(-3.0, 3.0)
        else:
            values = some.values[block.name].flatten(2).sum(-1)
        x[:, list(block.attributes)] = values
    x = _standardised(x, mask)
    pairs = mask.T @ mask
    return ((x.T @ x) / pairs.clamp_min(1)).square().double().cpu().numpy()


def _standardised(x: Tensor, mask: Tensor) -> Tensor:
    """Over what is observed; 0 elsewhere."""
    count = mask.sum(0).clamp_min(1)
    x = (x - (x * mask).sum(0) / count) * mask
    return x / ((x**2).sum(0) / count).sqrt().clamp_min(1e-6)
