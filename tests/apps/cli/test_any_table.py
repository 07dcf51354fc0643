"""Tests with tables of arbitrary bytes: each input row gives an output row, or the command prints
an error of one line.
"""

import csv
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gattn.apps.molecules import MoleculeRegressor
from gattn.apps.molecules.runs.predict import predict_table
from gattn.apps.tables.csv_table import open_table

SMILES = [f"{'C' * n}{end}" for n in range(1, 16) for end in "ON"]
CHEMISTRY = st.sampled_from(
    [
        *("C", "CCO", "c1ccccc1", "[Na+].[Cl-]", "[2H]C", "*CC*", "[U]", "C1CC", "CN(C)(C)(C)C"),
        *("C" * 1200, "", " ", "N/A", "CCO |$;;$|", "[H][H]", "C.C.C", "O=C", "é", "CC\\t", '"'),
    ]
)
# A NUL byte is an error of the whole file.
CELLS = CHEMISTRY | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    MoleculeRegressor(model="gp").fit(SMILES, range(30)).save(folder)
    return folder


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.tuples(CELLS, CHEMISTRY, CELLS), max_size=8),
    separator=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
)
def test_each_row_of_any_table_gets_a_prediction_or_an_error(run, rows, separator, end, encoding):
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "in.csv", Path(folder) / "out.csv"
        with path.open("w", newline="", encoding=encoding, errors="replace") as file:
            # Python's csv.writer quotes a cell with a carriage return only if the line terminator
            # contains one. Otherwise every cell must be quoted.
            quoting = csv.QUOTE_MINIMAL if end == "\r\n" else csv.QUOTE_ALL
            table = csv.writer(file, delimiter=separator, lineterminator=end, quoting=quoting)
            table.writerows([("id", "smiles", "note"), *rows])
        counts = predict_table(run, path, out)
        assert counts.rows == len(rows)
        before = list(open_table(path, ["smiles"], on_bad_bytes="surrogateescape").rows())
        after = list(open_table(out, ["error"], on_bad_bytes="surrogateescape").rows())
        assert len(after) == len(rows)
        for one, other in zip(before, after, strict=True):
            assert other.cells[:3] == one.cells
            # Each row has either a prediction or an error.
            assert bool(other.cells[3]) != bool(other.cells[-1])
