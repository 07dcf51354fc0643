"""Canvas for pictures that combine RDKit drawings with text in any alphabet.

RDKit can write only ASCII, so text is added as SVG elements, or by Pillow in a PNG.
"""

from __future__ import annotations

import functools
import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args
from xml.sax.saxutils import escape

from gattn.data.molecules.smiles import need_rdkit
from gattn.draw.theme import mixture

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont
    from rdkit.Chem.Draw.rdMolDraw2D import MolDraw2D

    from gattn.draw.theme import Theme

PictureFormat: TypeAlias = Literal["svg", "png"]
Anchor: TypeAlias = Literal["start", "middle", "end"]

_PNG_ZOOM = 2.0
"""Number of PNG pixels per SVG pixel. It is high enough for print and high-resolution screens."""
_SMALLEST = 9.0
"""Minimum font size to which text is shrunk to fit. Text that is then still too wide is
truncated.
"""
_FAMILY = "DejaVu Sans, Verdana, Arial, sans-serif"
_PILLOW_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


@dataclass(frozen=True)
class _Text:
    text: str
    x: float
    y: float
    size: float
    anchor: Anchor
    bold: bool


@dataclass(eq=False)
class Canvas:
    """Picture on which molecules, discs and text are drawn, with coordinates in pixels.

    Attributes:
        width: width of the picture.
        height: height of the picture.
        panel: width and height of the panel of one molecule.
        format: "svg" or "png".
        theme: colours of the picture.
        drawer: RDKit's drawing object, whose lengths are in output pixels.
        zoom: number of output pixels per pixel of an SVG.
    """

    width: int
    height: int
    panel: tuple[int, int]
    format: PictureFormat
    theme: Theme
    drawer: MolDraw2D = field(init=False)
    zoom: float = field(init=False)
    _texts: list[_Text] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Create an empty drawing; raise a ValueError if the format is not SVG or PNG, and
        ImportError without RDKit.
        """
        if self.format not in get_args(PictureFormat):
            raise ValueError(f'format must be "svg" or "png"; got {self.format!r}')
        need_rdkit()
        from rdkit.Chem.Draw import rdMolDraw2D

        kinds = {"svg": rdMolDraw2D.MolDraw2DSVG, "png": rdMolDraw2D.MolDraw2DCairo}
        self.zoom = _PNG_ZOOM if self.format == "png" else 1.0
        sizes = (self.width, self.height, *self.panel)
        self.drawer = kinds[self.format](*(round(size * self.zoom) for size in sizes))
        self.drawer.drawOptions().setBackgroundColour(mixture(self.theme.paper))
        self.drawer.ClearDrawing()
        self.drawer.drawOptions().clearBackground = False

    def place(self, x: float, y: float) -> None:
        """Set the upper left corner of the next molecule's panel."""
        self.drawer.SetOffset(round(x * self.zoom), round(y * self.zoom))

    def disc(
        self, x: float, y: float, radius: float, fill: tuple[float, ...], outline: str
    ) -> None:
        """Draw a disc with centre (x, y) in pixels outside of molecules, with a thin outline unless
        ``outline`` is empty. ``fill`` is red, green and blue from 0 to 1, and ``outline`` a
        hexadecimal colour. The corner that :meth:`place` has set is reset.
        """
        from rdkit.Geometry import Point2D

        ends = [Point2D((x + r) * self.zoom, (y + r) * self.zoom) for r in (-radius, radius)]
        self.drawer.SetOffset(0, 0)
        self.drawer.SetFillPolys(True)
        self.drawer.SetColour(fill)
        self.drawer.DrawEllipse(*ends, rawCoords=True)
        if outline:
            self.drawer.SetFillPolys(False)
            self.drawer.SetLineWidth(round(self.zoom))
            self.drawer.SetColour(mixture(outline))
            self.drawer.DrawEllipse(*ends, rawCoords=True)

    def write(
        self, text: str, x: float, y: float, *, size: float = 12.0, max_width: float,
        anchor: Anchor = "middle", bold: bool = False,
    ) -> None:  # fmt: skip
        """Write a line of text at (x, y) in pixels, where y is the baseline; nothing is written for
        an empty text. A text wider than ``max_width`` is shrunk, then truncated. Raises ImportError
        without matplotlib, whose font is measured.
        """
        if not (text := _printable(text)):
            return
        size = max(size * min(1.0, max_width / _length(text, size, bold)), _SMALLEST)
        self._texts.append(_Text(_cut(text, size, max_width, bold), x, y, size, anchor, bold))

    @staticmethod
    def wrap(text: str, *, size: float = 12.0, max_width: float) -> list[str]:
        """Split a text at its spaces into lines of at most ``max_width`` pixels. A wider word is a
        line, and an empty text is one empty line. Raises ImportError without matplotlib, whose font
        is measured.
        """
        lines: list[str] = []
        for word in _printable(text).split(" "):
            longer = f"{lines[-1]} {word}" if lines else word
            if lines and _length(longer, size, bold=False) <= max_width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines

    def finish(self) -> bytes:
        """Finish the picture and return it as the bytes of an SVG or PNG file. Raises ImportError
        for a PNG with text without matplotlib.
        """
        self.drawer.FinishDrawing()
        drawing = self.drawer.GetDrawingText()
        return self._svg(drawing) if isinstance(drawing, str) else self._png(drawing)

    def _svg(self, drawing: str) -> bytes:
        """Return an SVG drawing with the texts of the canvas, encoded as UTF-8."""
        _, _, rest = drawing.partition("?>")
        body, end, _ = rest.rpartition("</svg>")
        texts = "".join(
            f"<text x='{t.x:.1f}' y='{t.y:.1f}' font-family='{_FAMILY}' font-size='{t.size:.3g}' "
            f"font-weight='{'bold' if t.bold else 'normal'}' text-anchor='{t.anchor}' "
            f"fill='{self.theme.ink}'>{escape(t.text)}</text>\n"
            for t in self._texts
        )
        return f"<?xml version='1.0' encoding='UTF-8'?>{body}{texts}{end}\n".encode()

    def _png(self, drawing: bytes) -> bytes:
        """Return a PNG drawing with the texts of the canvas. Raises ImportError without matplotlib,
        whose font is used.
        """
        from PIL import Image, ImageDraw

        picture = Image.open(io.BytesIO(drawing)).convert("RGB")
        pen = ImageDraw.Draw(picture)
        for t in self._texts:
            position = (t.x * self.zoom, t.y * self.zoom)
            font = _font(t.size * self.zoom, t.bold)
            anchor = _PILLOW_ANCHORS[t.anchor]
            pen.text(position, t.text, fill=self.theme.ink, font=font, anchor=anchor)
        out = io.BytesIO()
        picture.save(out, "PNG", dpi=(96 * self.zoom, 96 * self.zoom))
        return out.getvalue()


def _printable(text: str) -> str:
    """Convert a text to one line, and remove the characters that XML forbids."""
    return re.sub(r"[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+", " ", text).strip()


def _length(text: str, size: float, bold: bool) -> float:
    return _font(100.0, bold).getlength(text) * size / 100


def _cut(text: str, size: float, max_width: float, bold: bool) -> str:
    """Return the text, or its longest beginning with an ellipsis that is at most ``max_width``
    pixels wide. Raises ImportError without matplotlib.
    """
    if _length(text, size, bold) <= max_width * 1.001:
        return text
    while text and _length(f"{text}…", size, bold) > max_width:
        text = text[:-1]
    return f"{text}…"


@functools.cache
def _font(size: float, bold: bool) -> FreeTypeFont:
    """Return the font DejaVu Sans in the given size; it is distributed with matplotlib. Raises
    ImportError without matplotlib.
    """
    try:
        from matplotlib.font_manager import FontProperties, findfont
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install "gattn[draw]"') from error
    from PIL import ImageFont

    properties = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    return ImageFont.truetype(findfont(properties), size)
