"""Folders that a run may use, and folders that it rejects."""

import subprocess
import sys

import pytest

from gattn.apps.fitting.settings import write_toml
from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.run.model_io import RunError
from gattn.apps.run.run_folder import CHECKPOINTS, finished_metrics, lock_folder, start_run


def test_folder_with_only_temporary_folders_counts_as_empty(tmp_path):
    (tmp_path / "checkpoints" / "member-0").mkdir(parents=True)
    assert finished_metrics(tmp_path, RunSettings(), {}) is None
    (tmp_path / "checkpoints" / "mine").write_text("")
    with pytest.raises(RunError, match="is not empty and does not contain a run: choose another"):
        finished_metrics(tmp_path, RunSettings(), {})


def test_folder_with_a_run_of_another_command_raises_error(tmp_path):
    write_toml(tmp_path / "config.toml", RunSettings())
    message = (
        "does not contain a run of this command: choose another folder .*unknown setting censored"
    )
    with pytest.raises(RunError, match=message):
        finished_metrics(tmp_path, NodeRunSettings("cora"), {})


def test_training_may_start_again_on_other_data_until_a_checkpoint_exists(tmp_path):
    out = tmp_path / "run"
    with lock_folder(out):
        (out / CHECKPOINTS / "0").mkdir(parents=True)
        start_run(out, RunSettings(), {"sha256": "a", "train": [0]}, [("row",)])
        start_run(out, RunSettings(), {"sha256": "b", "train": [0]}, [("row",)])
        (out / CHECKPOINTS / "0" / "last.ckpt").touch()
        with pytest.raises(RunError, match="other data"):
            start_run(out, RunSettings(), {"sha256": "a", "train": [0]}, [("row",)])


def test_lock_folder_removes_its_folder_only_if_the_folder_is_empty(tmp_path):
    with lock_folder(tmp_path / "a" / "run"):
        assert (tmp_path / "a" / "run").is_dir()
    assert not (tmp_path / "a" / "run").exists()
    (tmp_path / "a" / "file").touch()
    with lock_folder(tmp_path / "a"):
        pass
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file"]
    with (
        pytest.raises(RunError, match="is a file; expected the folder of a run"),
        lock_folder(tmp_path / "a" / "file"),
    ):
        pass


HOLDER = """
import sys, time
from pathlib import Path
from gattn.apps.run.run_folder import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_locked_folder_raises_error_until_its_process_ends(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(RunError, match="is in use by another training"), lock_folder(tmp_path):
            pass
        holder.kill()
    with lock_folder(tmp_path):
        assert finished_metrics(tmp_path, RunSettings(), {}) is None
