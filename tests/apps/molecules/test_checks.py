"""The data check reports each fault that was planted in a table, and none in a table without
faults.
"""

import csv
import random

import numpy as np
import pytest

from gattn.apps.molecules.checks.findings import check_table, summary
from gattn.data import load_molecules

ROWS = 400
TWINS = {
    380: "OCCc1ccc(C#N)cc1", 381: "N#Cc1ccc(CCO)cc1",
    382: "CCCCCCCCC(=O)O", 383: "CCCCCCCCC(=O)[O-].[Na+]",
    384: "CCCC[C@H](N)c1ccccc1", 385: "CCCC[C@@H](N)c1ccccc1",
    386: "CCCCOc1ccc(O)nc1", 387: "CCCCOc1ccc(=O)[nH]c1",
    3: "C1CC(N", 5: "CN(C)(C)(C)C",
}  # fmt: skip
"""SMILES that are planted, by their rows."""
PLANTED = {
    "unreadable": ("", [3, 5]), "labels": ("text", [6]),
    "readability": ("text", [7, 8]), "empty": ("few", None), "constant": ("flat", None),
    "censored": ("bound", list(range(40))), "outliers": ("far", [11]),
    "same_molecule": ("", [0, 380, 381, 390]), "conflicts": ("y", [1, 391]),
    "salt_twins": ("", [382, 383]), "stereo_twins": ("", [384, 385]),
    "tautomer_twins": ("", [386, 387]), "copies": ("y", None),
}  # fmt: skip
"""For each kind of finding the target and the rows with the planted fault."""


@pytest.fixture(scope="module")
def base() -> list[dict[str, str]]:
    """Rows of a table without faults, whose labels are a smooth function of the molecules."""
    from rdkit.Chem import Crippen, MolFromSmiles

    texts = [s for s in dict.fromkeys(load_molecules("chembl2321810").smiles) if "." not in s]
    random.Random(1).shuffle(texts)
    texts = texts[:ROWS]
    noise = np.random.default_rng(0).normal(0, 0.3, ROWS)
    y = [4 + 0.5 * Crippen.MolLogP(MolFromSmiles(text)) for text in texts] + noise
    numbers = random.Random(2).sample(range(10**6), ROWS)
    return [
        {"id": f"CMP-{number:06d}", "smiles": text, "y": f"{value:.3f}"}
        for number, text, value in zip(numbers, texts, y, strict=True)
    ]


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture(scope="module")
def findings(base, tmp_path_factory):
    """Findings for a table in which every fault of PLANTED is planted."""
    rows = [dict(row) for row in base]
    for row, text in TWINS.items():
        rows[row]["smiles"] = text
    rows[391]["smiles"] = rows[1]["smiles"]
    for i, row in enumerate(rows):
        y = float(row["y"])
        row |= {
            "few": row["y"] if i < 15 else "", "flat": row["y"] if i < 10 else "5.0",
            "bound": ">9" if i < 40 else row["y"], "copy": f"{-2 * y}",
            "far": "61.5" if i == 11 else row["y"],
            "text": {6: "not tested", 7: "1,008", 8: "1,008"}.get(i, row["y"]),
        }  # fmt: skip
    rows[391]["y"] = str(float(rows[1]["y"]) + 3)
    rows[390] = dict(rows[0])
    targets = ["y", "few", "flat", "bound", "far", "text"]
    path = write(tmp_path_factory.mktemp("faults") / "t.csv", rows)
    return check_table(path, targets=targets).findings


@pytest.mark.parametrize("kind", PLANTED)
def test_check_table_reports_each_kind_of_fault_with_its_rows(findings, kind):
    target, rows = PLANTED[kind]
    reported = [each for each in findings if (each.kind, each.target) == (kind, target)]
    assert reported
    assert set(rows or ()) <= {row for each in reported for row in each.details}


def test_check_table_reports_at_most_tautomers_in_a_table_without_faults(base, tmp_path):
    result = check_table(write(tmp_path / "t.csv", base), targets=["y"])
    faults = {each.kind for each in result.findings if each.severity != "note"}
    assert faults <= {"tautomer_twins"}  # Real tables contain tautomers.


