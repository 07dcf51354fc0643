"""Report of a run: a single HTML page without external files, and a JSON file with its numbers.

The page has no scripts and loads no other files: pictures are embedded, and a content security
policy enforces this. The module renders sections of text, tables and figures, and escapes all text;
it does not depend on molecules or nodes.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gattn.apps.report.style import number
from gattn.draw.theme import DARK, LIGHT
from gattn.files import replace_files

__all__ = [
    "Figure", "Highlight", "Link", "ReportContent", "Section", "Table", "rendered", "write_report",
]  # fmt: skip

TEMPLATES = Path(__file__).parent / "templates"


class Link(NamedTuple):
    """Table cell that links to another page.

    Attributes:
        text: the text of the cell.
        target: path of the page, relative to the report.
    """

    text: str
    target: str


Cell = str | int | float | Link | None
"""Type of a table cell: text, a number (shown with three digits), a link, or None if the cell is
empty.
"""


@dataclass(frozen=True)
class Highlight:
    """Number that the report page highlights at its top.

    Attributes:
        label: a short description of the number.
        value: the number or a short text.
        note: the unit of the number, or another number for comparison.
    """

    label: str
    value: Cell
    note: str = ""


@dataclass(frozen=True)
class Table:
    """Table of text and numbers in a report.

    Attributes:
        columns: the names of the columns.
        rows: the rows; each has one cell for each column.
        caption: a sentence above the table.
        best: for each row the indices of the columns with the best value, which are marked; empty
            to mark none.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    best: tuple[tuple[int, ...], ...] = ()

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Mask of the columns that contain only numbers and empty cells."""
        columns = [[row[i] for row in self.rows] for i in range(len(self.columns))]
        return tuple(all(v is None or _is_number(v) for v in column) for column in columns)


@dataclass(frozen=True)
class Figure:
    """Picture in a report, with its caption.

    Attributes:
        picture: a PNG file or an SVG document.
        alt: text that describes the picture.
        caption: one or several lines below the picture.
    """

    picture: bytes
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """Section of a report page: paragraphs, then tables, then figures.

    Attributes:
        title: title of the section.
        text: the paragraphs.
        tables: tables below the text.
        figures: figures below the tables, side by side if the page is wide enough.
        gallery: whether to show the figures small, with many in a row.
    """

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    gallery: bool = False


@dataclass(frozen=True)
class ReportContent:
    """Content of a report page.

    Attributes:
        title: title of the page.
        summary: a sentence about the model, its data and its quality.
        sections: the sections in order.
        highlights: a few numbers at the top of the page.
    """

    title: str
    summary: str
    sections: tuple[Section, ...]
    highlights: tuple[Highlight, ...] = ()


def write_report(folder: Path, content: ReportContent) -> Path:
    """Write the report page ``report.html``.

    Args:
        folder: the folder of the run, which must exist.
        content: content of the page.

    Returns:
        The path of the page.

    Raises:
        ImportError: Jinja2 is not installed.
        ValueError: a picture is neither PNG nor SVG.
        OSError: the file cannot be written.

    >>> from tempfile import TemporaryDirectory
    >>> errors = Table(("metric", "model", "mean"), (("RMSE", 0.489, 1.09),), best=((1,),))
    >>> content = ReportContent("pIC50", "Good.", (Section("Errors", tables=(errors,)),))
    >>> with TemporaryDirectory() as folder:
    ...     write_report(Path(folder), content).name
    'report.html'
    """
    path = folder / "report.html"
    replace_files({path: rendered("report.html", content=content).encode()})
    return path


def rendered(template: str, **content: object) -> str:
    """Return the text of a template with the colours of both themes.

    The template ``style.css`` is the style sheet that all pages share.

    Args:
        template: the name of a file in the folder ``templates``.
        **content: the variables of the template, whose texts are escaped.

    Raises:
        ImportError: Jinja2 is not installed.
        ValueError: a picture is neither PNG nor SVG.
        jinja2.UndefinedError: the template uses a variable that was not passed.
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
    environment.filters |= {"cell": _cell_text, "uri": _data_uri}
    environment.tests["link"] = lambda cell: isinstance(cell, Link)
    return environment.get_template(template).render(**content, light=LIGHT, dark=DARK)


def _is_number(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell_text(value: Cell) -> str:
    """Format a table cell as text for the HTML page; an empty cell is a dash."""
    if isinstance(value, float):
        return number(value)
    if value is None:
        return "–"
    if isinstance(value, Link):
        return value.text
    return f"{value:,}" if _is_number(value) else str(value)


def _media_type(picture: bytes) -> str:
    """Return the media type of a picture, detected from its first bytes.

    Raises:
        ValueError: the picture is neither PNG nor SVG.
    """
    if picture.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if picture.lstrip().startswith((b"<svg", b"<?xml")):
        return "image/svg+xml"
    raise ValueError(f"a picture must be PNG or SVG; got bytes that begin with {picture[:12]!r}")


def _data_uri(picture: bytes) -> str:
    """Encode a picture as a data URL, in which browsers do not run the scripts of an SVG."""
    return f"data:{_media_type(picture)};base64,{base64.b64encode(picture).decode('ascii')}"
