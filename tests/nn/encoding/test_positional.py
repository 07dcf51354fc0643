import pytest
import torch

from gattn.nn import SinusoidalEncoding


def test_sinusoidal_is_its_equation():
    encoded = SinusoidalEncoding(6, max_period=100.0)(torch.tensor([0.0, 3.0, 7.5]))
    for row, x in enumerate((0.0, 3.0, 7.5)):
        for t in range(3):
            angle = torch.tensor(x * 100.0 ** (-2 * t / 6))
            torch.testing.assert_close(encoded[row, 2 * t], angle.sin())
            torch.testing.assert_close(encoded[row, 2 * t + 1], angle.cos())


def test_sinusoidal_on_several_axes():
    position = torch.cartesian_prod(torch.arange(3), torch.arange(4))
    encoded = SinusoidalEncoding(8, axes=2)(position)
    single = SinusoidalEncoding(4)
    assert torch.equal(encoded, torch.cat([single(position[:, 0]), single(position[:, 1])], dim=1))
    assert SinusoidalEncoding(8)(position[:, 0].double()).dtype == torch.float64
    with pytest.raises(ValueError, match="channels must be a multiple of 4; got 6"):
        SinusoidalEncoding(6, axes=2)
    with pytest.raises(ValueError, match=r"position must have shape \(n, 2\); got \(12,\)"):
        SinusoidalEncoding(8, axes=2)(position[:, 0])
