"""The data check reports each fault that was inserted into a table of 1,000 rows, and none in a
table without faults.
"""

import csv
import json
import random

import numpy as np
import pytest

from gattn.apps.molecules.checks import structures
from gattn.apps.molecules.checks.columns import rank_correlation
from gattn.apps.molecules.checks.findings import KINDS
from gattn.apps.molecules.checks.labels import two_groups
from gattn.apps.molecules.checks.run import check_table, summary
from gattn.apps.molecules.checks.similarity import similar_pairs
from gattn.data import load_molecules

ROWS = 1000


@pytest.fixture(scope="module", autouse=True)
def _tautomers_once():
    """Compute the canonical tautomer of a molecule once, because the tables contain nearly the same
    molecules, and RDKit's tautomers take most of the time of a check.
    """
    from rdkit.Chem import MolToSmiles

    compute, results = structures.standardise, {}

    def standardise(molecule, steps):
        key = MolToSmiles(molecule), *steps
        if key not in results:
            results[key] = compute(molecule, steps)
        return results[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structures, "standardise", standardise)
        yield


def clean() -> tuple[list[str], np.ndarray]:
    """Return 1,000 different molecules, and labels that are a smooth function of them."""
    from rdkit.Chem import Crippen, MolFromSmiles

    texts = dict.fromkeys(load_molecules("chembl2321810").smiles)
    molecules = [(text, MolFromSmiles(text)) for text in texts if "." not in text]
    random.Random(1).shuffle(molecules)
    molecules = molecules[:ROWS]
    noise = np.random.default_rng(0).normal(0, 0.3, len(molecules))
    labels = [4 + 0.5 * Crippen.MolLogP(molecule) for _, molecule in molecules]
    return [text for text, _ in molecules], np.array(labels) + noise


@pytest.fixture(scope="module")
def base() -> list[dict[str, str]]:
    """Rows of a table without faults."""
    smiles, y = clean()
    generator = random.Random(2)
    numbers = generator.sample(range(10**6), len(smiles))
    return [
        {"id": f"CMP-{number:06d}", "smiles": text, "y": f"{value:.3f}"}
        for number, text, value in zip(numbers, smiles, y)
    ]


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def change(rows, *places, **cells):
    for place in places:
        for name, value in cells.items():
            rows[place][name] = value(rows[place]) if callable(value) else value


def add(rows, *extra):
    """Replace the last rows by other rows, so that the length of the table does not change."""
    rows[-len(extra) :] = [dict(rows[-1], **one) for one in extra]


def units(rows):
    for row in rows:
        row["y"] = f"{10 ** (0.3 * float(row['y']) - 1):.5g}"
    change(rows, *range(0, 60), y=lambda row: f"{1000 * float(row['y']):.5g}")


def scales(rows):
    change(rows, *range(0, 30), y=lambda row: f"{10 ** (9 - float(row['y'])):.4g}")


def salts(rows):
    for place in range(5):
        add(rows[: ROWS - place], {"smiles": f"Cl.{rows[place]['smiles']}", "y": rows[place]["y"]})


def forms(first, second):
    def plant(rows):
        add(rows, {"smiles": first, "y": "5.0"}, {"smiles": second, "y": "5.1"})

    return plant


def order(rows):
    ranked = sorted(rows, key=lambda row: float(row["y"]))
    for number, row in enumerate(ranked):
        row["id"] = f"CMP-{number:06d}"


def conflict(rows):
    add(rows, {"smiles": rows[0]["smiles"], "y": f"{float(rows[0]['y']) + 3:.3f}"})


def cliff(rows):
    tail = "CCCCCCCCc1ccc(cc1)C(=O)NC1CCN(CC1)c1ccccc1"
    add(rows, {"smiles": f"{tail}F", "y": "3.0"}, {"smiles": f"{tail}Cl", "y": "9.0"})


def censor(rows):
    change(rows, *range(40), y=lambda row: ">9")


