"""Tests of ``gattn molecules`` with descriptor columns."""

import json

from tests.apps.cli.molecule_table import GP, read_rows

ROWS = [
    (f"{'C' * (1 + n % 12)}{'ON'[n % 2]}", 280 + 7 * (n % 9), 5 + n % 4, 0.1 * (n % 9) + n % 12)
    for n in range(80)
]
TABLE = "smiles,T,pH,y\n" + "".join(f"{s},{t},{p},{y:.3f}\n" for s, t, p, y in ROWS)
COLUMNS = ["--descriptors-columns", "T", "--descriptors-columns", "pH"]


def test_train_predict_and_explain_read_descriptor_columns(gattn, tmp_path):
    data, run = tmp_path / "data.csv", tmp_path / "run"
    data.write_text(TABLE + "CCCCO,warm,7,1.0\nCCCCN,,7,1.0\n")
    code, out = gattn("train", data, "--target", "y", "--out", run, *COLUMNS, *GP)
    assert code == 0, out
    assert "T must be a finite number or empty; it is 'warm'" in out
    assert "differ by more than" not in out  # the temperatures differ
    metrics = json.loads((run / "metrics.json").read_text())
    assert sum(metrics["molecules"][part] for part in ("train", "val", "test")) == 81
    assert 'descriptors_columns = ["T", "pH"]' in (run / "config.toml").read_text()

    new = tmp_path / "new.csv"
    new.write_text("pH,smiles,T\n7,CCO,300\n7,CCO,330\n7,CCO,\n7,CCO,hot\n7,C1CC,300\n")
    assert gattn("predict", run, new, "--out", tmp_path / "p.csv")[0] == 0
    rows = read_rows(tmp_path / "p.csv")
    assert float(rows[1]["prediction"]) > float(rows[0]["prediction"])
    assert rows[2]["error"] == ""
    assert rows[3]["error"] == "T must be a finite number or empty; it is 'hot'"
    assert rows[3]["prediction"] == rows[4]["prediction"] == ""
    assert "not valid SMILES" in rows[4]["error"]

    fresh = tmp_path / "held.csv"
    fresh.write_text("smiles,T,pH,y\nCCCCCCCCCCCCCO,300,6,13\nCCCCCCCCCCCCCN,290,6,13\n")
    assert gattn("evaluate", run, fresh)[0] == 0
    why = tmp_path / "why"
    assert gattn("explain", run, new, "--out", why, "--pictures", 0)[0] == 0
    assert read_rows(why / "atoms.csv")


def test_prediction_without_a_descriptor_column_exits_with_an_error(gattn, tmp_path):
    header, *lines = TABLE.splitlines()
    data, run, new = tmp_path / "data.csv", tmp_path / "run", tmp_path / "new.csv"
    data.write_text("\n".join([f"{header},D,E", *(f"{line},,5" for line in lines)]))
    columns = ["--descriptors-columns", "D", "--descriptors-columns", "E"]
    code, output = gattn("train", data, "--target", "y", *columns, "--out", run, *GP)
    assert code == 0, output
    for text, missing in (("smiles\nCCO\n", "D"), ("smiles,D\nCCO,300\n", "E")):
        new.write_text(text)
        code, err = gattn("predict", run, new, "--out", tmp_path / "p.csv")
        assert code == 2
        assert f"no column {missing!r}" in err
