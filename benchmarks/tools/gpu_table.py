"""Table of docs/gpu.md, written from the records of the GPU benchmark."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.core.record import Record
from benchmarks.core.tables import markdown


def table(records: dict[str, Record]) -> str:
    """Return a Markdown table: times of every side, the fraction of the speed limit, and peak
    memory.
    """
    cases = {name: entry for name, entry in records.items() if "sides" in entry}
    roofs = records.get("roofs", {}).get("bytes_per_second", {})
    sides = sorted({side for entry in cases.values() for side in entry["sides"]} - {"gattn"})
    head = ["case", "gattn ms", "of roof", *sides, "peak MB, gattn / PyG"]
    return markdown(head, [row(name, entry, sides, roofs) for name, entry in cases.items()])


def row(name: str, entry: Record, sides: list[str], roofs: dict[str, float]) -> list[str]:
    """Return one row of the table, with the times of peers as multiples of gattn's time."""
    seconds = entry["sides"]["gattn"]["both"]["warm"]
    cells = [name, f"{1e3 * seconds:.3f}", f"{roof_seconds(entry, roofs) / seconds:.0%}"]
    for side in sides:
        peer = entry["sides"].get(side, {})
        cells.append(f"{peer['both']['warm'] / seconds:.1f}x" if "both" in peer else "-")
    peaks = [entry["sides"].get(side, {}).get("peak_bytes") for side in ("gattn", "pyg")]
    cells.append(" / ".join("-" if peak is None else f"{peak / 2**20:.0f}" for peak in peaks))
    return cells


def roof_seconds(entry: Record, roofs: dict[str, float]) -> float:
    """Return the larger of two times: each tensor at the speed of copies, and each gather at
    that of gathers.
    """
    floors = entry["floor_bytes"]
    if not roofs:
        return float("nan")
    gathers = list(gather_roofs(roofs))
    nearest = min(gathers, key=lambda roof: abs(roof[0] - entry["nodes"]))
    return max(floors["both_once"] / roofs["copy"], floors["both_gathered"] / nearest[1])


def gather_roofs(roofs: dict[str, float]) -> Iterator[tuple[int, float]]:
    """Return pairs (rows of the table, bytes per second) for gathers of 512 bytes."""
    for name, speed in roofs.items():
        if name.endswith("x512B"):
            yield int(name.removeprefix("gather ").split("x")[0]), speed
