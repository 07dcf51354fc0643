"""The command ``gattn molecules check``: its output, its files and its exit code."""

from tests.apps.cli.molecule_table import TABLE, read_rows


def test_check_prints_its_findings_and_writes_a_table_of_findings(gattn, tmp_path):
    data, out = tmp_path / "data.csv", tmp_path / "out"
    data.write_text(TABLE + "bad(,1.0,idle,3\nOC,1.0,idle,3\n")
    code, text = gattn("check", data, "--target", "y", "--target", "constant", "--out", out)
    assert code == 0
    assert "82 rows" in text
    assert "error  unreadable: 1 SMILES" in text
    assert "[line 82]" in text
    assert "warning  constant: constant: 82 of 82 labels are 3" in text
    assert read_rows(out / "findings.csv")[0]["kind"] == "unreadable"
    assert f"{out / 'findings.csv'} lists the findings" in text


def test_check_with_option_strict_exits_with_code_1_only_for_a_faulty_table(gattn, tmp_path):
    data = tmp_path / "data.csv"
    data.write_text(TABLE + "bad(,1.0,idle,3\n")
    assert gattn("check", data, "--target", "y")[0] == 0
    assert gattn("check", data, "--target", "y", "--strict")[0] == 1
    data.write_text("smiles,y\n" + "".join(f"{'C' * n}O,{n % 7}\n" for n in range(4, 40)))
    code, text = gattn("check", data, "--target", "y", "--strict")
    assert code == 0, text


def test_check_reads_smiles_from_the_column_that_option_smiles_names(tmp_path, gattn):
    (tmp_path / "t.csv").write_text("text,smiles,y\nCCO,x,1\nCCN,x,2\n")
    code, output = gattn("check", tmp_path / "t.csv", "--smiles", "text")
    assert (code, "2 rows, 2 molecules" in output) == (0, True)
    code, output = gattn("check", tmp_path / "t.csv", "--smiles", "text", "--smiles", "smiles")
    assert (code, "reads one column of SMILES" in output) == (2, True)
