"""Draw the README's chart: time and memory of three layers in gattn and PyG.

    python -m docs.tools.speed

writes docs/images/speed.png from the newest records of ``python -m benchmarks``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.core import record, tables
from docs.tools.drawing import LIGHT, plt

PICTURE = Path(__file__).parents[1] / "images" / "speed.png"
LAYERS = ("GATConv", "GATv2Conv", "TransformerConv")
COLOURS = {"gattn": LIGHT.first, "pyg": "#b0b4c4"}
NAMES = {"gattn": "gattn", "pyg": "PyG"}


def main() -> None:
    """Read the records, draw a panel for time and one for memory, and write ``PICTURE``. Raises
    FileNotFoundError without records, and KeyError if they lack one of the layers.
    """
    entries = record.newest(record.RESULTS / "cpu.jsonl")
    cases = [entries[f"power-law/{layer}"] for layer in LAYERS]
    times = [{side: case["seconds"]["training"][side]["median"] for side in NAMES}
             for case in cases]  # fmt: skip
    peaks = [{side: case["peak_bytes"][side]["training"] for side in NAMES} for case in cases]
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained")
    _panel(left, "forward + backward", times, tables.seconds)
    _panel(right, "peak memory", peaks, tables.size)
    right.set_yticklabels([])
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle("2.5 million edges, 8 heads of 16 channels, two threads of a CPU", fontsize=10)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=150, metadata={"Software": ""})


def _panel(
    axes: plt.Axes, title: str, values: list[dict[str, float]], write: Callable[[float], str]
) -> None:
    """Draw a pair of bars for each layer, from top to bottom, with the numbers at their ends, which
    ``write`` formats. ``values`` has the lengths of the bars of each layer by the names in
    ``NAMES``.
    """
    for place, (side, name) in enumerate(NAMES.items()):
        rows = [row + 0.4 * place for row in range(len(LAYERS))]
        lengths = [value[side] for value in values]
        bars = axes.barh(rows, lengths, 0.36, color=COLOURS[side], label=name)
        axes.bar_label(bars, [write(length) for length in lengths], padding=3, fontsize=8)
    axes.set_yticks([row + 0.2 for row in range(len(LAYERS))], LAYERS)
    axes.tick_params(axis="y", length=0)
    axes.set_xticks([])
    axes.set_xlim(right=1.2 * max(value["pyg"] for value in values))
    axes.invert_yaxis()
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_title(title, fontsize=10)


if __name__ == "__main__":
    main()
