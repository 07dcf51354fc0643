"""The arguments index, ptr and dim_size of readouts: eager, exported and under transforms."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from gattn.nn import AttentionalAggregation, LearnedQueryReadout, SetTransformerAggregation
from gattn.nn.common import segments

READOUTS = {
    "learned query": lambda: LearnedQueryReadout(6, 8),
    "gated": lambda: AttentionalAggregation(torch.nn.Linear(6, 1)),
    "set transformer": lambda: SetTransformerAggregation(6),
}
INDEX, PTR = torch.tensor([0, 0, 1, 1, 1, 3, 3]), torch.tensor([0, 2, 5, 5, 7])
FORMS = {"one set": {}, "index": {"index": INDEX, "dim_size": 4}, "ptr": {"ptr": PTR}}

each_readout = pytest.mark.parametrize("build", READOUTS.values(), ids=READOUTS)
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@each_readout
def test_readout_without_an_index_reduces_all_rows_as_a_single_set(build):
    readout, x = build(), torch.randn(7, 6)
    one = readout(x, torch.zeros(7, dtype=torch.int64), dim_size=1)
    torch.testing.assert_close(readout(x), one)
    first, *rest = readout(x, dim_size=3)
    torch.testing.assert_close(first[None], one)
    assert all(bool((row == row[:1]).all()) or not row.any() for row in rest)
    assert readout(x[:0]).shape == one.shape


def test_segment_graph_is_reused_until_the_index_changes(monkeypatch):
    x, index, counted = torch.randn(7, 6), INDEX.clone(), []
    count = segments._count
    monkeypatch.setattr(segments, "_count", lambda index: counted.append(1) or count(index))
    graph = segments.segment_graph(x, index)
    assert segments.segment_graph(x, index) is graph
    assert len(counted) == 1
    index[0] = 2
    assert segments.segment_graph(x, index) is not graph


@each_form
@each_readout
def test_gradients_of_readouts_by_torch_func_equal_those_of_autograd(build, form, monkeypatch):
    monkeypatch.setenv("GATTN_BACKEND", "reference")
    readout, x = build(), torch.randn(7, 6, requires_grad=True)
    fresh = {name: v.clone() if isinstance(v, torch.Tensor) else v for name, v in form.items()}
    grad = torch.func.grad(lambda x: readout(x, **fresh).square().sum())(x.detach())
    readout(x, **form).square().sum().backward()
    torch.testing.assert_close(grad, x.grad)


def test_segment_index_created_inside_vmap_raises_error():
    readout, x = LearnedQueryReadout(6, 8), torch.randn(7, 6)
    with pytest.raises(ValueError, match=r"index and ptr must be created outside of .*torch.func"):
        torch.func.vmap(lambda index: readout(x, index, dim_size=4))(torch.stack([INDEX, INDEX]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@each_readout
def test_readout_is_compiled_once_for_sets_of_different_sizes(build):
    readout = build().eval()
    counter = CompileCounter()
    compiled = torch.compile(readout, fullgraph=True, backend=counter, dynamic=True)
    needs = {"max_num_elements": 40} if isinstance(readout, SetTransformerAggregation) else {}
    for rows in (7, 9, 20):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(compiled(x, **needs), readout(x))
    assert counter.frame_count == 1
