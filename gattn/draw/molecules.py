"""Molecules with a signed weight on every atom, all on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from torch import Tensor

from gattn.data.molecules.plain import plain_atoms
from gattn.data.molecules.smiles import parse_smiles
from gattn.draw._canvas import Canvas, PictureFormat
from gattn.draw._colours import DARK, LIGHT, radius

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = ["DRAWN_ATOMS", "Weights", "draw_grid", "draw_molecule", "shared_scale"]

Weights: TypeAlias = "Sequence[float] | np.ndarray | Tensor"
Drawable: TypeAlias = "str | Mol"
"""SMILES, or RDKit's molecule."""

DRAWN_ATOMS = 300
"""Larger molecules are refused: nobody can read their picture, and its layout takes seconds."""

_ANGSTROM = 30.0
"""Pixels an Angstrom where there is room for them; in a small panel everything shrinks."""
_TITLE, _LINE, _LEGEND = 24, 16, 66
_MARGIN = 10
_BETWEEN = 2.0
"""Angstrom between two parts of a salt."""
_NARROWEST, _LOWEST, _LARGEST = 340, 140, 1200
_FEWEST = 0.02
"""Weights below this share of the scale have no disc."""


def draw_molecule(
    molecule: Drawable, weights: Weights | None = None, *,
    scale: float | None = None, title: str = "", lines: Sequence[str] = (), label: str = "",
    size: tuple[int, int] | None = None, format: PictureFormat = "svg", dark: bool = False,
) -> bytes:  # fmt: skip
    """Draw a molecule with a disc on each atom: its area and colour tell the weight.

    Orange is above zero. Blue with an outline is below, so that the sign survives colour blindness
    and a grey printer.

    Args:
        molecule: SMILES, or an RDKit ``Mol``, whose own two-dimensional coordinates are kept.
        weights: [n] finite numbers, one for each atom in the molecule's order; None for none. Of a
            SMILES with deuterium or other hydrogens that RDKit keeps as atoms, they may also be
            those of the other atoms, as models and explanations have them.
        scale: the weight of the fullest colour, above 0; None for :func:`shared_scale` of these
            weights. Pictures that are compared need one scale.
        title: a line above the molecule.
        lines: lines below it.
        label: what the weights are, with their unit, for the legend.
        size: width and height of the molecule's part, in pixels of an SVG (a PNG has twice as
            many); None for one that fits it.
        format: "svg" or "png".
        dark: for a dark page.

    Returns:
        The picture, as a file holds it.

    Raises:
        ValueError: a SMILES that RDKit cannot read, more than :data:`DRAWN_ATOMS` atoms, another
            number of weights than of atoms, one that is not finite, or a scale that is not.
        ImportError: RDKit or matplotlib, whose font is used, is not installed.

    Example:
        >>> draw_molecule("CCO", [0.1, 0.0, -0.7], label="contribution (log S)")[:5]
        b'<?xml'
    """
    known = None if weights is None else [weights]
    mol = _laid_out(molecule)
    known = None if known is None else _on_all_atoms(known, [molecule], [mol])
    return _draw([mol], known, scale, [title], [lines], label, 1, size or _fit(mol), format, dark)


def draw_grid(
    molecules: Sequence[Drawable], weights: Sequence[Weights] | None = None, *,
    scale: float | None = None, titles: Sequence[str] | None = None,
    lines: Sequence[Sequence[str]] | None = None, label: str = "", columns: int = 3,
    size: tuple[int, int] = (320, 260), format: PictureFormat = "svg", dark: bool = False,
) -> bytes:  # fmt: skip
    """Draw several molecules side by side on one scale, with one legend.

    Args:
        molecules: k of them, as :func:`draw_molecule` takes one.
        weights: one list of weights a molecule; None for none.
        scale: as in :func:`draw_molecule`; None for :func:`shared_scale` of all weights.
        titles: one a molecule.
        lines: lines below each molecule.
        label: what the weights are, with their unit.
        columns: at most so many in a row.
        size: width and height of one molecule's part.
        format: "svg" or "png".
        dark: for a dark page.

    Returns:
        The picture, as a file holds it; no molecule gives an empty one.

    Raises:
        ValueError: as :func:`draw_molecule`; lists whose lengths differ; fewer than one column.
        ImportError: RDKit or matplotlib is not installed.

    Example:
        >>> picture = draw_grid(["CCO", "CC"], [[0.1, 0.0, -0.7], [0.3, 0.3]], format="png")
        >>> picture[1:4]
        b'PNG'
    """
    if columns < 1:
        raise ValueError(f"columns must be at least 1; got {columns}")
    mols = [_laid_out(molecule) for molecule in molecules]
    titles = [""] * len(mols) if titles is None else titles
    lines = [()] * len(mols) if lines is None else lines
    for name, given in {"weights": weights, "titles": titles, "lines": lines}.items():
        if given is not None and len(given) != len(mols):
            raise ValueError(
                f"{name} must have one entry a molecule, {len(mols)}; got {len(given)}"
            )
    if weights is not None:
        weights = _on_all_atoms(weights, molecules, mols)
    return _draw(mols, weights, scale, titles, lines, label, columns, size, format, dark)


