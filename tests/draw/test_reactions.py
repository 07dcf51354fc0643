"""Pictures of reactions."""

import re

import pytest

from gattn.draw import DRAWN_ATOMS
from gattn.draw.reactions import draw_reaction

REACTION = "[CH3:1]C[Br:2].[OH-:3]>[Na+]>[CH3:1]C[OH:3].[Br-:2]"


def test_a_reaction_has_its_arrow_between_the_sides():
    reacted, plain = draw_reaction(REACTION), draw_reaction("C>>C")
    width = re.compile(rb"width='(\d+)px'")
    assert int(width.search(reacted)[1]) > int(width.search(plain)[1])
    assert len(re.findall(b"<path", reacted)) > len(re.findall(b"<path", plain))
    assert draw_reaction(REACTION) == draw_reaction(re.sub(r":\d+\]", "]", REACTION))
    assert draw_reaction("C.CO>>CC") != draw_reaction("C>>CC.CO")


def test_a_dark_picture_has_another_ink():
    assert b"#000000" in draw_reaction("CO>>CC")
    assert b"#000000" not in draw_reaction("CO>>CC", dark=True)


@pytest.mark.parametrize("text", ["", "CCO", "C>C", "bad(>>C", "C>>bad(", "C.C>>C>"])
def test_another_text_is_an_error(text):
    with pytest.raises(ValueError, match=r"reaction must be|not valid SMILES"):
        draw_reaction(text)


def test_a_reaction_of_too_many_atoms_is_an_error():
    chain = "C" * (DRAWN_ATOMS // 2 + 1)
    with pytest.raises(ValueError, match="atoms can be drawn"):
        draw_reaction(f"{chain}>>{chain}")
