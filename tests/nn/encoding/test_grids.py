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


def test_bad_input_gets_one_clear_error():
    with pytest.raises(ValueError, match="at least one axis; got"):
        grid_to_nodes(torch.randn(3, 4))
    with pytest.raises(ValueError, match=r"one per cell of \(2, 4, 4\); got \(31, 6\)"):
        nodes_to_grid(torch.randn(31, 6), torch.randn(2, 4, 4, 8))