def shared_scale(weights: Sequence[Weights]) -> float:
    """Choose the scale on which the weights of many molecules are drawn.

    The 99th percentile of their magnitudes, so that one odd atom does not pale all others, rounded
    up to two digits.

    Args:
        weights: one list a molecule; an infinite one or NaN is left out.

    Returns:
        A number above 0; 1.0 where there is no weight but zero.

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
    made = weights.detach().cpu().numpy() if isinstance(weights, Tensor) else weights
    return np.asarray(made, dtype=np.float64).reshape(-1)


def _draw(
    mols: Sequence[Mol], weights: Sequence[Weights] | None, scale: float | None,
    titles: Sequence[str], lines: Sequence[Sequence[str]], label: str,
    columns: int, size: tuple[int, int], format: PictureFormat, dark: bool,
) -> bytes:  # fmt: skip
    values = None if weights is None else [_checked(w, mol) for w, mol in zip(weights, mols)]
    scale = shared_scale(values or []) if scale is None else scale
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be above 0 and finite; got {scale}")
    top = _TITLE * any(titles)
    cell = top + size[1] + _LINE * max(map(len, lines), default=0) + _MARGIN
    columns = max(min(columns, len(mols)), 1)
    rows = -(-len(mols) // columns)
    below = 0 if values is None else _LEGEND
    palette = DARK if dark else LIGHT
    canvas = Canvas(columns * size[0], rows * cell + below, size, format, palette)
    for place, mol in enumerate(mols):
        x, y = place % columns * size[0], place // columns * cell
        centre, room = x + size[0] / 2, size[0] - _MARGIN
        canvas.write(titles[place], centre, y + 17, size=13, room=room, bold=True)
        canvas.place(x, y + top)
        _molecule(canvas, mol, np.zeros(0) if values is None else values[place] / scale)
        for number, line in enumerate(lines[place]):
            canvas.write(line, centre, y + top + size[1] + _LINE * number + 11, room=room)
    if values is not None:
        beyond = any((np.abs(one) > scale * (1 + 1e-9)).any() for one in values)
        signed = any((one < 0).any() for one in values)
        _legend(canvas, scale, label, beyond, signed)
    return canvas.finish()


def _checked(weights: Weights, mol: Mol) -> np.ndarray:
    values = _array(weights)
    if len(values) != mol.GetNumAtoms():
        raise ValueError(f"weights must be ({mol.GetNumAtoms()},), one an atom; got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("weights must be finite; got NaN or an infinite one")
    return values


def _on_all_atoms(
    weights: Sequence[Weights], molecules: Sequence[Drawable], mols: Sequence[Mol]
) -> list[Weights]:
    """Give weights that leave out the hydrogens which are atoms of a SMILES zeros for these."""
    spread: list[Weights] = []
    for values, molecule, mol in zip(weights, molecules, mols):
        left = plain_atoms(mol, molecule) if isinstance(molecule, str) else []
        if len(left) == len(values) < mol.GetNumAtoms():
            everything = np.zeros(mol.GetNumAtoms())
            everything[left] = _array(values)
            values = everything
        spread.append(values)
    return spread


def _laid_out(molecule: Drawable) -> Mol:
    """A copy of the molecule with coordinates in the plane, ready to be drawn."""
    mol = parse_smiles(molecule, DRAWN_ATOMS) if isinstance(molecule, str) else molecule
    if mol.GetNumAtoms() > DRAWN_ATOMS:
        raise ValueError(f"at most {DRAWN_ATOMS} atoms can be drawn; got {mol.GetNumAtoms()}")
    from rdkit.Chem.Draw import rdMolDraw2D

    flat = mol.GetNumConformers() > 0 and not mol.GetConformer().Is3D()
    ready = rdMolDraw2D.PrepareMolForDrawing(mol, addChiralHs=False, forceCoords=not flat)
    if not flat:
        _set_apart(ready)
    return ready


def _set_apart(mol: Mol) -> None:
    """Move the parts of a salt into rows, the largest first, far enough for labels and discs.

    RDKit packs parts so closely that an ion lies on the other part of its salt.
    """
    from rdkit.Chem import GetMolFrags
    from rdkit.Geometry import Point3D

    parts = sorted(map(list, GetMolFrags(mol)), key=lambda part: (-len(part), part))
    if len(parts) < 2:
        return
    conformer = mol.GetConformer()
    places = conformer.GetPositions()[:, :2]
    sizes = [np.ptp(places[part], axis=0) + _BETWEEN for part in parts]
    widest = max(max(size[0] for size in sizes), 1.3 * sum(size.prod() for size in sizes) ** 0.5)
    x = y = height = 0.0
    for part, size in zip(parts, sizes):
        if x and x + size[0] > widest:
            x, y, height = 0.0, y - height, 0.0
        low, high = places[part].min(0), places[part].max(0)
        # The top of a part lies at y, and a part smaller than the first of its row in the middle.
        down = (max(height, size[1]) - size[1]) / 2
        move = np.array([x, y - down]) - np.array([low[0], high[1]])
        for atom in part:
            right, up = (places[atom] + move).tolist()
            conformer.SetAtomPosition(atom, Point3D(right, up, 0.0))
        x, height = x + size[0], max(height, size[1])


def _fit(mol: Mol) -> tuple[int, int]:
    """Width and height at which a molecule's bonds have their usual length."""
    places = mol.GetConformer().GetPositions()[:, :2]
    extent = (np.ptp(places, axis=0) + 3) * _ANGSTROM
    width, height = np.clip(extent, (_NARROWEST, _LOWEST), _LARGEST).tolist()
    return round(width), round(height)


