"""Random SMILES of a molecule, with the atom of the source for each of their atoms."""

import itertools
import random
from typing import NamedTuple

from rdkit import Chem

from gattn.data.molecules.plain import plain_atoms


class Writing(NamedTuple):
    """SMILES of a molecule, and for each of its atoms that models read the index of the atom in the
    source molecule.
    """

    text: str
    atoms: list[int]


HABITS = ("plain", "kekule", "bonds", "brackets", "hydrogens", "deuterium", "maps", "fragments")
"""Ways in which two SMILES of a molecule may differ, in addition to the order of their atoms."""


def writings(smiles: str, count: int, seed: int = 0) -> list[Writing]:
    """Return the SMILES and ``count`` other SMILES of the molecule, each in one of the forms in
    HABITS.
    """
    source = Chem.MolFromSmiles(smiles)
    assert source is not None, smiles
    left = plain_atoms(source, smiles)
    place = {atom: i for i, atom in enumerate(left)}
    draw = random.Random(f"{smiles} {seed}")
    written = [Writing(smiles, list(range(len(left))))]
    for number in range(count):
        habit = HABITS[number % len(HABITS)]
        text, order = _write(source, habit, draw)
        written.append(Writing(text, [place[atom] for atom in order if atom in place]))
    return written


def _says_the_same(source: Chem.Mol, text: str, order: list[int]) -> bool:
    """Return True if the SMILES has the same stereo centres as the source molecule.

    RDKit 2026.9 writes the mirror image of some rings of equal centres, for example of an inositol.
    According to InChI, the two SMILES are then different molecules, or the same molecule with
    exchanged atoms.
    """
    settings = Chem.SmilesParserParams()
    settings.removeHs = False
    molecule = Chem.MolFromSmiles(text, settings)
    place = {atom: i for i, atom in enumerate(order)}
    for atom in source.GetAtoms():
        tags = {Chem.CHI_TETRAHEDRAL_CW, Chem.CHI_TETRAHEDRAL_CCW}
        if atom.GetChiralTag() not in tags:
            continue
        twin = molecule.GetAtomWithIdx(place[atom.GetIdx()])
        ours = [place[other.GetIdx()] for other in atom.GetNeighbors()]
        theirs = [other.GetIdx() for other in twin.GetNeighbors()]
        if set(ours) == set(theirs):
            odd = _odd([theirs.index(other) for other in ours])
            if (atom.GetChiralTag() == twin.GetChiralTag()) == odd:
                return False
    return True


def _odd(permutation: list[int]) -> bool:
    pairs = itertools.combinations(permutation, 2)
    return sum(first > second for first, second in pairs) % 2 == 1


def _write(source: Chem.Mol, habit: str, draw: random.Random) -> tuple[str, list[int]]:
    """Write a SMILES; return it with the number in the source of each of its atoms. Added hydrogens
    follow the other atoms.
    """
    molecule = Chem.Mol(source)
    options: dict[str, bool] = {}
    if habit == "kekule":
        Chem.Kekulize(molecule)
        options = {"kekuleSmiles": True}
    elif habit == "bonds":
        options = {"allBondsExplicit": True}
    elif habit == "brackets":
        options = {"allHsExplicit": True}
    elif habit == "maps":
        for atom in molecule.GetAtoms():
            atom.SetAtomMapNum(draw.choice([0, draw.randrange(1, 300)]))
    elif habit in ("hydrogens", "deuterium"):
        molecule = Chem.AddHs(molecule)
        for atom in molecule.GetAtoms() if habit == "deuterium" else ():
            if atom.GetAtomicNum() == 1 and atom.GetDegree() == 1 and draw.random() < 0.5:
                atom.SetIsotope(draw.choice([2, 3]))
    elif habit == "fragments":
        return _shuffled(molecule, draw)
    return _random(molecule, draw, **options)


def _random(molecule: Chem.Mol, draw: random.Random, **options: bool) -> tuple[str, list[int]]:
    """Return the molecule with its atoms in random order, which does not depend on RDKit's random
    generator.
    """
    order = list(range(molecule.GetNumAtoms()))
    for _ in range(50):
        draw.shuffle(order)
        shuffled = Chem.RenumberAtoms(molecule, order)
        text = Chem.MolToSmiles(shuffled, canonical=False, **options)
        out = shuffled.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"]
        written = [order[atom] for atom in out]
        if _says_the_same(molecule, text, written):
            return text, written
    raise AssertionError(f"RDKit does not write {Chem.MolToSmiles(molecule)} back")


def _shuffled(molecule: Chem.Mol, draw: random.Random) -> tuple[str, list[int]]:
    """Return the SMILES of a salt with its components in another order."""
    maps: list[tuple[int, ...]] = []
    parts = list(Chem.GetMolFrags(molecule, asMols=True, fragsMolAtomMapping=maps))
    texts = [_random(part, draw) for part in parts]
    order = list(range(len(parts)))
    draw.shuffle(order)
    return (
        ".".join(texts[i][0] for i in order),
        [maps[i][atom] for i in order for atom in texts[i][1]],
    )
