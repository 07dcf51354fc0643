import pytest
import torch

from gattn import graphs
from gattn.functional import dot_product_attention
from gattn.nn import grid_to_nodes, nodes_to_grid

SHAPES = [(5,), (3, 4), (2, 3, 4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("channels_first", [False, True])
def test_nodes_to_grid_inverts_grid_to_nodes(shape, channels_first):
    x = torch.randn(2, *shape, 6)
    grid = x.movedim(-1, 1) if channels_first else x
    rows = grid_to_nodes(grid, channels_first=channels_first)
    assert torch.equal(rows, x.reshape(-1, 6))
    back = nodes_to_grid(rows[:, :5], grid, channels_first=channels_first)
    assert torch.equal(back, grid[:, :5] if channels_first else grid[..., :5])


def test_rows_are_numbered_as_the_grid_numbers_cells():
    """A mean over the neighbourhoods of the grid equals the average pooling of torch."""
    x = torch.randn(2, 5, 4, 3, dtype=torch.float64)
    graph, rows = graphs.grid((5, 4), 1, batch=2), grid_to_nodes(x).unsqueeze(1)
    mean = dot_product_attention(torch.zeros_like(rows), rows, rows, graph).squeeze(1)
    pooled = torch.nn.functional.avg_pool2d(
        x.movedim(-1, 1), 3, stride=1, padding=1, count_include_pad=False
    )
    torch.testing.assert_close(nodes_to_grid(mean, x), pooled.movedim(1, -1))


def test_output_takes_the_query_size():
    query, key = torch.randn(2, 4, 4, 8), torch.randn(2, 3, 5, 8)
    q, k = grid_to_nodes(query).unsqueeze(1), grid_to_nodes(key).unsqueeze(1)
    v = torch.randn(30, 1, 6)
    out = nodes_to_grid(
        dot_product_attention(q, k, v, graphs.bipartite([16] * 2, [15] * 2))[:, 0], query
    )
    assert out.shape == (2, 4, 4, 6)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query.flatten(1, 2), key.flatten(1, 2), v.view(2, 15, 6)
    )
    torch.testing.assert_close(out.flatten(1, 2), expected)


def test_bad_input_gets_one_clear_error():
    with pytest.raises(ValueError, match="at least one axis; got"):
        grid_to_nodes(torch.randn(3, 4))
    with pytest.raises(ValueError, match=r"one per cell of \(2, 4, 4\); got \(31, 6\)"):
        nodes_to_grid(torch.randn(31, 6), torch.randn(2, 4, 4, 8))
