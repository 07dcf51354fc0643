"""Tests of ``gattn serve`` with models of several molecules in a row, of reactions and of
descriptor columns.
"""

import csv
import io

import pytest

from gattn.apps.serve.app import Server
from gattn.apps.serve.server import open_runs
from gattn.apps.serve.settings import ServeSettings
from tests.apps.cli.commands import run_command
from tests.apps.cli.molecule_table import GP
from tests.apps.serve.clients import listening, serving
from tests.apps.serve.test_page import open_page
from tests.pictures import leave_blank

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
REACTION = "[CH3:1]CC[Br:2].[OH-:3]>>[CH3:1]CC[OH:3].[Br-:2]"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of one run of each kind."""
    folder = tmp_path_factory.mktemp("kinds")
    with pytest.MonkeyPatch.context() as patch:
        leave_blank(patch)
        for name, table in TABLES.items():
            data = folder / f"{name}.csv"
            data.write_text(table)
            command = ["molecules", "train", data, "--target", "y", *OPTIONS[name], *GP]
            assert run_command(patch, *command, "--out", folder / name) == 0
    return {name: folder / name for name in TABLES}


@pytest.fixture(scope="module")
def runs(folders):
    runs = open_runs(list(folders.values()), ServeSettings())
    assert not any(run.notes for run in runs)
    return runs


@pytest.fixture(scope="module")
def client(runs):
    with serving(Server(runs, ServeSettings(workers=1))) as client:
        yield client


@pytest.mark.parametrize("name", TABLES)
def test_a_csv_file_gets_the_bytes_of_the_command(client, folders, name, tmp_path, monkeypatch):
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


def test_the_description_of_the_models(client):
    models = {model["name"]: model for model in client.get("/models").json()}
    assert models["pairs"]["smiles_columns"] == ["solute", "solvent"]
    assert models["reactions"]["reaction"]
    assert models["reactions"]["methods"] == []
    assert models["columns"]["descriptors"] == ["T", "pH"]
    assert models["columns"]["columns"][-1] == "outside"


def predicted(client, name, row):
    """Return the row of a CSV body with the prediction of one row."""
    content = "\n".join([",".join(row), ",".join(row.values()), ""]).encode()
    headers = {"content-type": "text/csv"}
    text = client.post(f"/predict?model={name}", content=content, headers=headers).text
    return next(csv.DictReader(io.StringIO(text)))


def test_json_of_pairs(client):
    body = {"model": "pairs", "smiles": [["CCO", "O"], ["CCO", "bad("]]}
    good, bad = client.post("/predict", json=body).json()["rows"]
    expected = predicted(client, "pairs", {"solute": "CCO", "solvent": "O"})
    assert good["prediction"] == float(expected["prediction"])
    assert bad["error"].startswith("molecule 2: not valid SMILES")
    answer = client.post("/explain", json={"model": "pairs", "smiles": ["CCO", "O"]}).json()
    assert answer["values"]["prediction"] == good["prediction"]
    assert answer["atoms"] == []
    assert " + " in answer["nearest"][0]["smiles"]
    picture = client.get("/picture", params={"smiles": answer["nearest"][0]["smiles"]})
    assert picture.status_code == 200


def test_json_of_reactions(client):
    rows = client.post("/predict", json={"model": "reactions", "smiles": [REACTION]}).json()["rows"]
    answer = client.post("/explain", json={"model": "reactions", "smiles": REACTION}).json()
    assert answer["values"]["prediction"] == rows[0]["prediction"]
    assert answer["atoms"] == []
    assert answer["faithfulness"] is answer["pictures"] is None
    assert answer["nearest"][0]["similarity"] > 0.5
    picture = client.get("/picture", params={"smiles": REACTION})
    assert picture.content.startswith(b"<?xml")
    assert client.get("/picture", params={"smiles": "bad(>>C"}).status_code == 422
    assert client.get("/picture", params={"smiles": "[NH3]->[Cu]"}).status_code == 200


def test_json_of_descriptor_columns(client):
    columns = {"pH": [7.0, None], "T": [300, 9999.0]}
    body = {"model": "columns", "smiles": ["CCO", "CCN"], "columns": columns}
    first, second = client.post("/predict", json=body).json()["rows"]
    expected = predicted(client, "columns", {"smiles": "CCO", "T": "300", "pH": "7"})
    assert first["prediction"] == float(expected["prediction"])
    assert (first["outside"], second["outside"]) == (None, "T")
    body = {"model": "columns", "smiles": "CCO", "columns": {"T": 320, "pH": 5.0}}
    answer = client.post("/explain", json=body).json()
    assert set(answer["contributions"]) == {"T", "pH"}
    assert answer["contributions"]["T"] != 0
    missing = client.post("/explain", json=body | {"columns": {"T": None, "pH": 5.0}}).json()
    changed = answer["values"]["prediction"] - missing["values"]["prediction"]
    assert changed == pytest.approx(answer["contributions"]["T"], abs=1e-4)


WRONG = {
    "one SMILES for a pair": (
        {"model": "pairs", "smiles": ["CCO"]},
        "the model 'pairs' reads rows of 2 molecules: row 1 must be a list of 2 SMILES; it is a "
        "text",
    ),
    "a list for a molecule": (
        {"model": "columns", "smiles": [["C", "O"]], "columns": {"T": [1], "pH": [1]}},
        "the model 'columns' reads molecules: row 1 must be one SMILES; it is a list of 2",
    ),
    "no columns": (
        {"model": "columns", "smiles": ["C"]},
        "the model 'columns' needs the columns T, pH; got none",
    ),
    "columns of another model": (
        {"model": "pairs", "smiles": [["C", "O"]], "columns": {"T": [1]}},
        "the model 'pairs' needs no columns; got T",
    ),
    "too few values": (
        {"model": "columns", "smiles": ["C", "O"], "columns": {"T": [1], "pH": [1, 2]}},
        "columns.T must have 2 values, one for each row; got 1",
    ),
    "a text as value": (
        {"model": "columns", "smiles": ["C"], "columns": {"T": ["1"], "pH": [1]}},
        'columns.T.0: input should be a valid number; got "1"',
    ),
    "a number as SMILES": (
        {"model": "pairs", "smiles": [1]},
        "smiles.0: input should be a valid string or input should be a valid array; got 1",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rows_are_refused_with_a_sentence(client, name):
    body, sentence = WRONG[name]
    answer = client.post("/predict", json=body)
    assert (answer.status_code, answer.json()["error"]) == (422, sentence)


@pytest.fixture
def page(browser, runs):
    """Page of the server; see :func:`open_page`."""
    server = Server(runs, ServeSettings(workers=1))
    with listening(server) as address, open_page(browser, address) as page:
        yield page


def fill(page, name, text):
    field = page.find(f'[name="{name}"]')
    field.clear()
    field.send_keys(text)


@pytest.mark.slow
def test_the_page_has_fields_for_molecules_and_columns(page, client):
    names = [field.get_attribute("name") for field in page.all("#more-fields input")]
    assert names == ["molecule 2", "column T", "column pH"]
    page.find("[data-model=reactions]").click()
    fill(page, "molecule 2", "O")
    fill(page, "column T", "9999")
    fill(page, "column pH", "6.5")
    page.predict("CCO")
    page.wait("#predictions .card figure img", 2)
    pair, columns = page.all("#predictions .card")
    body = {"model": "pairs", "smiles": [["CCO", "O"]]}
    expected = client.post("/predict", json=body).json()["rows"][0]["prediction"]
    shown = float(pair.find_element("css selector", ".number").text)
    assert shown == pytest.approx(expected, rel=1e-3)
    assert "Far outside the range of the training values: T." in columns.text
    assert "Contribution of each column" in columns.text
    page.find("[data-model=pairs]").click()
    page.find("[data-model=columns]").click()
    page.until(lambda: not page.all("#more-fields input"))
    # A selected model predicts the text of the field at once, and CCO is no reaction.
    field = page.find("#smiles")
    field.clear()
    field.send_keys(REACTION)
    page.find("[data-model=reactions]").click()
    page.until(lambda: "Reaction A>>B" in page.text_of("label[for=smiles]"))
    page.predict(REACTION)
    page.until(lambda: "are not computed for reactions" in page.text_of("#predictions"))


@pytest.mark.slow
def test_a_reaction_is_drawn_with_its_map_numbers(page, client):
    for name in ("pairs", "columns"):
        page.find(f"[data-model={name}]").click()
    page.find("#drawing summary").click()
    page.wait("iframe[src='/editor#reaction']")
    browser = page.browser
    browser.switch_to.frame(page.find("iframe"))
    page.until(lambda: browser.execute_script("return Boolean(window.structureEditor)"))
    browser.execute_script("structureEditor.readGenericMolecularInput(arguments[0])", REACTION)
    browser.switch_to.default_content()
    page.wait("#predictions .card .number")
    drawn = page.find("#smiles").get_attribute("value")
    assert drawn.count(":1]") == 2
    rows = client.post("/predict", json={"model": "reactions", "smiles": [REACTION]}).json()["rows"]
    shown = float(page.text_of("#predictions .number"))
    assert shown == pytest.approx(rows[0]["prediction"], rel=1e-3)
    # A selected model predicts the text of the field at once, and no molecule is a reaction.
    page.find("#smiles").clear()
    page.find("[data-model=columns]").click()
    page.find("[data-model=reactions]").click()
    page.wait("iframe[src='/editor']")
