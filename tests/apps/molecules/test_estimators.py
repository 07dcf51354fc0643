"""The estimators follow scikit-learn's protocol on SMILES and reject bad input clearly."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit.Chem import MolFromSmiles, MolToSmiles
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

from gattn.apps.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.apps.molecules.arrays import as_numbers, as_table, as_texts
from gattn.apps.molecules.estimators import REFERENCE
from gattn.apps.molecules.row_format import join_smiles
from gattn.apps.molecules.rows import UnreadableMolecules
from gattn.apps.run.model_io import RunError, read_model
from gattn.data import MoleculeError

TINY = {"epochs": 1, "width": 16, "heads": 2, "layers": 1, "trees": 10}
SMILES = [f"{'C' * n}{end}" for n in range(1, 16) for end in "ON"]
LENGTH = np.array([float(len(text)) for text in SMILES])
AMINE = np.array([int(text.endswith("N")) for text in SMILES])
KINDS = (MoleculeRegressor, MoleculeClassifier)


@pytest.fixture(scope="module")
def regressor():
    return MoleculeRegressor(**TINY).fit(SMILES, LENGTH)


@pytest.fixture(scope="module")
def classifier():
    return MoleculeClassifier(**TINY).fit(SMILES, AMINE)


# scikit-learn skips its checks if an estimator takes texts. The following checks need no numeric X,
# so they are called here.
APPLICABLE = (
    "estimator_cloneable", "estimator_tags_renamed", "valid_tag_types", "estimator_repr",
    "no_attributes_set_in_init", "do_not_raise_errors_in_init_or_set_params", "mixin_order",
    "parameters_default_constructible", "get_params_invariance", "set_params",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", APPLICABLE)
def test_molecule_estimators_pass_scikit_learn_checks_without_data(kind, check):
    getattr(estimator_checks, f"check_{check}")(kind.__name__, kind(**TINY))


# These checks call fit with random numbers as X. Each row of numbers is converted to a SMILES, so
# that the estimator accepts it. All other checks of scikit-learn need a numeric X: they test the
# number of features, NaN, sparse, complex and strided arrays, and scores on points in the plane.
FITTED = (
    "fit_score_takes_y", "estimators_overwrite_params", "dont_overwrite_parameters",
    "estimators_fit_returns_self", "estimators_unfitted", "dict_unchanged", "fit_idempotent",
    "fit_check_is_fitted", "methods_sample_order_invariance", "methods_subset_invariance",
    "requires_y_none", "estimators_pickle", "non_transformer_estimators_n_iter",
)  # fmt: skip


def _written(X):
    """Convert rows of numbers to SMILES of carbon chains; return anything else unchanged."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiu":
        first = np.abs(1000 * X.reshape(len(X), -1)[:, 0]).astype(int)
        return ["C" * (1 + number % 29) + "ON"[number % 2] for number in first]
    return X


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", FITTED)
def test_molecule_estimators_pass_scikit_learn_checks_of_fit(kind, check, monkeypatch):
    def texts_alone(X, molecules):
        assert molecules == 1
        return as_texts(_written(X)), np.empty((0, 0)), []

    monkeypatch.setattr("gattn.apps.molecules.estimators.split_descriptors", texts_alone)
    # Model "gp" is the fastest, and all models have the same interface.
    estimator = kind(**TINY, model="gp")
    getattr(estimator_checks, f"check_{check}")(kind.__name__, estimator)


def test_clone_grid_search_and_pipeline_accept_molecule_estimators():
    model = MoleculeRegressor(**TINY, model="gp")
    assert clone(model).get_params() == model.get_params()
    assert len(cross_val_score(model, SMILES, LENGTH, cv=3)) == 3
    search = GridSearchCV(model, {"kernel_rows": np.array([5, 30])}, cv=2).fit(SMILES, LENGTH)
    assert search.best_params_["kernel_rows"] == 30
    pipeline = make_pipeline(FunctionTransformer(_stripped), model).fit(SMILES, LENGTH)
    assert pipeline.predict([" CCCO "]).shape == (1,)
    kinds = cross_val_score(
        MoleculeClassifier(**TINY, model="gp"), SMILES, AMINE, cv=2, scoring="roc_auc"
    )
    assert np.isfinite(kinds).all()


