"""The measured tables of the README and the documentation, from what the runs recorded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.core.record import Record
from benchmarks.core.tables import markdown, seconds, size
from benchmarks.suites import band, cpu
from benchmarks.tools.lines import PEERS

TITLES = {
    "power-law": "A power-law graph of 169,343 nodes and 2.5 million edges, 128 to 8 x 16 channels",
    "power-law/attention": "A score of one's own on that graph beside PyG's MessagePassing; fused: "
    "the perceptron as one's own score beside gattn's kernel for it, `gatv2_attention`",
    "power-law/operator": "The operators alone on that graph, given projected inputs",
    "power-law/bf16": "bf16 beside fp32 on that graph",
    "esol-64": "A batch of 64 molecules (ESOL), 128 to 8 x 16 channels, +edges: 16 numbers a bond",
    "esol-64/bf16": "bf16 beside fp32 on that batch",
    "esol-512": "A batch of 512 molecules",
    "cora": "Cora, the GAT paper's model, an epoch of training and evaluation: with the sparse "
    "features of gattn's data set beside the dense ones of PyG's; +sparse: sparse ones on both "
    "sides, dropped by gattn's SparseDropout; +dense: dense ones on both",
}
HEAD = ["", "gattn", "peer", "speed", "peak memory, gattn", "peer"]
METHOD = (
    "Forward + backward, medians of alternating runs in one process; peak memory above the inputs, "
    "each side in a process of its own (blank where it was not measured). Every case was first "
    "checked against float64, and against its peer where that computes the same. The rows come "
    "from several runs, listed below: compare within a row, not between rows."
)


CHOSEN = {
    "power-law/GATConv": "`GATConv`, 2.5 million edges, 8 x 16 channels",
    "power-law/TransformerConv": "`TransformerConv`, on the same graph",
    "esol-512/GATv2Conv": "`GATv2Conv`, a batch of 512 molecules",
    "esol-512/SetTransformerReadout": "`SetTransformerReadout`, the same batch",
    "cora/epoch": "an epoch of the GAT paper's model on Cora",
}
"""What the README shows."""


def report(records: dict[str, Record]) -> str:
    """The page of measured tables, from the newest full-size record of each case."""
    full = full_size(records)
    parts = [METHOD]
    for group, title in TITLES.items():
        table = comparison_table(
            found for name, found in full.items() if name.rpartition("/")[0] == group
        )
        if table:
            parts += [f"**{title}**", table]
    of_terms = {n: found for n, found in full.items() if n.startswith("power-law/terms/")}
    if of_terms:
        parts.append(_terms(of_terms))
    for count in (64, 512):
        if f"esol-{count}/products" in full:
            parts.append(_products(full[f"esol-{count}/products"], count))
    if "power-law/roof" in full:
        parts.append(_roof(full["power-law/roof"]))
    if "power-law/threads" in full:
        parts.append(_threads(full["power-law/threads"]))
    if "growth" in full:
        parts.append(growth_table(full["growth"]))
    return "\n\n".join([*parts, _circumstances(list(full.values()))])


def chosen(records: dict[str, Record]) -> str:
    """The README's rows, with what they were taken on."""
    full = full_size(records)
    rows = [_row(full[name], title) for name, title in CHOSEN.items() if name in full]
    table = markdown(HEAD, [row for row in rows if row])
    machines = dict.fromkeys(_machine(full[name]) for name in CHOSEN if name in full)
    return (
        f"{table}\n\nForward + backward on {' and '.join(machines)}; peak memory above the inputs, "
        "where it was measured. [All cases, and how](docs/benchmarks.md)."
    )


def _machine(record: Record) -> str:
    known: dict[str, Any] = record["environment"]
    versions = known["versions"]
    return (
        f"{known['threads']} threads of {known['cpu']}, torch {versions['torch']}, PyTorch "
        f"Geometric {versions['torch_geometric']}"
    )


def full_size(records: dict[str, Record]) -> dict[str, Record]:
    """The cases that were measured at their whole size, in the order of the suite."""
    full = {name: records[name] for name in cpu.cases() if name in records}
    full = {name: found for name, found in full.items() if found["scale"] == 1}
    if not full:
        raise SystemExit("no full-size results: run python -m benchmarks first")
    return full


