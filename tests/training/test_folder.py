"""Which folders a run may take."""

import pytest

from gattn.molecules.runs.config import RunSettings
from gattn.training.folder import metrics_of_whole
from gattn.training.runs import RunError


def test_folders_that_another_process_made_are_no_work_of_others(tmp_path):
    (tmp_path / "checkpoints" / "member-0").mkdir(parents=True)
    assert metrics_of_whole(tmp_path, RunSettings(), []) is None
    (tmp_path / "checkpoints" / "mine").write_text("")
    with pytest.raises(RunError, match="is not empty and holds no run: choose another folder"):
        metrics_of_whole(tmp_path, RunSettings(), [])