FAULTS = {
    "unreadable": lambda rows: change(rows, 3, 9, smiles="C1CC(N"),
    "valence": lambda rows: change(rows, 5, smiles="CN(C)(C)(C)C"),
    "labels": lambda rows: change(rows, 6, y="not tested"),
    "readability": lambda rows: change(rows, 6, 7, y="1,008"),
    "empty": lambda rows: change(rows, *range(15, ROWS), y=""),
    "constant": lambda rows: change(rows, *range(20, ROWS), y="5.0"),
    "censored": censor,
    "limit": lambda rows: change(rows, *range(150), y="9.5"),
    "units": units,
    "scales": scales,
    "outliers": lambda rows: change(rows, 11, y="61.5"),
    "duplicates": lambda rows: add(rows, rows[0]),
    "same_molecule": forms("OCCc1ccc(C#N)cc1", "N#Cc1ccc(CCO)cc1"),
    "conflicts": conflict,
    "mixtures": lambda rows: change(rows, 12, smiles="CCCCCN.O.Cl"),
    "salt_twins": forms("CCCCCCCCC(=O)O", "CCCCCCCCC(=O)[O-].[Na+]"),
    "stereo_twins": forms("CCCC[C@H](N)c1ccccc1", "CCCC[C@@H](N)c1ccccc1"),
    "tautomer_twins": forms("CCCCOc1ccc(O)nc1", "CCCCOc1ccc(=O)[nH]c1"),
    "cliffs": cliff,
    "elements": lambda rows: change(rows, 13, smiles="C[Sn](C)(C)c1ccccc1"),
    "size": lambda rows: change(rows, 14, smiles="C" * 120),
    "order": order,
    "copies": lambda rows: change(rows, *range(ROWS), copy=lambda row: f"{-2 * float(row['y'])}"),
}
PLANTED = {"unreadable": [3, 9], "valence": [5], "labels": [6], "readability": [6, 7],
           "outliers": [11], "mixtures": [12], "elements": [13], "size": [14],
           "duplicates": [0, 999], "conflicts": [0, 999], "censored": list(range(40)),
           "units": list(range(60)), "same_molecule": [998, 999], "salt_twins": [998, 999],
           "stereo_twins": [998, 999], "tautomer_twins": [998, 999]}  # fmt: skip


def kinds(result):
    return {finding.kind for finding in result.findings}


@pytest.fixture(scope="module")
def usual(base, tmp_path_factory):
    """Kinds of the findings for the table without inserted faults."""
    result = check_table(write(tmp_path_factory.mktemp("clean") / "t.csv", base), targets=["y"])
    return kinds(result)


def test_the_table_without_faults_has_none(usual):
    faults = {kind for kind in usual if KINDS[kind].severity != "note"}
    # Real tables contain pairs of stereoisomers and tautomers.
    assert faults <= {"tautomer_twins"}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_planted_fault_is_found(base, usual, tmp_path, kind):
    rows = [dict(row) for row in base]
    FAULTS[kind](rows)
    assert len(rows) == ROWS
    result = check_table(write(tmp_path / "t.csv", rows), targets=["y"])
    findings = [finding for finding in result.findings if finding.kind == kind]
    assert findings
    rows_of = {row for finding in findings for row in finding.rows}
    assert set(PLANTED.get(kind, [])) <= rows_of
    if kind in PLANTED and kind not in usual:
        assert sorted(rows_of) == PLANTED[kind]


def test_every_kind_has_a_planted_fault():
    assert set(KINDS) - set(FAULTS) == {"leaks", "cells", "case", "decades"}


def test_leaks_between_parts_and_a_test_file(base, tmp_path):
    rows = [dict(row, part="train" if i < 700 else "test") for i, row in enumerate(base)]
    change(rows, 800, smiles=rows[0]["smiles"])
    change(rows, 5, smiles="CCCCCCCCC(=O)O")
    change(rows, 801, smiles="CCCCCCCCC(=O)[O-].[Na+]")
    change(rows, 6, smiles="CCCCOc1ccc(O)nc1")
    change(rows, 802, smiles="CCCCOc1ccc(=O)[nH]c1")
    path = write(tmp_path / "t.csv", rows)
    (finding,) = [
        f for f in check_table(path, targets=["y"], split="column:part").findings
        if f.kind == "leaks"
    ]  # fmt: skip
    assert {0, 5, 6, 800, 801, 802} <= set(finding.rows)
    reasons = dict(zip(finding.rows, finding.details))
    assert reasons[800] == "the same molecule is in train"
    assert reasons[801] == "another salt or charge is in train"
    assert reasons[802] == "another tautomer is in train"

    first, second = write(tmp_path / "a.csv", rows[:700]), write(tmp_path / "b.csv", rows[700:])
    result = check_table(first, targets=["y"], test=second)
    (leak,) = [f for f in result.findings if f.kind == "leaks"]
    assert {100, 101, 102} <= set(leak.rows)
    assert "line 102" in "\n".join(summary(result)) or leak.rows[0] < 100


