"""Tables of molecules: formats, row ranges, the column of SMILES, and damaged files."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gattn.apps.tables.formats import open_molecules

SMILES = ["CCO", "c1ccccc1", "CCN", "", "CC(=O)O"]
NAMES = ["a", "b c", "d", "e", ""]


def cells(source, start=0):
    place = [source.place(name) for name in (*source.smiles, "name")]
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
    return open_molecules(path, ["smiles"], ["name"])


def test_rows_of_each_table_format_are_read_from_any_first_row(source):
    missing = "-" if ".smi" in source.path.name else ""
    expected = [(s or missing, n) for s, n in zip(SMILES, NAMES)]
    assert source.count() == 5
    for start in range(7):
        assert cells(source, start) == expected[start:]
    assert cells(source.narrowed(["smiles", "name"])) == expected


def test_values_of_a_parquet_table_are_read_as_texts(tmp_path):
    path = tmp_path / "x.parquet"
    columns = {"smiles": ["C", "N"], "i": [1, None], "f": [0.1, 2.0], "b": [True, False]}
    pq.write_table(pa.table(columns), path)
    source = open_molecules(path, ["smiles"], [])
    assert source.columns == ("smiles", "i", "f", "b")
    rows = [row.cells for row in source.rows()]
    assert rows == [["C", "1", "0.1", "True"], ["N", "", "2.0", "False"]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_smiles_file_is_read_with_the_encoding_of_its_byte_order_mark(tmp_path, encoding):
    (tmp_path / "x.smi").write_text("CCO \xfc\n", encoding=encoding)
    source = open_molecules(tmp_path / "x.smi", ["smiles"])
    assert cells(source) == [("CCO", "\xfc")]
    with source.writer(tmp_path / "out.tsv", ["prediction"]) as write:
        write.writerow(["CCO", "\xfc", "1"])
    has_mark = (tmp_path / "out.tsv").read_bytes().startswith(b"\xef\xbb\xbf")
    assert has_mark == (encoding == "utf-8-sig")


@pytest.mark.parametrize("name", ["x.csv.gz", "x.smi.gz", "x.parquet"])
@pytest.mark.parametrize("content", [b"no such format at all", "truncated"])
def test_error_about_a_damaged_file_names_the_file(tmp_path, name, content):
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
        open_molecules(path, ["smiles"], []).count()


@pytest.mark.parametrize(("name", "separator"), [("out.csv", ","), ("out.tsv", "\t")])
def test_separator_of_the_output_for_a_smiles_file_follows_its_ending(tmp_path, name, separator):
    (tmp_path / "in.smi").write_text("CCO\tethanol\n")
    table = open_molecules(tmp_path / "in.smi", ["smiles"])
    with table.writer(tmp_path / name, ["y"]) as writer:
        writer.writerow(["CCO", "ethanol", 1])
    lines = (tmp_path / name).read_text().splitlines()
    cells = [line.split(separator) for line in lines]
    assert cells == [["smiles", "name", "y"], ["CCO", "ethanol", "1"]]


def test_smiles_file_for_a_model_of_two_molecules_raises_error(tmp_path):
    (tmp_path / "x.smi").write_text("C a\n")
    with pytest.raises(ValueError, match="has one SMILES in a line, and this model reads 2 in a"):
        open_molecules(tmp_path / "x.smi", ["a", "b"], [])


def test_smiles_column_is_detected_by_its_name(tmp_path):
    for header, column in (
        *(("id,SMILES,y", "SMILES"), ("Drug,y", "Drug")),
        *(("ID;Canonical_SMILES", "Canonical_SMILES"), ("Drug,smiles", "smiles")),
    ):
        (tmp_path / "x.csv").write_text(f"{header}\n")
        assert open_molecules(tmp_path / "x.csv", ["smiles"]).smiles == (column,)


@pytest.mark.parametrize(
    ("header", "names"),
    [("SMILES,Canonical_SMILES", ["smiles"]), ("SMILES,y", ["molecule"]), ("SMILES,y", ["a", "b"])],
)
def test_missing_smiles_column_raises_error_if_candidates_are_ambiguous(tmp_path, header, names):
    (tmp_path / "x.csv").write_text(f"{header}\n")
    with pytest.raises(ValueError, match=f"no column '{names[0]}'"):
        open_molecules(tmp_path / "x.csv", names)
