"""The page at `/`: one HTML file with its own style and script, which reads the service it came from."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from starlette.responses import Response

_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


@cache
def _page() -> tuple[str, dict[str, str]]:
    """The page, and headers that let a browser execute its own scripts and nothing else."""
    html = files("sooner.serve.page").joinpath("index.html").read_text(encoding="utf-8")
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in _SCRIPT.findall(html)]
    scripts = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    policy = {
        "default-src": "'none'",
        "script-src": scripts,
        "style-src": "'unsafe-inline'",
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return html, {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "cache-control": "no-cache",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }


def page() -> Response:
    """The answer to `GET /`."""
    html, headers = _page()
    return Response(html, media_type="text/html", headers=headers)
