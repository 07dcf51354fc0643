"""Backends and the reference agree with the declarations of the operators."""

import functools
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gattn.functional  # noqa: F401  # declares the operators
from gattn.kernels import cpu, reference
from gattn.ops.attention.dot_product import DOT_PRODUCT
from gattn.ops.attention.gat import GAT
from gattn.ops.attention.gatv2 import GATV2
from gattn.ops.registration import checks
from gattn.ops.registration.operator import OPERATORS

built = pytest.mark.skipif(
    not cpu.serves(torch.device("cpu")), reason="the C++ extension is not built"
)
FOLDER = Path(inspect.getfile(checks)).parents[1]
SOURCES = "".join(path.read_text("utf-8") for path in FOLDER.rglob("*.py"))
PARTS = ("forward", "backward")
EVERY = pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda o: o.name)


def test_functional_declares_every_operator():
    """After this module was imported, an exported program with an operator of gattn can be
    loaded.
    """
    declared = re.findall(r"Operator\(\s*\"(\w+)\"|Family\(\s*\"(\w+)\"", SOURCES)
    names = {plain for plain, _ in declared if plain}
    names |= {f"{family}_{part}" for _, family in declared if family for part in PARTS}
    assert len(names) == 14
    code = "import gattn.functional; from gattn.ops.registration.operator import OPERATORS"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(*OPERATORS)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert set(done.stdout.split()) == names


@EVERY
def test_reference_takes_what_is_declared(operator):
    if operator.name.endswith("_backward"):
        # The reference of forward has a derivative, so backward needs no reference.
        assert operator.reference is None
        return
    if inspect.ismethod(operator.reference) or operator.name == "gatv2_score":
        # The reference is derived from the score of the family.
        return
    takes = tuple(inspect.signature(operator.reference).parameters)
    assert takes == operator.inputs + operator.reference_args


@pytest.mark.parametrize("family", [GAT, GATV2, DOT_PRODUCT], ids=lambda f: f.forward.name)
def test_score_function_has_declared_arguments(family):
    """A score takes the inputs and the settings of its family, except those of the weighted sum."""
    others = {"value", "attn_bias", "edge_weight", "dropout"}
    declared = [n for n in (*family.forward.inputs, *family.forward.settings) if n not in others]
    assert list(inspect.signature(family.score).parameters) == declared


@EVERY
def test_triton_launcher_takes_what_is_declared(operator):
    pytest.importorskip("triton")
    module = importlib.import_module("gattn.kernels.triton")
    if operator.name not in module.__all__:
        assert operator.name in ("node_scores", "node_scores_backward", "dropout")
        return
    takes = tuple(inspect.signature(getattr(module, operator.name)).parameters)
    assert takes == operator.parameters[:-1]


@built
@EVERY
def test_cpp_kernel_has_a_field_for_all_that_is_declared(operator):
    assert operator._launch is operator._launch


@built
def test_value_without_a_field_is_refused():
    with pytest.raises(TypeError, match="the C\\+\\+ kernel edge_dot has no field bias, gate"):
        cpu.Launcher("edge_dot", {"query": 0, "gate": 1, "bias": 2})


def test_output_length_without_input_is_read_from_layout(random_graph):
    """If no input has a length, it is read from the layout: sums over the transposed edges have a
    row for each source.
    """
    operator = OPERATORS["aggregate"]
    args = torch.ones(1, 2), torch.ones(9, 2, 3), list(random_graph.transpose().layout)
    for transposed, rows in ((False, random_graph.num_src), (True, random_graph.num_dst)):
        (allocate_outputs,) = operator._shapes.allocate_outputs(
            (*args, transposed, "cpu"),
            operator._shapes.lengths((*args, transposed, "cpu")),
            lambda like, *shape, dtype: like.new_empty(shape, dtype=dtype),
        )
        assert allocate_outputs.shape == (rows, 2, 3)


@built
@pytest.mark.parametrize("p", [0.3, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_dropout_of_numbers_is_the_references(p, dtype):
    x = torch.randn(2500, generator=torch.Generator().manual_seed(1)).to(dtype)
    seed = torch.tensor([-(2**62) + 5, 0])
    out = OPERATORS["dropout"](x, seed, p, backend="cpu")
    expected = reference.dropout(x, seed, p)
    assert torch.equal(out == 0, expected == 0)
    torch.testing.assert_close(out, expected)
    assert out.dtype == dtype


@built
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_node_scores_are_the_references(dtype):
    generator = torch.Generator().manual_seed(1)
    value = torch.randn(50, 3, 5, generator=generator, dtype=torch.float64).to(dtype)
    vectors = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64).to(dtype)
    scores = OPERATORS["node_scores"](value, vectors, backend="cpu")
    expected = reference.node_scores(value.double(), vectors.double())
    eps = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 0.05)
    torch.testing.assert_close(scores.double(), expected, rtol=eps, atol=eps)


@built
@pytest.mark.parametrize("channels", [4, 16, 32, 128])
def test_node_score_has_same_bits_for_any_number_of_heads(channels):
    """The kernel sums eight heads at once and the remaining heads one by one. A score must have the
    same bits in both cases.
    """
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(33, 9, channels, generator=generator)
    vectors = torch.randn(2, 9, channels, generator=generator)
    node_scores = functools.partial(OPERATORS["node_scores"], backend="cpu")
    together = node_scores(value, vectors)
    for x in range(9):
        alone = node_scores(value[:, x : x + 1].contiguous(), vectors[:, x : x + 1].contiguous())
        assert torch.equal(alone[..., 0], together[..., x])
