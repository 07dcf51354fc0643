"""Tests of ``gattn serve`` with models of several molecules in a row, of reactions and of
descriptor columns.
"""

import csv
import io

import pytest

from tests.apps.cli.commands import run_command, train
from tests.apps.cli.molecule_table import GP

SOLVENTS = ["O", "CCO", "CC#N", "CCCCCC"]
TABLES = {
    "pairs": "solute,solvent,y\n" + "".join(
        f"{'C' * n}{end},{solvent},{0.5 * n + i}\n"
        for n in range(1, 9) for end in "ON" for i, solvent in enumerate(SOLVENTS)
    ),
    "reactions": "reaction,y\n" + "".join(
        f"[CH3:1]{'C' * n}[Br:2].[{x}-:3]>>[CH3:1]{'C' * n}[{x}:3].[Br-:2],{n + i}\n"
        for n in range(12) for i, x in enumerate(("OH", "NH2", "SH"))
    ),
    "columns": "smiles,T,pH,y\n" + "".join(
        f"{'C' * n}{end},{300 + 10 * t},{7 - t},{n + t}\n"
        for n in range(1, 9) for end in "ON" for t in range(3)
    ),
}  # fmt: skip
OPTIONS = {
    "pairs": ["--smiles", "solute", "--smiles", "solvent"],
    "reactions": ["--smiles", "reaction", "--reaction"],
    "columns": ["--descriptors-columns", "T", "--descriptors-columns", "pH"],
}
NEW = {
    "pairs": b"id,solvent,solute\n1,O,CCO\n2,CC#N,CCCN\n3,O,\n4,CCO\n",
    "reactions": b"id,reaction\n1,[CH3:1]C[Br:2].[OH-:3]>>[CH3:1]C[OH:3].[Br-:2]\n2,CCO\n",
    "columns": b"smiles,pH,T\nCCO,7,300\nCCN,,9999\nCCC,x,300\nbad(,7,300\n",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of one run of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    for name, table in TABLES.items():
        data = folder / f"{name}.csv"
        data.write_text(table)
        options = ["--target", "y", *OPTIONS[name], *GP, "--out", folder / name]
        train("molecules", "train", data, *options)
    return {name: folder / name for name in TABLES}


@pytest.mark.parametrize("name", TABLES)
def test_csv_request_of_each_row_format_returns_the_same_bytes_as_command_predict(
    client, folders, name, tmp_path, monkeypatch
):
    (tmp_path / "in.csv").write_bytes(NEW[name])
    out = tmp_path / "out.csv"
    command = ["molecules", "predict", folders[name], tmp_path / "in.csv", "--out", out]
    assert run_command(monkeypatch, *command) == 0
    headers = {"content-type": "text/csv"}
    answer = client.post(f"/predict?model={name}", content=NEW[name], headers=headers)
    assert answer.status_code == 200
    assert answer.content == out.read_bytes()
    headers["accept"] = "application/json"
    table = client.post(f"/predict?model={name}", content=NEW[name], headers=headers).json()
    assert [table["columns"], *table["rows"]] == list(csv.reader(io.StringIO(out.read_text())))
    names = {"pairs": ["solute", "solvent"], "reactions": ["reaction"], "columns": ["smiles"]}
    assert [table["columns"][i] for i in table["smiles_columns"]] == names[name]


def test_json_request_to_a_model_of_pairs_or_descriptor_columns_gets_status_422(client, runs):
    assert not any(run.notes for run in runs)
    models = {model["name"]: model for model in client.get("/models").json()}
    assert models["pairs"]["smiles_columns"] == ["solute", "solvent"]
    assert not any(model["reads_smiles"] for model in models.values())
    for name, columns in (("pairs", "solute, solvent"), ("columns", "smiles, T, pH")):
        for path, smiles in (("/predict", ["CCO"]), ("/explain", "CCO")):
            answer = client.post(path, json={"model": name, "smiles": smiles})
            sentence = (
                f"the model '{name}' reads tables: send a CSV body with the columns {columns}"
            )
            assert (answer.status_code, sentence in answer.json()["error"]) == (422, True)
