"""Cases and comparisons that the tests of graphs share."""

import pytest
import torch

from gattn.kernels import cpu
from gattn.layout import layout as reference
from gattn.testing import awkward_graphs

BUILDERS = ["reference", "cpu"]
CASES = pytest.mark.parametrize("case", awkward_graphs(), ids=lambda case: case.name)


def builder(name):
    if name == "cpu" and not cpu.serves(torch.device("cpu")):
        pytest.skip("the C++ extension is not built")
    return {"cpu": getattr(cpu, "build_layout", None), "reference": reference.build}[name]


def brute_layout(source, destination, num_src, num_dst):
    """Return the layout computed with Python's sort."""
    edges = list(zip(source, destination))
    by_row = sorted(range(len(edges)), key=lambda e: (destination[e], source[e]))
    position = {e: p for p, e in enumerate(by_row)}
    by_col = sorted(by_row, key=lambda e: (source[e], position[e]))

    def offsets(values, size):
        return [sum(v < bound for v in values) for bound in range(size + 1)]

    return {
        "rowptr": offsets(destination, num_dst),
        "col": [source[e] for e in by_row],
        "perm": by_row,
        "colptr": offsets(source, num_src),
        "row": [destination[e] for e in by_col],
        "csr2csc": [position[e] for e in by_col],
    }


def assert_same_layout(layout, expected):
    for name, values in expected.items():
        got = getattr(layout, name)
        assert got.dtype == torch.int32, name
        assert got.is_contiguous(), name
        assert got.tolist() == values, name


def assert_same_graph(one, other):
    assert one.size == other.size
    assert one.num_edges == other.num_edges
    for a, b in zip(one.layout[:6], other.layout[:6]):
        assert torch.equal(a, b)


SPARSE = pytest.mark.parametrize(
    ("make", "indices"),
    [
        (lambda dense: dense.to_sparse(), lambda t: t.indices()[1]),
        (lambda dense: dense.to_sparse_csr(), lambda t: t.col_indices()),
        (lambda dense: dense.to_sparse_csc(), lambda t: t.row_indices()),
    ],
    ids=["coo", "csr", "csc"],
)
ignore_beta = pytest.mark.filterwarnings("ignore:Sparse CS:UserWarning")
