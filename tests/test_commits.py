"""The check of commit subjects that `make lint` runs."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

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


def repository(folder: Path, *subjects: str) -> None:
    def git(*arguments: str) -> None:
        author = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(folder), *author, *arguments], check=True)

    git("init", "-q")
    for subject in subjects:
        git("commit", "-q", "--allow-empty", "--no-verify", "-m", subject)


def test_commits_after_the_base_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository(tmp_path, "An old; subject", "few: gather by row", "few: gather; scatter")
    assert commits.main(tmp_path, base="HEAD~2") == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("make two commits: few: gather; scatter")
    assert commits.main(tmp_path, base="HEAD") == 0


def test_without_the_base_commit_there_is_nothing_to_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository(tmp_path, "bad; subject")
    assert commits.main(tmp_path) == 0
    assert "nothing to check" in capsys.readouterr().out


def test_without_a_repository_there_is_nothing_to_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert commits.main(tmp_path) == 0
    monkeypatch.setenv("PATH", "")  # with an empty PATH, the command git is not available
    assert commits.main(tmp_path) == 0
    assert capsys.readouterr().out.count("nothing to check") == 2
