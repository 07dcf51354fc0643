"""Separation of a table cell into SMILES, CXSMILES extension and name, with hints for other kinds
of text.

RDKit ignores all text after a SMILES. Here the text after it is ignored as a name only if its first
word is not SMILES, so that a second molecule in the cell raises an error.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Mol

BLANK = string.whitespace + "\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
BLANK += "".join(map(chr, range(0x2000, 0x2010))) + "\u2060\xad"
"""White space and invisible characters, which are removed from both ends of a cell."""

DASHES = dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\u00ad", "-")
LOOKALIKES = DASHES | dict(zip("АВСЕНІКМОРТХасеорх", "ABCEHIKMOPTXaceopx", strict=True))
"""ASCII replacements for dashes and Cyrillic letters that look like characters of SMILES."""

Parse = Callable[[str], "Mol | None"]


class SmilesText(NamedTuple):
    """SMILES in a cell, without atom map numbers, and its CXSMILES extension ("" if there is
    none).
    """

    smiles: str
    extension: str


MAP = re.compile(r":\d+\]")


def strip_blanks(text: str) -> str:
    """Remove white space and invisible characters from both ends of a text."""
    return text.strip(BLANK)


def without_maps(smiles: str) -> str:
    """Remove atom map numbers from a SMILES, also those that RDKit cannot read: numbers that start
    with 0 or have more than nine digits.

    >>> without_maps("[CH3:01]O")
    '[CH3]O'
    """
    return MAP.sub("]", smiles) if ":" in smiles else smiles


def split_text(text: str, parse: Parse) -> SmilesText:
    """Split a cell without surrounding white space into SMILES, CXSMILES extension and name.

    Args:
        text: the cell.
        parse: parses a SMILES; it returns None for a text that is not SMILES.

    Returns:
        The SMILES and the extension, without the name.

    Raises:
        ValueError: the text has several lines, a character that is not ASCII, SMARTS, an extension
            without an end, or a second SMILES.
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
    smiles = without_maps(smiles)
    if name:
        _check_name(smiles, name.split()[0], parse)
    return SmilesText(smiles, extension)


def text_with_marks(text: str) -> str:
    """Return the text in which marks of stereochemistry, isotopes and dative bonds are searched.

    If the SMILES has a CXSMILES extension, all marks are appended to the text, because the
    extension can define such properties without a mark in the SMILES.
    """
    return f"{text}@/[1~" if "|" in text else text


POLYMERS = {"SRU", "MON", "MER", "COP", "CRO", "MOD", "GRA", "MUL", "ANY"}
"""RDKit's types of substance groups whose atoms are repeated, as in polymers."""


def check_single(molecule: Mol, extension: str) -> None:
    """Raise ValueError if a CXSMILES extension describes several molecules, for example a polymer.

    An atom label, for example of an R group, is accepted, because it does not change the atom:
    ``*`` is an atom without an element.
    """
    from rdkit.Chem import GetMolSubstanceGroups

    problem = ""
    if any(bond.HasProp("_MolFileBondEndPts") for bond in molecule.GetBonds()):
        problem = "a bond to one of several atoms"
    elif molecule.HasProp("_molLinkNodes"):
        problem = "an atom that is repeated"
    elif any(g.GetProp("TYPE") in POLYMERS for g in GetMolSubstanceGroups(molecule)):
        problem = "a group that is repeated, like in a polymer"
    elif any(atom.HasQuery() and not _any_atom(atom) for atom in molecule.GetAtoms()):
        problem = "an atom that stands for several"
    if problem:
        raise ValueError(
            f"the CXSMILES extension {extension!r} has {problem}, but a model reads whole molecules"
        )


def _any_atom(atom: Atom) -> bool:
    return bool(atom.HasProp("atomLabel")) and atom.GetProp("atomLabel") == "star_e"


def _extension(rest: str) -> tuple[str, str]:
    """Split the text after a SMILES into a CXSMILES extension ("" if none) and a name. Raises
    ValueError if the extension has no end.
    """
    if not rest.startswith("|"):
        return "", rest
    end = rest.find("|", 1)
    if end < 0:
        raise ValueError(f"the CXSMILES extension {rest!a} has no | at its end")
    return rest[: end + 1], rest[end + 1 :].strip()


def _check_name(smiles: str, word: str, parse: Parse) -> None:
    """Raise ValueError if the word after a SMILES is a second SMILES or continues the first one.
    ``parse`` returns None for a text that is not SMILES.
    """
    if not word.isascii() or parse(smiles) is None:
        # If the first SMILES is invalid, the caller raises an error with a better explanation.
        return
    if parse(word) is not None:
        raise ValueError(
            f"{word!r} follows the SMILES {smiles!r} and is also valid SMILES: a cell must "
            f"contain one molecule (a mixture is {smiles}.{word}); if it is a name, put it "
            "into another column"
        )
    if parse(smiles + word) is not None:
        raise ValueError(f"the SMILES contains white space between {smiles!r} and {word!r}")


def _lines(text: str) -> str:
    """Return the reason why a SMILES text of several lines is not valid."""
    if re.search(r"^M  END|V[23]000", text, re.MULTILINE):
        return "not valid SMILES: it looks like a molfile"
    lines = text.splitlines()
    return (
        f"the SMILES has {len(lines)} lines, the first {lines[0]!a}: a cell must contain "
        "one molecule"
    )


def _odd(smiles: str) -> str:
    """Return an error message about a character that is not allowed in SMILES, with a hint."""
    place, odd = next((i, c) for i, c in enumerate(smiles) if not (c.isascii() and c.isprintable()))
    name = unicodedata.name(odd, "")
    plain = LOOKALIKES.get(odd, unicodedata.normalize("NFKC", odd))
    hint = f"; SMILES use {plain!r}" if plain.isascii() and plain.isprintable() else ""
    hint = "" if plain == " " else hint
    return f"the SMILES contains {odd!a}{f' ({name})' * bool(name)} as character {place + 1}{hint}"


_SMARTS = "it looks like SMARTS, a pattern of many molecules"
_MISSING = {"na", "n/a", "nan", "none", "null", "-", "--", "?", "unknown", "#n/a"}


def likeness(text: str, parse: Parse, parse_pattern: Parse) -> str:
    """Guess for an error message which kind of text was passed instead of SMILES; "" if unknown.

    Args:
        text: the cell, stripped.
        parse: parses a SMILES; it returns None for a text that is not SMILES.
        parse_pattern: function that parses SMARTS; it returns None for a text that is not SMARTS.

    >>> likeness("50-78-2", lambda text: None, lambda text: None)
    'it looks like a CAS number'
    """
    several = [part.strip() for part in re.split(r"[,;|]", text)]
    if len(several) > 1 and all(part and parse(part) is not None for part in several):
        return f"it looks like {len(several)} SMILES, {several[0]!r} and {several[1]!r}"
    compact = "".join(text.split())
    if compact != text and parse(compact) is not None:
        return f"it contains white space; without it, {compact!r} is valid SMILES"
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
    (r"(?<!-)>", "it looks like a reaction, but a model reads one molecule"),
    (r"\[R\d*\]|^R\d*$", "it contains an R group, but a model reads whole molecules"),
    (r"\[[DT]\]", "write [D] and [T] as [2H] and [3H]"),
    (r"^[+-]?\d+([.,]\d+)?$", "it looks like a number"),
    (r"^(?=.*H\d)([A-Z][a-z]?\d*)+$", "it looks like a molecular formula"),
)
