"""The text of a cell: its SMILES, CXSMILES extension and name, or what it looks like instead.

RDKit drops whatever follows a SMILES. Here the first word after it is dropped as a name only where
it cannot be SMILES, so that no second molecule is lost without a word.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Mol

__all__ = [
    "SmilesText",
    "check_single",
    "likeness",
    "split_text",
    "strip_blanks",
    "text_with_marks",
]

BLANK = string.whitespace + "\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
BLANK += "".join(map(chr, range(0x2000, 0x2010))) + "\u2060\xad"
"""Dropped at both ends of a cell: white space, and characters that nobody sees."""

DASHES = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\u00ad", "-")
LOOKALIKES = DASHES | dict(zip("АВСЕНІКМОРТХасеорх", "ABCEHIKMOPTXaceopx", strict=True))
"""Characters that look like one of SMILES: dashes, and Cyrillic letters."""

Parse = Callable[[str], "Mol | None"]


class SmilesText(NamedTuple):
    """The SMILES of a cell, without atom map numbers, and its CXSMILES extension or ""."""

    smiles: str
    extension: str


MAP = re.compile(r":\d+\]")


def strip_blanks(text: str) -> str:
    """The text without white space and invisible characters at its ends."""
    return text.strip(BLANK)


def split_text(text: str, parse: Parse) -> SmilesText:
    """Take a stripped, non-empty cell apart into SMILES, CXSMILES extension and name.

    Args:
        text: the cell.
        parse: reads SMILES, and gives None for a text that is none.

    Returns:
        The SMILES and the extension; the name is dropped.

    Raises:
        ValueError: several lines, a character that is not ASCII, a reaction, SMARTS, an extension
            that does not end, or a second SMILES.
    """
    if "\n" in text or "\r" in text:
        raise ValueError(_lines(text))
    smiles, extension, name = text, "", ""
    if " " in text or "\t" in text:
        smiles, rest = re.split(r"[ \t]+", text, maxsplit=1)
        extension, name = _extension(rest)
    if not (smiles.isascii() and smiles.isprintable()):
        raise ValueError(_odd(smiles))
    if "[#" in smiles or "~" in smiles:
        raise ValueError(f"not valid SMILES: {_SMARTS}")
    if ":" in smiles:
        smiles = MAP.sub("]", smiles)
    if name:
        _check_name(smiles, name.split()[0], parse)
    return SmilesText(smiles, extension)


def text_with_marks(text: str) -> str:
    """The text in which to look for the marks of stereo, isotopes and dative bonds.

    A CXSMILES extension can set them without these marks in the SMILES, so that all are appended.
    """
    return f"{text}@/[1~" if "|" in text else text


POLYMERS = {"SRU", "MON", "MER", "COP", "CRO", "MOD", "GRA", "MUL", "ANY"}
"""RDKit's types of groups whose atoms are repeated."""


def check_single(molecule: Mol, extension: str) -> None:
    """Refuse a molecule whose CXSMILES extension says that its atoms are not all of it.

    An atom label, as of an R group, changes no atom: ``*`` is an atom without an element, and any
    other atom stays what it is.
    """
    from rdkit.Chem import GetMolSubstanceGroups

    problem = ""
    if any(bond.HasProp("_MolFileBondEndPts") for bond in molecule.GetBonds()):
        problem = "a bond to one of several atoms"
    elif molecule.HasProp("_molLinkNodes"):
        problem = "an atom that is repeated"
    elif any(g.GetProp("TYPE") in POLYMERS for g in GetMolSubstanceGroups(molecule)):
        problem = "a group that is repeated, as in a polymer"
    elif any(atom.HasQuery() and not _any_atom(atom) for atom in molecule.GetAtoms()):
        problem = "an atom that stands for several"
    if problem:
        raise ValueError(
            f"the CXSMILES extension {extension!r} has {problem}, and a model reads whole molecules"
        )


def _any_atom(atom: Atom) -> bool:
    return bool(atom.HasProp("atomLabel")) and atom.GetProp("atomLabel") == "star_e"


