"""The six stages of a run, with a product that only records the calls."""

import json
from types import SimpleNamespace

import pytest
import torch

from gattn.apps.molecules.runs.config import RunSettings
from gattn.apps.report.report import ReportContent
from gattn.apps.run.model_io import RunError, check_files, read_model
from gattn.apps.run.product import Parts, Product, TrainedRun
from gattn.apps.run.train import train_run
from gattn.data import Split

METRICS = {"task": "regression", "test": {"rmse": 1.0}, "intervals": {}}


class Recorder(Product):
    """Product that records its stages in order, with the files that exist at the beginning of each
    stage.
    """

    def __init__(self, out, settings=None, fail_at=None):
        self.lines, self.stages, self.fail_at = [], {}, fail_at
        super().__init__(settings or RunSettings(), out, self.lines.append)

    def _enter(self, stage):
        folder = self.out
        self.stages[stage] = {f.name for f in folder.iterdir()} if folder.exists() else set()
        if stage == self.fail_at:
            raise KeyboardInterrupt

    def load(self):
        self._enter("load")
        return "data"

    def split(self, data):
        self._enter("split")
        return Parts({"sha256": "a", "train": [0]}, [("row", "reason"), (3, "unreadable")])

    def fit(self, data, parts):
        self._enter("fit")
        return "model"

    def evaluate(self, data, parts, model):
        self._enter("evaluate")
        assert (data, model) == ("data", "model")
        estimator = SimpleNamespace(state=lambda: ({"w": torch.ones(1)}, {"estimator": "E"}))
        some = torch.tensor([0])
        return TrainedRun(estimator, Split(some, some, some, "all alike"), METRICS)

    def report(self, run):
        self._enter("report")
        return ReportContent("title", "summary", (), ()), {}

    def card(self, run):
        return {"data": "table"}

    def tables(self, run):
        self._enter("tables")
        return {"predictions.csv": [["row"], [0]]}


def test_the_stages_run_in_order_and_the_metrics_are_written_last(tmp_path):
    out = tmp_path / "run"
    product = Recorder(out)
    assert train_run(product) == METRICS
    lock = {".lock"}
    begun = lock | {"config.toml", "splits.json", "left_out.csv"}
    assert list(product.stages.items()) == [
        ("load", lock),
        ("split", lock),
        ("fit", begun),
        ("evaluate", begun),
        ("report", begun),
        ("tables", begun),
    ]
    assert not (out / ".lock").exists()
    assert json.loads((out / "metrics.json").read_text()) == METRICS
    assert (out / "left_out.csv").read_text() == "row,reason\n3,unreadable\n"
    assert (out / "predictions.csv").read_text() == "row\n0\n"
    card = read_model(out)[1]
    assert [card[name] for name in ("data", "split", "metrics")] == ["table", "all alike", METRICS]
    check_files(out, "config.toml", "splits.json", "predictions.csv", "report.html")
    (out / "predictions.csv").write_text("row\n1\n")
    with pytest.raises(RunError, match=r"predictions\.csv was changed"):
        check_files(out, "predictions.csv")


def test_a_finished_run_is_not_repeated(tmp_path):
    train_run(Recorder(tmp_path / "run"))
    again = Recorder(tmp_path / "run")
    assert train_run(again) == METRICS
    assert again.stages == {}
    assert "nothing to do" in again.lines[0]
    with pytest.raises(RunError, match="contains another run"):
        train_run(Recorder(tmp_path / "run", RunSettings(coverage=0.5)))


@pytest.mark.parametrize("stage", ["load", "split", "fit", "evaluate", "report", "tables"])
def test_an_interrupted_run_can_be_given_again(tmp_path, stage):
    with pytest.raises(KeyboardInterrupt):
        train_run(Recorder(tmp_path / "run", fail_at=stage))
    assert not (tmp_path / "run" / "metrics.json").exists()
    assert train_run(Recorder(tmp_path / "run")) == METRICS


def test_only_the_first_process_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    product = Recorder(tmp_path / "run")
    assert train_run(product) == METRICS
    assert list(product.stages) == ["load", "split", "fit", "evaluate"]
    assert not (tmp_path / "run").exists()
