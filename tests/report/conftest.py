"""A real browser for the page: Chromium without a screen, and an ear for everything it complains about or asks for."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = _browser_path()
    if path is None:
        pytest.skip("no browser: install chromium, or name one in SOONER_BROWSER")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: install sooner[dev]")
    # Closed with the module: while it runs, nothing else in this process can start an event loop.
    with api.sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        yield program
        program.close()


@pytest.fixture(scope="module")
def show(browser: Any) -> Callable[..., Any]:
    """Opens a page from its file; its `noise` is whatever it complained of or asked for since."""

    def opened(path: Path, *, width: int = 1280, height: int = 900, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, offline=True)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.noise = []
        own = path.resolve().as_uri()
        page.on("console", lambda message: page.noise.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.noise.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (page.noise.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: page.noise.append(f"request: {request.url}") if request.url != own else None)
        page.goto(own)
        page.wait_for_selector("html[data-ready]")
        return page

    return opened
