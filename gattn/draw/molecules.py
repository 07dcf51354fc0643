"""Pictures of molecules in which a disc on each atom shows the atom's weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from torch import Tensor

from gattn.data.molecules.plain import plain_atoms
from gattn.data.molecules.smiles import parse_smiles
from gattn.draw._canvas import Canvas, PictureFormat
from gattn.draw.theme import DARK, LIGHT, Theme, mixture

if TYPE_CHECKING:
    from rdkit.Chem import Mol

Weights: TypeAlias = "Sequence[float] | np.ndarray | Tensor"
Drawable: TypeAlias = "str | Mol"
"""Type of a molecule to draw: a SMILES or an RDKit molecule."""

DRAWN_ATOMS = 300
"""Maximum number of atoms in a drawn molecule. A larger picture would be unreadable, and its
layout would take seconds.
"""

_ANGSTROM = 30.0
"""Number of pixels per Angstrom. A molecule that is then larger than its panel is scaled down."""
_TITLE, _LINE, _LEGEND = 24, 16, 66
_MARGIN = 10
_BETWEEN = 2.0
"""Distance between two components of a salt, in Angstrom."""
_TURN = 15
"""A molecule that is larger than its panel is turned by multiples of this angle, in degrees."""
_FONT = 9
"""Minimum size of atom symbols, in pixels."""
_NARROWEST, _LOWEST, _LARGEST = 340, 140, 1200
_SMALLEST_SHARE = 0.05
"""An atom has a disc if its weight is at least this fraction of the scale."""
_FAINTEST = 0.35
"""Share of the strong colour in the disc of a weight near zero, which remains distinguishable."""
_RADII = 0.18, 0.56
"""Radii of the smallest and the largest disc, in Angstrom: less than half of a bond, which is 1.5
Angstrom long.
"""


def draw_molecule(
    molecule: Drawable, weights: Weights | None = None, *,
    scale: float | None = None, title: str = "", lines: Sequence[str] = (), label: str | None = "",
    size: tuple[int, int] | None = None, format: PictureFormat = "svg", dark: bool = False,
) -> bytes:  # fmt: skip
    """Draw a molecule with a disc on each atom. The area and the colour of the disc show the atom's
    weight.

    Weights above zero are orange, weights below zero blue with an outline, so that the sign can be
    read with colour blindness and in greyscale print.

    Args:
        molecule: SMILES, or an RDKit ``Mol``, whose two-dimensional coordinates are used.
        weights: [n] finite numbers, one per atom in the molecule's order; None to draw no discs.
            For a SMILES with deuterium or other hydrogens that RDKit keeps as atoms, the weights
            may leave these out, as models and explanations do.
        scale: weight of the strongest colour, above 0; None for :func:`shared_scale` of these
            weights. Pass one scale to compare pictures.
        title: line above the molecule.
        lines: lines below the molecule; a long line is wrapped.
        label: name and unit of the weights, for the legend; None to draw no legend.
        size: width and height of the molecule's panel, in pixels of an SVG (a PNG has twice as
            many); None to fit the molecule.
        format: "svg" or "png".
        dark: use colours for a dark page.

    Returns:
        The bytes of the picture file.

    Raises:
        ValueError: a SMILES that RDKit cannot read, more than :data:`DRAWN_ATOMS` atoms, a wrong
            number of weights, a weight that is not finite, a scale that is not positive and finite,
            or another format.
        ImportError: RDKit or matplotlib, whose font is used, is not installed.

    Example:
        >>> draw_molecule("CCO", [0.1, 0.0, -0.7], label="contribution (log S)")[:5]
        b'<?xml'
    """
    mol = _with_coordinates(molecule)
    size = _fit(mol) if size is None else size
    if isinstance(molecule, str):
        _turn(mol, size)
    values = None if weights is None else _checked(weights, molecule, mol)
    scale = shared_scale([] if values is None else [values]) if scale is None else scale
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be above 0 and finite; got {scale}")
    top, max_width = _TITLE * bool(title), size[0] - _MARGIN
    wrapped = [part for line in lines for part in Canvas.wrap(line, max_width=max_width)]
    label_lines = Canvas.wrap(label or "", size=11, max_width=max_width)
    height = top + size[1] + _LINE * len(wrapped) + _MARGIN
    below = 0 if values is None or label is None else _LEGEND + _LINE * (len(label_lines) - 1)
    canvas = Canvas(size[0], height + below, size, format, DARK if dark else LIGHT)
    canvas.write(title, size[0] / 2, 17, size=13, max_width=max_width, bold=True)
    canvas.place(0, top)
    _molecule(canvas, mol, np.zeros(0) if values is None else values / scale)
    for number, line in enumerate(wrapped):
        y = top + size[1] + _LINE * number + 11
        canvas.write(line, size[0] / 2, y, max_width=max_width)
    if values is not None and label is not None:
        beyond = bool((np.abs(values) > scale * (1 + 1e-9)).any())
        halves = range(-2 if (values < 0).any() else 0, 3)
        _legend(canvas, scale, label_lines, beyond, halves, below)
    return canvas.finish()


def shared_scale(weights: Sequence[Weights]) -> float:
    """Choose a common scale of colours for the weights of many molecules.

    The scale is the 99th percentile of the magnitudes, so that one outlier does not make all other
    colours pale, or the maximum if this percentile is 0; it is rounded up to two digits.

    Args:
        weights: one list per molecule; infinite weights and NaN are ignored.

    Returns:
        A number above 0; 1.0 if all weights are zero or there are none.

    Example:
        >>> shared_scale([[0.1, -0.234], [0.0]])
        0.24
    """
    values = np.concatenate([np.zeros(0), *(np.abs(_array(one)) for one in weights)])
    values = values[np.isfinite(values)]
    largest = float(np.quantile(values, 0.99, method="higher")) if len(values) else 0.0
    largest = largest or float(values.max(initial=0.0))
    if not largest > 0:
        return 1.0
    unit = 10.0 ** (math.floor(math.log10(largest)) - 1)
    return float(f"{math.ceil(largest / unit - 1e-9) * unit:.2g}")


def _array(weights: Weights) -> np.ndarray:
    array = weights.detach().cpu().numpy() if isinstance(weights, Tensor) else weights
    return np.asarray(array, dtype=np.float64).reshape(-1)


def _checked(weights: Weights, molecule: Drawable, mol: Mol) -> np.ndarray:
    """Check the weights; return them with zeros for hydrogen atoms without a weight. Raises
    ValueError for a wrong number of weights, and for weights that are not finite.
    """
    values, count = _array(weights), mol.GetNumAtoms()
    atoms = plain_atoms(mol, molecule) if isinstance(molecule, str) else []
    if len(atoms) == len(values) < count:
        padded = np.zeros(count)
        padded[atoms] = values
        values = padded
    if len(values) != count:
        raise ValueError(f"weights must be ({count},), one per atom; got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("weights must be finite; got NaN or an infinite weight")
    return values


def _with_coordinates(molecule: Drawable) -> Mol:
    """Return a copy of the molecule that has two-dimensional coordinates. Raises ValueError for a
    SMILES that cannot be read, or a molecule with too many atoms, and ImportError without RDKit.
    """
    mol = parse_smiles(molecule, DRAWN_ATOMS) if isinstance(molecule, str) else molecule
    if mol.GetNumAtoms() > DRAWN_ATOMS:
        raise ValueError(f"at most {DRAWN_ATOMS} atoms can be drawn; got {mol.GetNumAtoms()}")
    from rdkit.Chem.Draw import rdMolDraw2D

    is_flat = mol.GetNumConformers() > 0 and not mol.GetConformer().Is3D()
    copy = rdMolDraw2D.PrepareMolForDrawing(mol, addChiralHs=False, forceCoords=not is_flat)
    if not is_flat:
        _separate_components(copy)
    return copy


def _separate_components(mol: Mol) -> None:
    """Move the components of a salt apart into rows, in place, with space for labels and discs.

    RDKit places components so closely that ions overlap.
    """
    from rdkit.Chem import GetMolFrags
    from rdkit.Geometry import Point3D

    components = sorted(map(list, GetMolFrags(mol)), key=lambda atoms: (-len(atoms), atoms))
    if len(components) < 2:
        return
    conformer = mol.GetConformer()
    positions = conformer.GetPositions()[:, :2]
    sizes = [np.ptp(positions[atoms], axis=0) + _BETWEEN for atoms in components]
    widest = max(max(size[0] for size in sizes), 1.3 * sum(size.prod() for size in sizes) ** 0.5)
    x = y = height = 0.0
    for atoms, size in zip(components, sizes):
        if x and x + size[0] > widest:
            x, y, height = 0.0, y - height, 0.0
        low, high = positions[atoms].min(0), positions[atoms].max(0)
        # The variable y is the upper edge of a row of components. A component that is lower than
        # the row is centred vertically.
        down = (max(height, size[1]) - size[1]) / 2
        move = np.array([x, y - down]) - np.array([low[0], high[1]])
        for atom in atoms:
            right, up = (positions[atom] + move).tolist()
            conformer.SetAtomPosition(atom, Point3D(right, up, 0.0))
        x, height = x + size[0], max(height, size[1])


def _turn(mol: Mol, size: tuple[int, int]) -> None:
    """Turn a molecule, in place, that is larger than its panel to the angle at which it is scaled
    down least, if the scale then differs by more than 5 %.

    A long chain is then drawn along the diagonal or the longer side of the panel.
    """
    from rdkit.Geometry import Point3D

    conformer = mol.GetConformer()
    # A complex number z is the position of an atom; z * exp(i a) is the position after a turn by a.
    z = conformer.GetPositions()[:, :2] @ (1, 1j)

    def ratio(turn: complex) -> float:
        sides = np.ptp((z * turn).real) + 1, np.ptp((z * turn).imag) + 1
        return float(max(_ANGSTROM * side / most for side, most in zip(sides, size)))

    best = min(np.exp(1j * np.radians(np.arange(0, 180, _TURN))).tolist(), key=ratio)
    if ratio(1) <= 1 or ratio(best) >= 0.95 * ratio(1):
        return
    for atom, at in enumerate((z * best).tolist()):
        conformer.SetAtomPosition(atom, Point3D(at.real, at.imag, 0.0))


def _fit(mol: Mol) -> tuple[int, int]:
    """Return the width and height in pixels of a panel in which bonds have their usual length,
    within the limits for small and large molecules.
    """
    positions = mol.GetConformer().GetPositions()[:, :2]
    extent = (np.ptp(positions, axis=0) + 3) * _ANGSTROM
    width, height = np.clip(extent, (_NARROWEST, _LOWEST), _LARGEST).tolist()
    return round(width), round(height)


def _molecule(canvas: Canvas, mol: Mol, weights: np.ndarray) -> None:
    """Draw a molecule, which has two-dimensional coordinates, in its panel. Weights [n] are given
    as multiples of the scale; atoms with less than 5 % of it, or beyond the end of the weights,
    have no disc.
    """
    shown = {i: w for i, w in enumerate(weights.tolist()) if abs(w) >= _SMALLEST_SHARE}
    options = canvas.drawer.drawOptions()
    # Draw all elements in black, because colours show the weights.
    options.setAtomPalette({-1: mixture(canvas.theme.ink)})
    options.prepareMolsBeforeDrawing = False
    options.atomHighlightsAreCircles = True
    options.fixedBondLength = _ANGSTROM * canvas.zoom
    options.bondLineWidth = 1.6 * canvas.zoom
    options.padding = 0.06
    options.minFontSize = round(_FONT * canvas.zoom)
    canvas.drawer.DrawMolecule(
        mol,
        highlightAtoms=list(shown),
        highlightAtomColors={i: _colour(canvas.theme, w) for i, w in shown.items()},
        highlightAtomRadii={i: _radius(w) for i, w in shown.items()},
        highlightBonds=[],
    )
    _outline(canvas, mol, [(i, _radius(w)) for i, w in shown.items() if w < 0])


def _colour(theme: Theme, weight: float) -> tuple[float, ...]:
    """Return the colour of a weight from -1 to 1."""
    strong = theme.positive if weight > 0 else theme.negative
    share = _FAINTEST + (1 - _FAINTEST) * min(abs(weight), 1.0)
    return mixture(strong, theme.paper, share)


def _radius(weight: float) -> float:
    """Return the radius of the disc for a weight, in Angstrom."""
    smallest, largest = _RADII
    return smallest + (largest - smallest) * min(abs(weight), 1.0) ** 0.5


def _outline(canvas: Canvas, mol: Mol, discs: Sequence[tuple[int, float]]) -> None:
    """Draw thin lines around the discs of selected atoms, in the molecule's coordinates."""
    from rdkit.Geometry import Point2D

    canvas.drawer.SetFillPolys(False)
    canvas.drawer.SetLineWidth(round(canvas.zoom))
    canvas.drawer.SetColour(mixture(canvas.theme.outline))
    for atom, r in discs:
        centre = mol.GetConformer().GetAtomPosition(atom)
        ends = [Point2D(centre.x + d, centre.y + d) for d in (-r, r)]
        canvas.drawer.DrawEllipse(*ends)
    canvas.drawer.SetFillPolys(True)


