"""Tests of ``gattn molecules`` on tables with several molecules or a reaction in a row."""

import json
import re

import pytest

from tests.apps.cli.molecule_table import GP, NETWORK, read_rows

SOLVENTS = ["O", "CCO", "c1ccccc1", "CC#N", "CCCCCC"]
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


def test_train_predict_and_evaluate_accept_rows_of_two_molecules_but_explain_raises_error(
    gattn, tmp_path, data
):
    run = tmp_path / "run"
    code, out = gattn("train", data, "--target", "y", "--out", run, *COLUMNS, *GP)
    assert code == 0, out
    assert "rows of 2 molecules" in out
    left = {row["text"]: row["reason"] for row in read_rows(run / "left_out.csv")}
    assert "molecule 1: not valid SMILES" in left["C1CC + O"]
    assert left["CCO + "] == "molecule 2: the SMILES is empty"
    metrics = json.loads((run / "metrics.json").read_text())
    assert f"regression, {metrics['molecules']['test']} rows of 2 molecules" in out
    assert metrics["test"]["rmse"] < 0.5 * metrics["baselines"]["mean"]["rmse"]

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
    assert (code, "reads 2 columns of SMILES; got 1: a" in out) == (2, True)
    code, out = gattn("predict", run, "CCO.O")
    assert (code, "this model reads 2 in a row: write a CSV file" in out) == (2, True), out

    fresh = tmp_path / "held.csv"
    fresh.write_text("solute,solvent,y\nCCCCCCCCCCO,O,5\nCCCCCCCCCCN,CCO,6\nCCO,O,1\n")
    code, out = gattn("evaluate", run, fresh)
    assert code == 0
    assert "1 row (1 molecule) left out" in out
    code, out = gattn("explain", run, new, "--out", tmp_path / "why")
    assert (code, "explain needs a model of one molecule in a row" in out) == (2, True)

    screened = tmp_path / "screened"
    options = ["--top", 1, "--where", "solvent == 'O'", "--workers", 1]
    assert gattn("predict", run, new, fresh, "--out", screened, *options)[0] == 0
    (best,) = read_rows(screened / "top.csv")
    assert set(list(best)[:4]) == {"input", "row", "solvent", "solute"}
    assert (best["solvent"], best["solute"]) == ("O", "CCCCCCCCCCO")


def test_split_by_solvent_puts_no_solvent_in_both_training_and_test_set(gattn, tmp_path, data):
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


def test_train_and_predict_accept_reactions_but_explain_raises_error(gattn, tmp_path):
    data, run = tmp_path / "data.csv", tmp_path / "run"
    table = "rxn,y\n" + "".join(f"{text},{y}\n" for text, y in REACTIONS)
    data.write_text(table + "C>>C,1\nCCO,2\n")
    (tmp_path / "in.toml").write_text("[model]\nadd_h = true\nignore_stereo = true\n")
    options = ["--smiles", "rxn", "--reaction", "--config", tmp_path / "in.toml"]
    options += NETWORK
    code, out = gattn("train", data, "--target", "y", "--out", run, *options)
    assert code == 0
    assert "36 reactions" in out
    page = (run / "report.html").read_text("utf-8")
    worst = page[page.index("<h2>Largest errors</h2>") :].partition("</section>")[0]
    assert 1 <= worst.count("&gt;&gt;") == worst.count(", similarity ") <= 12
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


def test_report_of_reaction_classes_lists_the_largest_errors(gattn, tmp_path):
    data, run = tmp_path / "data.csv", tmp_path / "run"
    rows = (f"{text},{'odd' if i % 2 else 'even'}\n" for i, (text, _) in enumerate(REACTIONS))
    data.write_text("rxn,y\n" + "".join(rows))
    options = ["--smiles", "rxn", "--reaction", "--target", "y", *GP]
    code, out = gattn("train", data, *options, "--out", run)
    assert code == 0, out
    _, worst = (run / "report.html").read_text("utf-8").split("Largest errors</h2>")
    assert re.search(r"<td>\S+&gt;&gt;\S+</td>\s*<td>(odd|even) → (odd|even), ", worst)
