"""Runs on labels that do not depend on the features or edges."""

import numpy as np
import pytest
import torch

from gattn.apps.fitting.tasks import REGRESSION
from gattn.apps.nodes.runs.config import NodeRunSettings
from gattn.apps.nodes.runs.measure import is_noise
from gattn.apps.nodes.runs.train import train_run
from gattn.apps.nodes.settings import NodeSettings
from gattn.draw import draw_network


def test_training_on_random_labels_reports_a_model_no_better_than_a_constant(tmp_path, monkeypatch):
    """Nearly every set has both classes, so that the picture explains hollow nodes."""
    texts = []

    def record(*arguments, **options):
        texts.append((options["wrong_text"], options["uncertain_text"]))
        return draw_network(*arguments, **options)

    monkeypatch.setattr("gattn.apps.nodes.runs.train.draw_network", record)
    draw = np.random.default_rng(0)
    edges = "\n".join(f"n{a},n{b}" for a, b in draw.integers(300, size=(900, 2)))
    kinds = draw.choice(["a", "b"], 300, p=(0.7, 0.3))
    nodes = "\n".join(f"n{i},{x:.3f},{kinds[i]}" for i, x in enumerate(draw.normal(size=300)))
    (tmp_path / "edges.csv").write_text(f"source,target\n{edges}\n")
    (tmp_path / "nodes.csv").write_text(f"id,x,label\n{nodes}\n")
    settings = NodeRunSettings(
        str(tmp_path / "edges.csv"), nodes=str(tmp_path / "nodes.csv"), label="label",
        model=NodeSettings(epochs=5),
    )  # fmt: skip
    metrics = train_run(settings, tmp_path / "run")
    assert metrics["noise"]
    assert texts == [("wrong prediction (not in training)", "several classes in the 90% set")]
    assert set(metrics["components"]) >= {"constant", "columns", "labels", "propagation", "gat"}
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    count = metrics["nodes"]["val"]
    for text in ("not significantly better than a", "Components", f"also on {count} validation"):
        assert text in page
    assert (tmp_path / "run" / "predictions.csv").read_text().count(",val_refit,") == count
    assert {path.suffix for path in (tmp_path / "run").rglob("*") if path.is_file()} <= {
        ".csv", ".html", ".json", ".png", ".safetensors", ".svg", ".toml",
    }  # fmt: skip


@pytest.mark.parametrize("order", [1, -1])
def test_is_noise_is_false_for_predictions_in_the_order_of_the_labels_despite_an_outlier(order):
    y = torch.tensor([*range(15), 1000.0])
    predicted = order * torch.tensor([*range(15), 300.0])[:, None]
    constant = torch.full((16, 1), float(y.mean()))
    assert is_noise(REGRESSION, {}, y, predicted, constant) is (order < 0)
    assert is_noise(REGRESSION, {}, y, constant, constant)
