"""``gattn molecules``: files and messages of the commands, and their errors of one line."""

import csv
import json
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import r2_score

from gattn.molecules import MoleculeClassifier, MoleculeRegressor
from gattn.molecules.runs.config import RunSettings
from gattn.training.settings import read_toml
from tests.cli.commands import run_command, runner
from tests.pictures import leave_blank

ROWS = [
    (f"{'C' * n}{end}", 0.5 * n + i, "active" if n % 2 else "idle")
    for n in range(1, 41)
    for i, end in enumerate("ON")
]
TABLE = "smiles,y,kind,constant\n" + "".join(f"{s},{y},{k},3\n" for s, y, k in ROWS)
NETWORK = ["--epochs", 2, "--width", 16, "--heads", 2, "--layers", 1, "--workers", 1]
GP = ["--model", "gp", "--workers", 1]


@pytest.fixture
def gattn(monkeypatch, capsys):
    """Return a function that runs a command and returns its exit code and output.

    Plots are left blank, since drawing takes most of the time; the runs of ``folder`` draw them.
    """
    leave_blank(monkeypatch)
    return runner(monkeypatch, capsys, "molecules")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with a table and two runs: regression by a network, classification by a kernel."""
    folder = tmp_path_factory.mktemp("runs")
    data = folder / "data.csv"
    data.write_text(TABLE + "bad(,1.0,idle,3\nCCOCC,,,3\nCCOCCC,high,idle,3\n")
    for name, options in (
        ("numbers", ["--target", "y", *NETWORK]),
        ("classes", ["--target", "kind", *GP]),
    ):
        with pytest.MonkeyPatch.context() as patch:
            if name == "numbers":
                leave_blank(patch)
            assert (
                run_command(patch, "molecules", "train", data, "--out", folder / name, *options)
                == 0
            )
    return folder


def _rows(path, encoding="utf-8"):
    with path.open(newline="", encoding=encoding) as file:
        return list(csv.DictReader(file))


def test_a_run_holds_what_it_should(folder):
    names = {path.name for path in (folder / "numbers").iterdir()}
    assert names == {
        "config.toml", "splits.json", "weights.safetensors", "model.json", "metrics.json",
        "predictions.csv", "left_out.csv", "plots", "report.html", "report.json",
    }  # fmt: skip
    plots = {path.stem for path in (folder / "numbers" / "plots").iterdir()}
    assert plots == {"parity", "residuals", "calibration", "learning-curve"}
    classes = {path.stem for path in (folder / "classes" / "plots").iterdir()}
    assert classes == {"roc", "precision-recall", "calibration"}  # a ridge has no epochs
    page = (folder / "classes" / "report.html").read_text("utf-8")
    assert "measured active" in page or "measured idle" in page
    assert "The dashed line is the share of “idle”" in page
    assert "chose the epoch" not in page
    assert "2 classes have fewer than the 9 validation molecules" in page
    assert "A prediction is" not in page  # of one part
    stacked = (folder / "numbers" / "report.html").read_text("utf-8")
    assert "chose the epoch" in stacked
    assert "% attention and" in stacked
    assert "% a Gaussian process on fingerprints and descriptors" in stacked
    left_out = _rows(folder / "numbers" / "left_out.csv")
    assert [(row["row"], row["line"]) for row in left_out] == [("80", "82"), ("82", "84")]
    assert left_out[1]["reason"] == "y must be a number or empty; it is 'high'"


def test_metrics_in_their_form(folder):
    metrics = json.loads((folder / "numbers" / "metrics.json").read_text())
    assert set(metrics["test"]) == set(metrics["val"]) == {"rmse", "mae", "r2"}
    assert set(metrics["baselines"]) == {"kernel_ridge", "mean"}
    assert metrics["molecules"] == {"train": 64, "val": 8, "test": 8, "left_out": 2}
    assert metrics["intervals"]["coverage"] == 0.9
    classes = json.loads((folder / "classes" / "metrics.json").read_text())
    assert set(classes["test"]) == {"roc_auc", "pr_auc", "accuracy"}
    assert set(classes["baselines"]["kernel_ridge"]) == {"roc_auc", "pr_auc", "accuracy"}


def test_the_table_of_predictions_gives_the_metrics(folder):
    table = pd.read_csv(folder / "numbers" / "predictions.csv")
    splits = json.loads((folder / "numbers" / "splits.json").read_text())
    for part in ("val", "test"):
        assert table.row[table.part == part].tolist() == splits[part]
    test = table[table.part == "test"]
    rmse = np.sqrt(((test.measured - test.prediction) ** 2).mean())
    metrics = json.loads((folder / "numbers" / "metrics.json").read_text())
    assert rmse == pytest.approx(metrics["test"]["rmse"], rel=1e-4)
    assert [ROWS[row][1] for row in test.row] == test.measured.tolist()


def test_copies_of_a_molecule_are_in_one_part(tmp_path, gattn):
    data = tmp_path / "copies.csv"
    pairs = [(f"{'C' * n}O", f"O{'C' * n}") for n in range(1, 31)]
    rows = "".join(f"{a},{n}\n{b},{n}\n" for n, (a, b) in enumerate(pairs))
    data.write_text("smiles,y\n" + rows)
    code, output = gattn("train", data, "--target", "y", "--out", tmp_path / "run", *GP)
    assert code == 0, output
    assert "Gaussian process: 100%" in output
    assert "and the report is written" in output
    splits = json.loads((tmp_path / "run" / "splits.json").read_text())
    for part in ("train", "val", "test"):
        molecules = {row // 2 for row in splits[part]}
        assert sorted(splits[part]) == sorted(2 * m + i for m in molecules for i in (0, 1))


def test_the_config_comes_back_and_the_command_line_wins(folder, tmp_path, gattn):
    config = folder / "numbers" / "config.toml"
    settings = read_toml(RunSettings, config)
    assert settings.target == ("y",)
    assert settings.model.epochs == 2
    code, output = gattn("train", "--config", config, *GP, "--seed", 5, "--out", tmp_path / "run")
    assert code == 0, output
    again = read_toml(RunSettings, tmp_path / "run" / "config.toml")
    assert (again.model.model, again.model.seed, again.model.epochs) == ("gp", 5, 2)
    assert again.data == settings.data


def test_the_same_command_again(folder, gattn):
    before = (folder / "classes" / "model.json").read_bytes()
    same = ["train", folder / "data.csv", "--target", "kind", "--out", folder / "classes", *GP]
    code, output = gattn(*same)
    assert code == 0
    assert "nothing to do" in output
    assert (folder / "classes" / "model.json").read_bytes() == before
    code, output = gattn(*same, "--seed", 1)
    assert (code, output.count("\n")) == (2, 1)
    assert "holds another run (seed is 0 there and 1 here)" in output
    assert (folder / "classes" / "model.json").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content"),
    [("metrics.json", "{"), ("metrics.json", "[]"), ("metrics.json", "{}"), ("splits.json", "{}")],
)
def test_a_broken_record_is_told_by_its_name(folder, tmp_path, gattn, name, content):
    run = shutil.copytree(folder / "classes", tmp_path / "run")
    (run / name).write_text(content)
    code, output = gattn("train", folder / "data.csv", "--target", "kind", "--out", run, *GP)
    assert (code, output.count("\n")) == (2, 1)
    assert f"{name} is damaged" in output
    assert "remove" in output


@pytest.mark.parametrize("name", ["weights.safetensors", "model.json", "metrics.json"])
def test_a_truncated_file_of_a_run_says_what_to_do(folder, tmp_path, gattn, name):
    (tmp_path / "in.csv").write_text("smiles\nC\n")
    content = (folder / "classes" / name).read_bytes()
    run = shutil.copytree(folder / "classes", tmp_path / "run")
    if name == "metrics.json":
        command = "train", folder / "data.csv", "--target", "kind", "--out", run, *GP
    else:
        command = "predict", run, tmp_path / "in.csv", "--out", tmp_path / "out.csv"
    for spoilt in (b"", content[:7], content[: len(content) // 2], content[:-2], b"smiles,y\n"):
        (run / name).write_bytes(spoilt)
        code, output = gattn(*command)
        assert (code, output.count("\n")) == (2, 1)
        assert str(run / name) in output
        assert ("remove it" if name == "metrics.json" else "copy the run once more") in output


def test_a_damaged_cache_says_that_it_is_to_be_removed(tmp_path, gattn):
    (tmp_path / "in.csv").write_text(TABLE)
    train = ["train", tmp_path / "in.csv", "--target", "y", *GP, "--out"]
    assert gattn(*train, tmp_path / "first")[0] == 0
    (cache,) = (tmp_path / ".gattn").glob("*.safetensors")
    content = cache.read_bytes()
    for spoilt in (b"", content[:5], content[:200], content[:-1], b"smiles,y\n", bytes(500)):
        cache.write_bytes(spoilt)
        code, output = gattn(*train, tmp_path / "second")
        assert (code, output.count("\n")) == (2, 1)
        assert f"the cache {cache} is damaged" in output
        assert "remove it" in output
    cache.unlink()
    assert gattn(*train, tmp_path / "second")[0] == 0
    assert cache.read_bytes() == content


def test_a_run_of_which_nothing_is_done_gives_way(tmp_path, gattn):
    data = tmp_path / "data.csv"
    data.write_text(TABLE)
    run = ["train", data, "--target", "y", "--out", tmp_path / "run", *GP]
    code, output = gattn(*run, "--tune", 2)
    assert code == 2
    assert "tune needs a model with a network" in output
    code, output = gattn(*run)
    assert code == 0, output


def test_other_data_under_the_same_name(tmp_path, gattn):
    data = tmp_path / "data.csv"
    data.write_text(TABLE)
    run = ["train", data, "--target", "y", "--out", tmp_path / "run", *GP]
    assert gattn(*run)[0] == 0
    data.write_text(TABLE + "CCOCC,1.0,idle,3\n")
    code, output = gattn(*run)
    assert code == 2
    assert "on other content of" in output


def test_splits_by_a_column_and_by_a_file(folder, tmp_path, gattn):
    parts = ["train"] * 64 + ["Valid"] * 8 + ["TEST"] * 8
    lines = TABLE.splitlines()
    named = "\n".join(f"{line},{part}" for line, part in zip(lines, ["part", *parts]))
    (tmp_path / "named.csv").write_text(named)
    code, output = gattn("train", tmp_path / "named.csv", "--target", "y", "--split", "column:part",
                       "--out", tmp_path / "a", *GP)  # fmt: skip
    assert code == 0, output
    splits = json.loads((tmp_path / "a" / "splits.json").read_text())
    assert splits["train"] == list(range(64))
    assert splits["test"] == list(range(72, 80))
    code, output = gattn("train", folder / "data.csv", "--target", "y", "--out", tmp_path / "b",
                       "--split", tmp_path / "a" / "splits.json", *GP)  # fmt: skip
    assert code == 0, output
    assert json.loads((tmp_path / "b" / "splits.json").read_text())["val"] == splits["val"]
    assert "counts the rows of other data" in output


HARD = '''id,smiles,note
1,CCO,"a, ""b"""
2,bad(,x
3,c1ccccc1

4,,y
5,CCN,z,extra
6,C,"line
break"
7,CCCO,\xe9
8,[Na+].[Cl-],
9,*CC*,
10,[2H]C,
'''


def test_a_row_out_for_each_row_in(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text(HARD, encoding="latin-1")
    code, output = gattn("predict", folder / "numbers", tmp_path / "in.csv", "--coverage", 0.5,
                       "--out", tmp_path / "out.csv", "--workers", 1)  # fmt: skip
    assert code == 0, output
    assert "10 rows, 4 of them with an error" in output
    rows = _rows(tmp_path / "out.csv", encoding="latin-1")
    assert [row["id"] for row in rows] == [str(n) for n in range(1, 11)]
    assert [bool(row["error"]) for row in rows] == [n in (2, 3, 4, 5) for n in range(1, 11)]
    assert rows[0]["note"] == 'a, "b"'
    assert rows[5]["note"] == "line\nbreak"
    assert rows[6]["note"] == "\xe9"
    model = MoleculeRegressor.load(folder / "numbers")
    for row in rows:
        numbers = [row[name] for name in ("prediction", "std", "lower", "upper", "similarity")]
        if row["error"]:
            assert numbers == [""] * 5
            continue
        lower, upper = model.predict_interval([row["smiles"]], coverage=0.5)
        expected = [*np.ravel(model.predict([row["smiles"]], return_std=True)), *lower, *upper]
        assert np.allclose([float(n) for n in numbers[:4]], expected, rtol=1e-4)
        assert 0 <= float(numbers[4]) <= 1


def test_of_no_rows_comes_none_and_that_is_said(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles\n")
    out = tmp_path / "out.csv"
    code, output = gattn("predict", folder / "numbers", tmp_path / "in.csv", "--out", out)
    assert code == 0
    assert f"{tmp_path / 'in.csv'} has a header and no rows: there is nothing in {out}" in output
    assert _rows(out) == []


def test_classes_are_predicted_with_their_sets(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles\nCCCO\nbad(\n")
    code, output = gattn("predict", folder / "classes", tmp_path / "in.csv", "--out",
                       tmp_path / "out.csv", "--workers", 1)  # fmt: skip
    assert code == 0, output
    first, second = _rows(tmp_path / "out.csv")
    assert first["prediction"] in ("active", "idle")
    assert (first["prediction"] == "idle") == (float(first["probability_idle"]) > 0.5)
    assert set(first["set"].split("|")) <= {"active", "idle", ""}
    assert second["prediction"] == ""
    assert second["error"].startswith("not valid SMILES")
    probability = MoleculeClassifier.load(folder / "classes").predict_proba(["CCCO"])[0, 1]
    assert float(first["probability_idle"]) == pytest.approx(probability, rel=1e-5)


def test_embeddings(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles\nCCCO\nbad(\nCN\n")
    for name in ("x.npy", "x.parquet"):
        code, output = gattn("embed", folder / "numbers", tmp_path / "in.csv", "--out",
                           tmp_path / name, "--workers", 1)  # fmt: skip
        assert code == 0, output
    model = MoleculeRegressor.load(folder / "numbers")
    array = np.load(tmp_path / "x.npy")
    assert np.isnan(array[1]).all()
    assert np.allclose(array[[0, 2]], model.embed(["CCCO", "CN"]), atol=1e-5)
    table = pd.read_parquet(tmp_path / "x.parquet")
    assert table.smiles.tolist() == ["CCCO", "bad(", "CN"]
    assert [bool(error) for error in table.error] == [False, True, False]
    assert np.array_equal(table.iloc[:, 2:].to_numpy(), array, equal_nan=True)
    (tmp_path / "none.csv").write_text("smiles\n")
    for name in ("none.npy", "none.parquet"):
        nothing = ["embed", folder / "numbers", tmp_path / "none.csv", "--out", tmp_path / name]
        assert gattn(*nothing)[0] == 0
    assert np.load(tmp_path / "none.npy").shape == (0, array.shape[1])
    assert len(pd.read_parquet(tmp_path / "none.parquet")) == 0


def test_embeddings_that_find_no_room_leave_nothing(folder, tmp_path, gattn):
    resource = pytest.importorskip("resource")
    (tmp_path / "in.csv").write_text("smiles\n" + "CCCO\n" * 300)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name in ("x.npy", "x.parquet"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            code, output = gattn("embed", folder / "numbers", tmp_path / "in.csv", "--out",
                               tmp_path / name, "--workers", 1)  # fmt: skip
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert code == 2
        assert "File too large" in output
        assert {path.name for path in tmp_path.iterdir()} == {"in.csv"}


def test_evaluation_leaves_out_what_was_trained_on(folder, tmp_path, gattn):
    out = tmp_path / "evaluation"
    code, output = gattn("evaluate", folder / "numbers", folder / "data.csv", "--out", out)
    assert code == 0, output
    assert "72 rows (72 molecules) left out, since the model was trained or validated" in output
    metrics = json.loads((out / "metrics.json").read_text())
    run = json.loads((folder / "numbers" / "metrics.json").read_text())
    assert metrics["molecules"] == {"test": 8, "trained_on": 72, "left_out": 2}
    for name, value in run["test"].items():
        assert metrics["test"][name] == pytest.approx(value, rel=1e-5)
    assert (out / "plots" / "parity.png").exists()
    (tmp_path / "seen.csv").write_text("smiles,y\n" + "CO,1.0\n")
    code, output = gattn("evaluate", folder / "numbers", tmp_path / "seen.csv")
    seen = json.loads((folder / "numbers" / "splits.json").read_text())
    if 0 not in seen["test"]:
        assert code == 2
        assert "no labelled molecule that the model was not trained on" in output


def test_small_labels_have_the_metrics_of_their_predictions(tmp_path, gattn):
    """Concentrations in mol/L have the same R² in the terminal, metrics.json and report.json."""
    draw = np.random.default_rng(0)
    rows = [f"{smiles},{10 ** draw.uniform(-9, -6)!r}" for smiles, *_ in ROWS]
    (tmp_path / "in.csv").write_text("smiles,Kd\n" + "\n".join(rows) + "\n")
    code, output = gattn(
        "train", tmp_path / "in.csv", "--target", "Kd", *GP, "--out", tmp_path / "run"
    )
    assert code == 0, output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    test = pd.read_csv(tmp_path / "run" / "predictions.csv").query("part == 'test'")
    r2 = r2_score(test.measured, test.prediction)
    assert r2 < 0.5  # the labels are noise
    assert metrics["test"]["r2"] == pytest.approx(r2, rel=1e-4)
    assert -2 < metrics["baselines"]["mean"]["r2"] <= 0
    assert f"{metrics['test']['r2']:.4g}" in output
    assert metrics["undefined"].keys() <= {"intervals"}
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    shown = dict(row[:2] for row in report["sections"][0]["tables"][0]["rows"])
    assert shown["R²"] == metrics["test"]["r2"]
    assert shown["RMSE"] == metrics["test"]["rmse"] < 1e-6


@pytest.mark.parametrize(
    ("labels", "metric", "name", "reason"),
    [
        (
            lambda n: 7e-9 if n >= 35 else n * 1e-9,
            "r2",
            "R²",
            "undefined: all 12 labels are 7e-09, and two different ones are needed",
        ),
        (
            lambda n: int(n >= 35 or n % 2),
            "roc_auc",
            "ROC-AUC",
            "undefined: all 12 labels are of class 1, and two different ones are needed",
        ),
    ],
    ids=["numbers", "classes"],
)
def test_an_undefined_metric_says_why(tmp_path, gattn, labels, metric, name, reason):
    rows = [
        f"{'C' * n}{end},{labels(n)},{'test' if n >= 35 else ('train', 'val')[n % 3 == 0]}"
        for n in range(1, 41)
        for end in "ON"
    ]
    (tmp_path / "in.csv").write_text("smiles,y,part\n" + "\n".join(rows) + "\n")
    code, output = gattn(
        "train", tmp_path / "in.csv", "--target", "y", "--split", "column:part", *GP,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, output
    assert f"{metric} of the test part: {reason}" in output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["test"][metric] is None
    assert metrics["undefined"]["test"][metric] == reason
    assert "val" not in metrics["undefined"]
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    sentence = f"{name} of the test part: {reason}."
    assert sentence in report["sections"][0]["text"]
    assert sentence in (tmp_path / "run" / "report.html").read_text("utf-8")
    (tmp_path / "new.csv").write_text(f"smiles,y\nCCOC,{labels(35)}\nCCCOC,{labels(35)}\n")
    code, output = gattn(
        "evaluate", tmp_path / "run", tmp_path / "new.csv", "--out", tmp_path / "evaluation"
    )
    assert code == 0, output
    assert f"{metric} of the test part: {reason.replace('12', '2')}" in output
    evaluated = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert evaluated["undefined"]["test"][metric] == reason.replace("12", "2")


def test_a_search_needs_a_validation_part_of_both_classes(tmp_path, gattn):
    rows = [
        f"{'C' * n}{end},{int(n % 2 or n >= 30)},{'train' if n < 30 else ('val', 'test')[n % 2]}"
        for n in range(1, 41)
        for end in "ON"
    ]
    (tmp_path / "in.csv").write_text("smiles,y,part\n" + "\n".join(rows) + "\n")
    code, output = gattn(
        "train", tmp_path / "in.csv", "--target", "y", "--split", "column:part", "--tune", 2,
        "--epochs", 2, "--width", 64, "--layers", 2, "--workers", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 2
    assert (
        "tune compares settings by roc_auc on the validation part, where it is undefined" in output
    )


def test_explanations(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles,Name\nCCCO,propanol\nbad(,\nCN,\n")
    out = tmp_path / "why"
    code, output = gattn("explain", folder / "numbers", tmp_path / "in.csv", "--out", out,
                       "--method", "masking", "--method", "attention")  # fmt: skip
    assert code == 0, output
    assert "3 rows, 1 of them with an error" in output
    assert {path.name for path in out.iterdir()} == {
        "atoms.csv", "molecules.csv", "errors.csv",
        *(f"row{n}-{m}.{e}" for n in (0, 2) for m in ("masking", "attention") for e in
          ("svg", "png")),
    }  # fmt: skip
    assert ">row 0: propanol<" in (out / "row0-masking.svg").read_text("utf-8")
    assert ">row 2: CN<" in (out / "row2-masking.svg").read_text("utf-8")
    atoms = pd.read_csv(out / "atoms.csv")
    assert atoms.row.tolist() == [0] * 4 + [2] * 2
    assert "".join(atoms.symbol) == "CCCOCN"
    assert [row["row"] for row in _rows(out / "errors.csv")] == ["1"]
    explained = MoleculeRegressor.load(folder / "numbers").explain(["CCCO"], method="masking")
    assert np.allclose(atoms.masking[:4], explained[0].weights, atol=1e-6)
    table = ["explain", folder / "numbers", tmp_path / "in.csv", "--out"]
    for options, word in (
        ([out], "exists already"),
        ([tmp_path / "new", "--method", "guess"], "method must be one of"),
        ([tmp_path / "new", "--target", "z"], "target must be one of y"),
    ):
        code, output = gattn(*table, *options)
        assert code == 2
        assert word in output.splitlines()[-1]
    assert not (tmp_path / "new").exists()


def _with(**changes):
    """Return the table as text with some columns replaced."""
    table = pd.DataFrame(ROWS, columns=["smiles", "y", "kind"]).assign(constant=3, **changes)
    return table.to_csv(index=False)


REFUSED = {
    "no target": (TABLE, None, "has the columns 'smiles', 'y', 'kind', 'constant'"),
    "a column that is missing": (TABLE, ["--target", "z"], "no column 'z'; its columns are"),
    "a doubled column": (TABLE.replace("constant", "y", 1), [], "2 columns 'y'"),
    "no label at all": (_with(y=""), [], "column 'y' has no label at all"),
    "one class only": (_with(y=1), ["--task", "classification"], "two classes; it has 1: 1"),
    "a constant target": (TABLE, ["--target", "constant"], "'constant' is constant"),
    "inf": (TABLE.replace("2.5", "inf", 1), [], "must be finite; it is 'inf' in line"),
    "too few rows": ("\n".join(TABLE.splitlines()[:8]), [], "at least 10 labelled molecules"),
    "an encoding": (TABLE.replace("idle", "\xe9").encode("latin-1"), [], "byte 0xe9 in line"),
    "nothing": ("", [], "is empty"),
    "a header alone": ("smiles,y\n", [], "no rows"),
    "an open quote": (TABLE + '"CC,1', [], "is not a CSV file: line 82"),
    "too large molecules": (TABLE, ["--max-atoms", 4], "at least 10 labelled molecules; got 6"),
    "texts for numbers": (TABLE, ["--target", "kind", "--task", "regression"], "holds no numbers"),
    "a split of no name": (TABLE, ["--split", "magic"], "split must be random, scaffold"),
    "a split without a part": (TABLE, ["--split", "scaffold"], "no molecule in the train part"),
    "a coverage": (
        TABLE,
        ["--coverage", 1.5],
        "coverage must be a number above 0 and below 1; got 1.5",
    ),
    "one molecule in all rows": (
        _with(smiles="CCO"),
        [],
        "10 different molecules; the 80 rows hold 1",
    ),
    "no epoch": (TABLE, ["--epochs", 0], "epochs must be a whole number, at least 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_on(case, tmp_path, gattn):
    content, options, message = REFUSED[case]
    data = tmp_path / "data.csv"
    data.write_bytes(content if isinstance(content, bytes) else content.encode())
    if options is not None and "--target" not in options:
        options = ["--target", "y", *options]
    code, error = gattn("train", data, *(options or ()), "--out", tmp_path / "run", *GP)
    assert code == 2
    last = error.splitlines()[-1]
    assert last.startswith("gattn: ")
    assert message in last
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_told_by_its_name(folder, tmp_path, gattn):
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "run"
    code, error = gattn("train", folder / "data.csv", "--target", "y", "--out", place, *GP)
    assert (code, error) == (2, f"gattn: {place}: Not a directory\n")


def test_paths_that_exist(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles\nC\n")
    (tmp_path / "there").write_text("mine")
    for arguments in (
        ["train", folder / "data.csv", "--target", "y", "--out", tmp_path / "there"],
        ["train", folder / "data.csv", "--target", "y", "--out", tmp_path],
        ["predict", folder / "numbers", tmp_path / "in.csv", "--out", tmp_path / "there"],
        ["predict", folder / "numbers", tmp_path / "in.csv", "--out", tmp_path / "no" / "out.csv"],
        ["evaluate", folder / "numbers", folder / "data.csv", "--out", tmp_path / "there"],
    ):
        code, error = gattn(*arguments)
        assert code == 2
        assert error.splitlines()[-1].startswith("gattn: ")
    assert (tmp_path / "there").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", "there"}


def test_a_run_that_was_tampered_with(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles\nC\n")
    for name, change in {
        "weights.safetensors": lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        "model.json": lambda content: content.replace(b"regression", b"classification"),
    }.items():
        run = shutil.copytree(folder / "numbers", tmp_path / name)
        (run / name).write_bytes(change((run / name).read_bytes()))
        code, error = gattn("predict", run, tmp_path / "in.csv", "--out", tmp_path / "out.csv")
        assert (code, error.count("\n")) == (2, 1)
        assert name in error
        assert not (tmp_path / "out.csv").exists()


def test_a_column_that_predictions_add(folder, tmp_path, gattn):
    (tmp_path / "in.csv").write_text("smiles,error\nC,1\n")
    code, output = gattn(
        "predict", folder / "numbers", tmp_path / "in.csv", "--out", tmp_path / "o"
    )
    assert code == 2
    assert "has a column 'error' already" in output