def _molecule(canvas: Canvas, mol: Mol, weights: np.ndarray) -> None:
    """Draw a molecule into its panel, with weights in units of the scale."""
    shown = {i: w for i, w in enumerate(weights.tolist()) if abs(w) >= _FEWEST}
    options = canvas.drawer.drawOptions()
    options.setAtomPalette({-1: canvas.palette.ink})  # the colours are the weights'
    options.prepareMolsBeforeDrawing = False
    options.atomHighlightsAreCircles = True
    options.fixedBondLength = _ANGSTROM * canvas.zoom
    options.bondLineWidth = 1.6 * canvas.zoom
    options.padding = 0.06
    canvas.drawer.DrawMolecule(
        mol,
        highlightAtoms=list(shown),
        highlightAtomColors={i: canvas.palette.disc(w) for i, w in shown.items()},
        highlightAtomRadii={i: radius(w) for i, w in shown.items()},
        highlightBonds=[],
    )
    _outline(canvas, mol, [(i, radius(w)) for i, w in shown.items() if w < 0])


def _outline(canvas: Canvas, mol: Mol, discs: Sequence[tuple[int, float]]) -> None:
    """Draw thin lines around the discs of some atoms, in the molecule's own coordinates."""
    from rdkit.Geometry import Point2D

    canvas.drawer.SetFillPolys(False)
    canvas.drawer.SetLineWidth(round(canvas.zoom))
    canvas.drawer.SetColour(canvas.palette.outline)
    for atom, r in discs:
        place = mol.GetConformer().GetAtomPosition(atom)
        ends = [Point2D(place.x + d, place.y + d) for d in (-r, r)]
        canvas.drawer.DrawEllipse(*ends)
    canvas.drawer.SetFillPolys(True)


def _legend(canvas: Canvas, scale: float, label: str, beyond: bool, signed: bool) -> None:
    """Draw discs with their numbers, as the atoms have them, and what they are."""
    middle, step = canvas.width / 2, min(58.0, canvas.width / 6)
    places = (-2, -1, 0, 1, 2) if signed else (0, 1, 2)
    centre = sum(places) / len(places)
    y = canvas.height - _LEGEND + 16
    for place in places:
        weight, x = place / 2, middle + (place - centre) * step
        if weight:
            outline = canvas.palette.outline if weight < 0 else None
            canvas.disc(x, y, radius(weight) * _ANGSTROM, canvas.palette.disc(weight), outline)
        sign = {-2: "≤ ", 2: "≥ "}.get(place, "") if beyond else ""
        text = f"{weight * scale:+.3g}" if weight else "0"
        canvas.write(f"{sign}{text}".replace("-", "−"), x, y + 29, size=11, room=step)
    canvas.write(label, middle, y + 44, size=11, room=canvas.width - _MARGIN)
