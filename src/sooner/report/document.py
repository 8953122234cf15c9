"""The frame of the pages: one HTML file with its scripts, styles and data, which needs no network."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from sooner.extras import optional


def document(
    body: str,
    *,
    title: str,
    slots: Mapping[str, str],
    about: Mapping[str, object],
    contents: Mapping[str, Any],
    scripts: Sequence[str],
    styles: Sequence[str],
) -> str:
    """The page as text: `slots` fills the `@@slots@@` of the file `body`, and the scripts read `contents`."""
    # plotly's own package takes a second to import.
    with optional("report", "drawn with plotly"):
        from plotly.offline import get_plotlyjs

    plotly, script = get_plotlyjs(), "\n".join(map(_text, scripts))
    versions = {name: version(name) for name in ("sooner", "numpy", "torch", "plotly")}
    rows = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(str(value))}</td></tr>'
        for name, value in {**about, **versions, **about}.items()  # the order of the first, the values of the last
    )
    frame = {
        "policy": _policy(plotly, script),
        "style": "\n".join(map(_text, styles)),
        "title": escape(title),
        "about": rows,
        "made": escape(f"Written by sooner {version('sooner')}. This page contains its data and needs no network."),
        # A "<" can only be inside of a string here, where the escape means the same.
        "contents": json.dumps(contents, allow_nan=False).replace("<", "\\u003c"),
        "plotly": plotly,
        "script": script,
    }
    # All slots are filled in one pass, so that slots in the filled-in text have no effect.
    template = _text("document.html").replace("@@body@@", _text(body))
    return re.sub(r"@@(\w+)@@", lambda slot: {**frame, **slots}[slot[1]], template)


def _text(name: str) -> str:
    return files("sooner.report").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """A Content-Security-Policy that allows no network and only the page's own scripts, by their hashes."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
