"""Folders that a run may use, and folders that it rejects."""

import pytest

from gattn.molecules.runs.config import RunSettings
from gattn.nodes.runs.config import NodeRunSettings
from gattn.pipeline.run_folder import CHECKPOINTS, check_writable, finished_metrics, start_run
from gattn.training.model_io import RunError
from gattn.training.settings import write_toml


def test_folders_that_another_process_made_are_no_work_of_others(tmp_path):
    (tmp_path / "checkpoints" / "member-0").mkdir(parents=True)
    assert finished_metrics(tmp_path, RunSettings(), []) is None
    (tmp_path / "checkpoints" / "mine").write_text("")
    with pytest.raises(
        RunError, match="is not empty and does not contain a run: choose another folder"
    ):
        finished_metrics(tmp_path, RunSettings(), [])


def test_a_run_of_the_other_product_is_no_run_to_go_on_with(tmp_path):
    write_toml(tmp_path / "config.toml", RunSettings())
    message = (
        "does not contain a run of this command: choose another folder .*unknown setting censored"
    )
    with pytest.raises(RunError, match=message):
        finished_metrics(tmp_path, NodeRunSettings("cora"), [])


def test_a_process_that_makes_its_folders_first_does_not_keep_a_run_from_beginning(
    tmp_path, monkeypatch
):
    out = tmp_path / "run"
    rmdir = type(out).rmdir

    def slow_rmdir(path):
        (path / CHECKPOINTS / "0").mkdir(parents=True)
        rmdir(path)

    monkeypatch.setattr(type(out), "rmdir", slow_rmdir)
    check_writable(out)
    start_run(out, RunSettings(), {"sha256": "a", "train": [0]}, [("row",)])
    start_run(out, RunSettings(), {"sha256": "b", "train": [0]}, [("row",)])
    (out / CHECKPOINTS / "0" / "last.ckpt").touch()
    with pytest.raises(RunError, match="other data"):
        start_run(out, RunSettings(), {"sha256": "a", "train": [0]}, [("row",)])
