"""The site builds without a warning; its pages open in a browser, narrow and wide, light and dark.

Chromium and its driver come with ``apt-get install chromium chromium-driver``.
"""

from __future__ import annotations

import functools
import html
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.zoo import build_once

if TYPE_CHECKING:
    from selenium import webdriver

ROOT = Path(__file__).parents[1]
WIDTHS = 390, 1300
SCHEMES = {"light": "default", "dark": "slate"}
"""Names of the colour schemes in the theme."""
INDEX = "search/search_index.json"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="the group docs is missing"),
]

# The script returns: each element whose right edge is beyond the page, unless the reader can scroll
# to it; each equation that is cut off; each block of code that must be scrolled on a wide page; and
# each picture that was not loaded.
FAULTS = """
const room = document.documentElement.clientWidth, faults = [];
const scrolls = e => e.scrollWidth > e.clientWidth &&
  ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
const visit = parent => { for (const e of parent.children) {
    const box = e.getBoundingClientRect();
    if (box.width && box.right > room + 1)
      faults.push("beyond the page: " + e.outerHTML.slice(0, 90));
    if (!scrolls(e)) visit(e);
  } };
visit(document.querySelector(".md-content"));
for (const e of document.querySelectorAll(".md-content__inner > .highlight code"))
  if (room > 1000 && e.scrollWidth > e.clientWidth + 1)
    faults.push("wide code: " + e.textContent.slice(0, 90));
for (const e of document.querySelectorAll(".equation")) {
  if (e.scrollHeight > e.clientHeight + 1)
    faults.push("cut off: " + e.textContent.slice(0, 90));
}
for (const e of document.images)
  if (!e.complete || !e.naturalWidth) faults.push("no picture: " + e.src);
return faults;
"""
PAINT = """
document.body.setAttribute("data-md-color-scheme", arguments[0]);
return getComputedStyle(document.body).backgroundColor;
"""


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


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Serve the site on this machine; return its address.

    Each page builds its search index when it is opened, which takes most of the time. Therefore
    only the first page gets the whole index, and all others get an empty one.
    """
    index, requested = json.loads((site / INDEX).read_text()), set()
    assert len(index["docs"]) > 100

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def end_headers(self) -> None:
            if self.path == f"/{INDEX}":
                self.send_header("Cache-Control", "no-store")
            super().end_headers()

        def do_GET(self) -> None:
            if self.path == f"/{INDEX}" and self.path in requested:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({**index, "docs": []}).encode())
            else:
                requested.add(self.path)
                super().do_GET()

    serve = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def _pages(site: Path) -> list[Path]:
    pages = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    assert pages
    return pages


def test_pages_have_no_roles_or_directives_of_docstrings(site: Path) -> None:
    operators = (site / "api" / "functional" / "index.html").read_text()
    assert "<math" in operators
    for left_over in (".. math::", ":math:", ":func:", "arithmatex", "&gt;&gt;&gt; &gt;"):
        for page in _pages(site):
            assert left_over not in page.read_text(), page


def test_links_within_the_site_lead_to_pages_and_anchors(site: Path) -> None:
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


@pytest.mark.timeout(900)  # A page takes seconds if other processes use the machine.
def test_pages_fit_narrow_and_wide_screens_in_both_colour_schemes(
    site: Path, address: str, browser: webdriver.Chrome
) -> None:
    outside = yaml.safe_load((ROOT / "mkdocs.yml").read_text().split("\nnav:")[0])["repo_url"]
    messages, grounds = [], {scheme: set() for scheme in SCHEMES}
    for page in _pages(site):
        name = str(page.parent.relative_to(site))
        browser.get(address if name == "." else f"{address}{name}/")
        for width, (scheme, known_as) in zip(WIDTHS, SCHEMES.items()):
            # The layout does not depend on the colours, so each width has one colour scheme.
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            grounds[scheme].add(browser.execute_script(PAINT, known_as))
            faults = browser.execute_script(FAULTS)
            messages += [f"{name}, {width} pixels, {scheme}: {fault}" for fault in faults]
        messages += [
            f"{name}: {entry['message']}" for entry in browser.get_log("browser")
            if entry["level"] == "SEVERE" and not _of_the_repository(entry["message"], outside)
        ]  # fmt: skip
    assert messages == []
    assert len(grounds["light"]) == len(grounds["dark"]) == 1
    assert grounds["light"] != grounds["dark"]


@pytest.mark.parametrize(
    ("put", "expected"),
    [
        ('<p style="width: 3000px">wide</p>', "beyond the page: <p"),
        ('<div style="overflow: auto"><p style="width: 3000px">scrolled</p></div>', None),
        ('<div style="overflow: hidden"><p style="width: 3000px">cropped</p></div>', "beyond the"),
        ('<div class="equation" style="height: 5px; overflow: auto">x</div>', "cut off: x"),
        ('<img src="nowhere.png">', "no picture: "),
    ],
)
def test_fault_of_a_page_is_reported(
    address: str, browser: webdriver.Chrome, put: str, expected: str | None
) -> None:
    browser.get(f"{address}howto/precision/")
    browser.execute_script(
        "document.querySelector('.md-content').insertAdjacentHTML('beforeend', arguments[0])", put
    )
    faults = browser.execute_script(FAULTS)
    assert [fault.startswith(expected) for fault in faults] == ([True] if expected else [])
    # Empty the log, which reports the picture that is missing on purpose.
    browser.get_log("browser")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_first_visit_has_the_colour_scheme_of_the_system(
    address: str, browser: webdriver.Chrome, scheme: str
) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    # This file does not run the theme's script, which would store a colour scheme.
    browser.get(f"{address}style.css")
    browser.execute_script("localStorage.clear()")
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(address)
    shown = 'return document.body.getAttribute("data-md-color-scheme")'
    # Wait, because the theme's script runs after the page has loaded.
    WebDriverWait(browser, 10).until(lambda opened: opened.execute_script(shown) == SCHEMES[scheme])


def _of_the_repository(message: str, repository: str) -> bool:
    """Return True if a message is about the theme's request for the repository's stars."""
    _, _, path = repository.partition("github.com/")
    return message.startswith(f"https://api.github.com/repos/{path}")
