"""Format numbers and Markdown tables, and write tables into pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], text: int = 1) -> str:
    """Return a Markdown table whose first ``text`` columns are text and the others numbers."""
    align = ["---" if number < text else "---:" for number in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, align, *rows])


def seconds(value: float) -> str:
    """Format seconds with three digits and a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale or unit == "us":
            return f"{_three(value / scale)} {unit}"
    raise AssertionError


def size(value: float) -> str:
    """Format bytes with three digits in MB or GB."""
    return f"{_three(value / 1e9)} GB" if value >= 1e9 else f"{_three(value / 1e6)} MB"


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def fill(text: str, name: str, section: str) -> str:
    """Replace the section between the two marks with a name in a text."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if text.count(start) != 1 or text.count(end) != 1:
        raise SystemExit(f"the page must contain {start} and {end} once each")
    before, rest = text.split(start)
    after = rest.split(end)[1]
    return f"{before}{start}\n\n{section.strip()}\n\n{end}{after}"


def write(page: Path, name: str, section: str) -> None:
    """Replace the section between the two marks with a name in a file."""
    page.write_text(fill(page.read_text(), name, section))
