"""Tests that the example runs at a tiny size and shows the effect that its text describes."""

import json
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
SCRIPT = Path(__file__).parents[2] / "examples" / "attention_is_a_graph.py"


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.slow
def test_attention_example_reports_accuracy_of_each_graph_and_its_upper_limit(monkeypatch, capsys):
    result = run(monkeypatch, capsys, "--epochs", "1", "--steps", "2", "--seed", "3")
    for task, kinds in {
        "digits": ("grid", "none"),
        "sequences": ("complete", "causal", "band", "none"),
    }.items():
        for kind in kinds:
            assert 0 <= result[f"{task}_{kind}"] <= 1
    possible = [result[f"sequences_{kind}_possible"] for kind in ("complete", "causal", "band")]
    assert possible[0] == 1
    assert possible[0] > possible[1] > result["sequences_none_possible"]
    assert possible[2] > result["sequences_none_possible"]
    assert result["seed"] == 3
