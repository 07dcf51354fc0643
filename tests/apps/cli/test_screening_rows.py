"""gattn molecules predict with several inputs for models of pairs and of reactions."""

import csv
import gzip

from tests.apps.cli.molecule_table import GP, read_rows
from tests.apps.cli.test_molecule_rows import COLUMNS, REACTIONS, TABLE

FAST = ["--workers", 1, "--rows-per-shard", 3]


def shard_rows(out):
    return [row for path in sorted(out.glob("shards/*.csv")) for row in read_rows(path)]


def write(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_rows_of_two_molecules_are_predicted_as_in_one_table(gattn, tmp_path):
    run, out = tmp_path / "run", tmp_path / "out"
    (tmp_path / "data.csv").write_text(TABLE)
    train = ["train", tmp_path / "data.csv", "--target", "y", "--out", run, *COLUMNS, *GP]
    assert gattn(*train)[0] == 0
    rows = [["CCO", "O", "a"], ["CCN", "CC#N", "b"], ["C1CC", "O", "c"], ["CCO", "", "d"],
            ["CCCCO", "CCO", "e"]]  # fmt: skip
    (tmp_path / "in").mkdir()
    first = write(tmp_path / "in/a.csv", [["solute", "solvent", "id"], *rows[:3]])
    with gzip.open(tmp_path / "in/b.csv.gz", "wt", newline="") as file:
        csv.writer(file).writerows([["id", "solvent", "solute"], *(row[::-1] for row in rows[3:])])
    code, output = gattn("predict", run, tmp_path / "in", "--out", out, *FAST)
    assert code == 0, output
    whole = write(tmp_path / "all.csv", [["solute", "solvent", "id"], *rows])
    assert gattn("predict", run, whole, "--out", tmp_path / "all_out.csv", *FAST[:2])[0] == 0
    expected, screened = read_rows(tmp_path / "all_out.csv"), shard_rows(out)
    assert list(screened[0])[:5] == ["input", "row", "solute", "solvent", "id"]
    assert [{name: row[name] for name in expected[0]} for row in screened] == expected
    assert screened[2]["error"].startswith("molecule 1: not valid SMILES")
    assert screened[3]["error"] == "molecule 2: the SMILES is empty"
    best = ["--top", 1, "--where", "solvent == 'O'"]
    assert gattn("predict", run, tmp_path / "in", "--out", tmp_path / "best", *best)[0] == 0
    assert [row["id"] for row in read_rows(tmp_path / "best/top.csv")] == ["a"]
    code, output = gattn("predict", run, first, "--smiles", "solute", "--out", f"{tmp_path}/x/")
    assert code == 2
    assert "this model reads 2 columns of SMILES; got 1: solute" in output


def test_reactions_are_screened(gattn, tmp_path):
    run, out = tmp_path / "run", tmp_path / "out"
    table = write(tmp_path / "data.csv", [["reaction", "y"], *REACTIONS])
    train = ["train", table, "--target", "y", "--smiles", "reaction", "--reaction", "--out", run]
    assert gattn(*train, *GP)[0] == 0
    (tmp_path / "in.smi").write_text("".join(f"{text} r{y}\n" for text, y in REACTIONS[:5]))
    assert gattn("predict", run, tmp_path / "in.smi", "--out", f"{out}/", *FAST)[0] == 0
    new = write(tmp_path / "new.csv", [["reaction"], *([text] for text, _ in REACTIONS[:5])])
    assert gattn("predict", run, new, "--out", tmp_path / "new_out.csv", *FAST[:2])[0] == 0
    expected = [row["prediction"] for row in read_rows(tmp_path / "new_out.csv")]
    assert [row["prediction"] for row in shard_rows(out)] == expected
