"""Band attention for up to a million tokens, compared with dense attention that uses the band as
a mask.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import gattn
from benchmarks.core import memory, tables, timing
from benchmarks.core.case import Contender, Function
from benchmarks.core.seeds import leaf

HEADS, CHANNELS = 4, 16
TOKENS = (1_000, 4_000, 16_000, 64_000, 250_000, 1_000_000)
KINDS = ("band", "dense")
FEWEST = 3
CHECKED = 1_000


def measure(kind: str, tokens: int, width: int) -> dict[str, float]:
    """Return the time and peak memory of forward and backward, including the layout or the mask."""
    inputs = {
        name: leaf(tokens, HEADS, CHANNELS, seed=seed, dtype=torch.float32)
        for seed, name in enumerate(("query", "key", "value"))
    }
    with memory.peak() as peak:
        start = time.perf_counter()
        attend = _band(tokens, width) if kind == "band" else _dense(tokens, width)
        prepared = time.perf_counter() - start
        run = timing.training(Contender.of(attend, inputs))
        samples = [timing.CPU.seconds(run) for _ in range(FEWEST)]
    # Number of query-key pairs inside the band.
    pairs = tokens * (2 * width + 1) - width * (width + 1)
    row = {
        "edges": pairs,
        "prepare_seconds": prepared,
        "seconds": statistics.median(samples),
        "peak_bytes": peak.bytes,
    }
    if tokens <= CHECKED:
        with torch.no_grad():
            difference = _band(tokens, width)(**inputs) - _dense(tokens, width)(**inputs)
        row["error"] = float(difference.abs().max())
    return row


def _band(tokens: int, width: int) -> Function:
    graph = gattn.graphs.band([tokens], width)
    return lambda query, key, value: gattn.functional.dot_product_attention(
        query, key, value, graph
    )


def _dense(tokens: int, width: int) -> Function:
    place = torch.arange(tokens, dtype=torch.int32)
    mask = torch.ones(tokens, tokens, dtype=torch.bool)
    for rows in place.split(1024):
        # Fill the mask in pieces of 1,024 rows, so that little memory is used in addition to it.
        mask[rows[0] : rows[-1] + 1] = (rows[:, None] - place).abs() <= width

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q, k, v = (t.transpose(0, 1).unsqueeze(0) for t in (query, key, value))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)[0].transpose(0, 1)

    return attend


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    head = [
        "tokens", "edges", "band: lay out, s", "forward + backward, s", "memory, MB",
        "dense with mask: forward + backward, s", "memory, MB",
    ]  # fmt: skip
    return tables.markdown(head, map(_cells, rows), text=0)


def _cells(row: dict[str, Any]) -> list[str]:
    band = row["band"]
    laid_out = ["", ""]
    if "stopped" not in band:
        laid_out = [f"{band['edges']:,}", f"{band['prepare_seconds']:.3f}"]
    return [f"{row['tokens']:,}", *laid_out, *_costs(band), *_costs(row["dense"])]


def _costs(entry: dict[str, Any]) -> list[str]:
    if "stopped" in entry:
        return [entry["stopped"], ""]
    return [f"{entry['seconds']:.3f}", f"{entry['peak_bytes'] / 1e6:,.0f}"]
