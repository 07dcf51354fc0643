"""The kernel of the molecule network computes the same as the layers, for any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from gattn.apps.molecules.inputs import featurise
from gattn.apps.molecules.network import MoleculeBatch, MoleculeNetwork, batch_inputs
from gattn.apps.molecules.settings import MoleculeSettings
from gattn.kernels import cpu

pytest.importorskip("rdkit")
pytestmark = pytest.mark.skipif(
    bool(cpu.unavailable_reason()), reason=f"no C++ kernels: {cpu.unavailable_reason()}"
)

SMILES = ["CCO", "C", "c1ccccc1C(=O)O", "[Na+].[Cl-]", "CC(C)(C)c1ccc(O)cc1N", "C" * 120]
SIZES = [
    {"width": 16, "layers": 2},  # two channels per head
    {"width": 64, "layers": 3},
    {"width": 128, "layers": 4},
    {"width": 256, "layers": 1},
    {"width": 24, "layers": 1, "heads": 3},
]


def batch_of(dtype: torch.dtype, smiles: list[str] = SMILES, extra: int = 0) -> MoleculeBatch:
    """Return a batch of molecules with random descriptors of the user."""
    batch = batch_inputs(featurise(smiles).inputs)
    tensors = (getattr(batch, field.name) for field in fields(batch))
    batch = MoleculeBatch(*(t.to(dtype) if t.is_floating_point() else t for t in tensors))
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(len(smiles), extra, dtype=dtype, generator=generator)
    return replace(batch, extra_descriptors=values)


def network_of(
    dtype: torch.dtype, targets: int = 3, extra: int = 0, **sizes: Any
) -> MoleculeNetwork:
    """Return a network with random weights, also where they begin with 0 or 1."""
    torch.manual_seed(1)
    network = MoleculeNetwork(MoleculeSettings(**sizes), targets, extra).to(dtype)
    for parameter in network.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return network


def results(
    network: MoleculeNetwork, compute: Callable[[MoleculeBatch], Tensor], batch: MoleculeBatch
) -> list[Tensor]:
    """Return the output and the gradient of each parameter for a random loss."""
    network.zero_grad(set_to_none=True)
    out = compute(batch)
    generator = torch.Generator().manual_seed(2)
    (out * torch.randn(out.shape, dtype=out.dtype, generator=generator)).sum().backward()
    gradients = [parameter.grad for parameter in network.parameters()]
    assert all(gradient is not None for gradient in gradients)
    return [out.detach(), *(gradient for gradient in gradients if gradient is not None)]


@pytest.mark.parametrize("extra", [0, 2])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"width-{sizes['width']}")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_molecule_network_kernel_equals_the_network_of_layers(
    dtype: torch.dtype, sizes: dict[str, int], extra: int
):
    network, batch = network_of(dtype, extra=extra, **sizes), batch_of(dtype, extra=extra)
    kernel = results(network, network, batch)
    layers = results(network, network.by_layers, batch)
    near = 1e-9 if dtype == torch.float64 else 2e-4
    for one, other in zip(kernel, layers, strict=True):
        torch.testing.assert_close(one, other, rtol=near, atol=near * float(other.abs().max()))


@pytest.mark.bits
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_number_of_threads_does_not_change_bits_of_the_molecule_network(dtype: torch.dtype) -> None:
    network, batch = network_of(dtype), batch_of(dtype, SMILES * 8)
    one = results(network, network, batch)
    for threads in (2, 3):
        network.threads = threads
        several = results(network, network, batch)
        assert all(torch.equal(a, b) for a, b in zip(one, several, strict=True))
    with torch.inference_mode():
        assert torch.equal(network(batch), one[0])


def test_gradients_of_the_molecule_network_pass_gradcheck() -> None:
    network = network_of(torch.float64, targets=1, extra=1, width=8, layers=2)
    batch = batch_of(torch.float64, ["CCO", "C", "CC(=O)N"], extra=1)
    assert "_Network" in type(network(batch).grad_fn).__name__
    names = [name for name, _ in network.named_parameters()]

    def compute(*parameters: Tensor) -> Tensor:
        return torch.func.functional_call(network, dict(zip(names, parameters)), (batch,))

    parameters = tuple(p.detach().requires_grad_() for p in network.parameters())
    assert torch.autograd.gradcheck(compute, parameters, fast_mode=True)


def test_molecule_network_accepts_empty_molecules_and_empty_batches() -> None:
    network, batch = network_of(torch.float64), batch_of(torch.float64)
    ptr = torch.cat([batch.ptr[:2], batch.ptr[1:]])
    padded = replace(batch, ptr=ptr, extra_descriptors=torch.empty(len(ptr) - 1, 0).double())
    kernel, layers = network(padded), network.by_layers(batch)
    torch.testing.assert_close(kernel[[0, *range(2, len(kernel))]], layers)
    assert kernel[1].isfinite().all()
    empty = batch_of(torch.float64, [])
    assert network(empty).shape == (0, 3)


def test_self_loops_do_not_change_the_output_of_the_molecule_network() -> None:
    network, batch = network_of(torch.float64), batch_of(torch.float64)
    loop = torch.tensor([[0], [0]])
    edges = torch.cat([batch.edge_index, loop], 1)
    attr = torch.cat([batch.edge_attr, batch.edge_attr[:1]])
    looped = replace(batch, edge_index=edges, edge_attr=attr)
    torch.testing.assert_close(network(looped), network(batch))
    torch.testing.assert_close(network(looped), network.by_layers(looped))


def test_infinite_parameter_makes_outputs_of_the_molecule_network_not_finite() -> None:
    network, batch = network_of(torch.float32), batch_of(torch.float32)
    network.convs[0].lin.weight.data[0, 0] = torch.inf
    assert not network(batch).isfinite().any()


def test_molecule_network_raises_error_for_invalid_bonds_features_or_ptr() -> None:
    network, batch = network_of(torch.float32), batch_of(torch.float32)
    joined = torch.tensor([[0], [len(batch.x) - 1]])
    attr = torch.cat([batch.edge_attr, batch.edge_attr[:1]])
    edges = torch.cat([batch.edge_index, joined], 1)
    with pytest.raises(ValueError, match="an edge must join atoms of one molecule"):
        network(replace(batch, edge_index=edges, edge_attr=attr))
    with pytest.raises(ValueError, match=r"edge_attr must be \("):
        network(replace(batch, edge_attr=attr))
    with pytest.raises(ValueError, match=r"x must be \("):
        network(replace(batch, x=batch.x[:, 1:]))
    with pytest.raises(ValueError, match="edge_index must contain indices of atoms"):
        network(replace(batch, edge_index=batch.edge_index + len(batch.x)))
    with pytest.raises(ValueError, match="ptr must begin with 0"):
        network(replace(batch, ptr=batch.ptr + 1))


def test_molecule_network_is_computed_by_layers_for_dropout_and_atom_gradients() -> None:
    batch = batch_of(torch.float32)
    network = MoleculeNetwork(MoleculeSettings(width=16, dropout=0.5), 1)
    assert "_Network" not in type(network(batch).grad_fn).__name__
    assert "_Network" in type(network.eval()(batch).grad_fn).__name__
    x = batch.x.clone().requires_grad_()
    network(replace(batch, x=x)).sum().backward()
    assert x.grad is not None
    assert x.grad.any()
