"""Every example runs at a tiny size, and its last line of output is one JSON object."""

import json
import math
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

import gattn.data

EXAMPLES = Path(__file__).parents[2] / "examples"
SAMPLE = EXAMPLES.parent / "datasets" / "boiling_points.csv"
NEED_SKLEARN = ("attention_is_a_graph", "link_prediction", "missing_links", "typed_nodes")


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs an example and returns its result and its stderr."""

    def run(name, *arguments):
        script = EXAMPLES / f"{name}.py"
        monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments)])
        runpy.run_path(str(script), run_name="__main__")
        out, err = capsys.readouterr()
        return json.loads(out.splitlines()[-1]), out, err

    return run


def test_node_classification_example_exceeds_70_percent_accuracy(run):
    result, out, err = run("node_classification", "--epochs", 15, "--seed", 1)
    assert "measured labels on constructed edges" in out
    assert result["seed"] == 1
    assert result["epochs"] == result["epochs_run"] == 15
    assert 0.7 < result["test_accuracy"] <= 1
    assert result["ridge_accuracy"] > 0.8
    assert "15/15" in err


@pytest.mark.slow
def test_missing_links_example_has_more_than_twice_the_mrr_of_chance(run):
    result, out, _ = run("missing_links", "--epochs", 30)
    assert result["mrr"] > 2 * result["chance"]
    assert "probability" in out


@pytest.mark.slow
def test_typed_nodes_example_is_better_than_the_most_frequent_topic(run):
    result, _, _ = run("typed_nodes", "--papers", 240, "--authors", 90, "--epochs", 15)
    assert result["accuracy"]["model"] > result["accuracy"]["most frequent topic"] + 0.2


@pytest.fixture(scope="module")
def compounds():
    return gattn.data.load_molecules("chembl2321810")


@pytest.fixture
def few_molecules(compounds, monkeypatch):
    """Make ``load_molecules`` return the first 120 compounds, so that an epoch is short."""
    monkeypatch.setattr(gattn.data, "load_molecules", lambda name: compounds[:120])


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Importable package of two subpackages with two modules each, and one with one module."""
    files = {
        "birds/__init__.py": "",
        "birds/water/__init__.py": '"""Those that swim."""\nfrom . import duck\n',
        "birds/water/duck.py": "import math\n\n\nclass MallardDuck:\n    def quack(self): ...\n",
        "birds/land/__init__.py": "",
        "birds/land/ostrich.py": "from ..water.duck import MallardDuck\nimport birds.land.emu\n",
        "birds/land/emu.py": "from birds.air import swift\n",
        "birds/air.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return "birds"


def test_imports_example_writes_tables_of_modules_and_their_imports(run, package, tmp_path):
    out = tmp_path / "tables"
    result, stderr, _ = run("imports", "--package", package, "--least", 2, "--out", out)
    assert (result["modules"], result["imports"], result["parts"]) == (5, 3, 2)
    assert "land, water: 5 modules, 3 imports" in stderr
    assert (out / "imports.csv").read_text().split() == [
        "source,target", "birds.land.ostrich,birds.land.emu",
        "birds.land.ostrich,birds.water.duck", "birds.water,birds.water.duck",
    ]  # fmt: skip
    assert (out / "modules.csv").read_text().splitlines() == [
        "id,part,words", "birds.land,land,", "birds.land.emu,land,", "birds.land.ostrich,land,",
        "birds.water,water,those that swim", "birds.water.duck,water,mallard duck quack",
    ]  # fmt: skip


def test_imports_example_raises_error_if_the_package_is_not_installed(run, tmp_path):
    with pytest.raises(SystemExit, match="package 'nowhere' is not installed"):
        run("imports", "--package", "nowhere", "--out", tmp_path)


@pytest.fixture
def table(tmp_path):
    """Table of thirty alkanes and alcohols, with an unreadable row and an unlabelled row."""
    rows = [f"{'C' * n}{end},{n}.5" for n in range(1, 16) for end in ("", "O")]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["structure,value", *rows, "C1CC,1", "CCC,"]) + "\n")
    return path


def rmse_of_mean(labels):
    """RMSE on the test part of a model that predicts the mean label of the training part."""
    split = gattn.data.random_split(len(labels), seed=0)
    y = torch.tensor(labels, dtype=torch.float64)
    return (y[split.test] - y[split.train].mean()).square().mean().sqrt().item()


def test_molecule_example_compares_errors_of_the_model_and_of_the_mean(run, table):
    arguments = ("--csv", table, "--smiles", "structure", "--target", "value", "--epochs", 2)
    result, out, err = run("molecule_property", *arguments)
    assert {"test_rmse", "kernel_ridge_rmse", "mean_rmse"} <= set(result)
    labels = [n + 0.5 for n in range(1, 16) for _ in range(2)]
    assert result["mean_rmse"] == pytest.approx(rmse_of_mean(labels), rel=1e-3)
    # The label follows from the number of atoms, which the fingerprints count.
    assert result["kernel_ridge_rmse"] < result["mean_rmse"]
    assert math.isfinite(result["test_rmse"])
    assert "random 8:1:1 (seed 0)" in out
    assert "left out: row 30: 'C1CC'" in err
    assert "2/2" in err


