"""Values in lists of numbers that are not numbers."""

import pytest

from gattn.apps.molecules import AtomRegressor
from gattn.apps.molecules.atoms.faults import number_faults, without_faults
from gattn.apps.molecules.atoms.labels import coding_of, read_cells
from gattn.data import MoleculeError


def test_each_list_has_its_first_fault_in_the_order_of_the_rows():
    cells = read_cells({
        "molecule": {"whole": ["1", "high", "1e300"]},
        "atom": {"part": [[1, True, "x"], [0.5, None], [10**400]]},
        "bond": {"pair": ["[[0, '<1'], ['<1', 0]]", "", "['<1e300']"]},
    })  # fmt: skip
    faults = [(fault.row, fault.reason, fault.selective) for fault in number_faults(cells)]
    assert faults == [
        (0, "pair: value 2 is the limit '<1', which is not a measured value", True),
        (0, "part: value 2 must be a number; it is true, which --task classification reads", False),
        (1, "whole: the label must be a number or null; it is 'high'", False),
        (2, "pair: value 1 must be finite; it is '<1e300', beyond float32", True),
        (2, "part: value 1 must be finite; it is 'inf'", True),
        (2, "whole: the label must be finite; it is 1e+300, beyond float32", True),
    ]
    usable = without_faults(cells)
    assert usable.values["part"] == [None, [0.5, None], None]
    assert usable.problems[0].startswith("pair: value 2")
    assert without_faults(usable) is usable


def test_classes_have_no_faults():
    cells = read_cells({"atom": {"a": ["[true, false]", "[0]"]}})
    assert coding_of(cells).classes == ((0, 1),)


def test_bad_rows_say_whether_their_labels_are_the_reason():
    lists = ["[1, 2]", "[1]", "[3, 4]", "[1, 2]", "['x', 2]", "[1,", "[2, 3]"]
    smiles = ["[CH3:1][OH:2]"] * 2 + ["CO", "("] + ["[CH3:1][OH:2]"] * 3
    model = AtomRegressor(reorder_atoms=True, on_error="skip")
    bad = model.read(smiles, read_cells({"atom": {"a": lists}})).bad
    assert {row.row: row.in_labels for row in bad} == {1: True, 2: True, 3: False, 4: True, 5: True}


def test_rows_without_an_order_by_map_numbers_are_left_out_and_named():
    sizes = range(1, 25)
    chains = ("".join(f"[CH2:{atom}]" for atom in range(1, size)) for size in sizes)
    smiles = [f"{chain}[OH:{size}]" for chain, size in zip(chains, sizes)]
    smiles += ["CO", "[CH3:1][OH:1]", "("]
    charges = [[0.1 * atom for atom in range(size)] for size in (*sizes, 2, 2, 2)]
    small = {"epochs": 1, "width": 8, "heads": 1, "layers": 1}
    model = AtomRegressor(reorder_atoms=True, on_error="skip", **small)
    model.fit(smiles, atoms={"charge": charges})
    assert [row.row for row in model.bad_] == [24, 25, 26]
    (piece,) = model.predictions([(text, "name") for text in smiles], smiles=lambda item: item[0])
    assert piece.items == [(text, "name") for text in smiles]
    assert piece.row_index.tolist() == list(range(24))
    assert [error.split(":")[0] for error in piece.errors[24:26]] == ["atom map numbers"] * 2
    assert "SMILES" in piece.errors[26]
    assert len(piece.result.mean.lists("atom", 0)) == 24
    with pytest.raises(ValueError, match="list of strings; got a single string 'CO'"):
        next(model.predictions("CO"))


def test_estimator_names_the_row_or_leaves_it_out():
    smiles = ["C" * n + "O" for n in range(1, 25)]
    charges = [[0.1] * n + [-0.4] for n in range(1, 25)]
    charges[3][0] = 1e300
    small = {"epochs": 1, "width": 8, "heads": 1, "layers": 1}
    with pytest.raises(MoleculeError, match=r"row 3.*value 1 must be finite; it is 1e"):
        AtomRegressor(**small).fit(smiles, atoms={"charge": charges})
    model = AtomRegressor(on_error="skip", **small).fit(smiles, atoms={"charge": charges})
    assert [bad.row for bad in model.bad_] == [3]
    assert (abs(model.predict(["CCO"])["charge"][0]) < 10).all()
