"""Tests of tables: all rows are read in order, for any encoding, separator, quoting and number of
cells.
"""

import csv
import io

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gattn.apps.tables.csv_table import open_table

CELLS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0[{<") | st.sampled_from(',;\t|"\n\r '),
    max_size=6,
)
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"])


def _written(tmp_path_factory, content: bytes):
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    path.write_bytes(content)
    return path


@settings(deadline=None)
@given(
    st.lists(st.lists(CELLS, min_size=2, max_size=4), max_size=8),
    *(st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n", "\r"]), ENCODINGS, st.booleans()),
)
def test_rows_of_a_table_written_by_the_csv_module_are_read_unchanged(
    tmp_path_factory, rows, separator, newline, encoding, last_newline
):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator=newline, quoting=csv.QUOTE_ALL)
    writer.writerow(["smiles", "b", "c"])
    for row in rows:
        text.write(newline)  # a reader must skip blank lines
        writer.writerow(row)
    content = text.getvalue() if last_newline else text.getvalue().removesuffix(newline)
    path = _written(tmp_path_factory, content.encode(encoding))
    table = open_table(path, ["smiles", "b"])
    assert table.columns == ("smiles", "b", "c")
    assert table.separator == separator
    parsed = list(table.rows())
    assert len(parsed) == len(rows) == table.count()
    for parsed_row, row in zip(parsed, rows, strict=True):
        is_filled = bool("".join(row[3:]).strip())
        assert bool(parsed_row.problem) == (len(row) < 3 or is_filled)
        last = separator.join(row[2:]) if is_filled else (*row, "")[2]
        assert parsed_row.cells == [*row[:2], last]
        assert len(parsed_row.cells) == 3


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from([None, "latin-1", "utf-16"]))
def test_file_of_any_bytes_raises_only_errors_with_its_path(tmp_path_factory, content, encoding):
    path = _written(tmp_path_factory, b"smiles,y\nCCO,1\n" + content)
    try:
        rows = list(open_table(path, ["smiles"], encoding=encoding).rows())
    except ValueError as error:
        message = str(error)
    else:
        assert all(len(row.cells) == 2 for row in rows)
        message = f"{path}: {rows[0].cells[0]}"
    assert message.startswith(str(path))


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_bytes_that_are_not_utf_8_are_written_unchanged(tmp_path_factory, content):
    path = _written(tmp_path_factory, b"smiles,y\nCCO,1\n" + content)
    out = path.with_name("out.csv")
    table = open_table(path, ["smiles"], on_bad_bytes="surrogateescape")
    try:
        rows = list(table.rows())
    except ValueError:  # the text contains an opening quote without a closing quote
        assume(False)
    with table.writer(out, ["error"]) as writer:
        for row in rows:
            writer.writerow([*row.cells, row.problem])
    again = list(open_table(out, ["smiles"], on_bad_bytes="surrogateescape").rows())
    assert [row.cells for row in again] == [[*row.cells, row.problem] for row in rows]


def test_line_number_of_a_row_is_that_of_its_first_line(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b'\r\n"smi\nles",y\r\n\r\n"C",1\r\n"C\r\nC",2\r\nO\r\n\r\nN,1,2,3')
    rows = list(open_table(path, ["y"]).rows())
    assert [row.line for row in rows] == [5, 6, 8, 10]
    problems = [row.problem for row in rows]
    assert problems == ["", "", "1 cell but the header has 2", "4 cells but the header has 2"]
    assert rows[3].cells == ["N", "1,2,3"]


def test_nul_byte_in_a_table_raises_error_with_its_line(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"smiles,y\nCC,2\nC\0C,1\n")
    with pytest.raises(ValueError, match=r"table\.csv has a NUL byte in line 3; .* utf-16-le"):
        open_table(path, ["smiles"]).count()


def test_input_column_is_renamed_if_an_output_column_has_its_name(tmp_path):
    path, lines = tmp_path / "table.csv", []
    path.write_text("smiles,error,error_input\nC,1,2\n")
    table = open_table(path)
    with table.writer(tmp_path / "out.csv", ["error"], log=lines.append) as writer:
        writer.writerow(["C", "1", "2", "new"])
    written = open_table(tmp_path / "out.csv")
    assert written.columns == ("smiles", "error_input_input", "error_input", "error")
    assert "is called 'error_input_input'" in lines[0]


