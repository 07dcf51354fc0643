"""Inputs of a screening: search for files, formats, row ranges, and damaged files."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gattn.molecules.screening.sources import find_inputs, open_source

SMILES = ["CCO", "c1ccccc1", "CCN", "", "CC(=O)O"]
NAMES = ["a", "b c", "d", "e", ""]


def cells(source, start=0):
    place = [source.table.place(name) for name in (*source.smiles, "name")]
    return [tuple(row.cells[p] for p in place) for row in source.rows(start)]


@pytest.fixture(params=["csv", "csv.gz", "parquet", "smi", "smi.gz"])
def source(request, tmp_path):
    """Source of the same five rows in each format."""
    path = tmp_path / f"x.{request.param}"
    table = "x,smiles,name\r\n" + "".join(f"1,{s},{n}\r\n" for s, n in zip(SMILES, NAMES))
    # A SMILES file has no missing SMILES, because the first word of a line is the SMILES.
    lines = "SMILES name\n" + "".join(f"{s or '-'} {n}\n\n" for s, n in zip(SMILES, NAMES))
    if request.param == "parquet":
        columns = {"x": [1] * 5, "smiles": [s or None for s in SMILES], "name": NAMES}
        pq.write_table(pa.table(columns), path, row_group_size=2)
    else:
        text = table if "csv" in request.param else lines
        content = text.encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return open_source(path, ["smiles"], ["name"], None)


def test_rows_of_each_format(source):
    missing = "-" if ".smi" in source.path.name else ""
    expected = [(s or missing, n) for s, n in zip(SMILES, NAMES)]
    assert source.count() == 5
    for start in range(7):
        assert cells(source, start) == expected[start:]
    assert cells(source.narrowed(["smiles", "name"])) == expected


def test_values_of_parquet_are_texts(tmp_path):
    path = tmp_path / "x.parquet"
    columns = {"smiles": ["C", "N"], "i": [1, None], "f": [0.1, 2.0], "b": [True, False]}
    pq.write_table(pa.table(columns), path)
    source = open_source(path, ["smiles"], [], None)
    assert source.table.columns == ("smiles", "i", "f", "b")
    rows = [row.cells for row in source.rows()]
    assert rows == [["C", "1", "0.1", "True"], ["N", "", "2.0", "False"]]


def test_a_smiles_file_may_have_no_names_and_no_header(tmp_path):
    (tmp_path / "x.smi").write_text("CCO\nCC\tan ethane\n  C  \n")
    source = open_source(tmp_path / "x.smi", ["SMILES"], [], None)
    assert cells(source) == [("CCO", ""), ("CC", "an ethane"), ("C", "")]


def test_files_of_folders_and_patterns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in/b.csv", "in/a.smi.gz", "in/sub/c.parquet", "in/note.md", "in/.h.csv",
                 "in/x.parquet.gz", "out/shards/000000.csv", "other.txt"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def names(*inputs, out="out"):
        return [path.as_posix() for path in find_inputs(inputs, tmp_path / out)]

    assert names("in") == ["in/a.smi.gz", "in/b.csv", "in/sub/c.parquet"]
    assert names("in/*.csv", "in", "other.txt") == [
        "in/b.csv", "in/a.smi.gz", "in/sub/c.parquet", "other.txt",
    ]  # fmt: skip
    assert names("**/*.csv") == ["in/b.csv"]
    assert names(".") == ["in/a.smi.gz", "in/b.csv", "in/sub/c.parquet"]
    for bad, message in (
        ("no.csv", "no.csv does not exist"),
        ("no*.csv", "no file matches no\\*.csv"),
        ("none", "none contains no file with one of .csv"),
    ):
        (tmp_path / "none").mkdir(exist_ok=True)
        with pytest.raises(FileNotFoundError, match=message):
            names(bad)


@pytest.mark.parametrize("name", ["x.csv.gz", "x.smi.gz", "x.parquet"])
@pytest.mark.parametrize("content", [b"no such format at all", "truncated"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path, name, content):
    path = tmp_path / name
    if content == "truncated":
        if path.suffix == ".gz":
            rows = "".join(f"C{'C' * (i % 97)}N{i}\n" for i in range(9999))
            content = gzip.compress(f"smiles\n{rows}".encode())
        else:
            pq.write_table(pa.table({"smiles": ["C"] * 999}), path)
            content = path.read_bytes()
        content = content[: len(content) // 2]
    path.write_bytes(content)
    with pytest.raises(ValueError, match=str(path)):
        open_source(path, ["smiles"], [], None).count()


def test_a_missing_column_is_an_error(tmp_path):
    pq.write_table(pa.table({"text": ["C"]}), tmp_path / "x.parquet")
    with pytest.raises(
        ValueError, match=r"x\.parquet has no column 'smiles'; its columns are 'text'"
    ):
        open_source(tmp_path / "x.parquet", ["smiles"], [], None)
    (tmp_path / "x.smi").write_text("C\n")
    with pytest.raises(
        ValueError, match=r"x\.smi has no column 'T'; its columns are 'smiles', 'name'"
    ):
        open_source(tmp_path / "x.smi", ["smiles"], ["T"], None)


def test_a_smiles_file_has_one_molecule_in_a_row(tmp_path):
    (tmp_path / "x.smi").write_text("C a\n")
    with pytest.raises(ValueError, match="has one SMILES in a line, and this model reads 2 in a"):
        open_source(tmp_path / "x.smi", ["a", "b"], [], None)
