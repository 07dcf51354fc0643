"""Pictures as bytes of SVG or PNG: takes molecules and arrays, and knows no model.

RDKit is imported when the first molecule is drawn, not with this module.
"""

from gattn.draw.molecules import DRAWN_ATOMS, draw_grid, draw_molecule, shared_scale

__all__ = ["DRAWN_ATOMS", "draw_grid", "draw_molecule", "shared_scale"]
