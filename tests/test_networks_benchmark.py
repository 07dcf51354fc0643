"""Table of the accuracy of node models on several networks."""

from typing import Any

from benchmarks.tools.networks_table import table

ENVIRONMENT = {
    "command": "python -m benchmarks.networks noise", "cores": 2, "cpu": "processor",
    "versions": {"torch": "2.13.0"},
}  # fmt: skip


def record(accuracy: float, **changed: Any) -> dict[str, Any]:
    """Return a record of two splits."""
    named = {
        "stacked": [accuracy, 0.01], "component labels": [0.7, 0.02], "component gat": [0.8, 0.02],
        "baseline label_propagation": [0.6, 0.03], "baseline majority": [0.5, 0.0],
        "other gcn": [0.75, 0.04],
    }  # fmt: skip
    entry = {
        "case": "networks/noise", "split": "random", "splits": 2, "model": "stacked",
        "edges": "read", "options": [], "accuracy": named, "environment": ENVIRONMENT,
    }  # fmt: skip
    return entry | changed


def test_the_table_has_the_newest_record_of_each_network_split_and_options() -> None:
    entries = [
        record(0.1), record(0.9), record(0.2, model="gat"),
        record(0.8, split="public"), record(0.7, options=["--names"]),
    ]  # fmt: skip
    lines = table(entries).splitlines()
    components = (
        " | 0.800 ± 0.020 `gat` | 0.600 ± 0.030 `label_propagation` |  | 0.750 ± 0.040 |  |"
    )
    assert [line for line in lines if line.startswith("| noise")] == [
        f"| {name} | 2 | **{mean} ± 0.010** | {components} 0.500 ± 0.000 |"
        for name, mean in (
            ("noise", "0.900"), ("noise, public", "0.800"), ("noise, `--names`", "0.700"),
        )
    ]  # fmt: skip
    assert lines[-1] == "- `python -m benchmarks.networks noise`"


def test_baselines_of_other_libraries_come_from_the_newest_record_with_them() -> None:
    alone = record(
        0.9, environment=ENVIRONMENT | {"command": "python -m benchmarks.networks noise --splits 2"}
    )
    del alone["accuracy"]["other gcn"]
    lines = table([record(0.1), alone]).splitlines()
    assert "**0.900 ± 0.010**" in lines[2]
    assert "| 0.750 ± 0.040 |" in lines[2]
    assert lines[-2:] == [
        "- `python -m benchmarks.networks noise --splits 2`",
        "- `python -m benchmarks.networks noise`",
    ]
    fewer = table([record(0.1), alone | {"splits": 1}]).splitlines()
    assert "0.750" not in fewer[2]


def test_rows_follow_the_definition_and_share_one_command() -> None:
    def of(name: str) -> dict[str, Any]:
        command = f"python -m benchmarks.networks {name} --splits 2"
        return record(0.9, case=f"networks/{name}", environment=ENVIRONMENT | {"command": command})

    lines = table([of("noise"), of("relations"), of("cora")]).splitlines()
    assert [line.split()[1] for line in lines[2:5]] == ["cora", "noise", "relations"]
    assert lines[-1] == "- `python -m benchmarks.networks cora noise relations --splits 2`"


def test_the_accuracy_with_ignored_edges_is_a_column() -> None:
    command = ENVIRONMENT | {"command": "python -m benchmarks.networks noise --edges ignore"}
    entries = [record(0.9), record(0.3, edges="ignore", environment=command)]
    lines = table(entries).splitlines()
    assert lines[2].startswith("| noise | 2 | **0.900 ± 0.010** | 0.300 ± 0.010 | 0.800")
    assert lines[-1] == "- `python -m benchmarks.networks noise --edges ignore`"
