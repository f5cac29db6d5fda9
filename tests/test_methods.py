"""`VSAEImputer(method=…)` and `--method`: other models behind the same interface."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import vsae
from vsae import VSAEImputer
from vsae.baselines import METHODS
from vsae.baselines.miwae import MIWAE
from vsae.cli.app import app
from vsae.datasets import make_clinic

QUICK = {"steps": 6, "latent_dim": 2}


@pytest.fixture(autouse=True, scope="module")
def few_samples():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MIWAE, "importance_samples", 10)
        patch.setattr("vsae.baselines.tabcsdi.STEPS", 2)
        yield


def clinic() -> pd.DataFrame:
    return make_clinic(60, seed=0).frame()


@pytest.mark.parametrize("method", METHODS)
def test_tables_in_tables_out_and_the_same_after_loading(method, tmp_path):
    table = clinic()
    imputer = VSAEImputer(method=method, config=QUICK, random_state=0)
    filled = imputer.fit_transform(table)
    assert filled.columns.equals(table.columns)
    assert filled.index.equals(table.index)
    modelled = [plan.label for plan in imputer.schema_.modelled]
    assert table[modelled].isna().any().any()
    assert not filled[modelled].isna().any().any()
    observed = table.notna()
    assert filled.where(observed).equals(table.where(observed).astype(filled.dtypes))
    imputer.save(tmp_path / "model.vsae")
    again = vsae.load(tmp_path / "model.vsae")
    assert again.method == method
    assert again.transform(table).equals(filled)
    if METHODS[method].load().has_draws:
        one, other = imputer.draw(table, 2)
        assert not one.equals(other)
        assert again.draw(table, 2)[1].equals(other)
        interval = imputer.predict_interval(table)
        assert (interval.lower["age"] <= interval.upper["age"]).all()
    else:
        with pytest.raises(ValueError, match=f"method='{method}' knows estimates, and no draws"):
            imputer.draw(table, 2)


@pytest.fixture(scope="module")
def fitted() -> VSAEImputer:
    return VSAEImputer(method="miwae", config=QUICK, random_state=0).fit(clinic())


@pytest.mark.parametrize(
    "ask",
    [
        lambda imputer, table: imputer.sample_mask(3),
        lambda imputer, table: imputer.sample(3),
        lambda imputer, table: imputer.missing_probability(table),
        lambda imputer, table: imputer.mask_log_likelihood(table),
        lambda imputer, table: imputer.ampute(table),
        lambda imputer, table: imputer.embed(table),
        lambda imputer, table: imputer.score_samples(table),
        lambda imputer, table: imputer.partial_fit(table),
    ],
)
def test_what_a_method_can_not_do_is_refused_in_one_line_that_names_it(fitted, ask):
    with pytest.raises(ValueError, match=r"^method='miwae' [^\n]+$"):
        ask(fitted, clinic())


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"method": "mivae"}, "there is no method 'mivae'; there are vsae, ae, vae"),
        ({"method": "hivae", "mechanism": "self-masking"}, "method='hivae' can not be told why cells are missing"),
        ({"method": "hivae", "groups": "site"}, "method='hivae' knows no groups of rows; leave groups='site' out"),
        ({"method": "gain", "effort": "bst"}, "^effort must be one of fast, default, best, not 'bst'$"),
        ({"method": "hivae", "config": {"stepps": 3}}, "config has no setting 'stepps'"),
    ],
)
def test_bad_settings_are_one_line(settings, line):
    with pytest.raises(ValueError, match=line):
        VSAEImputer(**settings).fit(clinic())


def test_what_is_no_name_is_refused():
    with pytest.raises(TypeError, match="method must be the name of a model"):
        VSAEImputer(method=3).fit(clinic())


def test_weights_are_refused_by_name():
    weight = np.arange(1, 61)
    with pytest.raises(ValueError, match="method='vae' knows no weights of rows"):
        VSAEImputer(method="vae", config=QUICK).fit(clinic(), sample_weight=weight)


def test_a_vsae_does_not_go_on_from_another_model(fitted):
    imputer = vsae.VSAEImputer(method="miwae", config=QUICK, random_state=0, warm_start=True).fit(clinic())
    imputer.set_params(method="vsae")
    with pytest.raises(ValueError, match="method='vsae' can not go on from an earlier fit"):
        imputer.fit(clinic())


def test_reports_that_need_no_model_are_there(fitted):
    assert fitted.mechanism_report(clinic()).columns
    errors = fitted.evaluate(clinic(), repeats=1, compare=[])
    assert len(errors.table) > 3


def test_an_evaluation_calls_the_model_by_its_name(fitted, tmp_path):
    found = fitted.evaluate(clinic(), repeats=1, compare=["linear"])
    assert list(found.seconds) == ["miwae", "mean/mode", "linear"]
    assert "miwae" in found.table.columns
    assert found.right.share == pytest.approx(1 - mean_error_of_levels(found, "miwae"))
    clinic().to_csv(tmp_path / "in.csv", index=False)
    asked = ["--method", "hivae", "--steps", "5", "--repeats", "1", "--compare", "mean/mode", "-q"]
    shown = CliRunner().invoke(app, ["evaluate", str(tmp_path / "in.csv"), "-o", str(tmp_path / "errors.csv"), *asked])
    assert shown.exit_code == 0, shown.output
    for text in (str(found), shown.stdout, (tmp_path / "errors.csv").read_text()):
        assert "vsae" not in text
    assert shown.stdout.split()[3] == "hivae"
    assert "hivae" in pd.read_csv(tmp_path / "errors.csv").columns


def mean_error_of_levels(found, method: str) -> float:
    levels = [column for column in found.columns if column.measure == "share wrong"]
    return sum(c.cells * c.errors[method] for c in levels) / sum(c.cells for c in levels)


def test_effort_scales_epochs_and_steps():
    from vsae.data.schema import Schema, real
    from vsae.fitting.baseline import config_by_effort

    schema = Schema([real("a"), real("b")])
    found = {effort: config_by_effort(METHODS["notmiwae"].load(), schema, effort) for effort in ("fast", "default")}
    assert found["fast"].steps == found["default"].steps // 10
    assert found["fast"].epochs == found["default"].epochs // 10


def test_the_command_line_takes_a_method(tmp_path):
    clinic().to_csv(tmp_path / "in.csv", index=False)
    run = CliRunner().invoke
    source, model, out = (str(tmp_path / name) for name in ("in.csv", "model.vsae", "out.csv"))
    fit = run(app, ["fit", source, "-o", model, "--method", "vaeac", "--steps", "5", "-q"])
    assert fit.exit_code == 0, fit.output
    assert run(app, ["impute", source, "-o", out, "--model", model, "-q"]).exit_code == 0
    assert not pd.read_csv(out)["age"].isna().any()
    assert "vaeac, fitted on 60 rows" in run(app, ["inspect", model]).stdout
    sampled = run(app, ["sample", model, "-n", "5", "-o", str(tmp_path / "new.csv")])
    assert sampled.exit_code == 1
    assert "method='vaeac' generates no rows" in sampled.output
    unknown = run(app, ["impute", source, "--method", "vaec"])
    assert unknown.exit_code == 2
    assert "must be one of vsae, ae" in " ".join(unknown.output.split())
    further = run(app, ["fit", source, "--from", model, "-o", out])
    assert further.exit_code == 2
    assert "holds a model of --method vaeac, which learns no more rows" in shown(further)
    assert "without --from" in shown(further)
    assert "warm_start" not in further.output
    other = run(app, ["impute", source, "-o", out, "--model", model, "--method", "gain"])
    assert other.exit_code == 2
    assert "--method" in shown(other).partition("--model")[2]


def shown(result) -> str:
    """What was printed, without the box around it."""
    return " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("method", ["vsae", "remasker", "vae"])
def test_numbers_are_calibrated_where_the_page_of_models_says_so(method):
    fitted = VSAEImputer(method=method, config=QUICK, random_state=0).fit(clinic()).fitted_
    assert bool(fitted.calibration.residuals) == (method != "vae")
    assert bool(fitted.calibration.shrinkage.scaling) == (method == "vsae")  # of probabilities


def test_the_page_of_models_lists_them_all():
    page = (Path(__file__).parents[1] / "docs" / "methods.md").read_text("utf-8")
    assert re.findall(r'^\| `"([\w-]+)"`', page, re.MULTILINE) == ["vsae", *METHODS]
