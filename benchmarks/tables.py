"""Records as text: lines for the terminal, tables for the README."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]

PEERS = {
    "pyg": "PyG",
    "set_transformer": "PyG SetTransformer",
    "gattn_fp32": "gattn fp32",
    "torch_sort": "torch sorts",
}


def lines(record: Record) -> str:
    """What one case gave, for reading while it runs."""
    found = [f"{record['case']}  {_sizes(record)}  check {_numbers(record['check'])}"]
    for what, times in record.get("seconds", {}).items():
        first = times["gattn"]["median"] if "gattn" in times else None
        for side, spread in times.items():
            ratio = f"  x{spread['median'] / first:.2f}" if first and side != "gattn" else ""
            found.append(
                f"  {what:9} {PEERS.get(side, side):22} {seconds(spread['median']):>9}"
                f"  [{seconds(spread['low'])}, {seconds(spread['high'])}]"
                f"  {spread['runs']} runs{ratio}"
            )
    for side, peaks in record.get("peak_bytes", {}).items():
        text = ", ".join(f"{what} {size(peak)}" for what, peak in peaks.items())
        found.append(f"  peak      {PEERS.get(side, side):22} {text}")
    if "share_of_roof" in record:
        speed = record["gather_bytes_per_second"] / 1e9
        found.append(f"  {record['fastest_gather']} gathers {speed:.1f} GB/s; of it the forward of")
        found += [f"    {name:12} {share:.0%}" for name, share in record["share_of_roof"].items()]
    for name, row in record.get("threads", {}).items():
        found.append(f"  {name:16} {row['speedup']:.2f} times as fast on all threads as on one")
    for name, row in record.get("products", {}).items():
        found.append(
            f"  {name:22} products alone {seconds(row['products']['median'])} of"
            f" {seconds(row['gattn']['median'])}, PyG {seconds(row['pyg']['median'])}:"
            f" x{row['ratio']:.2f} of at most x{row['ceiling']:.2f}"
        )
    for row in record.get("growth", []):
        found.append(
            f"  {row['operator']:12} {row['edges']:>10,} edges {seconds(row['seconds']):>9}"
            f"  {1e9 * row['seconds'] / row['edges']:6.1f} ns/edge  peak {size(row['peak_bytes'])}"
        )
    return "\n".join(found)


def comparison_table(records: Iterable[Record]) -> str:
    """One row for each case with a peer: forward + backward, the ratio, peak memory.

    Empty where no record has a peer.
    """
    rows = []
    for record in records:
        times = record.get("seconds", {}).get("training", {})
        others = [side for side in times if side != "gattn"]
        if "gattn" not in times or not others:
            continue
        peer = others[0]
        ours, theirs = times["gattn"]["median"], times[peer]["median"]
        peaks = record.get("peak_bytes", {})
        weighed = [size(peaks[side]["training"]) if peaks else "" for side in ("gattn", peer)]
        rows.append(
            [record["case"].rpartition("/")[2], seconds(ours), f"{seconds(theirs)} ({PEERS[peer]})",
             f"**{theirs / ours:.1f}x**", *weighed]
        )  # fmt: skip
    head = ["", "gattn", "peer", "speed", "peak memory, gattn", "peer"]
    if rows and not any(row[-1] for row in rows):
        head, rows = head[:4], [row[:4] for row in rows]
    return markdown(head, rows) if rows else ""


def growth_table(record: Record) -> str:
    """Time and memory over the number of edges."""
    rows = [
        [row["operator"], f"{row['edges']:,}", seconds(row["seconds"]),
         f"{1e9 * row['seconds'] / row['edges']:.1f}", size(row["peak_bytes"]),
         seconds(row["layout_seconds"])]
        for row in record["growth"]
    ]  # fmt: skip
    head = ["operator", "edges", "forward + backward", "ns per edge", "peak memory", "layout"]
    return markdown(head, rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    align = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, align, *rows])


def seconds(value: float) -> str:
    """Three digits with a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale or unit == "us":
            return f"{_three(value / scale)} {unit}"
    raise AssertionError


def size(value: float) -> str:
    """Three digits of MB or GB."""
    return f"{_three(value / 1e9)} GB" if value >= 1e9 else f"{_three(value / 1e6)} MB"


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _sizes(record: Record) -> str:
    parts = [f"{record[name]:,} {name}" for name in ("nodes", "edges") if name in record]
    return ", ".join([*parts, record.get("dtype", "")]).strip(", ")


def _numbers(check: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1e}" for name, value in check.items())
