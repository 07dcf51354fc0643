"""The check of commit subjects that `make lint` runs."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("commits", ROOT / ".ci" / "commits.py")
assert SPEC is not None
assert SPEC.loader is not None
commits = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(commits)

GOOD = (
    "molecules: read settings with msgspec",
    "cpu/mlp, kernels: store signs in the forward pass",
    "Add a test of commit subjects",
    "data: process tables in pieces",
    "attention: seed dropout from the edge",
    "README, docs: describe the options",
    "Makefile: cache compiled modules",
)
BAD = {
    "few: " + "gather " * 11: "characters, at most 72",
    "few: gather by row; drop a check": "a semicolon joins two changes",
    "gather by row": "expected 'area: verb ...'",
    "few: Gather by row": "expected 'area: verb ...'",
    "Few: gather by row": "expected 'area: verb ...'",
    "few:": "expected 'area: verb ...'",
    "few: gathered by row": "'gathered' is not an imperative verb",
    "few: gathers by row": "'gathers' is not an imperative verb",
    "Gathering by row": "'gathering' is not an imperative verb",
    "What backward asks of two edges": "'what' is not an imperative verb",
}


def test_subjects_that_break_a_rule_have_a_reason() -> None:
    assert [subject for subject in GOOD if commits.problem(subject)] == []
    for subject, reason in BAD.items():
        assert reason in commits.problem(subject), subject