def _legend(
    canvas: Canvas, scale: float, label: Sequence[str], beyond: bool, halves: range,
    height: int,
) -> None:  # fmt: skip
    """Draw the legend in the lowest ``height`` pixels of the canvas: the lines of the label, and a
    disc for each weight in ``halves``, in steps of half the scale. If weights are ``beyond`` the
    scale, the ends have the signs ≤ and ≥.
    """
    middle, step = canvas.width / 2, min(58.0, canvas.width / 6)
    centre = (halves[0] + halves[-1]) / 2
    y = canvas.height - height + 16
    for half in halves:
        weight, x = half / 2, middle + (half - centre) * step
        if weight:
            outline = canvas.theme.outline if weight < 0 else ""
            fill = _colour(canvas.theme, weight)
            canvas.disc(x, y, _radius(weight) * _ANGSTROM, fill, outline)
        relation = {-2: "≤ ", 2: "≥ "}.get(half, "") if beyond else ""
        number = f"{weight * scale:+.3g}" if weight else "0"
        canvas.write(f"{relation}{number}".replace("-", "−"), x, y + 29, size=11, max_width=step)
    for number, line in enumerate(label):
        at = y + 44 + _LINE * number
        canvas.write(line, middle, at, size=11, max_width=canvas.width - _MARGIN)