def comparison_table(records: Iterable[Record]) -> str:
    """One row for each case with a peer: forward + backward, the ratio, peak memory.

    Empty where no record has a peer.
    """
    rows = [row for record in records if (row := _row(record))]
    if any(row[-1] for row in rows):
        return markdown(HEAD, rows)
    return markdown(HEAD[:4], [row[:4] for row in rows]) if rows else ""


def _row(record: Record, title: str = "") -> list[str]:
    """Empty where the record has no peer."""
    times = record.get("seconds", {}).get("training", {})
    others = [side for side in times if side != "gattn"]
    if "gattn" not in times or not others:
        return []
    peer = others[0]
    ours, theirs = times["gattn"]["median"], times[peer]["median"]
    peaks = record.get("peak_bytes", {})
    weighed = [size(peaks[side]["training"]) if peaks else "" for side in ("gattn", peer)]
    return [
        title or record["case"].rpartition("/")[2], seconds(ours),
        f"{seconds(theirs)} ({PEERS[peer]})", f"**{theirs / ours:.1f}x**", *weighed,
    ]  # fmt: skip


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


def _terms(records: dict[str, Record]) -> str:
    """The time of layers with terms of their edges as multiples of the time without."""
    rows: list[list[str]] = []
    times: dict[str, float] = {}
    for name, found in records.items():
        times = {side: spread["median"] for side, spread in found["seconds"]["training"].items()}
        alone = times.pop("gattn")
        ratios = (f"{time / alone:.2f}x" for time in times.values())
        rows.append([name.rpartition("/")[2], seconds(alone), *ratios])
    return (
        "`edge_weight` and `attn_bias` on the power-law graph, whose edges are in a random order: "
        "forward + backward with a term over forward + backward of the layer alone, without and "
        "with the term's gradient. The last column is a gather of [e, h] numbers by torch, as each "
        "pass must read them once.\n\n" + markdown(["", "alone", *times], rows)
    )


def _circumstances(records: list[Record]) -> str:
    """Hardware and versions, and the commands that were run there."""
    runs: dict[str, dict[str, None]] = {}
    for found in records:
        known: dict[str, Any] = found["environment"]
        versions = ", ".join(f"{name} {version}" for name, version in known["versions"].items())
        where = (
            f"{known['cpu']}, {known['threads']} thread{'s' * (known['threads'] > 1)}; {versions}"
        )
        run = f"`{known['command']}` ({known['date']}, commit {known['commit']})"
        runs.setdefault(where, {})[run] = None
    seen = [
        f"- {where}:\n" + ",\n".join(f"  {run}" for run in found) + "."
        for where, found in runs.items()
    ]
    return "Measured on:\n\n" + "\n".join(seen)


def _roof(found: Record) -> str:
    speed = found["gather_bytes_per_second"] / 1e9
    shares = ", ".join(f"{name} {share:.0%}" for name, share in found["share_of_roof"].items())
    return (
        f"Gathering and summing the same rows and doing nothing else ({found['fastest_gather']}) "
        f"runs at {speed:.1f} GB/s; of that speed the operators' forward reaches: {shares}."
    )


def _products(found: Record, count: int) -> str:
    rows = ", ".join(f"{n} {row['ceiling']:.1f}x" for n, row in found["products"].items())
    return (
        f"Dense matrix products are torch's on either side. Were everything else free, a batch of "
        f"{count} molecules would run faster than PyG by: {rows}."
    )


def _threads(found: Record) -> str:
    count = found["environment"]["threads"]
    speedups = ", ".join(f"{n} {row['speedup']:.2f}x" for n, row in found["threads"].items())
    return f"{count} threads against one, forward + backward: {speedups}."


def band_report(found: Record) -> str:
    """The guide's table of band attention beside dense attention."""
    known: dict[str, Any] = found["environment"]
    return (
        f"{band.table(found['rows'])}\n\n*{found['width']} tokens to either side, "
        f"{found['heads']} heads of {found['channels']} channels, {found['dtype']}; dense: torch's "
        f"attention with the band as its mask. {known['cpu']}, {known['threads']} threads, torch "
        f"{known['versions']['torch']}. Made by `{known['command']}`.*\n"
    )