def test_files_of_the_findings(base, tmp_path):
    rows = [dict(row) for row in base[:60]]
    change(rows, 3, smiles="C1CC(N")
    change(rows, 4, smiles=rows[5]["smiles"], y="30")
    out = tmp_path / "out"
    path = write(tmp_path / "t.csv", rows)
    path.write_text(path.read_text() + "CMP-9,CCO,1.0,too,many\n")
    result = check_table(path, out, targets=["y"])
    with (out / "findings.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    bad = next(line for line in lines if line["kind"] == "unreadable")
    assert (bad["row"], bad["line"], bad["name"]) == ("3", "5", rows[3]["id"])
    assert next(line for line in lines if line["kind"] == "cells")["line"] == "62"
    entries = json.loads((out / "findings.json").read_text())
    assert [entry["kind"] for entry in entries] == [finding.kind for finding in result.findings]
    with pytest.raises(FileExistsError):
        check_table(path, out, targets=["y"])


def test_labels_of_a_table_without_named_targets(base, tmp_path):
    rows = [dict(row, batch=str(i % 3), note="x") for i, row in enumerate(base[:50])]
    result = check_table(write(tmp_path / "t.csv", rows))
    assert [target.name for target in result.table.targets] == ["y", "batch"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": ["z"]}, "no column 'z'"),
        ({"smiles": "text"}, "no column 'text'"),
        ({"split": "column:part"}, "no column 'part'"),
        ({"targets": ["smiles"]}, "a column can be used only once"),
    ],
)
def test_errors(base, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        check_table(write(tmp_path / "t.csv", base[:5]), **options)


def test_two_groups_of_one_distribution_are_near():
    generator = np.random.default_rng(0)
    for values in (generator.normal(size=1000), generator.uniform(size=1000)):
        assert two_groups(values)[1] < 4.5
    both = np.concatenate([generator.normal(0, 0.5, 950), generator.normal(3, 0.5, 50)])
    threshold, distance = two_groups(both)
    assert 1 < threshold < 2.5
    assert distance > 4.5


def test_rank_correlations_are_those_of_scipy():
    from scipy.stats import spearmanr

    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 9, 100).astype(float), generator.normal(size=100)
    assert rank_correlation(a, a + b) == pytest.approx(spearmanr(a, a + b).statistic)
    assert rank_correlation(a, np.ones(100)) == 0


def test_similar_pairs_are_those_of_rdkit():
    from rdkit import DataStructs
    from rdkit.Chem import MolFromSmiles, rdFingerprintGenerator

    molecules = [MolFromSmiles(text) for text in load_molecules("chembl2321810").smiles[:60]]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    bits = [generator.GetFingerprint(molecule) for molecule in molecules]
    pairs, compared = similar_pairs(molecules, 0.6)
    assert compared == 60
    expected = {
        (i, j) for i in range(60) for j in range(i + 1, 60)
        if DataStructs.TanimotoSimilarity(bits[i], bits[j]) >= 0.6
    }  # fmt: skip
    assert {(i, j) for i, j, _ in pairs} == expected


def test_the_title_of_repeated_molecules_holds_for_equal_smiles(tmp_path):
    rows = [{"smiles": "C" * n + "O", "y": str(n)} for n in range(1, 31)]
    rows += [{"smiles": "CCCO", "y": "3.1"}, {"smiles": "OCCCC", "y": "4.1"}]
    result = check_table(write(tmp_path / "t.csv", rows), targets=["y"])
    (finding,) = [each for each in result.findings if each.kind == "same_molecule"]
    assert "2 molecules in 4 rows, 1 of them with different SMILES" in finding.message
    assert KINDS["same_molecule"].title == "Several rows of one molecule"


def write_table(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def test_labels_of_many_decades_and_classes_in_two_cases_are_reported(tmp_path):
    rows = [("C" * (i + 1), 10 ** (i / 4), ("Yes", "yes", "no")[i % 3]) for i in range(40)]
    path = write_table(tmp_path / "t.csv", "smiles,ic50,toxic", rows)
    kinds = {f.kind: f.message for f in check_table(path, targets=["ic50", "toxic"]).findings}
    assert (
        kinds["decades"] == "ic50: its labels span 10 decades: train with --target-transform log10."
    )
    assert kinds["case"] == "toxic: the classes 'Yes' and 'yes' differ only in case"
    assert "labels" not in kinds


def test_a_column_with_the_classes_in_another_writing_copies_the_target(tmp_path):
    kinds = [(i * i) % 7 % 3 for i in range(60)]
    rows = [("C" * (i % 40 + 1), ("red", "green", "blue")[k], k + 1, i % 3)
            for i, k in enumerate(kinds)]  # fmt: skip
    path = write_table(tmp_path / "t.csv", "smiles,colour,code,other", rows)
    findings = check_table(path, targets=["colour"]).findings
    assert [f.message for f in findings if f.kind == "copies"] == [
        "colour: column 'code' determines it in another writing"
    ]


def test_a_column_of_relations_makes_labels_limits(tmp_path):
    rows = [("C" * (i + 1), "'>'" if i % 4 == 0 else "'='", 5 + i / 9) for i in range(40)]
    path = write_table(tmp_path / "t.csv", "smiles,Standard Relation,y", rows)
    findings = check_table(path).findings
    assert [(f.kind, len(f.rows)) for f in findings if f.target == "y"][:1] == [("censored", 10)]