def test_check_table_reports_molecules_in_two_splits_or_files(base, tmp_path):
    rows = [dict(row, part="train" if i < 200 else "test") for i, row in enumerate(base)]
    rows[300]["smiles"] = rows[0]["smiles"]
    for first, second, twin in ((5, 301, 382), (6, 302, 386)):
        rows[first]["smiles"], rows[second]["smiles"] = TWINS[twin], TWINS[twin + 1]
    path = write(tmp_path / "t.csv", rows)
    (finding,) = [
        f for f in check_table(path, targets=["y"], split="column:part").findings
        if f.kind == "leaks"
    ]  # fmt: skip
    assert {0, 5, 6, 300, 301, 302} <= set(finding.details)
    reasons = finding.details
    assert reasons[300] == "the same molecule is in train"
    assert reasons[301] == "another salt or charge is in train"
    assert reasons[302] == "another tautomer is in train"

    first, second = write(tmp_path / "a.csv", rows[:200]), write(tmp_path / "b.csv", rows[200:])
    result = check_table(first, targets=["y"], test=second)
    (leak,) = [f for f in result.findings if f.kind == "leaks"]
    assert {100, 101, 102} <= set(leak.details)
    assert "line 102" in "\n".join(summary(result)) or min(leak.details) < 100


def test_check_table_reports_labels_over_many_decades_and_classes_that_differ_in_case(tmp_path):
    rows = [
        {"smiles": "C" * (i % 40 + 1), "ic50": 10 ** (i % 11), "toxic": ("Yes", "yes", "no")[i % 3]}
        for i in range(60)
    ]
    path = write(tmp_path / "t.csv", rows)
    kinds = {f.kind: f.message for f in check_table(path, targets=["ic50", "toxic"]).findings}
    assert "--target-transform log10" in kinds["decades"]
    assert "'Yes' and 'yes'" in kinds["case"]


def test_check_table_reports_labels_beyond_float32_and_several_units(tmp_path):
    rows = [
        {"smiles": "C" * (i + 1), "y": "1e300" if i == 7 else i, "unit": ("nM", "uM")[i % 2]}
        for i in range(25)
    ]
    findings = check_table(write(tmp_path / "t.csv", rows), targets=["y"]).findings
    kinds = {finding.kind: finding for finding in findings}
    assert [*kinds] == ["labels", "units"]
    assert kinds["labels"].details == {7: "1e300"}
    assert "'unit' contains 2 units (nM, uM)" in kinds["units"].message


def test_check_table_reports_a_column_that_encodes_the_target_classes(tmp_path):
    kinds = [(i * i) % 7 % 3 for i in range(60)]
    rows = [
        {"smiles": "C" * (i % 40 + 1), "colour": ("red", "green", "blue")[k], "code": k + 1,
         "other": i % 3} for i, k in enumerate(kinds)
    ]  # fmt: skip
    path = write(tmp_path / "t.csv", rows)
    copies = [
        f.message for f in check_table(path, targets=["colour"]).findings if f.kind == "copies"
    ]
    assert len(copies) == 1
    assert "'code'" in copies[0]


def test_check_table_reports_labels_with_a_relation_column_as_censored(tmp_path):
    rows = [
        {"smiles": "C" * (i + 1), "Standard Relation": "'>'" if i % 4 == 0 else "'='",
         "y": 5 + i / 9} for i in range(40)
    ]  # fmt: skip
    path = write(tmp_path / "t.csv", rows)
    findings = check_table(path).findings
    assert [(f.kind, len(f.details)) for f in findings if f.target == "y"][:1] == [("censored", 10)]


def test_check_table_raises_error_for_text_that_is_not_utf_8_unless_its_encoding_is_set(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("smiles,y,unit\nCCO,1,\u00b5M\nCCN,2,\u00b5M\n".encode("latin-1"))
    with pytest.raises(ValueError, match="is not UTF-8 text: byte 0xb5 in line 2"):
        check_table(path)
    assert check_table(path, encoding="latin-1").findings == ()
