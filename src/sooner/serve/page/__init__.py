"""The page at `/`: one HTML file with its own style and script, which reads the service it came from."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from starlette.responses import Response


@cache
def _page() -> tuple[str, dict[str, str]]:
    """The page, and headers that let a browser use its own script and style and nothing else."""
    html = files("sooner.serve.page").joinpath("index.html").read_text(encoding="utf-8")
    policy = {
        "default-src": "'none'",
        "script-src": _hashes("script", html),
        "style-src": _hashes("style", html),
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        # Text can then not become HTML or a script at all, whatever the page's own script does.
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return html, {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "cache-control": "no-cache",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }


def _hashes(tag: str, html: str) -> str:
    """The hashes of the contents of all elements with a tag, as a Content-Security-Policy lists them."""
    contents = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    digests = (hashlib.sha256(content.encode()).digest() for content in contents)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def page() -> Response:
    """The answer to `GET /`."""
    html, headers = _page()
    return Response(html, media_type="text/html", headers=headers)
