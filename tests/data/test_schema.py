"""What a variable knows of itself is found once, and belongs to that variable alone."""

from __future__ import annotations

import pickle
from dataclasses import replace

from vsae.data.schema import Family, Kind, Variable


def test_what_was_found_of_a_variable_does_not_outlive_a_change_of_it():
    plain = Variable("x", Kind.REAL)
    assert (plain.family, plain.event, plain.entries) == (Family.GAUSSIAN, (), 1)
    assert replace(plain, min=0.0).family is Family.INTERVAL
    vector = replace(plain, kind=Kind.VECTOR, size=3)
    assert (vector.event, vector.entries) == ((3,), 3)
    assert pickle.loads(pickle.dumps(plain)) == plain == Variable("x", Kind.REAL)
    assert hash(plain) == hash(Variable("x", Kind.REAL))
