"""Page of a model card, which the folder of a run can contain as a file in Markdown."""

from __future__ import annotations

import html
import re

from markdown_it import MarkdownIt

__all__ = ["CARD_FILE", "card_page"]

CARD_FILE = "card.md"
RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?://)[^)]*\)")
"""Pattern of a link that does not lead to another site, which the card's address would break."""
PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 2rem auto; padding: 0 1rem; max-width: 52rem; overflow-wrap: break-word;
  font: 1rem/1.5 system-ui, sans-serif; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ padding: .35rem .8rem; border-top: 1px solid #8886; text-align: left;
  vertical-align: top; }}
pre {{ overflow-x: auto; }}
</style>
<main>
{body}</main>
</html>
"""


def card_page(title: str, text: str) -> str:
    """Return the HTML page of a model card, without links to other files.

    Args:
        title: the title of the page.
        text: the card in Markdown. HTML in it is shown as text.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    return PAGE.format(title=html.escape(title), body=reader.render(RELATIVE.sub(r"\1", text)))
