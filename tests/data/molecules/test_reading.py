"""Molecules from lists, CSV files and registered data sets."""

import math

import pytest
import torch

from gattn.data import (
    ATOM_FEATURES,
    MoleculeError,
    batch_molecules,
    load_molecules,
    read_csv,
    read_smiles,
)


def test_all_bad_rows_are_reported_at_once():
    with pytest.raises(MoleculeError) as caught:
        read_smiles(["CCO", "C1CC", "", "CC", None])
    assert [bad.row for bad in caught.value.bad] == [1, 2, 4]
    assert "3 bad row(s)" in str(caught.value)
    assert "row 1: 'C1CC': not valid SMILES" in str(caught.value)


def test_a_long_report_is_cut_but_not_lost():
    with pytest.raises(MoleculeError, match="and 15 more") as caught:
        read_smiles(["("] * 25)
    assert len(caught.value.bad) == 25
    assert str(caught.value).count("\n") == 11


def test_skipped_rows_leave_targets_in_step():
    molecules = read_smiles(["C", "C1", "CC", "N"], [1, 2, None, 4], on_error="skip")
    assert molecules.smiles == ["C", "CC", "N"]
    assert molecules.rows == (0, 2, 3)
    assert molecules.y[:, 0].tolist()[::2] == [1, 4]
    assert math.isnan(molecules.y[1, 0])
    assert molecules.labelled().smiles == ["C", "N"]
    assert [bad.row for bad in molecules.bad] == [1]


def test_options_are_checked():
    with pytest.raises(ValueError, match='"raise" or "skip"; got'):
        read_smiles(["C"], on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="y must have 2 numbers"):
        read_smiles(["C", "N"], [1.0])
    with pytest.raises(ValueError, match="list of strings"):
        read_smiles("CCO")


def test_targets_that_are_texts_are_read_as_cells_are(tmp_path):
    molecules = read_smiles(["C", "CC", "CCC"], ["1.5", "−2", "NA"])  # type: ignore[list-item]
    assert molecules.y[:2, 0].tolist() == [1.5, -2]
    for text in ("1,008", "1_000", ">10"):
        with pytest.raises(ValueError, match=f"None or NaN; row 1 is {text!r}"):
            read_smiles(["C", "CC"], ["1", text])  # type: ignore[list-item]
    path = tmp_path / "a.csv"
    path.write_text("smiles,y\nC,>10\n")
    with pytest.raises(MoleculeError, match="it is '>10', which is a censored value"):
        read_csv(path, smiles="smiles", targets=["y"])


def test_an_empty_list_is_ordinary():
    molecules = read_smiles([])
    assert len(molecules) == 0
    assert molecules.y.shape == (0, 0)
    batch = batch_molecules(molecules.graphs)
    assert batch.x.shape == (0, len(ATOM_FEATURES))
    assert batch.edge_index.shape == (2, 0)
    assert batch.ptr.tolist() == [0]


CSV = "id,smiles,a,b\n1,CCO,1.5,\n\n2, CC ,NaN,-2e3\n3,C,na,0\n"


def test_reads_a_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf" + CSV.replace("\n", "\r\n").encode())
    molecules = read_csv(path, smiles="smiles", targets=["b", "a"])
    assert molecules.smiles == ["CCO", "CC", "C"]
    assert molecules.targets == ("b", "a")
    expected = torch.tensor([[math.nan, 1.5], [-2000, math.nan], [0, math.nan]])
    torch.testing.assert_close(molecules.y, expected, equal_nan=True)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_recognises_what_separates_the_columns(tmp_path, separator):
    path = tmp_path / "a.csv"
    path.write_text(CSV.replace(",", separator))
    molecules = read_csv(path, smiles="smiles", targets=["b"])
    assert molecules.smiles == ["CCO", "CC", "C"]
    assert molecules.y[1:].flatten().tolist() == [-2000, 0]


def test_a_quoted_header_and_separators_inside_cells_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"name, long";"smiles"\n"a;b";C\n"c,d";CC\n')
    assert read_csv(path, smiles="smiles").smiles == ["C", "CC"]


def test_a_header_over_two_lines_is_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbf"y,\nin mol";smiles\n1;C\n')
    assert read_csv(path, smiles="smiles", targets=["y,\nin mol"]).y.tolist() == [[1]]


def test_a_decimal_comma_is_a_bad_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("smiles;y\nC;1,5\n")
    with pytest.raises(MoleculeError, match="finite number or empty; it is '1,5'"):
        read_csv(path, smiles="smiles", targets=["y"])