def _stripped(texts):
    return [text.strip() for text in texts]


@pytest.mark.parametrize(
    "form", [list, tuple, np.array, pd.Series, lambda s: pd.Series(s, index=range(9, 9 + len(s))),
             lambda s: np.array(s, dtype=object), lambda s: np.array(s)[:, None], iter],
    ids=["list", "tuple", "array", "series", "labelled series", "objects", "column", "iterator"],
)  # fmt: skip
def test_predict_reads_smiles_from_lists_arrays_series_and_iterators(regressor, form):
    expected = regressor.predict(["CCO", "CN"])
    assert np.array_equal(regressor.predict(form(["CCO", "CN"])), expected)


def test_molecule_regressor_predicts_means_intervals_and_embeddings(regressor):
    mean, std = regressor.predict(["CCO", "CCCN"], return_std=True)
    lower, upper = regressor.predict_interval(["CCO", "CCCN"], coverage=0.5)
    assert mean.shape == std.shape == lower.shape == upper.shape == (2,)
    assert (std > 0).all()
    assert (lower < mean).all()
    assert (mean < upper).all()
    assert regressor.embed(["CCO"]).dtype == np.float32
    assert np.isfinite(regressor.score(SMILES, LENGTH))
    for coverage in (0, 1, 1.5, -1, float("nan")):
        with pytest.raises(ValueError, match="coverage"):
            regressor.predict_interval(["C"], coverage=coverage)
    # Thirty molecules are not enough for intervals with a coverage of 99 %, so the intervals are
    # infinite.
    assert np.isinf(regressor.predict_interval(["C"], coverage=0.99)).all()


def test_predictions_of_an_empty_list_of_molecules_are_empty(regressor, classifier):
    assert regressor.predict([]).shape == (0,)
    assert classifier.predict([]).shape == (0,)
    assert classifier.predict_proba([]).shape == (0, 2)
    assert regressor.embed([]).shape == (0, regressor.embed(["C"]).shape[1])


BAD = ["CCO", "bad(", "", None, 3.5, float("nan"), "C" * 1200, "c1ccccc1", "\ud800", "*"]


def test_percentile_is_the_share_of_reference_molecules_below_the_prediction():
    labels = np.stack([LENGTH, -LENGTH], 1)
    model = MoleculeRegressor(model="gp").fit(SMILES, labels)
    texts = REFERENCE.read_text("utf-8").split()
    assert len(texts) == len({MolToSmiles(MolFromSmiles(text)) for text in texts}) == 500
    values = model.predict([*texts, "CCO"])
    shares = (values[:500] <= values[500]).mean(0)
    percent = model.predict_percentile(["CCO"])
    assert percent.tolist() == [[int(100 * share + 1e-9) for share in shares]]
    small = MoleculeRegressor(model="gp", max_atoms=20).fit(SMILES, labels)
    assert (small.predict_percentile(["CCO"]) == percent).all()
    assert np.sort(percent)[0, 0] < 50 < np.sort(percent)[0, 1]
    many = MoleculeClassifier(model="gp").fit(SMILES, np.arange(len(SMILES)) % 3)
    with pytest.raises(ValueError, match="predicts numbers or two classes"):
        many.predict_percentile(["CCO"])


def test_invalid_smiles_gives_nan_only_in_its_own_row(regressor, classifier):
    unreadable = np.array([False, True, True, True, True, True, True, False, True, False])
    with pytest.warns(UnreadableMolecules, match=r"7 SMILES could not be (.|\n)*row 1: 'bad\('"):
        mean, std = regressor.predict(BAD, return_std=True)
    assert np.array_equal(np.isnan(mean), unreadable)
    assert np.array_equal(np.isnan(std), unreadable)
    assert mean[7] == pytest.approx(regressor.predict(["c1ccccc1"])[0], rel=1e-6)
    for predict in (classifier.predict_proba, classifier.predict, regressor.embed):
        with pytest.warns(UnreadableMolecules):
            values = np.reshape(predict(BAD), (len(BAD), -1))
        assert np.array_equal(np.isnan(values[:, 0]), unreadable)
    with pytest.warns(UnreadableMolecules):
        assert not classifier.predict_set(BAD)[unreadable].any()


