"""Tables that a script writes into a page, between two marks that the page holds."""

from __future__ import annotations

from pathlib import Path


def fill(text: str, name: str, section: str) -> str:
    """Put a section between the marks of this name, in place of what stands there."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise SystemExit(f"the page must hold {start} and {end} once each")
    before, rest = text.split(start)
    after = rest.split(end)[1]
    return f"{before}{start}\n\n{section.strip()}\n\n{end}{after}"


def write(page: Path, name: str, section: str) -> None:
    """The same in a file."""
    page.write_text(fill(page.read_text(), name, section))
