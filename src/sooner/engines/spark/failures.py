"""What went wrong in a query of Spark, as the error of sooner that its workers raised."""

import re

from sooner.errors import InvalidArgument, SoonerError

_RAISED = re.compile(r"^sooner\.[\w.]+: (.*)$", re.MULTILINE)
_SHARDS = re.compile(r"of_(\d+)_shards_0.* and new value_schema=.*?of_(\d+)_shards_0", re.DOTALL)


def reason(error: BaseException) -> SoonerError | None:
    """The error of sooner behind an exception of Spark; None for other ones.

    >>> print(reason(RuntimeError("[X] Job aborted.\\nsooner.errors.InvalidArgument: `time` must be later.\\n at java.lang")))
    `time` must be later.
    """
    text = str(error)
    if (found := _RAISED.search(text)) is not None:
        return SoonerError(found[1])
    if "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE" in text and (found := _SHARDS.search(text)) is not None:
        remedy = "An ID would lose its state: name another checkpoint to begin anew."
        return InvalidArgument("shards", f"{found[1]}, as in the checkpoint", found[2], remedy)
    return None
