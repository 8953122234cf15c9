"""A real browser for the page: Chromium without a screen, and an ear for everything it complains about or asks for."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browsing import open_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from open_browser()


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
