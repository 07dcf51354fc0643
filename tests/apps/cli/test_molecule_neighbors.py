"""Tests of predictions with the nearest measured molecules, of standardisation, and of target
transforms.
"""

import pytest

from tests.apps.cli.molecule_table import GP, ROWS, read_rows

NEW = "smiles,name\nCCCCCO,first\nCl.CCCCCO,salt\nC1CC,bad\nc1ccsc1C#N,far\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    data = tmp_path_factory.mktemp("neighbors") / "data.csv"
    data.write_text("smiles,y\n" + "".join(f"{s},{10 ** (y / 8):.6g}\n" for s, y, _ in ROWS))
    return data


@pytest.fixture
def run(gattn, data):
    """Folder of a run with standardisation and a transform."""
    run = data.parent / "run"
    if not run.exists():
        options = ["--standardize", "largest-fragment", "--target-transform", "log10"]
        code, text = gattn("train", data, "--target", "y", "--out", run, *options, *GP)
        assert code == 0, text
    return run


def test_predict_writes_the_nearest_training_molecules_of_each_row(gattn, run, tmp_path):
    new, out = tmp_path / "new.csv", tmp_path / "p.csv"
    new.write_text(NEW)
    code, text = gattn("predict", run, new, "--out", out, "--neighbors", 2, "--coverage", 0.8)
    assert code == 0, text
    assert "in_domain is false for 1 row" in " ".join(text.split())
    first, salt, bad, far = read_rows(out)
    measured = {s: y for s, y, _ in ROWS}
    assert float(first["neighbor1_similarity"]) >= float(first["neighbor2_similarity"]) > 0
    assert first["neighbor1_similarity"] == first["similarity"]
    value = 10 ** (measured[first["neighbor1_smiles"]] / 8)
    assert float(first["neighbor1_measured"]) == pytest.approx(value, rel=1e-5)
    assert first["in_domain"] == "true"
    assert far["in_domain"] == "false"
    assert bad["neighbor1_smiles"] == bad["in_domain"] == ""
    assert {k: v for k, v in salt.items() if k not in ("smiles", "name")} == {
        k: v for k, v in first.items() if k not in ("smiles", "name")
    }
    assert all(float(row["lower"]) > 0 for row in (first, salt, far))
