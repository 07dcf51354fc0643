"""Tables of the README and the documentation, written from the recorded measurements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from benchmarks.core.record import Record
from benchmarks.core.tables import markdown, seconds, size
from benchmarks.suites import band, cpu
from benchmarks.tools.lines import PEERS

TITLES = {
    "power-law": "Layers from 128 to 8 x 16 channels, on a power-law graph with 169,343 nodes and "
    "2.5 million edges",
    "power-law/attention": "Custom scores on that graph, compared with PyG's MessagePassing; "
    "fused: the perceptron as a custom score, compared with gattn's kernel `gatv2_attention`",
    "power-law/bf16": "Layers in bf16 compared with layers in fp32, on that graph",
    "esol-512": "Layers from 128 to 8 x 16 channels, on a batch of 512 molecules (ESOL); "
    "+edges: 16 features per bond",
    "cora": "The GAT paper's model on Cora, an epoch of training and evaluation, with the data set "
    "of each library: sparse features in gattn, dense features in PyG; +sparse: sparse features on "
    "both sides, with gattn's SparseDropout; +dense: dense features on both sides",
}
HEAD = ["", "gattn", "peer", "peer / gattn", "peak memory, gattn", "peer"]
GROWTH = "**The operators alone, on power-law graphs with 15 edges for each node**"
METHOD = (
    "The times are medians of forward + backward. Both sides run alternately in one process. The "
    "peak memory does not include the inputs, and is measured with each side in a separate "
    "process; a cell is empty if it was not measured. Every case was first checked against "
    "float64, and against its peer if the peer computes the same function. The rows come from "
    "several runs, which are listed below the tables. Therefore compare only numbers in the same "
    "row."
)


CHOSEN = {
    "power-law/GATConv": "`GATConv`, 2.5 million edges, 8 x 16 channels",
    "power-law/TransformerConv": "`TransformerConv`, on the same graph",
    "esol-512/GATv2Conv": "`GATv2Conv`, a batch of 512 molecules",
    "esol-512/SetTransformerAggregation": "`SetTransformerAggregation`, the same batch",
    "cora/epoch": "an epoch of the GAT paper's model on Cora; sparse features in gattn alone",
    "cora/epoch+dense": "the same with dense features on both sides",
}
"""Names of the cases in the README."""


def report(records: dict[str, Record]) -> str:
    """Return the page of tables from the newest full-size record of each case."""
    full = full_size(records)
    parts = [METHOD]
    for group, title in TITLES.items():
        entries = [entry for name, entry in full.items() if name.rpartition("/")[0] == group]
        table = comparison_table(entries)
        if table:
            processors = " and ".join(dict.fromkeys(map(_processor, entries)))
            parts += [f"**{title} ({processors})**", table]
    if "growth" in full:
        parts += [GROWTH, growth_table(full["growth"])]
    return "\n\n".join([*parts, _circumstances(list(full.values()))])


def chosen(records: dict[str, Record]) -> str:
    """Return the README's rows and the environment of the measurements."""
    full = full_size(records)
    entries = {title: full[name] for name, title in CHOSEN.items() if name in full}
    rows = [
        [*row, _processor(entry)] for title, entry in entries.items() if (row := _row(entry, title))
    ]
    machines = " and ".join(dict.fromkeys(map(_versions, entries.values())))
    return (
        f"{markdown([*HEAD, 'processor'], rows)}\n\nThe times are those of forward + backward, on "
        f"{machines}. The peak memory does not include the inputs. "
        "[All cases and methods](docs/benchmarks.md)."
    )


def _processor(record: Record) -> str:
    """Return the name of the processor without marks of its manufacturer."""
    name = record["environment"]["cpu"].replace("(R)", "")
    return name.removesuffix("Processor").strip()


def _versions(record: Record) -> str:
    """Return the number of threads and the versions of a measurement."""
    machine: dict[str, Any] = record["environment"]
    versions = machine["versions"]
    return (
        f"{machine['threads']} threads, torch {versions['torch']}, PyTorch Geometric "
        f"{versions['torch_geometric']}"
    )


def full_size(records: dict[str, Record]) -> dict[str, Record]:
    """Return the cases that were measured at full size, in the order of the suite."""
    full = {name: records[name] for name in cpu.cases() if name in records}
    full = {name: entry for name, entry in full.items() if entry["scale"] == 1}
    if not full:
        raise SystemExit("no full-size results: run python -m benchmarks first")
    return full


def comparison_table(records: Iterable[Record]) -> str:
    """Return a table with one row for each case: forward + backward, the ratio to the peer, peak
    memory.

    Empty where no record has a peer.
    """
    rows = [row for record in records if (row := _row(record))]
    if any(row[-1] for row in rows):
        return markdown(HEAD, rows)
    return markdown(HEAD[:4], [row[:4] for row in rows]) if rows else ""


def _row(record: Record, title: str = "") -> list[str]:
    """Return the cells of a row; cells without a record are empty."""
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
        f"{seconds(theirs)} ({PEERS[peer]})", f"{theirs / ours:.1f}x", *weighed,
    ]  # fmt: skip


def growth_table(record: Record) -> str:
    """Return a table of the time and memory for each number of edges."""
    rows = [
        [row["operator"], f"{row['edges']:,}", seconds(row["seconds"]),
         f"{1e9 * row['seconds'] / row['edges']:.1f}", size(row["peak_bytes"]),
         seconds(row["layout_seconds"])]
        for row in record["growth"]
    ]  # fmt: skip
    head = ["operator", "edges", "forward + backward", "ns per edge", "peak memory", "layout"]
    return markdown(head, rows)


def _circumstances(records: list[Record]) -> str:
    """Return the hardware and versions, and the commands that were run."""
    runs: dict[str, dict[str, None]] = {}
    for entry in records:
        machine: dict[str, Any] = entry["environment"]
        versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        threads = f"{machine['threads']} thread{'s' * (machine['threads'] > 1)}"
        where = f"{machine['cpu']}, {threads}; {versions}"
        run = f"`{machine['command']}` ({machine['date']}, commit {machine['commit']})"
        runs.setdefault(where, {})[run] = None
    seen = [
        f"- {where}:\n" + ",\n".join(f"  {run}" for run in commands) + "."
        for where, commands in runs.items()
    ]
    return "The cases were measured on the following machines, by these commands:\n\n" + "\n".join(
        seen
    )


def band_report(entry: Record) -> str:
    """Return the guide's table that compares band attention with dense attention."""
    machine: dict[str, Any] = entry["environment"]
    return (
        f"{band.table(entry['rows'])}\n\n*The band has {entry['width']} tokens on each side, and "
        f"attention has {entry['heads']} heads of {entry['channels']} channels in "
        f"{entry['dtype']}. Dense attention is torch's attention with the band as its mask. The "
        f"times were measured on {machine['threads']} threads of {machine['cpu']} with torch "
        f"{machine['versions']['torch']}. The command `{machine['command']}` generates this "
        "table.*\n"
    )
