"""Pictures of molecules: shapes and positions, and unusual molecules and texts."""

import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("matplotlib")

from PIL import Image
from rdkit import Chem
from rdkit.Chem import rdDepictor

from gattn.draw import DRAWN_ATOMS, draw_molecule, shared_scale

ODD = {
    "salt": "[Na+].[O-]C(=O)c1ccccc1",
    "macrocycle": "O=C1CCCCCCCCCCCCCCO1",
    "one atom": "[Xe]",
    "isotopes": "[13CH3][C@H]([2H])[18OH]",
    "charges": "[NH3+][C@@H](Cc1c[nH]c2ccccc12)C([O-])=O",
    "stereo": "C/C=C/C(=O)N/N=C\\c1ccccc1",
    "dummies": "*CC(*)c1ccncc1",
    "metal": "[Pt](Cl)(Cl)([NH3])[NH3]",
    "sixty atoms": "C" * 60,
}
SVG = "{http://www.w3.org/2000/svg}"


def discs(picture):
    """Return {atom: (red, blue, radius)} for the discs of an SVG, which are identified by RDKit's
    class names.
    """
    circles = {}
    for ellipse in ET.fromstring(picture).iter(f"{SVG}ellipse"):
        fill = re.search(r"fill:#(\w\w)(\w\w)(\w\w)", ellipse.get("style"))
        atom = re.fullmatch(r"atom-(\d+)", ellipse.get("class", ""))
        if fill and atom:
            red, _, blue = (int(part, 16) for part in fill.groups())
            circles[int(atom[1])] = (red, blue, float(ellipse.get("rx")))
    return circles


def texts(picture):
    return [text.text for text in ET.fromstring(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize("name", ODD)
def test_unusual_molecules_are_drawn_as_svg_and_png(name):
    atoms = Chem.MolFromSmiles(ODD[name]).GetNumAtoms()
    weights = np.linspace(-1, 1, atoms) if atoms > 1 else [0.5]
    svg = draw_molecule(ODD[name], weights, scale=1.0, title=name)
    drawn = {i for i, w in enumerate(weights) if abs(w) >= 0.02}
    assert set(discs(svg)) == drawn
    picture = Image.open(io.BytesIO(draw_molecule(ODD[name], weights, scale=1.0, format="png")))
    picture.load()
    width = float(ET.fromstring(svg).get("viewBox").split()[2])
    assert picture.width == 2 * width
    assert len(picture.getcolors(1 << 24)) > 3


def test_colour_and_radius_of_a_disc_show_sign_and_size_of_the_weight():
    circles = discs(draw_molecule("CCCO", [0.2, 0.8, -0.2, -0.8], scale=1.0))
    orange = [red > blue for red, blue, _ in (circles[i] for i in range(4))]
    assert orange == [True, True, False, False]
    assert circles[0][2] == circles[2][2] < circles[1][2] == circles[3][2]
    assert circles[0][1] > circles[1][1], "the smaller weight is paler"


def test_only_negative_weights_have_an_outline():
    def outlines(weights):
        svg = draw_molecule("CC", weights, scale=1.0)
        ellipses = ET.fromstring(svg).iter(f"{SVG}ellipse")
        return sum("fill:none" in ellipse.get("style") for ellipse in ellipses)

    # Without negative weights, the legend has no outlined disc either.
    assert outlines([0.0, 0.0]) == outlines([0.5, 0.5]) == 0
    legend = 2
    assert outlines([0.5, -0.5]) == legend + 1
    assert outlines([-0.5, -0.5]) == legend + 2


def test_legend_has_negative_values_only_if_a_weight_is_negative():
    assert texts(draw_molecule("CO", [0.1, 0.5], scale=0.5)) == ["0", "+0.25", "+0.5"]
    assert texts(draw_molecule("CO", [0.1, -0.1], scale=0.5))[:2] == ["−0.5", "−0.25"]


def test_legend_marks_its_ends_if_weights_exceed_the_scale():
    within = texts(draw_molecule("CO", [0.1, -0.5], scale=0.5, label="logP"))
    assert within == ["−0.5", "−0.25", "0", "+0.25", "+0.5", "logP"]
    beyond = texts(draw_molecule("CO", [0.1, -0.6], scale=0.5))
    assert "≤ −0.5" in beyond
    assert "≥ +0.5" in beyond


def test_title_with_greek_and_chinese_letters_is_drawn_and_a_long_line_is_shortened():
    title = "β-carotene <&> 'µ²' 中\x07"
    svg = draw_molecule("CO", [0.1, 0.2], title=title, lines=["x" * 500])
    assert texts(svg)[0] == "β-carotene <&> 'µ²' 中"
    assert texts(svg)[1].endswith("…")
    assert len(texts(svg)[1]) < 100
    draw_molecule("CO", [0.1, 0.2], title=title, format="png")


def test_draw_molecule_reads_coordinates_and_does_not_change_the_molecule():
    mol = Chem.MolFromSmiles("c1ccccc1O")
    rdDepictor.Compute2DCoords(mol)
    before = mol.ToBinary()
    upright = draw_molecule(mol)
    assert mol.ToBinary() == before
    conformer = mol.GetConformer()
    for i, (x, y, _) in enumerate(conformer.GetPositions()):
        conformer.SetAtomPosition(i, (-y, x, 0.0))
    assert draw_molecule(mol) != upright


@pytest.mark.parametrize(
    ("weights", "scale"),
    [
        *(([[0.1, -0.234], [0.0]], 0.24), ([[1.0]], 1.0), ([[0.1] * 999 + [50.0]], 0.1)),
        *(([[0.0]], 1.0), ([], 1.0), ([[float("nan"), float("inf"), 3e-7]], 3e-7)),
        ([[0.0] * 1000 + [7.0]], 7.0),
    ],
)
def test_shared_scale_is_a_rounded_percentile_of_the_weights(weights, scale):
    assert shared_scale(weights) == scale


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw_molecule("C1CC"), "not valid SMILES"),
        (lambda: draw_molecule("CCO", [0.1]), r"weights must be \(3,\).*got \(1,\)"),
        (lambda: draw_molecule("CO", [0.1, float("nan")]), "finite"),
        (lambda: draw_molecule("CO", [0.1, 0.2], scale=0.0), "scale must be above 0"),
        (lambda: draw_molecule("CO", format="pdf"), 'format must be "svg" or "png"'),
        (lambda: draw_molecule("C" * (DRAWN_ATOMS + 1)), f"max_atoms={DRAWN_ATOMS}"),
        (lambda: draw_molecule(Chem.MolFromSmiles("C" * 301)), "at most 300 atoms"),
    ],
)
def test_draw_molecule_raises_error_for_invalid_smiles_weights_scale_format_or_size(call, message):
    with pytest.raises(ValueError, match=message):
        call()


