"""What a notebook shows is text, whatever the names and values of a table are."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn

from vsae import VSAEImputer, pool

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def imputer() -> VSAEImputer:
    levels = np.array(["<img src=x>", "x"] * 25, dtype=object)
    table = {HOSTILE: np.r_[np.nan, np.arange(49.0)], "level": levels}
    imputer = VSAEImputer(schema={HOSTILE: "real"}, config={"steps": 5, "trees": 0}, random_state=0)
    return imputer.fit(table)


def test_the_imputer_shows_its_parameters_and_then_its_columns(imputer):
    unfitted = VSAEImputer(schema={HOSTILE: "real"})
    bundle = imputer._repr_mimebundle_()
    for shown in (unfitted._repr_html_(), imputer._repr_html_(), bundle["text/html"]):
        assert HOSTILE not in shown
        assert "<img" not in shown
        assert "&lt;script&gt;" in shown
    assert imputer.schema_._repr_html_() in bundle["text/html"]
    assert "<td>" + "2 levels: &lt;img src=x&gt;, x" + "</td>" in bundle["text/html"]
    with sklearn.config_context(display="text"):
        assert list(imputer._repr_mimebundle_()) == ["text/plain"]


def test_the_schema_is_a_row_a_column(imputer):
    shown = imputer.schema_._repr_html_()
    assert shown.count("<tr>") == 1 + 2
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>real</td>" in shown
    assert "<script" not in shown


def test_a_pooled_table_shows_its_terms():
    tidy = [{"term": [HOSTILE], "estimate": [b], "std.error": [1.0]} for b in (1.0, 2.0, 3.0)]
    shown = pool(tidy)._repr_html_()
    assert "<script" not in shown
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td><td>2</td>" in shown
    assert "von Hippel" in shown
