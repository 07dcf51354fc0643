"""The site builds without a warning, and its links lead to pages and anchors."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.zoo import build_once

ROOT = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="the group docs is missing"),
]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the site, which is built once for all workers."""

    def build(folder: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    return build_once(tmp_path_factory, "site", build)


def _pages(site: Path) -> list[Path]:
    pages = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    assert pages
    return pages


def test_site_pages_contain_no_sphinx_roles_or_directives(site: Path) -> None:
    operators = (site / "api" / "functional" / "index.html").read_text()
    assert "<math" in operators
    for left_over in (".. math::", ":math:", ":func:", "arithmatex", "&gt;&gt;&gt; &gt;"):
        for page in _pages(site):
            assert left_over not in page.read_text(), page


def test_links_within_the_site_lead_to_pages_and_anchors_that_exist(site: Path) -> None:
    texts = {page: page.read_text() for page in _pages(site)}
    names = {
        page: set(map(html.unescape, re.findall(r'\b(?:id|name)="([^"]+)"', text)))
        for page, text in texts.items()
    }
    broken = []
    for page, text in texts.items():
        for link in set(re.findall(r'<a\b[^>]*?\bhref="([^"]+)"', text)):
            parts = urlsplit(html.unescape(link))
            if parts.scheme or parts.netloc:
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = there / "index.html" if there.is_dir() else there
            anchor = unquote(parts.fragment)
            if not there.exists() or (anchor and anchor not in names.get(there, {anchor})):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []
