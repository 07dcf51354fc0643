"""Draw molecules, networks and attention matrices, as bytes of SVG or PNG files.

RDKit, matplotlib and networkx, which ``pip install "gattn[draw]"`` installs, are imported at the
first picture.
"""

from gattn.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
