"""Pictures of chemical reactions."""

from __future__ import annotations

from gattn.data.molecules.smiles import parse_smiles
from gattn.data.molecules.smiles_text import without_maps
from gattn.draw._colours import DARK, LIGHT
from gattn.draw.molecules import DRAWN_ATOMS

__all__ = ["draw_reaction"]

HEIGHT, ARROW, MOLECULE, WIDEST = 180, 80, 140, 900
"""Height of a picture, width of the arrow, mean width of a molecule, and maximum width of a
picture, in pixels.
"""
BOND = 30
"""Length of a bond in pixels, if the reaction fits into the picture."""


def draw_reaction(smiles: str, *, dark: bool = False) -> bytes:
    """Draw a reaction as an SVG: reactants, an arrow with the agents above it, and products.

    Args:
        smiles: the reaction ``A>>B`` or ``A>C>B``. Atom map numbers are not drawn.
        dark: whether the picture is for a dark page.

    Raises:
        ValueError: the text is not a reaction, a side cannot be read, or the reaction has more than
            :data:`gattn.draw.DRAWN_ATOMS` atoms.

    >>> draw_reaction("[CH3:1]Br.[OH-:2]>>[CH3:1][OH:2].[Br-]")[:5]
    b'<?xml'
    """
    from rdkit.Chem import GetMolFrags
    from rdkit.Chem.Draw import rdMolDraw2D
    from rdkit.Chem.rdChemReactions import ChemicalReaction

    words = smiles.split()
    sides = without_maps(words[0]).split(">") if words else []
    if len(sides) != 3:
        raise ValueError(f"a reaction must be the SMILES A>>B; got {smiles[:200]!r}")
    reaction, count, atoms = ChemicalReaction(), 0, 0
    add = (reaction.AddReactantTemplate, reaction.AddAgentTemplate, reaction.AddProductTemplate)
    for side, add_molecule in zip(sides, add):
        if not side:
            continue
        molecules = parse_smiles(side, DRAWN_ATOMS)
        atoms += molecules.GetNumAtoms()
        for molecule in GetMolFrags(molecules, asMols=True):
            add_molecule(molecule)
            count += 1
    if atoms > DRAWN_ATOMS:
        raise ValueError(f"at most {DRAWN_ATOMS} atoms can be drawn; got {atoms}")
    drawer = rdMolDraw2D.MolDraw2DSVG(min(MOLECULE * count + ARROW, WIDEST), HEIGHT)
    options, ink = drawer.drawOptions(), (DARK if dark else LIGHT).ink
    options.clearBackground = False
    options.setAtomPalette({-1: ink})
    options.setSymbolColour(ink)
    options.fixedBondLength, options.bondLineWidth, options.padding = BOND, 1.6, 0.03
    drawer.DrawReaction(reaction)
    drawer.FinishDrawing()
    return drawer.GetDrawingText().encode()
