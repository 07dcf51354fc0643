"""Every operator: the C++ kernels against the reference and float64."""

import pytest
import torch

from tests.families import OPERATORS
from tests.ops.conftest import DTYPES, WIDTHS


def test_operators_on_every_graph_equal_the_reference(operator, graph, compare):
    compare(operator, graph, heads=3, channels=5)
    compare(operator, graph, heads=8, channels=4, dtype=torch.float32)


@pytest.mark.slow
def test_operators_of_every_width_and_dtype_equal_the_reference(
    operator, width, precision, compare, random_graph
):
    compare(operator, random_graph, *width, dtype=precision)


def test_operators_of_each_width_with_one_of_the_dtypes_equal_the_reference(
    operator, compare, random_graph
):
    """The dtypes rotate with the operators, so that each pair of two of the three occurs."""
    first = list(OPERATORS.values()).index(operator)
    for number, width in enumerate(WIDTHS):
        dtype = DTYPES[(first + number) % len(DTYPES)]
        compare(operator, random_graph, *width, dtype=dtype)


@pytest.mark.parametrize(
    ("channels", "dtype"),
    [
        (4, torch.float32), (8, torch.bfloat16), (16, torch.float32),
        (32, torch.bfloat16), (64, torch.float32), (128, torch.bfloat16),
    ],
)  # fmt: skip
def test_operators_with_eleven_heads_of_4_to_128_channels_equal_the_reference(
    operator, channels, dtype, compare, random_graph
):
    """Test numbers of channels for which kernels were compiled, and other numbers. The kernels
    process eleven heads as eight heads and then three heads.
    """
    compare(operator, random_graph, 11, channels, dtype=dtype, dims={"w": channels})


def test_operators_with_int64_indices_equal_the_reference(operator, precision, compare, wide_graph):
    compare(operator, wide_graph, 3, 16, dtype=precision)


def test_operators_on_a_graph_with_a_hub_equal_the_reference(
    operator, precision, compare, hub_graph
):
    heads, channels = (1, 3) if precision.itemsize == 2 else (8, 16)
    compare(operator, hub_graph, heads, channels, dtype=precision)


@pytest.mark.parametrize(("heads", "channels"), [(3, 4), (8, 16)])
def test_operators_at_nodes_of_degree_near_the_segment_length_equal_the_reference(
    operator, heads, channels, compare, split_graph
):
    compare(operator, split_graph, heads, channels)
