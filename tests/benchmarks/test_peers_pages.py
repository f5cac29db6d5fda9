"""The benchmark's page says what its rows say; the rows here are made up so that every number is known."""

import sys
from pathlib import Path

import pytest

from benchmarks import tables
from benchmarks.peers import cells, pages
from benchmarks.peers.jobs import BENCHMARK, LONG
from benchmarks.peers.seconds import points_of

ROOT = Path(__file__).parents[2]
YEAST, CONCRETE, MUSHROOM = (
    cells.Cell("yeast", "mcar", 0.5, "in_sample", "nrmse"),
    cells.Cell("concrete", "mcar", 0.5, "in_sample", "nrmse"),
    cells.Cell("mushroom", "mcar", 0.5, "in_sample", "pfc"),
)
TRIVIAL = {"yeast": 1.0, "concrete": 1.0, "mushroom": 0.5}
ERRORS = {
    "mean/mode": TRIVIAL,
    "knn": {"yeast": 1.1, "concrete": 0.6, "mushroom": 0.4},
    "vsae": {"yeast": 0.8, "concrete": 0.66, "mushroom": 0.2},
}


def row(table, seed, method, **changes):
    measure = "pfc" if table == "mushroom" else "nrmse"
    error = ERRORS[method][table] + (0.01 if seed == 11 else -0.01) * (method != "mean/mode")
    scores = {measure: error, f"{measure}_trivial": TRIVIAL[table]}
    return {
        "table": table, "mechanism": "mcar", "rate": 0.5, "seed": seed, "method": method, "status": "ok", "error": None,
        "in_sample": scores, "new_rows": None if method == "knn" else scores, "seconds": 2.0, "seconds_new": 0.1,
        "memory_mb": 100.0, "rows": 1000, "columns": 8, "version": f"{method} 1", "threads": 1, "limit": 300.0,
        "machine": "a machine",
    } | changes  # fmt: skip


def failed(status, **changes):
    return {"status": status, "in_sample": None, "new_rows": None, "seconds": None, "version": None} | changes


@pytest.fixture
def rows():
    return {(t, s, m): row(t, s, m) for t in TRIVIAL for s in (11, 12) for m in ERRORS}


@pytest.fixture
def written(tmp_path):
    def write(rows):
        BENCHMARK.store(tmp_path).add(*rows.values())
        return tmp_path

    return write


def lines(text, *starts):
    """The cells of the first line of a table that begins with these."""
    begin = "| " + " | ".join(starts) + " |"
    line = next(line for line in text.splitlines() if line.startswith(begin))
    return [cell.strip() for cell in line.removeprefix(begin).strip("|").split("|")]


def section(text, title):
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_errors_are_means_over_seeds_and_ratios_are_to_the_best_peer(rows):
    board = cells.board(rows.values())
    assert board.errors[YEAST] == pytest.approx({"mean/mode": 1.0, "knn": 1.1, "vsae": 0.8})
    assert [board.best_peer(c) for c in (YEAST, CONCRETE, MUSHROOM)] == ["mean/mode", "knn", "knn"]
    ratios = [board.to_best_peer("vsae", c) for c in (YEAST, CONCRETE, MUSHROOM)]
    assert ratios == pytest.approx([0.8, 1.1, 0.5])
    assert board.to_trivial("knn", YEAST) == pytest.approx(1.1)


def test_headline(rows, written):
    text = section(pages.page(written(rows)), "Headline")
    # in sample 0.8, 1.1, 0.5; on new rows, where knn does not answer, 0.8, 0.66, 0.4 of mean/mode
    assert lines(text, "MCAR and MAR", "vsae") == ["6", "0.673", "5 (83%)", "0.800"]
    assert lines(text, "MCAR and MAR, in sample", "vsae") == ["3", "0.761", "2 (67%)", "0.800"]
    assert lines(text, "MCAR and MAR, new rows", "vsae") == ["3", "0.596", "3 (100%)", "0.800"]
    assert "| NMAR |" not in text
    assert "vsae-best" not in text


