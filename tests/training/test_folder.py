"""Which folders a run may take."""

import pytest

from gattn.molecules.runs.config import RunSettings
from gattn.nodes.runs.config import NodeRunSettings
from gattn.training.folder import metrics_of_whole
from gattn.training.runs import RunError
from gattn.training.settings import write_toml


def test_folders_that_another_process_made_are_no_work_of_others(tmp_path):
    (tmp_path / "checkpoints" / "member-0").mkdir(parents=True)
    assert metrics_of_whole(tmp_path, RunSettings(), []) is None
    (tmp_path / "checkpoints" / "mine").write_text("")
    with pytest.raises(RunError, match="is not empty and holds no run: choose another folder"):
        metrics_of_whole(tmp_path, RunSettings(), [])


def test_a_run_of_the_other_product_is_no_run_to_go_on_with(tmp_path):
    write_toml(tmp_path / "config.toml", RunSettings())
    told = "holds no run of this command: choose another folder .*no setting smiles"
    with pytest.raises(RunError, match=told):
        metrics_of_whole(tmp_path, NodeRunSettings("cora"), [])
