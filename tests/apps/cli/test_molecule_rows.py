"""Tests of ``gattn molecules`` on tables with several molecules or a reaction in a row."""

import json

import pytest

from tests.apps.cli.molecule_table import GP, NETWORK, read_rows

SOLVENTS = ["O", "CCO", "c1ccccc1", "CC#N", "CCCCCC", "CC(C)=O", "ClCCl"]
ROWS = [
    (f"{'C' * n}{end}", solvent, 0.5 * n + place)
    for n in range(1, 9)
    for end in "ON"
    for place, solvent in enumerate(SOLVENTS)
]
TABLE = "solute,solvent,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in ROWS)
COLUMNS = ["--smiles", "solute", "--smiles", "solvent"]
REACTIONS = [
    (f"[CH3:1]{'C' * n}[Br:2].[{x}-:3]>>[CH3:1]{'C' * n}[{x}:3].[Br-:2]", n + i)
    for n in range(12)
    for i, x in enumerate(("OH", "NH2", "SH"))
]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(TABLE + "C1CC,O,1.0\nCCO,,1.0\nCCO,O,9.0\n")
    return path


def test_two_molecules_from_training_to_explanation(gattn, tmp_path, data):
    run = tmp_path / "run"
    code, out = gattn("train", data, "--target", "y", "--out", run, *COLUMNS, *GP)
    assert code == 0, out
    assert "rows of 2 molecules" in out
    assert 'smiles = ["solute", "solvent"]' in (run / "config.toml").read_text()
    left = {row["text"]: row["reason"] for row in read_rows(run / "left_out.csv")}
    assert "molecule 1: not valid SMILES" in left["C1CC + O"]
    assert left["CCO + "] == "molecule 2: the SMILES is empty"
    metrics = json.loads((run / "metrics.json").read_text())
    noun = "rows of 2 molecules"
    assert f"regression, {metrics['molecules']['test']} {noun}" in out
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert "8:1:1 (seed 0), with all equal rows in the same part." in report["summary"]
    assert [each["label"] for each in report["highlights"]][-1] == noun
    assert metrics["test"]["rmse"] < 0.5 * metrics["baselines"]["mean"]["rmse"]
    assert (run / "report.html").exists()

    code, out = gattn("evaluate", run, data)
    assert code == 0, out
    assert "labelled rows of 2 molecules" in out
    assert f"regression, {metrics['molecules']['test']} {noun}" in out

    new = tmp_path / "new.csv"
    new.write_text("solvent,solute\nO,CCO\nCC#N,CCO\nO,\n")
    assert gattn("predict", run, new, "--out", tmp_path / "p.csv")[0] == 0
    rows = read_rows(tmp_path / "p.csv")
    assert float(rows[1]["prediction"]) > float(rows[0]["prediction"]) + 1
    assert rows[2]["error"] == "molecule 2: the SMILES is empty" or "molecule 1" in rows[2]["error"]
    renamed = tmp_path / "renamed.csv"
    renamed.write_text("a,b\nCCO,O\n")
    options = ["--smiles", "a", "--smiles", "b", "--out", tmp_path / "q.csv"]
    assert gattn("predict", run, renamed, *options)[0] == 0
    assert read_rows(tmp_path / "q.csv")[0]["prediction"] == rows[0]["prediction"]
    code, out = gattn("predict", run, renamed, "--smiles", "a", "--out", tmp_path / "r.csv")
    assert code == 2
    assert "reads 2 columns of SMILES; got 1: a" in out

    fresh = tmp_path / "held.csv"
    fresh.write_text("solute,solvent,y\nCCCCCCCCCCO,O,5\nCCCCCCCCCCN,CCO,6\nCCO,O,1\n")
    code, out = gattn("evaluate", run, fresh)
    assert code == 0
    assert "1 row (1 molecule) left out" in out
    why = tmp_path / "why"
    code, out = gattn("explain", run, new, "--out", why)
    assert (code, "explain needs a model of one molecule in a row" in out) == (2, True)


def test_a_split_keeps_a_solvent_out(gattn, tmp_path, data):
    run = tmp_path / "run"
    split = ["--split", "molecule:solvent"]
    assert gattn("train", data, "--target", "y", "--out", run, *COLUMNS, *split, *GP)[0] == 0
    parts = json.loads((run / "splits.json").read_text())
    assert parts["protocol"] == "molecule:solvent 8:1:1 (seed 0)"
    solvents = {p: {ROWS[i][1] for i in parts[p] if i < len(ROWS)} for p in ("train", "test")}
    assert solvents["test"]
    assert not solvents["train"] & solvents["test"]
    code, out = gattn(
        "train", data, "--target", "y", "--out", tmp_path / "no", *COLUMNS, *GP,
        "--split", "molecule:y",
    )  # fmt: skip
    assert code != 0
    assert "split molecule:y must name a column of SMILES" in out


