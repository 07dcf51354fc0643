"""The page on PyG coverage lists every layer of the installed PyG, with its right state."""

import ast
import re
from pathlib import Path

import torch
import torch_geometric
import torch_geometric.nn as pyg

from gattn.conversion import UNSUPPORTED

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guide" / "coverage.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` +\| ([^|]+?) +\| ([^|]+?) +\|$", PAGE, re.MULTILINE)
PLAIN = set(re.findall(r"`(\w+)`", PAGE.split("<!-- without attention -->")[1]))
KINDS = ("aggr", "attention", "conv", "dense", "models", "pool")
OTHER = {"GATEConv"}  # GATEConv is a part of AttentiveFP and not exported by PyG
NOT_PYG = {"LPAttLayer", "MultiheadAttention", "MultiheadAttentionBlock", "ViS_MP"}
"""Names within UNSUPPORTED of torch's modules, and of parts of PyG's models."""


def _exported() -> set[str]:
    """Return the classes that PyG's packages of layers export."""
    folder, exported = Path(pyg.__file__).parent, set()
    for kind in KINDS:
        tree = ast.parse((folder / kind / "__init__.py").read_text())
        imported = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        names = {alias.asname or alias.name for node in imported for alias in node.names}
        exported |= {
            name for name in names
            if isinstance(thing := getattr(pyg, name, None), type)
            and issubclass(thing, torch.nn.Module)
        }  # fmt: skip
    return exported


def test_coverage_page_lists_every_attention_layer_of_pyg_once() -> None:
    covered = {name for name, _, _ in ROWS}
    assert len(covered) == len(ROWS)
    assert not covered & PLAIN
    exported, listed = _exported(), (covered | PLAIN) - OTHER
    assert exported <= listed, sorted(exported - listed)
    if torch_geometric.__version__.startswith("2.8."):
        assert listed == exported


def test_coverage_page_marks_unsupported_layers_as_to_build_or_out_of_scope() -> None:
    rows = {name: here for name, here, _ in ROWS}
    for name in UNSUPPORTED - NOT_PYG:
        assert rows[name] in ("to build", "out of scope"), name