def test_fit_with_invalid_smiles_raises_error_unless_rows_are_skipped():
    smiles, y = [*SMILES, "bad(", None], [*LENGTH, 1.0, 2.0]
    with pytest.raises(MoleculeError) as error:
        MoleculeRegressor(**TINY).fit(smiles, y)
    assert [row.row for row in error.value.bad] == [30, 31]
    model = MoleculeRegressor(**TINY, on_error="skip").fit(smiles, y)
    assert [row.row for row in model.bad_] == [30, 31]
    with pytest.raises(ValueError, match="on_error"):
        MoleculeRegressor(on_error="ignore").fit(SMILES, LENGTH)


def test_molecule_regressor_predicts_several_targets_with_missing_labels():
    y = pd.DataFrame({"length": LENGTH, "twice": 2 * LENGTH})
    y.iloc[::3, 0] = np.nan
    y.iloc[1::3, 1] = np.nan
    y.iloc[5] = np.nan
    model = MoleculeRegressor(**TINY).fit(SMILES, y)
    assert model.targets_ == ["length", "twice"]
    (by_name,), (by_index,) = (model.explain(["CCO"], target=target) for target in ("twice", 1))
    assert by_name.target == by_index.target == 1
    assert by_name.weights.tolist() == by_index.weights.tolist()
    with pytest.raises(ValueError, match="target must be one of length, twice; got thrice"):
        model.explain(["CCO"], target="thrice")
    with pytest.raises(ValueError, match=r"one of length, twice; none was named \(--target\)"):
        model.place_of(None)
    assert model.predict(["CCO"]).shape == (1, 2)
    assert model.predict_interval(["CCO"], 0.5)[0].shape == (1, 2)
    assert np.isfinite(model.score(SMILES, y))


def test_predicted_classes_of_text_and_number_targets_keep_their_types():
    y = pd.DataFrame({"kind": np.where(AMINE, "amine", "alcohol"), "long": LENGTH > 8})
    model = MoleculeClassifier(**TINY, model="gp").fit(SMILES, y.assign(long=y["long"] * 1))
    assert model.predict(SMILES)[:, 0].tolist() == y["kind"].tolist()
    assert {type(label) for label in model.predict(SMILES)[:, 1]} == {int}


@pytest.mark.parametrize(
    "labels", [["amine", "alcohol"], [1, 0], [1.0, -1.0], [True, False]], ids=str
)
def test_predicted_classes_have_the_type_of_the_labels(labels):
    y = [labels[0] if amine else labels[1] for amine in AMINE]
    model = MoleculeClassifier(**TINY, model="gp").fit(SMILES, y)
    assert model.classes_.tolist() == sorted(labels)
    assert set(model.predict(SMILES).tolist()) <= set(labels)
    probability = model.predict_proba(SMILES)
    assert np.allclose(probability.sum(1), 1)
    second = np.asarray(y) == model.classes_[1]
    assert probability[second, 1].mean() > probability[~second, 1].mean()
    assert model.score(SMILES, y) == np.mean(model.predict(SMILES) == np.asarray(y))


def test_numeric_labels_are_read_from_texts_decimals_masked_arrays_series_and_tensors():
    for y, expected in (
        (["1.5", "-2", " NA ", ""], [1.5, -2, None, None]),
        ([Decimal("1.5"), None, pd.NA, np.float32(2)], [1.5, None, None, 2]),
        (np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False]), [1, None, 3]),
        (pd.Series([1, None], dtype="Int64"), [1, None]),
        (pd.Series(["1", None], dtype="string"), [1, None]),
        (torch.tensor([1.0, 2.0]), [1, 2]),
        ([True, False, "0.5"], [1, 0, 0.5]),
    ):
        numbers = as_numbers(as_table(y, len(expected)))[:, 0].tolist()
        assert [None if value != value else value for value in numbers] == expected


