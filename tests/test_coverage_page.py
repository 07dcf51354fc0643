"""The page on PyG coverage lists every layer of the installed PyG, with its right state."""

import ast
import re
from pathlib import Path

import pytest
import torch
import torch_geometric
import torch_geometric.nn as pyg
from torch_geometric.nn.models import attentive_fp

import gattn.models
import gattn.nn
from gattn.conversion import REBUILT, TWINS, UNSUPPORTED

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


def test_page_lists_every_layer_of_pyg_once() -> None:
    covered = {name for name, _, _ in ROWS}
    assert len(covered) == len(ROWS)
    assert not covered & PLAIN
    exported, listed = _exported(), (covered | PLAIN) - OTHER
    assert exported <= listed, sorted(exported - listed)
    if torch_geometric.__version__.startswith("2.8."):
        assert listed == exported


@pytest.mark.parametrize(("name", "here", "how"), ROWS, ids=[row[0] for row in ROWS])
def test_row_agrees_with_the_converter(name: str, here: str, how: str) -> None:
    theirs = getattr(pyg, name, None) or getattr(attentive_fp, name)
    ours = getattr(gattn.nn, name, None) or getattr(gattn.models, name, None)
    assert (here == "same name, converted") == (ours is not None)
    if here == "same name, converted":
        assert f"gattn.{'nn' if hasattr(gattn.nn, name) else 'models'}.{name}" in how
        assert theirs in TWINS or theirs in REBUILT or name == "GAT"
    elif here == "converted":
        assert theirs in REBUILT or name == "SAGPooling"
        for ours in re.findall(r"`gattn\.nn\.(\w+)`", how):
            assert hasattr(gattn.nn, ours)
    elif here == "to build":
        (page, anchor) = re.findall(r"\]\(([^)#]*)(#[^)]*)?\)", how)[0] if "](" in how else ("", "")
        assert page or anchor or "as above" in how
        heading = anchor.strip("#").replace("-", " ")
        assert heading in PAGE.lower()
        if anchor:  # the section of the page must compare PyG's class with gattn's
            assert name in PAGE.lower().replace("\n", " ") or f"{name}(" in PAGE
    else:
        assert here == "out of scope"
        assert len(how) > 10


def test_unsupported_layers_are_on_the_page() -> None:
    rows = {name: here for name, here, _ in ROWS}
    for name in UNSUPPORTED - NOT_PYG:
        assert rows[name] in ("to build", "out of scope"), name
