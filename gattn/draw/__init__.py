"""Functions that draw molecules and networks as SVG or PNG pictures.

The functions need RDKit, matplotlib and networkx, which ``pip install "gattn[draw]"`` installs.
These are imported when the first picture is drawn.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
