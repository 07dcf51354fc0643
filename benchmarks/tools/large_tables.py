"""Tables of the measurements on large graphs and in several processes."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from benchmarks.core.record import Record
from benchmarks.core.tables import markdown, seconds, size


def sampled_and_whole(records: Iterable[Record]) -> str:
    """Return the table of the memory and the accuracy of training on samples and on the whole
    graph, for networks that were trained in both ways.
    """
    kinds: dict[tuple[int, int, int, bool], dict[str, Record]] = {}
    for entry in records:
        kind = *(entry[name] for name in ("edges", "nodes", "columns")), entry.get("strengths")
        kinds.setdefault((*kind[:3], bool(kind[3])), {})[entry["size"]["training"]] = entry
    rows = []
    for (edges, nodes, columns, strengths), ways in sorted(kinds.items()):
        for way, entry in sorted(ways.items()):
            parts = entry["components"]
            shown = [entry["accuracy"], *(parts[name] for name in ("labels", "neighbours", "gat"))]
            network = [f"{nodes:,}", f"{edges:,}", str(columns), "1" if strengths else "0"]
            memory = f"{entry['peak_resident_gib']:.1f} GiB"
            if len(ways) > 1:
                rows.append([*network, way, memory, *(f"{100 * one:.1f} %" for one in shown)])
    head = ["nodes", "edges", "columns of nodes", "of edges", "training", "memory", "accuracy"]
    return markdown([*head, "`labels`", "`neighbours`", "`gat`"], rows)


def sampling(records: Iterable[Record]) -> str:
    """Return the table of the medians of each side, with the number of workers that was fastest."""
    rounds: dict[tuple[str, int], list[Record]] = {}
    for entry in records:
        rounds.setdefault((entry["side"], entry["workers"]), []).append(entry)
    best: dict[str, tuple[float, float, int, int]] = {}
    for (side, workers), of_side in rounds.items():
        edges, batches = (
            median(entry[name] for entry in of_side)
            for name in ("edges_per_second", "batches_per_second")
        )
        best[side] = max(best.get(side, (0.0, 0.0, 0, 0)), (edges, batches, workers, len(of_side)))
    most = max(value[0] for side, value in best.items() if side != "gattn")
    rows = [
        [side, str(workers), f"{edges / 1e6:.2f} million", f"{batches:.1f}", f"{edges / most:.2f}x",
         str(count)]
        for side, (edges, batches, workers, count) in best.items()
    ]  # fmt: skip
    head = [
        "sampler", "workers", "edges per second", "batches per second",
        "relative to the fastest other loader", "rounds",
    ]  # fmt: skip
    return markdown(head, rows)


def distributed(records: Iterable[Record]) -> str:
    """Return the table of bytes by the formula, bytes passed to all_to_all, bytes sent by the
    network device, time, and memory.
    """
    newest = {(entry["case"], entry["processes"]): entry for entry in records}
    rows = []
    for (case, count), entry in newest.items():
        ranks = entry["ranks"]
        formula, handed, gradients = (
            sum(rank[name] for rank in ranks) for name in ("formula", "handed", "gradients")
        )
        worst = {name: max(rank[name] for rank in ranks) for name in ranks[0]}
        time, peak = worst["seconds"], worst["peak_bytes"]
        sent = [size(sum_) for sum_ in (formula, handed, gradients, worst["loopback_bytes"])]
        sent = sent if count > 1 else [""] * len(sent)
        rows.append([case.rpartition("/")[2], str(count), *sent, seconds(time), size(peak)])
    head = [
        "layer", "processes", "halo, by the formula", "passed to all_to_all", "gradients",
        "sent by the network device", "time", "memory of a process",
    ]  # fmt: skip
    return markdown(head, rows)