def test_molecule_example_raises_error_if_the_table_has_one_molecule(run, tmp_path, capsys):
    path = tmp_path / "few.csv"
    path.write_text("smiles,target\nC,1\n")
    assert "needs at least 10 molecules" in refusal(run, capsys, "molecule_property", "--csv", path)


@pytest.mark.slow
def test_pyg_pipeline_example_gives_equal_results_with_pyg_and_gattn(run, few_molecules):
    result, _, _ = run("pyg_pipeline", "--epochs", 2, "--explain-epochs", 5, "--batch-size", 32)
    assert result["torch_geometric.nn.GATConv"] == result["gattn.nn.GATConv"]
    differences = [value for name, value in result.items() if name.endswith("_difference")]
    # The scores, and one explanation for each of the three types of edges.
    assert len(differences) == 4
    assert max(differences) < 1e-6
    assert result["explaining_edges"] > 0


@pytest.mark.slow
def test_link_prediction_example_exceeds_an_auc_of_80_percent(run):
    pytest.importorskip("sklearn")
    result, out, _ = run("link_prediction", "--epochs", 8)
    assert result["gatv2"]["auc"] > 0.8
    assert result["adamic_adar"]["auc"] > 0.9
    assert "average_precision" in result["common"]
    assert "chembl2321810, adamic_adar: auc 0.9" in out


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["multihead", "exphormer"])
def test_graph_transformer_example_compares_networks_of_similar_size(attention, run, few_molecules):
    result, _, err = run("graph_transformer", "--epochs", 1, "--attention", attention)
    most = result["transformer_parameters"]
    assert 0.9 * most < result["attention_parameters"] <= most
    assert 0 < result["transformer_rmse"] < 5
    assert 0 < result["attention_rmse"] < 5
    assert "encodings: 100%" in err


def test_distributed_example_resumes_from_its_checkpoint_in_one_process(run, tmp_path):
    small = "--nodes", 200, "--checkpoint", tmp_path / "checkpoint.pt", "--epochs"
    first, _, _ = run("distributed_nodes", *small, 10)
    # The second run continues from the checkpoint of the first.
    result, _, _ = run("distributed_nodes", *small, 25)
    assert (result["processes"], result["own_nodes"], result["halo_nodes"]) == (1, 200, 0)
    assert result["loss"] < first["loss"]
    assert result["accuracy"] > 0.4
    assert result["bytes_sent"] == 0


def refusal(run, capsys, name, *arguments):
    """Return the error message of an example that rejects its arguments."""
    with pytest.raises(SystemExit) as caught:
        run(name, *arguments)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"usage: {name}.py")
    return err.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("node_classification", "--epochs 0", "--epochs must be at least 1 .* got 0"),
        ("node_classification", "--runs -2", "--runs must be at least 1 .* got -2"),
        ("node_classification", "--seed 99999999999999999999", "below 2"),
        ("node_classification", "--dataset corra", "--dataset: invalid choice: 'corra'.*pubmed"),
        ("molecule_property", "--seed -1", "and --seed at least 0 and below"),
        ("molecule_property", "--csv nowhere.csv", "No such file.*nowhere.csv"),
        ("molecule_property", f"--csv {SAMPLE} --target kelvin", "its columns are name, smiles, "),
        ("pyg_pipeline", "--batch-size -3", "the others at least 1"),
        ("link_prediction", "--epochs 0", "--epochs must be at least 1"),
        ("graph_transformer", "--seed -1", "and --seed at least 0"),
        ("attention_is_a_graph", "--steps -5", "--epochs and --steps must be at least 1"),
        ("attention_is_a_graph", "--device abacus", "--device: invalid choice: 'abacus'"),
    ],
)
def test_examples_exit_with_a_message_for_invalid_arguments(run, capsys, name, arguments, message):
    if name in NEED_SKLEARN:
        pytest.importorskip("sklearn")
    assert re.search(f"error: .*{message}", refusal(run, capsys, name, *arguments.split()))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_help_of_each_example_lists_every_option_with_its_default(run, capsys, monkeypatch, path):
    if path.stem in NEED_SKLEARN:
        pytest.importorskip("sklearn")
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as caught:
        run(path.stem, "--help")
    assert caught.value.code == 0
    listed = capsys.readouterr().out.split("options:")[1].replace("\n   ", " ")
    options = [line for line in listed.splitlines() if line.startswith("  --")]
    assert len(options) >= 3
    assert all(re.search(r"\w+ \(default: \w+\)$", line) for line in options), options
