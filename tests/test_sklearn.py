"""scikit-learn's own checks, with one expected failure, and what people do with an imputer there."""

from __future__ import annotations

import copy
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from vsae.estimator import VSAEImputer
from vsae.model.config import NetShape, VSAEConfig

TINY = VSAEConfig(
    latent_dim=2,
    attributive=NetShape(8, 1),
    collective=NetShape(16, 1),
    mask_net=NetShape(8, 1),
    data_net=NetShape(16, 1),
    steps=5,
    latent_draws=4,
)


def no_copies(estimator):
    """A row that weighs 2 is not two rows: it is withheld, shuffled and drawn as one, so other random numbers come."""
    return {"check_sample_weight_equivalence_on_dense_data": "the same within the noise of seeds, not bit for bit"}


@parametrize_with_checks([VSAEImputer(config=TINY, random_state=0)], expected_failed_checks=no_copies)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def incomplete():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X @ [1.0, 2.0, 3.0]
    X[rng.random(X.shape) < 0.2] = np.nan
    return X, y


def test_in_a_pipeline_with_a_grid_search(incomplete):
    X, y = incomplete
    model = make_pipeline(VSAEImputer(config=TINY, random_state=0), Ridge())
    search = GridSearchCV(model, {"ridge__alpha": [0.1, 1.0], "vsaeimputer__handle_unknown": ["keep", "error"]}, cv=2)
    assert search.fit(X, y).best_score_ > 0


def test_clone_copies_parameters_and_pickle_copies_the_fit(incomplete):
    X, _ = incomplete
    imputer = VSAEImputer(config=TINY, random_state=3, schema={0: "real"}).fit(X)
    assert clone(imputer).get_params() == imputer.get_params()
    again = pickle.loads(pickle.dumps(imputer))
    np.testing.assert_array_equal(again.transform(X), imputer.transform(X))


def through_joblib(imputer, folder):
    joblib.dump(imputer, folder / "imputer.joblib")
    return joblib.load(folder / "imputer.joblib")


@pytest.mark.parametrize(
    "copied",
    [
        lambda imputer, _: pickle.loads(pickle.dumps(imputer)),
        lambda imputer, _: copy.deepcopy(imputer),
        through_joblib,
    ],
    ids=["pickle", "deepcopy", "joblib"],
)
def test_a_copy_of_a_fit_gives_the_same_bits(incomplete, copied, tmp_path):
    X, _ = incomplete
    imputer = VSAEImputer(effort="fast", config={"steps": 5}, random_state=3).fit(X)
    again = copied(imputer, tmp_path)
    np.testing.assert_array_equal(again.transform(X), imputer.transform(X))
    np.testing.assert_array_equal(again.draw(X, 2)[1], imputer.draw(X, 2)[1])
    np.testing.assert_array_equal(again.sample(20, with_missing=True), imputer.sample(20, with_missing=True))
    np.testing.assert_array_equal(again.score_samples(X), imputer.score_samples(X))
    np.testing.assert_array_equal(clone(again).fit(X).transform(X), imputer.transform(X))


def test_a_pickle_is_as_small_as_the_saved_file(incomplete, tmp_path):
    """Although after training the parameters are views of one vector, and generation keeps a model of its own."""
    X, _ = incomplete
    imputer = VSAEImputer(config={"steps": 5}, random_state=3).fit(X)
    imputer.sample(5)
    imputer.save(tmp_path / "imputer.vsae")
    assert len(pickle.dumps(imputer)) < 1.2 * (tmp_path / "imputer.vsae").stat().st_size


def test_probabilities_are_offered_where_a_column_has_levels(incomplete):
    X, _ = incomplete
    unfitted = VSAEImputer(config=TINY)
    with pytest.raises(NotFittedError):
        unfitted.predict_proba(X)
    numbers = VSAEImputer(config=TINY).fit(X)
    assert not hasattr(numbers, "predict_proba")
    levels = VSAEImputer(config=TINY, schema={0: "real"}).fit({0: X[:, 0], 1: np.array(["a", "b", None] * 20)})
    assert set(levels.predict_proba({0: X[:, 0], 1: np.array(["a"] * 60)})) == {1}


def test_same_random_state_same_result(incomplete):
    X, _ = incomplete
    one, two = (VSAEImputer(config=TINY, random_state=7).fit_transform(X) for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_set_output_and_feature_names(incomplete):
    pd = pytest.importorskip("pandas")
    X, _ = incomplete
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    imputer = VSAEImputer(config=TINY, random_state=0).fit(frame)
    assert list(imputer.feature_names_in_) == ["a", "b", "c"]
    assert list(imputer.get_feature_names_out()) == ["a", "b", "c"]
    as_frame = VSAEImputer(config=TINY, random_state=0).set_output(transform="pandas").fit_transform(X)
    assert isinstance(as_frame, pd.DataFrame)
    assert list(as_frame.columns) == ["x0", "x1", "x2"]