SALTS = [
    "[Na+].[O-]C(=O)c1ccccc1",
    "[Na+].[Na+].[O-]C(=O)CCC(=O)[O-]",
    "CC(C)NCC(O)COc1cccc2ccccc12.Cl",
    "[Ca+2].CC(=O)[O-].CC(=O)[O-]",
    "[Na+].[Na+].[Na+].[Cl-].[Cl-].[Cl-].O.O",
    "CCCCCCCCCCCC(=O)[O-].CCCCCCCCCCCC(=O)[O-].[Mg+2]",
]


@pytest.mark.parametrize("text", SALTS)
def test_fragments_of_a_salt_do_not_overlap_in_the_picture(text):
    """The discs of the largest weights and the bounding boxes of the components of a salt do not
    overlap.
    """
    molecule = Chem.MolFromSmiles(text)
    picture = ET.fromstring(draw_molecule(text, [1.0] * molecule.GetNumAtoms(), scale=1.0))
    circles = {}
    for ellipse in picture.iter(f"{SVG}ellipse"):
        if atom := re.fullmatch(r"atom-(\d+)", ellipse.get("class", "")):
            circles[int(atom[1])] = [float(ellipse.get(name)) for name in ("cx", "cy", "rx")]
    assert len(circles) == molecule.GetNumAtoms()
    boxes = []
    for part in Chem.GetMolFrags(molecule):
        x, y, r = np.array([circles[atom] for atom in part]).T
        boxes.append(((x - r).min(), (x + r).max(), (y - r).min(), (y + r).max()))
    assert len(boxes) > 1
    for i, (left, right, top, bottom) in enumerate(boxes):
        for other in boxes[:i]:
            assert left > other[1] or right < other[0] or top > other[3] or bottom < other[2]


def test_draw_molecule_does_not_change_coordinates_of_a_salt():
    molecule = Chem.MolFromSmiles(SALTS[0])
    rdDepictor.Compute2DCoords(molecule)
    before = molecule.GetConformer().GetPositions()
    draw_molecule(molecule)
    assert np.array_equal(molecule.GetConformer().GetPositions(), before)