def _extension(rest: str) -> tuple[str, str]:
    """The CXSMILES extension with which the text after a SMILES begins, and the name behind it."""
    if not rest.startswith("|"):
        return "", rest
    end = rest.find("|", 1)
    if end < 0:
        raise ValueError(f"the CXSMILES extension {rest!a} has no | at its end")
    return rest[: end + 1], rest[end + 1 :].strip()


def _check_name(smiles: str, word: str, parse: Parse) -> None:
    """Refuse a word after a SMILES that is SMILES itself, or goes on with the first."""
    if not word.isascii() or parse(smiles) is None:
        return  # the SMILES alone is the problem
    if parse(word) is not None:
        raise ValueError(
            f"{word!r} follows the SMILES {smiles!r} and can be SMILES, too: a cell must hold one "
            f"molecule (a mixture is {smiles}.{word}), and such a name must stand in another column"
        )
    if parse(smiles + word) is not None:
        raise ValueError(f"the SMILES holds white space between {smiles!r} and {word!r}")


def _lines(text: str) -> str:
    if re.search(r"^M  END|V[23]000", text, re.MULTILINE):
        return "not valid SMILES: it looks like a molfile"
    lines = text.splitlines()
    return f"the SMILES holds {len(lines)} lines, the first {lines[0]!a}: a cell is one molecule"


def _odd(smiles: str) -> str:
    """Name the first character that SMILES do not have, and the one that it looks like."""
    place, odd = next((i, c) for i, c in enumerate(smiles) if not (c.isascii() and c.isprintable()))
    name = unicodedata.name(odd, "")
    plain = LOOKALIKES.get(odd, unicodedata.normalize("NFKC", odd))
    hint = f"; SMILES have {plain!r}" if plain.isascii() and plain.isprintable() else ""
    hint = "" if plain == " " else hint
    return f"the SMILES holds {odd!a}{f' ({name})' * bool(name)} as character {place + 1}{hint}"


_SMARTS = "it looks like SMARTS, a pattern of many molecules"
_MISSING = {"na", "n/a", "nan", "none", "null", "-", "--", "?", "unknown", "#n/a"}


def likeness(text: str, parse: Parse, parse_pattern: Parse) -> str:
    """Say what a text looks like that is no SMILES, or "".

    Args:
        text: the cell, stripped.
        parse: reads SMILES, and gives None for a text that is none.
        parse_pattern: the same of SMARTS.

    >>> likeness("50-78-2", lambda text: None, lambda text: None)
    'it looks like a CAS number'
    """
    several = [part.strip() for part in re.split(r"[,;|]", text)]
    if len(several) > 1 and all(part and parse(part) is not None for part in several):
        return f"it looks like {len(several)} SMILES, {several[0]!r} and {several[1]!r}"
    compact = "".join(text.split())
    if compact != text and parse(compact) is not None:
        return f"it holds white space: {compact!r} would be SMILES"
    for pattern, problem in _KINDS:
        if re.search(pattern, text):
            return problem
    if text.lower() in _MISSING:
        return "it looks like a missing value"
    if re.search(r"[~!&$#\[]", text) and parse_pattern(text) is not None:
        return _SMARTS
    if any(set(run) - set("bcnopslr") for run in re.findall(r"[a-z]{3,}", text)):
        return "it looks like a name"
    return ""


_KINDS = (
    (r"^InChI=|^1S?/[A-Z]", "it looks like an InChI"),
    (r"^[A-Z]{14}-[A-Z]{10}-[A-Z]$", "it looks like an InChIKey"),
    (r"^(CAS\s*)?\d{2,7}-\d{2}-\d$", "it looks like a CAS number"),
    (r"(?<!-)>", "it looks like a reaction, and a model reads one molecule"),
    (r"\[R\d*\]|^R\d*$", "it holds an R group, and a model reads whole molecules"),
    (r"\[[DT]\]", "[D] and [T] are written [2H] and [3H]"),
    (r"^[+-]?\d+([.,]\d+)?$", "it looks like a number"),
    (r"^(?=.*H\d)([A-Z][a-z]?\d*)+$", "it looks like a molecular formula"),
)
