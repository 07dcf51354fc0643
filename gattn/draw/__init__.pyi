from gattn.draw.molecules import DRAWN_ATOMS, draw_molecule, shared_scale
from gattn.draw.network import draw_network, sample_network

__all__ = [
    "DRAWN_ATOMS",
    "draw_molecule",
    "draw_network",
    "sample_network",
    "shared_scale",
]
