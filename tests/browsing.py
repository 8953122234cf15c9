"""A real browser for the pages: Chromium without a screen."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def _browser_path() -> str | None:
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return os.environ.get("SOONER_BROWSER") or next(filter(None, found), None)


def open_browser() -> Iterator[Any]:
    """For a fixture: the browser, or a skipped test where there is none."""
    path = _browser_path()
    if path is None:
        pytest.skip("no browser: install chromium, or name one in SOONER_BROWSER")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: install sooner[dev]")
    # Closed with the module: while it runs, nothing else in this thread can start an event loop.
    with api.sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        yield program
        program.close()
