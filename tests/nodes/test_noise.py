"""Runs on labels that do not depend on the features or edges."""

import numpy as np
import pytest

from gattn.nodes.runs.config import NodeRunSettings
from gattn.nodes.runs.measure import is_noise
from gattn.nodes.runs.train import train_run
from gattn.nodes.settings import NodeSettings


def test_a_run_on_noise_says_that_it_is_no_better_than_a_constant(tmp_path):
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
    assert set(metrics["components"]) >= {"constant", "columns", "labels", "closed_form", "gat"}
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "not significantly better than a constant" in page
    assert "Components" in page
    assert {path.suffix for path in (tmp_path / "run").rglob("*") if path.is_file()} <= {
        ".csv", ".html", ".json", ".png", ".safetensors", ".svg", ".toml",
    }  # fmt: skip


@pytest.mark.parametrize(("rmse", "noise"), [(1.0, True), (0.5, False)])
def test_numbers_are_noise_if_the_mean_is_as_good(rmse, noise):
    assert is_noise({"rmse": rmse}, {"rmse": 1.0}, 100) is noise
