"""For the reference of the API: the examples in docstrings become blocks of code.

In Markdown, a line that begins with >>> would be a quotation in a quotation in a quotation.
"""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?m)^>>> .*(?:\n.+)*")


class Examples(griffe.Extension):
    """Puts a fence around each example, before its docstring is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called once for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
