"""Content of a table row: one molecule, several molecules or a reaction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gattn.apps.molecules.arrays import as_smiles
from gattn.apps.run.text import plural

BETWEEN = " + "
"""Separator between the SMILES of the molecules in a row."""
SEPARATORS = re.compile(r"( \+ |>>)")


@dataclass(frozen=True)
class RowFormat:
    """Content of a row, and the changes to its molecules before a model reads them.

    A row of several molecules is one text, in which the SMILES are separated by `` + ``. A reaction
    is the text ``A>>B``.

    Attributes:
        molecules: number of molecules in a row.
        reaction: whether a row is a reaction.
        ignore_stereo: whether stereochemistry is ignored.
        add_h: whether hydrogens are atoms of the graph.
        standardize: steps of the standardisation of each molecule
            (:data:`gattn.data.molecules.standardise.STEPS`).
    """

    molecules: int = 1
    reaction: bool = False
    ignore_stereo: bool = False
    add_h: bool = False
    standardize: tuple[str, ...] = ()

    @property
    def joined(self) -> bool:
        """Whether a row contains several SMILES."""
        return self.reaction or self.molecules > 1

    @property
    def part(self) -> RowFormat:
        """The format of one SMILES of a row."""
        return replace(self, molecules=1, reaction=False)

    @property
    def rows_noun(self) -> str:
        """Plural noun of the content of rows, for messages."""
        if self.molecules > 1:
            return f"rows of {self.molecules} molecules"
        return "reactions" if self.reaction else "molecules"

    def count(self, rows: int) -> str:
        """Format a number of rows with the noun of their content, for messages.

        >>> RowFormat().count(1), RowFormat(molecules=2).count(3)
        ('1 molecule', '3 rows of 2 molecules')
        """
        if self.molecules > 1:
            return f"{plural(rows, 'row')} of {self.molecules} molecules"
        return plural(rows, "reaction" if self.reaction else "molecule")

    @property
    def example(self) -> str:
        """Example of the text of a valid row."""
        return "[CH4:1]>>[CH4:1]" if self.reaction else BETWEEN.join(["C"] * self.molecules)

    def names(self) -> list[str]:
        """Return the names of the SMILES in a row, for error messages."""
        if self.reaction:
            return ["reactants", "products"]
        return [f"molecule {number}" for number in range(1, self.molecules + 1)]

    def split(self, text: object) -> list[str]:
        """Split the text of a row into SMILES: one per molecule, or one per side of a reaction.

        The agents of a reaction ``A>C>B`` count as reactants.

        Raises:
            ValueError: the text has another number of molecules, or is not a reaction.

        >>> RowFormat(molecules=2).split("CCO + O"), RowFormat(reaction=True).split("C.O>[Na+]>CO")
        (['CCO', 'O'], ['C.O.[Na+]', 'CO'])
        """
        if not isinstance(text, str):
            raise ValueError(f"a SMILES must be text; got {type(text).__name__}")
        if not text.strip():
            raise ValueError("the SMILES is empty")
        if self.reaction:
            return _sides(text)
        parts = text.split(BETWEEN)
        if len(parts) != self.molecules:
            raise ValueError(f"a row must have {self.molecules} molecules; it has {len(parts)}")
        return parts

    def canonical(self, parts: Sequence[str]) -> str:
        """Build the text of a row from the canonical SMILES of its parts.

        >>> RowFormat(molecules=2).canonical(["O", "CCO"])
        'O + CCO'
        """
        if self.reaction:
            return ">>".join(parts)
        return BETWEEN.join(parts)

    def prepare(self, smiles: Sequence[str]) -> Sequence[str]:
        """Return the SMILES, without stereo marks if the model ignores stereochemistry."""
        if not self.ignore_stereo:
            return smiles
        return [without_stereo_marks(t) if isinstance(t, str) else t for t in smiles]


ONE_MOLECULE = RowFormat()
"""Format of a row that contains one unchanged molecule."""


def join_smiles(cells: Sequence[object]) -> str:
    """Join the cells of a row's SMILES columns to one text; see :class:`RowFormat`.

    >>> join_smiles(["CCO", "O water + salt"])
    'CCO + O water +salt'
    """
    texts = (cell if isinstance(cell, str) else "" for cell in map(as_smiles, cells))
    # A SMILES contains no blank, so this replacement can only change a name that follows a SMILES.
    return BETWEEN.join(text.replace(BETWEEN, " +") for text in texts)


def row_text(cells: Sequence[str], places: Sequence[int]) -> str:
    """Build the text of a row from the cells at ``places``; see :func:`join_smiles`."""
    if len(places) == 1:
        return cells[places[0]]
    return join_smiles([cells[place] for place in places])


def drawn_smiles(text: str) -> str:
    """Return all molecules of a row as one SMILES for drawing, without names and CXSMILES
    extensions.

    >>> drawn_smiles("CCO ethanol + O")
    'CCO.O'
    """
    return ".".join(part.split()[0] for part in text.split(BETWEEN))


def _sides(text: str) -> list[str]:
    """Return the SMILES of the reactants with the agents, and that of the products.

    A ValueError is raised if the text is not a reaction, has an empty side or a CXSMILES extension.
    """
    words = text.split()
    if len(words) > 1 and words[1].startswith("|"):
        raise ValueError("a reaction cannot have a CXSMILES extension")
    sides = words[0].split(">")
    if len(sides) != 3:
        raise ValueError(
            f"a reaction must be the SMILES A>>B; {words[0]!r} has {len(sides) - 1} signs >"
        )
    reactants, agents, products = sides
    if not reactants or not products:
        raise ValueError(
            f"the {'products' if reactants else 'reactants'} of the reaction are empty"
        )
    return [f"{reactants}.{agents}" if agents else reactants, products]


NAMES = ("name", "compound", "compound_name", "molecule_name", "title", "compound_id", "id")
"""Names of columns that may contain the names of molecules, in order of preference."""


def name_column(columns: Sequence[str]) -> str:
    """Return the column that contains the names of the molecules in a table, or "" if there is
    none.

    >>> name_column(["smiles", "ID", "Compound name"])
    'Compound name'
    """
    lower = {column.lower().replace(" ", "_"): column for column in reversed(columns)}
    return next((lower[name] for name in NAMES if name in lower), "")


def name_after(text: str) -> str:
    """Return the name that follows the SMILES in the same cell, or "" if there is none.

    >>> name_after("CCO ethanol"), name_after("CCO"), name_after("C[C@H](N)O |&1:1| alaninol")
    ('ethanol', '', 'alaninol')
    """
    rest = text.strip().partition(" ")[2].strip()
    if rest.startswith("|"):
        rest = rest[1:].partition("|")[2].strip()
    return rest


MARK = re.compile(r"[/\\]|@(?:@|(?:TH|AL|SP|TB|OH)\d+)?")
"""Pattern of a mark of a double bond or of a stereo centre in a SMILES."""
FIELD = re.compile(r"(?<=[|,])(?:(?:[ao&]\d*|w[UD]?|ctu|c|t):[\d.]+(?:,\d[\d.]*)*|r(?=[,|]))")
"""Pattern of a field of a CXSMILES extension that describes stereochemistry: enhanced stereo
groups, wedged bonds and double bonds.
"""


def without_stereo_marks(text: str) -> str:
    r"""Return a SMILES without stereo marks; its atoms and their order do not change.

    Args:
        text: a SMILES, with or without a CXSMILES extension and a name, which is not changed.

    >>> without_stereo_marks("C[C@H](N)C(=O)O alanine"), without_stereo_marks("F/C=C\\F")
    ('C[CH](N)C(=O)O alanine', 'FC=CF')
    >>> without_stereo_marks("C[C@H](N)O |&1:1,r|")
    'C[CH](N)O'
    """
    if not re.search(r"[@/\\|]", text):
        return text
    core, blank, rest = re.match(r"(\s*\S*)(\s*)(.*)", text, re.DOTALL).groups()  # pyright: ignore[reportOptionalMemberAccess]
    if rest.startswith("|") and (end := rest.find("|", 1)) > 0:
        fields = re.sub(",{2,}", ",", FIELD.sub("", rest[: end + 1])[1:-1]).strip(",")
        rest = (f"|{fields}|" if fields else "") + rest[end + 1 :]
    return MARK.sub("", core) + (blank + rest if rest else "")
