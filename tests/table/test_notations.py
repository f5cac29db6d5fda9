"""Numbers and dates that a table holds as text: read as what `schema` says, and written back in the same form."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from vsae.files import read_table
from vsae.table import Date, Table, TableError, spec_from_json
from vsae.table.notations import Decimal
from vsae.table.stamps import Stamp, notation_from_json, notation_to_json

pd = pytest.importorskip("pandas")

AMOUNTS = ["$1,250.00", "$980.50", None, "$12,000.25", "n/a", "$2.00"]


def decoded(X, schema, x, **options):
    """The table with its missing cells filled from x, by way of a saved plan."""
    table = Table.from_json(Table.fit(X, schema=schema, **options).to_json())
    encoded = table.encode(X)
    return encoded, table.decode(X, {plan.name: np.asarray(x, dtype=float) for plan in table.modelled})


@pytest.mark.parametrize("dtype", ["object", "str", "string"])
def test_text_is_taken_for_numbers_where_the_schema_says_so(dtype):
    X = pd.DataFrame({"amount": pd.Series(AMOUNTS, dtype=dtype)})
    encoded, filled = decoded(X, {"amount": "real"}, [0, 0, 1234.567, 0, 3.0, 0])
    assert encoded.mask[:, 0].tolist() == [True, True, False, True, False, True]
    assert encoded.columns["amount"][[0, 1, 3]].tolist() == [1250.0, 980.5, 12000.25]
    assert filled["amount"].tolist() == ["$1,250.00", "$980.50", "$1,234.57", "$12,000.25", "$3.00", "$2.00"]
    assert filled["amount"].dtype == X["amount"].dtype


def test_text_is_taken_for_dates_in_the_order_that_the_schema_says():
    X = {"when": np.array(["03/04/2024", None, "05/06/2024"], dtype=object)}
    day = 19_000.0
    for spec, first in ((Date(format="%d/%m/%Y"), dt.date(2024, 4, 3)), ("date", dt.date(2024, 3, 4))):
        encoded, filled = decoded(X, {"when": spec}, [day] * 3)
        assert encoded.columns["when"][0] == (first - dt.date(1970, 1, 1)).days
        assert filled["when"].tolist() == ["03/04/2024", "08/01/2022" if first.day == 3 else "01/08/2022", "05/06/2024"]
    assert spec_from_json("when", {"kind": "date", "format": "%d/%m/%Y"}) == Date(format="%d/%m/%Y")
    times = {"at": np.array(["08:47", "23:10", None], dtype=object)}
    _, filled = decoded(times, {"at": "time"}, [0, 0, 61.0])
    assert filled["at"].tolist() == ["08:47", "23:10", "01:01"]


def test_what_is_not_written_like_the_others_is_named_and_kept():
    X = {"x": np.array(["1.5 kg", "2.5 kg", None], dtype=object)}
    with pytest.raises(TableError, match="column 'x' holds text such as 'heavy', real takes numbers"):
        Table.fit({"x": np.array(["1.5 kg", "heavy"], dtype=object)}, schema={"x": "real"})
    table = Table.fit(X, schema={"x": "real"})
    new = {"x": np.array(["9 lbs", "3 kg", None], dtype=object)}
    with pytest.warns(UserWarning, match="'9 lbs' is not written like the other numbers"):
        encoded = table.encode(new)
    assert encoded.mask[:, 0].tolist() == [False, True, False]
    assert table.decode(new, {"x": np.full(3, 4.0)})["x"].tolist() == ["9 lbs", "3 kg", "4.0 kg"]


def test_words_among_numbers_are_missing_in_a_frame_too():
    X = pd.DataFrame({"x": pd.Series([1.5, "N/A", 2.5, "-", 3.5], dtype=object)})
    encoded, filled = decoded(X, None, [9.0] * 5)
    assert encoded.mask[:, 0].tolist() == [True, False, True, False, True]
    assert filled["x"].tolist() == [1.5, 9.0, 2.5, 9.0, 3.5]


def test_kinds_say_how_a_file_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when,size\n20240131,10 cm\n20231130,20 cm\n")
    assert read_table(path).data["when"].dtype.kind == "M"
    assert read_table(path).data["size"].dtype.kind == "f"
    kinds = {"when": spec_from_json("when", "integer"), "size": spec_from_json("size", "categorical")}
    data = read_table(path, kinds=kinds).data
    assert data["when"].tolist() == [20240131, 20231130]
    assert data["size"].tolist() == ["10 cm", "20 cm"]


def test_missing_codes_of_all_columns():
    X = {"a": np.array([1, -999, 3, 4]), "b": np.array(["x", "-999", "y", "x"], dtype=object)}
    for codes in (-999, [-999], {None: -999}):
        assert [plan.missing for plan in Table.fit(X, missing_values=codes).plans] == [0.25, 0.25]


@pytest.mark.parametrize(
    "notation", [Decimal.affixed(["(€1.408,33)"]), Stamp.of(["3/4/2024 8:05 PM"]), Stamp.of(["07-NOV-24"])]
)
def test_a_notation_is_saved(notation):
    assert notation_from_json(notation_to_json(notation)) == notation


def test_years_of_two_digits_stay_in_the_century_that_they_can_say():
    notation = Stamp.of(["12/31/24", "01/02/70"])
    assert notation.parse(["01/02/70"])[0] == np.datetime64("1970-01-02")
    assert notation.write(np.array(["1950-05-06"], dtype="M8[D]")) == ["01/01/69"]
