"""Values in lists of numbers that are not numbers."""

import pytest

from gattn.apps.molecules import AtomRegressor
from gattn.apps.molecules.atoms.labels import number_faults, read_cells, without_faults
from gattn.data import MoleculeError


def test_each_list_has_its_first_fault_in_the_order_of_the_rows():
    cells = read_cells({
        "atom": {"part": [[1, True, "x"], [0.5, None], [10**400]], "word": ["", "['high']", ""]},
        "bond": {"pair": ["[0, '<1']", "", "['<1e300']"], "large": ["", "", "[1e300]"]},
    })  # fmt: skip
    faults = [(fault.row, fault.reason, fault.selective) for fault in number_faults(cells)]
    assert faults == [
        (0, "pair: value 2 is the limit '<1', which is not a measured value", True),
        (0, "part: value 2 must be a number or null; it is True", False),
        (1, "word: value 1 must be a number or null; it is 'high'", False),
        (2, "large: value 1 must be finite and in the range of float32; it is 1e+300", True),
        (2, "pair: value 1 is the limit '<1e300', which is not a measured value", True),
        (2, "part: value 1 must be finite and in the range of float32; it is 'inf'", True),
    ]
    usable = without_faults(cells)
    assert usable.values["part"] == [None, [0.5, None], None]
    assert usable.problems[0].startswith("pair: value 2")
    assert without_faults(usable) is usable


def test_bad_rows_say_whether_their_labels_are_the_reason():
    lists = ["[1, 2]", "[1]", "[3, 4]", "[1, 2]", "['x', 2]", "[1,", "[2, 3]"]
    smiles = ["CO", "CO", "C[OH:2]", "(", "CO", "CO", "CO"]
    model = AtomRegressor(on_error="skip")
    bad = model.read(smiles, read_cells({"atom": {"a": lists}})).bad
    assert {row.row: row.in_labels for row in bad} == {1: True, 3: False, 4: True, 5: True}


def test_estimator_names_the_row_or_leaves_it_out():
    smiles = ["C" * n + "O" for n in range(1, 25)]
    charges = [[0.1] * n + [-0.4] for n in range(1, 25)]
    charges[3][0] = 1e300
    small = {"epochs": 1, "width": 8, "heads": 1, "layers": 1}
    with pytest.raises(MoleculeError, match=r"row 3.*value 1 must be finite.*; it is 1e"):
        AtomRegressor(**small).fit(smiles, atoms={"charge": charges})
    model = AtomRegressor(on_error="skip", **small).fit(smiles, atoms={"charge": charges})
    assert [bad.row for bad in model.bad_] == [3]
    assert (abs(model.predict(["CCO"])["charge"][0]) < 10).all()