def test_mixtures_scaffolds_and_embeddings(gattn, tmp_path, data):
    run = tmp_path / "run"
    options = [*COLUMNS, "--order-free", "--model", "attention", *NETWORK]
    assert gattn("train", data, "--target", "y", "--out", run, *options)[0] == 0
    new, swapped = tmp_path / "new.csv", tmp_path / "swapped.csv"
    new.write_text("solute,solvent\nCCO,CC#N\n")
    swapped.write_text("solvent,solute\nCCO,CC#N\n")
    for path in (new, swapped):
        assert gattn("predict", run, path, "--out", path.with_suffix(".out.csv"))[0] == 0
    one, other = (read_rows(path.with_suffix(".out.csv"))[0] for path in (new, swapped))
    assert float(one["prediction"]) == pytest.approx(float(other["prediction"]), rel=1e-5)
    assert gattn("embed", run, new, "--out", tmp_path / "e.npy")[0] == 0
    for options, message in (
        (["--smiles", "solute", "--order-free"], "order_free needs several molecules"),
        ([*COLUMNS, "--reaction"], "reaction needs one reaction in a row"),
        (["--smiles", "solute", "--smiles", "solute"], "a column can be used only once"),
    ):
        code, out = gattn("train", data, "--target", "y", "--out", tmp_path / "no", *options)
        assert code != 0
        assert message in " ".join(out.split())


def test_reactions(gattn, tmp_path):
    data, run = tmp_path / "data.csv", tmp_path / "run"
    table = "rxn,y\n" + "".join(f"{text},{y}\n" for text, y in REACTIONS)
    data.write_text(table + "C>>C,1\nCCO,2\n")
    (tmp_path / "in.toml").write_text("[model]\nadd_h = true\n")
    options = ["--smiles", "rxn", "--reaction", "--ignore-stereo", "--config", tmp_path / "in.toml"]
    options += NETWORK
    code, out = gattn("train", data, "--target", "y", "--out", run, *options)
    assert code == 0
    assert "36 reactions" in out
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert f"regression, {metrics['molecules']['test']} reactions" in out
    assert "add_h = true" in (run / "config.toml").read_text()
    page = (run / "report.html").read_text("utf-8")
    worst = page[page.index("<h2>Largest errors</h2>") :].partition("</section>")[0]
    assert 1 <= worst.count("&gt;&gt;") == worst.count("nearest") <= 12
    reasons = [row["reason"] for row in read_rows(run / "left_out.csv")]
    assert "no atom has the same map number" in reasons[0]
    assert "a reaction must be the SMILES A>>B" in reasons[1]
    assert gattn("predict", run, data, "--out", tmp_path / "p.csv")[0] == 0
    rows = read_rows(tmp_path / "p.csv")
    assert rows[0]["prediction"]
    assert "map the atoms" in rows[-2]["error"]
    code, out = gattn("explain", run, data, "--out", tmp_path / "why")
    assert code == 2
    assert "this model reads reactions" in out


def test_the_report_of_reactions_with_classes_lists_the_largest_errors(gattn, tmp_path):
    data, run = tmp_path / "data.csv", tmp_path / "run"
    rows = "".join(
        f"{text},{'odd' if i % 2 else 'even'}\n" for i, (text, _) in enumerate(REACTIONS)
    )
    data.write_text(f"rxn,y\n{rows}")
    options = ["--smiles", "rxn", "--reaction", "--target", "y", *NETWORK]
    code, out = gattn("train", data, *options, "--out", run)
    assert code == 0, out
    sections = json.loads((run / "report.json").read_text("utf-8"))["sections"]
    (worst,) = [section for section in sections if section["title"] == "Largest errors"]
    reaction, prediction = worst["tables"][0]["rows"][0]
    assert ">>" in reaction
    assert "measured" in prediction


def test_stereo_is_ignored_in_training_and_prediction(gattn, tmp_path):
    data, run = tmp_path / "data.csv", tmp_path / "run"
    rows = [f"{'C' * n}[C@{mark}H](N)O,{n}\n" for n in range(1, 21) for mark in ("", "@")]
    data.write_text("smiles,y\n" + "".join(rows))
    options = ["--ignore-stereo", *GP]
    assert gattn("train", data, "--target", "y", "--out", run, *options)[0] == 0
    assert "ignore_stereo = true" in (run / "config.toml").read_text()
    new = tmp_path / "new.csv"
    new.write_text("smiles\nCCC[C@H](N)O\nCCC[C@@H](N)O\nCCCC(N)O\n")
    assert gattn("predict", run, new, "--out", tmp_path / "p.csv")[0] == 0
    assert len({row["prediction"] for row in read_rows(tmp_path / "p.csv")}) == 1
    parts = json.loads((run / "splits.json").read_text())
    for part in ("train", "val", "test"):  # Both isomers are in the same part.
        assert {row ^ 1 for row in parts[part]} == set(parts[part])
