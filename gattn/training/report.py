"""Report of a run: one self-contained HTML page, and its numbers as JSON.

The page has no script and loads nothing: pictures are inlined, and a content security policy
enforces it. This module knows neither molecules nor nodes: it renders sections of text, tables and
figures, and escapes everything in them.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from pathlib import Path

from gattn.draw.theme import DARK, LIGHT
from gattn.files import replace_files
from gattn.training.plots.style import number

__all__ = ["Figure", "Highlight", "ReportContent", "Section", "Table", "write_report"]

TEMPLATES = Path(__file__).parent / "templates"

Cell = str | int | float | None
"""Cell of a table: text, a number (shown to three digits), or None for an empty cell."""


@dataclass(frozen=True)
class Highlight:
    """A number at the top of the page.

    Attributes:
        label: a short description.
        value: the number or a short text.
        note: its unit, or a number to compare with.
    """

    label: str
    value: Cell
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of text and numbers.

    Attributes:
        columns: the names.
        rows: as many cells each as there are columns.
        caption: a sentence above it.
        best: for each row the columns that hold its best value; empty marks none.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    best: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row needs {len(self.columns)} cells; got {len(row)}: {row!r}")
        if self.best and len(self.best) != len(self.rows):
            raise ValueError(
                f"best must have an entry for each of {len(self.rows)} rows; got {len(self.best)}"
            )

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Return True if a column holds only numbers and empty cells."""
        columns = [[row[i] for row in self.rows] for i in range(len(self.columns))]
        return tuple(all(v is None or _is_number(v) for v in column) for column in columns)


@dataclass(frozen=True)
class Figure:
    """A picture.

    Attributes:
        picture: a PNG file or an SVG document.
        alt: text that describes the picture.
        caption: a sentence below it, or lines.
        dark: the picture for dark pages; without it the picture keeps its background there.
    """

    picture: bytes
    alt: str
    caption: str = ""
    dark: bytes | None = None

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("a figure needs a text in place of the picture; got an empty alt")
        for picture in (self.picture, self.dark):
            if picture is not None:
                _media_type(picture)


@dataclass(frozen=True)
class Section:
    """A part of the page under a title: paragraphs, then tables, then figures.

    Attributes:
        title: of the section.
        text: paragraphs.
        tables: below the text.
        figures: below the tables, as many in a row as fit.
        gallery: small figures, many in a row.
    """

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    gallery: bool = False


@dataclass(frozen=True)
class ReportContent:
    """Content of a report.

    Attributes:
        title: of the page.
        summary: one sentence: the model, its data, and its quality.
        sections: in order.
        highlights: a few numbers at the top.
        footer: software that made the page.
    """

    title: str
    summary: str
    sections: tuple[Section, ...]
    highlights: tuple[Highlight, ...] = ()
    footer: str = ""


def write_report(folder: Path, content: ReportContent) -> Path:
    """Write ``report.html``, and ``report.json`` with every number that it shows, unrounded.

    Args:
        folder: of the run; it exists.
        content: content of the page.

    Returns:
        The path of the page.

    Raises:
        ImportError: Jinja2 is not installed.
        OSError: the files cannot be written.

    >>> from tempfile import TemporaryDirectory
    >>> errors = Table(("metric", "model", "mean"), (("RMSE", 0.489, 1.09),), best=((1,),))
    >>> content = ReportContent("pIC50", "Good.", (Section("Errors", tables=(errors,)),))
    >>> with TemporaryDirectory() as folder:
    ...     write_report(Path(folder), content).name
    'report.html'
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise ImportError('reports need Jinja2: pip install "gattn[molecules]"') from None

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": _shown, "uri": _data_uri}
    page = environment.get_template("report.html").render(content=content, light=LIGHT, dark=DARK)
    numbers = json.dumps(_numbers(content), ensure_ascii=False, indent=1, allow_nan=False)
    path = folder / "report.html"
    replace_files({folder / "report.json": f"{numbers}\n".encode(), path: page.encode()})
    return path


def _is_number(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Cell) -> str:
    """Format a cell as text."""
    if isinstance(value, float):
        return number(value)
    if value is None:
        return "–"
    return f"{value:,}" if _is_number(value) else str(value)


def _media_type(picture: bytes) -> str:
    """Return the media type of a picture from its first bytes.

    Raises:
        ValueError: neither PNG nor SVG.
    """
    if picture.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if picture.lstrip().startswith((b"<svg", b"<?xml")):
        return "image/svg+xml"
    raise ValueError(f"a picture must be PNG or SVG; got bytes that begin {picture[:12]!r}")


def _data_uri(picture: bytes) -> str:
    """Encode a picture as a data URL, in which scripts of an SVG do not run."""
    return f"data:{_media_type(picture)};base64,{base64.b64encode(picture).decode('ascii')}"


def _numbers(content: ReportContent) -> dict[str, object]:
    """Return the page without pictures as JSON values: NaN is null, as JSON has none."""
    return {
        "title": content.title,
        "summary": content.summary,
        "highlights": [
            {"label": one.label, "value": _finite(one.value), "note": one.note}
            for one in content.highlights
        ],
        "sections": [
            {
                "title": section.title,
                "text": list(section.text),
                "tables": [
                    {
                        "caption": table.caption,
                        "columns": list(table.columns),
                        "rows": [[_finite(cell) for cell in row] for row in table.rows],
                    }
                    for table in section.tables
                ],
                "figures": [figure.caption or figure.alt for figure in section.figures],
            }
            for section in content.sections
        ],
    }


def _finite(value: Cell) -> Cell:
    return None if isinstance(value, float) and not math.isfinite(value) else value
