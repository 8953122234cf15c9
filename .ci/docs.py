"""Builds the documentation into `site/`, and looks at what came out (`make docs`).

No page asks another site for a file, examples are blocks of code, headings of the API carry their module, no two entries of its
tables of contents are the same, and search works from a disk; the last is tried in a browser where there is one.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser

ROOT = pathlib.Path(__file__).parents[1]
FETCHED = re.compile(r"""<(?:script|link|img|iframe)[^>]*(?:src|href)="https?://(?!localhost)""")
EMPTY = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr")
SOUGHT = "MSPRT"


class Page(HTMLParser):
    """What stands in a page: prompts and quotations outside of code, headings of the third level, and the table of contents."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.prompts: list[str] = []
        self.quotations: list[str] = []
        self.headings: list[str] = []
        self.contents: dict[str, str] = {}
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag opens."""
        if tag not in EMPTY:
            self._open.append((tag, dict(attrs)))
        if tag == "h3":
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        """A tag closes, and those in it that need not be closed."""
        while any(name == tag for name, _ in self._open) and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Text, somewhere."""
        tags = [name for name, _ in self._open]
        code = "pre" in tags or "code" in tags
        if not code and "blockquote" in tags and data.strip():
            self.quotations.append(" ".join(data.split())[:60])
        if not code and ">>>" in data and "script" not in tags:
            self.prompts.append(" ".join(data.split())[:60])
        if "h3" in tags:
            self.headings[-1] += data
        for tag, attributes in self._open:
            link = attributes.get("href") or ""
            if tag == "a" and attributes.get("class") == "md-nav__link" and link.startswith("#") and data.strip():
                self.contents.setdefault(link, data.strip())


def built(folder: pathlib.Path) -> None:
    """Build the site; a warning is an error."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(words, cwd=ROOT, env=environment, check=True)


def faults(folder: pathlib.Path) -> list[str]:
    """What is wrong with a site, a line for each fault."""
    found = []
    for path in sorted(folder.rglob("*.html")):
        name, text = str(path.relative_to(folder)), path.read_text(encoding="utf-8")
        page = Page(text)
        found += [f"{name} asks another site: {tag}" for tag in FETCHED.findall(text)]
        found += [f"{name} has an example that is no block of code: {line}" for line in page.prompts]
        if path.parent.name == "api":
            found += faults_of_reference(name, page)
    if not (folder / "search" / "search_index.js").is_file():
        found.append("there is no index for a search from a disk")
    return found + ([] if searched(folder) in (True, None) else [f"a search from a disk does not find {SOUGHT}"])


def faults_of_reference(name: str, page: Page) -> list[str]:
    """What is wrong with a page of the API."""
    headings = [" ".join(heading.split()) for heading in page.headings]
    nameless = [heading for heading in headings if not re.match(r"(\w+ )?sooner\.", heading)]
    # Methods stand below their class, and may be called alike.
    own = {heading.split()[0] for heading in headings}
    labels = [label for link, label in page.contents.items() if link.removeprefix("#") in own]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    return [
        # Markdown takes the three signs of a prompt for three quotations; nothing else is quoted there.
        *(f"{name} has an example that is a quotation: {line}" for line in page.quotations),
        *(f"{name} has a heading without its module: {heading}" for heading in nameless),
        *(f"{name} has two entries called {label} in its table of contents" for label in twice),
    ]


def searched(folder: pathlib.Path) -> bool | None:
    """Whether a search finds something when the site is opened from a disk; None without a browser."""
    browser = os.environ.get("SOONER_BROWSER") or shutil.which("chromium")
    if browser is None:
        print("no browser: the search from a disk was not tried")
        return None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        words += ["--disable-background-networking", f"--user-data-dir={profile}"]
        words += [
            "--virtual-time-budget=20000",
            "--dump-dom",
            f"{(folder / 'index.html').resolve().as_uri()}?q={SOUGHT}",
        ]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    return re.search(r"[0-9]+ matching documents", ended.stdout) is not None


if __name__ == "__main__":
    built(ROOT / "site")
    wrong = faults(ROOT / "site")
    sys.exit("\n".join(wrong) or 0)
