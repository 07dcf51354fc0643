"""gather_rows reads rows into existing memory, and add_rows adds rows to others."""

import pytest
import torch

from gattn.kernels import cpu
from gattn.kernels.gather import add_rows, gather_rows

pytestmark = pytest.mark.skipif(
    bool(cpu.unavailable_reason()), reason="the C++ kernels are not built"
)
SHAPES = pytest.mark.parametrize("shape", [(), (1,), (3, 5), (8, 16), (0,), (7, 0)])
INDICES = pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])


@SHAPES
@INDICES
@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8,
     torch.bool, torch.complex64],
)  # fmt: skip
def test_gather_rows_equals_indexing_of_the_tensor(shape, index_dtype, dtype):
    torch.manual_seed(0)
    table = torch.randint(0, 99, (50, *shape)).to(dtype)
    for count in (0, 1, 333):
        index = torch.randint(0, 50, (count,), dtype=index_dtype)
        room = torch.empty(count, *shape, dtype=dtype)
        assert gather_rows(table, index, room) is room
        assert torch.equal(room, table[index.long()])


@pytest.mark.parametrize("strides", ["columns", "rows", "transposed", "repeated"])
def test_gather_rows_and_add_rows_accept_non_contiguous_tensors(strides):
    x = torch.randn(20, 9, 4)
    table = {
        "columns": x[:, 2:5], "rows": x[::3], "transposed": x.transpose(1, 2),
        "repeated": x[:1].expand(20, -1, -1),
    }[strides]  # fmt: skip
    index = torch.randint(0, len(table), (30,))
    rows = gather_rows(table, index, torch.empty(30, *table.shape[1:]))
    assert torch.equal(rows, table[index])
    total = torch.zeros(5, *table.shape[1:])
    destinations = torch.arange(len(table)) % 5
    add_rows(table, destinations, total)
    torch.testing.assert_close(total, torch.zeros_like(total).index_add_(0, destinations, table))


@SHAPES
@INDICES
@pytest.mark.parametrize(
    ("dtype", "is_sorted"),
    [
        (torch.float64, False), (torch.float32, True), (torch.bfloat16, False),
        (torch.float16, True),
    ],
)  # fmt: skip
def test_add_rows_gives_the_same_bits_as_sequential_sums(shape, index_dtype, is_sorted, dtype):
    """The sums equal sequential additions bit for bit, with any number of threads."""
    torch.manual_seed(0)
    rows = torch.randn(3000, *shape).to(dtype)
    index = torch.randint(0, 40, (3000,), dtype=index_dtype)
    if is_sorted:
        # Most indices are equal, so that the range of a thread begins with an index that the
        # previous thread also adds to.
        index = index.clamp(5, 20).sort().values
    sum_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    start = torch.randn(41, *shape, dtype=sum_dtype)
    expected = start.clone()
    for destination, row in zip(index.tolist(), rows.to(sum_dtype)):
        expected[destination] += row
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            total = start.clone()
            add_rows(rows, index, total, is_sorted=is_sorted)
            assert torch.equal(total, expected)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "total",
    [torch.zeros(3, 4, dtype=torch.float64), torch.zeros(4, 3).t(), torch.zeros(3, 4).half()],
)
def test_add_rows_into_sums_of_another_dtype_or_stride_raises_error(total):
    with pytest.raises(ValueError, match=r"total must be contiguous, of torch\.float32; got"):
        add_rows(torch.ones(2, 4), torch.tensor([0, 2]), total)


@INDICES
@pytest.mark.parametrize("is_sorted", [False, True])
def test_add_rows_adds_sums_of_hub_rows_to_the_total_and_leaves_their_buffer_zero(
    index_dtype, is_sorted
):
    index = [0, 2, ~0, ~0, ~1] if is_sorted else [0, ~0, 2, ~1, ~0]
    rows, total, apart = torch.arange(1.0, 6.0)[:, None], torch.zeros(3, 1), torch.zeros(2, 1)
    hubs = torch.tensor([1, 2], dtype=index_dtype)
    places = torch.tensor(index, dtype=index_dtype)
    add_rows(rows, places, total, hubs, apart, is_sorted=is_sorted)
    assert total.flatten().tolist() == ([1, 3 + 4, 2 + 5] if is_sorted else [1, 2 + 5, 3 + 4])
    assert not apart.any()


def test_add_rows_without_a_buffer_for_hubs_raises_error():
    with pytest.raises(ValueError, match="hubs and hub_sums must be passed together"):
        add_rows(torch.ones(1, 1), torch.tensor([~0]), torch.zeros(2, 1), torch.tensor([1]))


@pytest.mark.bits
@pytest.mark.parametrize("is_sorted", [False, True])
def test_hub_sums_have_the_same_bits_with_1_2_3_or_7_threads(is_sorted):
    torch.manual_seed(0)
    rows, index = torch.randn(5000, 8, 16), torch.randint(-3, 9, (5000,))
    hubs = torch.tensor([20, 4, 11])
    if is_sorted:
        index = index.sort().values
    expected = torch.zeros(21, 8, 16).double()
    expected.index_add_(
        0, torch.where(index < 0, hubs[(~index).clamp(min=0)], index), rows.double()
    )
    threads, totals = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            total, hub_sums = torch.zeros(21, 8, 16), torch.zeros(3, 8, 16)
            add_rows(rows, index, total, hubs, hub_sums, is_sorted=is_sorted)
            totals.append(total)
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(totals[0].double(), expected, rtol=1e-5, atol=1e-4)
    assert all(torch.equal(total, totals[0]) for total in totals)


@pytest.mark.parametrize(
    "out", [torch.zeros(3, 3).t(), torch.zeros(2, 3), torch.zeros(3, 3, dtype=torch.float64)]
)
def test_gather_rows_into_a_buffer_of_wrong_shape_dtype_or_stride_raises_error(out):
    with pytest.raises(ValueError, match=r"out must be contiguous, \(3, 3\) of torch.float32; got"):
        gather_rows(torch.randn(5, 3), torch.tensor([0, 1, 2]), out)