def test_other_efforts_are_not_peers(rows):
    better = {(t, s, "vsae-best"): row(t, s, "vsae") | {"method": "vsae-best"} for t, s, m in rows if m == "vsae"}
    for content in better.values():
        content["in_sample"] = {key: 0.1 * value for key, value in content["in_sample"].items()}
    board = cells.board([*rows.values(), *better.values()])
    assert board.best_peer(YEAST) == "mean/mode"
    assert board.peers == ["mean/mode", "knn"]


def test_mean_ranks(rows):
    board = cells.board(rows.values())
    group = [YEAST, CONCRETE, MUSHROOM]
    assert board.mean_ranks(["mean/mode", "knn", "vsae"], group) == pytest.approx([8 / 3, 2.0, 4 / 3])


def test_who_came_to_no_end_shares_the_last_ranks(rows):
    rows["yeast", 12, "vsae"] |= failed("timed out", assumed=True)
    rows["yeast", 11, "knn"] |= failed("failed", error="ValueError: no")
    board = cells.board(rows.values())
    assert board.reasons[YEAST] == {"vsae": "timed out", "knn": "failed"}
    assert board.mean_ranks(["mean/mode", "knn", "vsae"], [YEAST]) == pytest.approx([1.0, 2.5, 2.5])
    assert board.compared("vsae", [YEAST, CONCRETE]) == [CONCRETE]


def test_a_missing_seed_is_no_result_and_leaves_the_ranking(rows, written):
    del rows["yeast", 12, "vsae"]
    board = cells.board(rows.values())
    assert board.reasons[YEAST]["vsae"] == "not run"
    assert board.shared(["mean/mode", "knn", "vsae"], [YEAST, CONCRETE]) == [CONCRETE]
    text = pages.page(written(rows))
    assert "Over the 2 MCAR and MAR cells, in sample, where all 3 methods ran" in section(text, "Ranks")
    assert lines(section(text, "Errors"), "vsae")[0] == "n/r"


def test_there_is_no_page_before_ours_and_a_peer_can_be_compared(rows, written):
    assert pages.page(written({key: content for key, content in rows.items() if key[2] != "vsae"})) is None


def test_errors_have_the_lowest_bold(rows, written):
    rows["mushroom", 11, "knn"] |= failed("timed out")
    in_sample, new = section(pages.page(written(rows)), "Errors").split("### MCAR 0.5, ")[1:]
    assert lines(in_sample, "method") == ["yeast NRMSE", "concrete NRMSE", "mushroom PFC"]
    assert lines(in_sample, "knn") == ["1.100", "**0.600**", "t/o"]
    assert lines(in_sample, "vsae") == ["**0.800**", "0.660", "**0.200**"]
    assert lines(new, "knn") == ["–", "–", "–"]


def test_what_was_run_is_counted(rows, written):
    rows["mushroom", 11, "knn"] |= failed("timed out")
    rows["mushroom", 12, "knn"] |= failed("timed out", assumed=True)
    rows["yeast", 12, "knn"] |= failed("failed", error="ValueError: no")
    text = section(pages.page(written(rows)), "What was run")
    assert "**It is not complete: 18 runs are there**" in " ".join(text.split())
    assert "as their weights were not given: tabicl and tabpfn." in " ".join(text.split())
    assert lines(text, "knn") == ["knn 1", "3", "2 (1 assumed)", "1", "42", "no"]
    assert lines(text, "boosting") == ["–", "0", "0", "0", "48", "–"]
    assert "- knn on yeast (1 run): `ValueError: no`" in text


def test_seconds_of_a_run_that_timed_out_are_a_bound(rows, written):
    rival = {(t, s, "hyperimpute"): row(t, s, "knn", seconds=8.0) | {"method": "hyperimpute"} for t, s, _ in rows}
    rival["mushroom", 12, "hyperimpute"] |= failed("timed out")
    text = section(pages.page(written(rows | rival)), "Time")
    assert lines(text, "hyperimpute") == ["8", "8", "> 154", "100"]
    assert lines(text, "`vsae` / hyperimpute")[:3] == ["0.25", "0.25", "< 0.01"]


