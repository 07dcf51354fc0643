"""Layers and readouts with the interface of torch_geometric.nn, computed by gattn's kernels."""

from gattn.lazy import attach


def _refuse_scripts(kind: object) -> None:
    """Make ``torch.jit.script`` raise RuntimeError, with advice, for modules of this class."""
    from gattn.nn.common.checks import refuse_scripts

    refuse_scripts(kind)


__getattr__, __dir__, __all__ = attach(
    __name__,
    __file__,
    prepare=_refuse_scripts,
    elsewhere={"aggr": "its readouts, such as AttentionalAggregation, are in gattn.nn itself"},
)