def test_table_of_another_encoding_raises_error_that_names_the_option(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("smiles,name\nC,Méthane\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not UTF-8 text: byte 0xe9 in line 2; set its encoding"):
        open_table(path, ["smiles"]).count()
    table = open_table(path, ["smiles"], encoding="latin-1")
    assert [row.cells for row in table.rows()] == [["C", "Méthane"]]
    with table.writer(tmp_path / "out.csv", ["y"]) as writer:
        writer.writerow(["C", "Méthane", "1"])
    assert (tmp_path / "out.csv").read_bytes() == "smiles,name,y\r\nC,Méthane,1\r\n".encode()
    with pytest.raises(ValueError, match="unknown encoding 'klingon'"):
        open_table(path, ["smiles"], encoding="klingon")


def test_missing_table_folder_unknown_encoding_or_too_long_field_raises_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_table(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="is a folder; expected a CSV file"):
        open_table(tmp_path)
    path = tmp_path / "table.csv"
    path.write_text("smiles,error\nC,1\n")
    with pytest.raises(ValueError, match="unknown encoding 'base64'"):
        # Base64 is a codec of bytes, not a text encoding.
        open_table(path, encoding="base64")
    path.write_text("smiles,y\n" + "C" * 200_000 + ",1\n")
    with pytest.raises(ValueError, match=r"line 2: field larger than field limit \(131072\)"):
        open_table(path, ["smiles"]).count()


def test_error_about_a_missing_column_names_the_line_of_the_header(tmp_path):
    path = tmp_path / "table.csv"
    for text in (
        "# of 2024\n\nSmiles,y\nC,1\n",
        "Assay,,\n,,\nSmiles,y,z\nC,1,2\n",
        "a\nb\nSmiles;y\n",
    ):
        path.write_text(text)
        with pytest.raises(
            ValueError, match=r"no column 'smiles'; .*; line 3 seems to be the header"
        ):
            open_table(path, ["y"], smiles=["smiles"])
    with pytest.raises(ValueError, match=r"by comma\)$"):
        open_table(path, ["x"])


def test_empty_cells_beyond_the_header_are_ignored(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("smiles,y\nCO,1,\nCN,2, ,\nCC,3,x\nC\n,,\n")
    rows = list(open_table(path, ["smiles", "y"]).rows())
    assert [row.cells for row in rows[:2]] == [["CO", "1"], ["CN", "2"]]
    assert [row.problem for row in rows] == [
        *["", "", "3 cells but the header has 2", "1 cell but the header has 2", ""]
    ]


def test_declaration_sep_in_the_first_line_of_a_table_sets_the_separator(tmp_path):
    for declared, separator, newline, encoding in (
        ("sep=;", ";", "\n", "utf-8"),
        ("SEP=,", ",", "\r\n", "utf-8-sig"),
        ('"sep=;"', ";", "\r\n", "utf-16"),
        ("sep=\t", "\t", "\n", "utf-16"),
        ("sep=|", "|", "\n", "utf-8-sig"),
    ):
        path = tmp_path / "table.csv"
        lines = [declared, f"smiles{separator}y", f"CO{separator}1", "", f"CN{separator}2", ""]
        path.write_bytes(newline.join(lines).encode(encoding))
        for columns in ([], ["smiles", "y"]):
            table = open_table(path, columns)
            assert (table.columns, table.separator) == (("smiles", "y"), separator)
            rows = [(row.line, row.cells) for row in table.rows()]
            assert rows == [(3, ["CO", "1"]), (5, ["CN", "2"])]


def test_error_about_a_file_of_another_format_names_the_format(tmp_path):
    for name, content, message in (
        ("a.csv", b"ARROW1\0\0", r"is a Feather file; write pandas.read_feather"),
        ("a.pkl", b"\x80\x04\x95", "is a pickle, which can run code when it is read; .*CSV"),
        ("a.parquet", b"PAR1\x15", r"is a Parquet file; .*read_parquet"),
        ("a.csv", b"PAR1\x15\x04", r"is a Parquet file; write pandas.read_parquet"),
        ("a.xlsx", b"PK\x03\x04", "for example an Excel workbook; save it as a CSV file"),
        ("a.csv", b"\x93NUMPY\x01", "is a NumPy array"),
        ("a.json", b"{}", "is a JSON file"),
        ("a.csv", b"\x1f\x8b\x08", "compressed by gzip"),
        ("some.sdf", b"ethanol", "file of molecular structures; expected a CSV file, with SMILES"),
    ):
        (tmp_path / name).write_bytes(content)
        for encoding in (None, "latin-1"):
            with pytest.raises(ValueError, match=message):
                open_table(tmp_path / name, ["smiles"], encoding=encoding)


def test_column_named_like_a_file_signature_is_read(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("PAR1,smiles\n1,CO\n")
    assert open_table(path, ["smiles"]).columns == ("PAR1", "smiles")


@pytest.mark.parametrize(
    "text", ['{"smiles": ["C"]}', '[{"smiles": "C", "y": 1}]', "[\n", "<!DOCTYPE html>\n<p>\n"]
)
def test_json_file_or_web_page_as_table_raises_error(tmp_path, text):
    path = tmp_path / "download.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="as JSON, XML or a web page do; expected a CSV file"):
        open_table(path)
