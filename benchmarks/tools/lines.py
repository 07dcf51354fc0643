"""Records as lines for the terminal."""

from __future__ import annotations

import statistics

from benchmarks.core.record import Record
from benchmarks.core.tables import seconds, size

PEERS = {
    "pyg": "PyG",
    "set_transformer": "PyG SetTransformer",
    "gattn_fp32": "gattn fp32",
    "gattn_fused": "gattn gatv2_attention",
    "torch_sort": "torch sorts",
}


def lines(record: Record) -> str:
    """Return the lines that the terminal shows for one case."""
    rows = [f"{record['case']}  {_sizes(record)}  check {_numbers(record['check'])}"]
    for what, times in record.get("seconds", {}).items():
        first = times["gattn"]["median"] if "gattn" in times else None
        for side, spread in times.items():
            ratio = f"  x{spread['median'] / first:.2f}" if first and side != "gattn" else ""
            rows.append(
                f"  {what:9} {PEERS.get(side, side):22} {seconds(spread['median']):>9}"
                f"  [{seconds(spread['low'])}, {seconds(spread['high'])}]"
                f"  {spread['runs']} runs{ratio}"
            )
    for side, peaks in record.get("peak_bytes", {}).items():
        text = ", ".join(f"{what} {size(peak)}" for what, peak in peaks.items())
        rows.append(f"  peak      {PEERS.get(side, side):22} {text}")
    rows += [
        f"  {row['operator']:12} {row['edges']:>10,} edges {seconds(row['seconds']):>9}"
        f"  {1e9 * row['seconds'] / row['edges']:6.1f} ns/edge  peak {size(row['peak_bytes'])}"
        for row in record.get("growth", [])
    ]
    return "\n".join(rows)


def compared(record: Record) -> str:
    """Return the lines that compare two commits in one case."""
    check, bits = record["check"], "the same bits"
    if check["differing"]:
        names = ", ".join(check["differing"])
        bits = f"outputs differ by {check['apart']:.1e}; different bits in {names}"
    rows = [f"{record['case']}  {bits}"]
    for what, spreads in record["seconds"].items():
        this, other, ratio = (spreads[name] for name in ("this", "other", "ratio"))
        rows.append(
            f"  {what:16} this {_milliseconds(this)}  other {_milliseconds(other)}"
            f"  this/other {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}]"
            f"  {ratio['runs']} rounds"
        )
    return "\n".join(rows)


def overall(records: list[Record]) -> str:
    """Return a summary of the ratios of all cases: their median."""
    ratios = [
        spreads["ratio"]["median"] for entry in records for spreads in entry["seconds"].values()
    ]
    return f"{len(ratios)} ratios this/other, median {statistics.median(ratios):.3f}"


def _sizes(record: Record) -> str:
    parts = [f"{record[name]:,} {name}" for name in ("nodes", "edges") if name in record]
    return ", ".join([*parts, record.get("dtype", "")]).strip(", ")


def _numbers(check: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1e}" for name, value in check.items())


def _milliseconds(spread: dict[str, float]) -> str:
    return f"{1e3 * spread['median']:9.3f} ms"