@pytest.mark.parametrize(
    ("text", "row", "line", "says"),
    [
        ("smiles,y\nC,1\nCC\n", 1, 3, "1 cell but the header has 2"),
        ("smiles,y\nC,1,2\n", 0, 2, "3 cells but the header has 2"),
        ("smiles,y\n\nC,1\nCC,high\n", 1, 4, "y must be a finite number or empty; it is 'high'"),
        ("smiles,y\nC,inf\n", 0, 2, "finite"),
        ("smiles,y\nC,1\nC1,1\n", 1, 3, "not valid SMILES"),
        ("smiles,y\n,1\n", 0, 2, "empty"),
    ],
)
def test_a_broken_row_is_named_with_its_line(tmp_path, text, row, line, says):
    path = tmp_path / "broken.csv"
    path.write_text(text)
    with pytest.raises(MoleculeError, match=says) as caught:
        read_csv(path, smiles="smiles", targets=["y"])
    assert "broken.csv" in str(caught.value)
    (bad,) = caught.value.bad
    assert (bad.row, bad.line) == (row, line)
    molecules = read_csv(path, smiles="smiles", targets=["y"], on_error="skip")
    assert [bad.row for bad in molecules.bad] == [row]
    assert row not in molecules.rows


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty; expected a header line"),
        (b"\n\n", "is empty; expected a header line"),
        (b"id;SMILES;y\n1;C;1\n", "no column 'smiles'; its columns are 'id', 'SMILES', 'y'"),
        (b"smiles\tlogS\nC\t1\n", r"no column 'y'; .*'logS' \(separated by tab\)"),
        (
            b"SMILES,y\nC,1\n",
            r"no column 'smiles'; .*\(separated by comma\); did you mean 'SMILES'",
        ),
        (b"smiles,logS\nC,1\n", "no column 'y'; its columns are 'smiles', 'logS'"),
        (b"smiles,y,y\nC,1,2\n", "2 columns 'y'"),
        (b'smiles,y\n"C,1\nCC,2\n', "not a CSV file: line 2: unexpected end of data"),
        (b'smiles,y\n"C"C,1\n', "not a CSV file: line 2: ',' expected after"),
        (b"smiles,y\nC,1\n\xff\xfe,1\n", "not UTF-8 text: byte 0xff in line 3"),
        ("smiles,y\nC,1\n".encode("utf-16-le"), "a NUL byte in its header; set its encoding"),
    ],
)
def test_a_file_that_is_no_such_table_is_refused(tmp_path, content, says):
    path = tmp_path / "broken.csv"
    path.write_bytes(content)
    for policy in ("raise", "skip"):
        with pytest.raises(ValueError, match=says):
            read_csv(path, smiles="smiles", targets=["y"], on_error=policy)


def test_csv_options_are_checked(tmp_path):
    with pytest.raises(ValueError, match="list of columns"):
        read_csv(tmp_path / "a.csv", smiles="smiles", targets="y")
    with pytest.raises(FileNotFoundError):
        read_csv(tmp_path / "a.csv", smiles="smiles")


def test_chembl2321810_is_whole():
    molecules = load_molecules("CHEMBL2321810")
    assert len(molecules) == 1017
    assert molecules.y.shape == (1017, 1)
    assert molecules.y.isfinite().all()
    assert molecules.y.mean().item() == pytest.approx(7.03, abs=2)
    # Both files of the data set begin with the compound 1520012: one has its SMILES, the other its
    # activity.
    assert molecules.smiles[0] == "O=S(=O)(Nc1cccs1)c2ccc(Oc3ccccc3c4ccccc4)c(c2)C#N"
    assert molecules.y[0, 0].item() == pytest.approx(5.48)


@pytest.mark.parametrize(
    ("name", "count", "bad", "tasks"), [("esol", 1128, 0, 1), ("freesolv", 642, 0, 1)]
)
def test_moleculenet(real_data, name, count, bad, tasks):
    molecules = load_molecules(name, real_data, download=False)
    assert (len(molecules), len(molecules.bad), molecules.y.shape[1]) == (count, bad, tasks)
    assert molecules.y.isfinite().all()
    if name == "esol":
        assert [g.smiles for g in molecules.graphs if g.edge_index.shape == (2, 0)] == ["C"]


def test_moleculenet_with_molecules_that_rdkit_refuses(real_data):
    with pytest.raises(MoleculeError, match="11 bad"):
        load_molecules("bbbp", real_data, download=False)
    molecules = load_molecules("bbbp", real_data, download=False, on_error="skip")
    assert (len(molecules), len(molecules.bad)) == (2039, 11)


def test_a_citation_network_holds_no_molecules():
    with pytest.raises(ValueError, match="load_citation"):
        load_molecules("cora")
