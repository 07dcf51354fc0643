"""Values of the option --split, and the errors of unknown ones."""

import pytest

from gattn.apps.fitting.settings import SettingsError
from gattn.apps.molecules.runs.config import override as molecules
from gattn.apps.nodes.runs.config import override as nodes


@pytest.mark.parametrize(
    ("spec", "of_molecules", "of_nodes"),
    [(spec, rf"or FILE\.json; got '{spec}'", rf"or column:NAME; got '{spec}'")
     for spec in ("column", "molecule", "parts.csv", "Random")]
    + [(spec, rf"must name a column, as in {spec}NAME", f"split {spec} must name a column")
       for spec in ("column:", "molecule:")],
)  # fmt: skip
def test_unknown_split_rule_or_missing_column_name_raises_error(spec, of_molecules, of_nodes):
    with pytest.raises(SettingsError, match=of_molecules):
        molecules(None, {"split": spec})
    with pytest.raises(SettingsError, match=of_nodes):
        nodes(None, {"data": "edges.csv", "label": "y", "split": spec})


def test_split_by_molecule_of_an_unknown_smiles_column_raises_error():
    with pytest.raises(SettingsError, match="split molecule:b must name a column of SMILES"):
        molecules(None, {"split": "molecule:b", "smiles": ("a", "c")})
    columns = molecules(None, {"split": "molecule:a", "smiles": ("a", "c")})
    assert columns.split_rule.name == "a"