def test_fit_of_a_regressor_to_invalid_labels_raises_error():
    for y, message in (
        ([1.0], "30 rows"),
        (np.zeros((30, 1, 1)), "shape"),
        (["high"] * 30, "must contain numbers"),
        ([np.inf, *range(29)], "row 0, column 0 is inf"),
        (["1,008", *range(29)], "column 0 is '1,008': .*use --decimal , or --thousands ,"),
        ([*range(29), ">10"], "1 value with a relation.*, for example '>10' in row 29"),
        (pd.to_datetime(pd.Series(["2021-03-12"] * 30)), r"contains dates or times \(datetime64"),
        ([np.datetime64("2021-03-12", "ns"), *range(29)], "row 0, column 0 is np.datetime64"),
        ([*range(29), 1 + 2j], r"row 29, column 0 is \(1\+2j\)"),
        ([[1, 2], [3]] * 15, "its rows have different numbers of labels"),
        ([1.0, *[np.nan] * 29], "at least 2"),
        ([2.5, 2.5, *[np.nan] * 28], "y must have different numbers; every label is 2.5"),
    ):
        with pytest.raises(ValueError, match=message):
            MoleculeRegressor(**TINY).fit(SMILES, y)


def test_fit_of_a_classifier_to_fewer_than_two_classes_or_mixed_types_raises_error():
    few = ([0] * 30, "at most 100; it has 1: 0"), ([None] * 30, "at most 100; it has 0")
    for y, message in (*few, ([1, "one"] * 15, "one type")):
        with pytest.raises(ValueError, match=message):
            MoleculeClassifier(**TINY).fit(SMILES, y)


def test_fit_with_a_validation_set_calibrates_intervals_and_an_empty_set_raises_error():
    model = MoleculeRegressor(**TINY).fit(
        SMILES[:20], LENGTH[:20], validation=(SMILES[20:], LENGTH[20:])
    )
    assert np.isfinite(model.predict_interval(["CCO"], coverage=0.9)).all()
    with pytest.raises(ValueError, match="validation part"):
        MoleculeRegressor(**TINY).fit(SMILES, LENGTH, validation=([], []))


@pytest.mark.parametrize("kind", KINDS)
def test_loaded_molecule_model_gives_the_same_predictions_as_the_saved_model(
    kind, regressor, classifier, tmp_path
):
    model = regressor if kind is MoleculeRegressor else classifier
    model.save(tmp_path / "model")
    again = kind.load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.predict(SMILES), model.predict(SMILES))
    name = "predict_interval" if kind is MoleculeRegressor else "predict_set"
    assert np.array_equal(getattr(again, name)(SMILES), getattr(model, name)(SMILES))
    other = KINDS[1 - KINDS.index(kind)]
    with pytest.raises(RunError, match=f"contains a {kind.__name__}, not a {other.__name__}"):
        other.load(tmp_path / "model")
    with pytest.raises(RunError, match="a trained model"):
        kind.load(tmp_path)


def test_loading_a_model_of_another_feature_version_or_estimator_raises_error(regressor, tmp_path):
    regressor.save(tmp_path)
    tensors, card = read_model(tmp_path)
    facts = dict(card["predictor"])
    del facts["featuriser"]
    for older in (facts, {**facts, "featuriser": "1"}):
        with pytest.raises(RunError, match=r"version 1 .* computes version \d+: train the model"):
            MoleculeRegressor.from_state(tmp_path, tensors, {**card, "predictor": older})
    nodes = {**card, "predictor": facts, "estimator": "NodeClassifier"}
    with pytest.raises(RunError, match="contains a NodeClassifier, not a MoleculeRegressor"):
        MoleculeRegressor.from_state(tmp_path, tensors, nodes)


def test_rdkit_molecules_have_the_same_predictions_as_their_smiles(regressor):
    molecules = list(map(MolFromSmiles, SMILES[:4]))
    expected = regressor.predict(SMILES[:4])
    for rows in (molecules, pd.Series(molecules), pd.DataFrame({"mol": molecules})):
        np.testing.assert_allclose(regressor.predict(rows), expected, rtol=1e-6)
    assert join_smiles(molecules[:2]) == "CO + CN"
    with pytest.raises(ValueError, match="order of the atoms"):
        as_texts(molecules, ordered=True)