def test_a_longer_table_has_a_part_of_its_own_and_counts_nowhere_else(rows, written):
    folder = written(rows)
    before = pages.page(folder)
    LONG.store(folder).add(*(row("yeast", 11, method, rows=6250) for method in ERRORS))
    text = pages.page(folder)
    part = section(text, "Time")
    assert "5,000 rows" in part
    assert [line for line in part.splitlines() if line.startswith("| vsae |")][-1] == "| vsae | 2 | 0.810 | 0.810 |"
    assert section(text, "Headline") == section(before, "Headline")


def test_other_models_of_the_library_have_a_part_of_their_own_and_count_nowhere_else(rows, written):
    before = pages.page(written(rows))
    assert "Other models" not in before
    scores = {"yeast": 0.9, "concrete": 0.6}
    for table, error in scores.items():
        found = {"nrmse": error, "nrmse_trivial": 1.0}
        changes = {"method": "gain", "in_sample": found, "new_rows": found, "seconds": 6.0}
        rows[table, 11, "gain"] = row(table, 11, "vsae") | changes
    text = pages.page(written(rows))
    part = section(text, "Other models of this library")
    ratio = (0.9 / 0.81 * 0.6 / 0.67) ** 0.5  # by the mask of the seed that it has
    assert lines(part, '`"gain"`') == ["GAIN", "4", f"{ratio:.3f}", "2", "6", "3.0"]
    assert "has the higher error in 2: gain on concrete" in " ".join(part.split())
    assert "the mean or mode itself" not in part
    assert lines(part, "gain") == ["0.900", "0.600"]
    assert lines(part, "vsae") == ["0.810", "0.670"]
    rows["yeast", 11, "vsae"] |= {"in_sample": {"nrmse": 1.0, "nrmse_trivial": 1.0}}
    cautious = section(pages.page(written(rows)), "Other models of this library")
    assert "In 1 of these `vsae` gives the mean or mode itself" in " ".join(cautious.split())
    begin, end = text.split("\n## Other models of this library\n")
    assert f"{begin}\n## {end.split(chr(10) + '## ')[1]}" == before


def test_every_loss_is_listed(rows, written):
    text = pages.page(written(rows))
    losses = [line for line in section(text, "Reading").splitlines() if "MCAR 0.5" in line]
    assert losses == ["| concrete NRMSE, MCAR 0.5, in sample | 0.660 | knn | 0.600 | 10.0% | 1 |"]
    assert "below every peer in 5, and above the best one in 1." in " ".join(text.split("## ")[0].split())


def test_a_point_without_some_results_is_placed_through_ours(rows):
    rows["mushroom", 11, "knn"] |= failed("timed out")
    vsae, knn = sorted(points_of(list(rows.values()), cells.board(rows.values())), key=lambda p: p.method != "vsae")
    assert (vsae.whole, knn.whole) == (True, False)
    assert vsae.ratio == pytest.approx((0.8 * 0.66 * 0.4) ** (1 / 3))
    assert knn.ratio == pytest.approx(vsae.ratio * (1.1 / 0.8 * 0.6 / 0.66) ** 0.5)


def test_figures_are_the_same_bytes_each_time(rows, written):
    pytest.importorskip("matplotlib")
    results = written(rows)
    first, second = pages.figures(results), pages.figures(results)
    assert list(first) == ["critical-difference.svg", "error-seconds.svg"]
    assert first == second


def test_without_rows_there_is_no_page(tmp_path):
    assert pages.page(tmp_path) is None
    assert pages.figures(tmp_path) == {}


def test_without_matplotlib_the_pages_are_written(rows, written, monkeypatch, capsys):
    results = written(rows)
    docs = results / "docs"
    docs.mkdir()
    monkeypatch.setattr(tables, "PAGES", {"benchmark.md": pages.page})
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert tables.write_pages(results, docs) == [docs / "benchmark.md", docs / "missed.md"]
    assert "figures are left as they are" in capsys.readouterr().err
