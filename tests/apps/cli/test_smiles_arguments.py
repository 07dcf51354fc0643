"""Tests of ``gattn molecules`` with SMILES as arguments, and of ``predict`` without ``--out``."""

from rich.console import Console

from gattn.apps.cli import console
from tests.apps.cli.molecule_table import read_rows


def test_predict_prints_predictions_for_smiles_arguments_and_a_preview_for_a_table(
    gattn, tmp_path, monkeypatch
):
    monkeypatch.setattr(console, "RESULTS", Console(width=200, soft_wrap=True))
    code, out = gattn("predict", "bbb", "CC(=O)Oc1ccccc1C(=O)O", "CCO |t:1| ethanol")
    assert code == 0, out
    assert {"CC(=O)Oc1ccccc1C(=O)O", "CCO", "ethanol", "probability_BBB-"} <= {*out.split()}

    (table := tmp_path / "new.csv").write_text("ID;Drug\n" + "1;CCO\n" * 30)
    code, out = gattn("predict", "bbb", table)
    assert (code, "and 10 more rows" in out) == (0, True), out


def test_explain_reads_smiles_arguments_and_raises_error_for_two_tables(gattn, tmp_path):
    code, out = gattn("explain", "bbb", "CCO", "CCN", "--out", tmp_path / "why")
    assert code == 0, out
    rows = read_rows(tmp_path / "why" / "molecules.csv")
    assert [row["smiles"] for row in rows] == ["CCO", "CCN"]
    (table := tmp_path / "new.csv").write_text("smiles\nCCO\n")
    code, out = gattn("explain", "bbb", table, table, "--out", tmp_path / "both")
    assert (code, "explain expects one table, or SMILES; got 2 tables" in out) == (2, True)


def test_predict_exits_with_an_error_for_invalid_files_smiles_or_options(gattn, tmp_path):
    table = tmp_path / "new.csv"
    table.write_text("smiles\nCCO\n")
    for arguments, message in (
        (["CCX"], "'CCX' is not a file, and RDKit cannot read it as a SMILES"),
        (["CCO", "CCO CCN"], "'CCO CCN' has two SMILES: each argument must be one molecule"),
        (["CCO + O name"], "'CCO + O name' has two SMILES"),
        (["CCO", table], "files or SMILES; got both"),
        ([tmp_path / "missing.csv"], "No such file"),
        ([table, "--top", 1], "--out must name the folder"),
    ):
        code, out = gattn("predict", "bbb", *arguments)
        assert (code, message in out) == (2, True), out
    code, out = gattn("predict", table, "bbb")
    assert (code, "new.csv is a file, not the folder of a trained model" in out) == (2, True)
