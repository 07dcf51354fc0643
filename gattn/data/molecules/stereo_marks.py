"""Removal of the marks of stereochemistry from the text of a SMILES."""

from __future__ import annotations

import re

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
