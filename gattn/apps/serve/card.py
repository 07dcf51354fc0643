"""Page of a model card, which the folder of a run can contain as a file in Markdown."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt

from gattn.apps.report.report import rendered

CARD_FILE = "card.md"
RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]*\)")
"""Pattern of a link that does not lead to another site, which the card's address would break."""


def card_page(title: str, text: str) -> str:
    """Return the HTML page of a model card. The text of a link replaces a link to another file.

    Args:
        title: the title of the page.
        text: the card in Markdown. HTML in it is shown as text.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    body = reader.render(RELATIVE.sub(r"\1", text))
    return rendered("card.html", title=title, body=body)
