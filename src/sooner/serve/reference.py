"""`/docs`: the OpenAPI document as a page without scripts, so that nothing is fetched from elsewhere."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }
h2 { margin-top: 2.5rem; font-size: 1.1rem } code, pre { font-family: ui-monospace, monospace; font-size: 0.9em }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid #8886; border-radius: 6px }
b.method { display: inline-block; min-width: 4.5rem } table { border-collapse: collapse }
td { padding: 0 1rem 0 0; vertical-align: top }
"""
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
}


def reference_page(document: Mapping[str, Any]) -> str:
    """The page for an OpenAPI document."""
    sections = [
        _section(method, path, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    title, text = escape(document["info"]["title"]), escape(document["info"]["description"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        '<meta name="viewport" content="width=device-width">'
        f'<h1>{title}</h1><p>{text} The same as a document for programs: <a href="openapi.json">openapi.json</a>.</p>'
        f"{''.join(sections)}</html>"
    )


def _section(method: str, path: str, operation: Mapping[str, Any]) -> str:
    parameters = "".join(
        f"<tr><td><code>{escape(each['name'])}</code><td>{escape(each['in'])}<td>{escape(each.get('description', ''))}</tr>"
        for each in operation.get("parameters", ())
    )
    answers = "".join(
        f"<tr><td><code>{escape(status)}</code><td>{escape(each.get('description', ''))}</tr>"
        for status, each in operation.get("responses", {}).items()
    )
    return (
        f'<h2><b class="method">{escape(method.upper())}</b> <code>{escape(path)}</code></h2>'
        f"<p>{escape(operation.get('description', operation.get('summary', '')))}</p>"
        f"<table>{parameters}</table>{_examples(operation)}<table>{answers}</table>"
    )


def _examples(operation: Mapping[str, Any]) -> str:
    contents = operation.get("requestBody", {}).get("content", {})
    examples = [each["example"] for each in contents.values() if "example" in each]
    return "".join(f"<pre>{escape(each if isinstance(each, str) else json.dumps(each))}</pre>" for each in examples)
