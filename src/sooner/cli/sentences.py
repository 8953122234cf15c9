"""Error messages of the library with the names of command-line options: `max_error` becomes `--max-error`.

Only this module translates: the library does not know the options, and the commands catch no errors.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sooner.errors import InvalidArgument

# Arguments of the library that have another name in a command; the first parameter that the command has is used.
_ALSO = {
    "random_state": ("seed",),
    "directory": ("folder",),
    "name": ("source",),
    "threshold": ("value",),
    "path": ("MODEL", "out"),
}
# Settings that can also be given as an option.
_SETTINGS = {
    "key in [loss.weights]": "loss",
    "loss.weights": "loss",
    "model.order": "order",
    "training.engine": "engine",
    "training.seed": "seed",
    "training.workers": "workers",
}
_PLAIN = {"y": "labels"}  # arguments that are no option of any command
_PASSED = re.compile(r"""(?<![\w.('"\[{])(?P<name>[a-z_]+)=(?:"(?P<word>[^"]*)")?(?![\w\['(])""")


def spoken(error: Exception, command: Any, words: Sequence[str]) -> str:
    """The message of an error, with the names of options.

    Args:
        error: the exception of the library or the operating system.
        command: click's root command.
        words: the command-line arguments.
    """
    sentence = str(_of_the_machine(error) if isinstance(error, OSError) else error)
    verb = command
    for word in words:
        verb = getattr(verb, "commands", {}).get(word, verb)
    elsewhere = {name: f"{option} (`sooner train`)" for name, option in _options(command.commands["train"]).items()}
    options = _options(verb)
    typed = {option for option in options.values() for word in words if word.partition("=")[0] == option}
    settings = {key: options[name] for key, name in _SETTINGS.items() if options.get(name) in typed}
    return in_options(sentence, {**_PLAIN, **settings, **options}, elsewhere)


def in_options(sentence: str, options: Mapping[str, str], elsewhere: Mapping[str, str]) -> str:
    """The sentence with options instead of arguments.

    Args:
        sentence: the message of the library.
        options: the options of the current command, by argument.
        elsewhere: options of `sooner train`, for arguments that the current command does not have.

    >>> in_options('`max_error` must be above 0, or pass missing="mask".', {"max_error": "--max-error"}, {"missing": "--missing"})
    '`--max-error` must be above 0, or pass --missing mask.'
    """

    def passed(found: re.Match[str]) -> str:
        option, word = options.get(found["name"]), found["word"]
        if option is None and found["name"] not in elsewhere:
            return found[0]
        name, _, where = (option or elsewhere[found["name"]]).partition(" ")
        return " ".join(filter(None, (name, word, where)))

    sentence = re.sub(r"`([^`]+)`", lambda found: f"`{options.get(found[1], found[1])}`", sentence)
    return _PASSED.sub(passed, sentence)


def _options(verb: Any) -> dict[str, str]:
    """The options of a command, by argument."""
    found = {}
    for each in verb.params:
        option = next((name for name in each.opts if name.startswith("--")), None)
        found[each.name] = option or (each.metavar or each.name).upper()
    there = {**found, **{name: name for name in found.values()}}
    for name, others in _ALSO.items():
        known = next((there[other] for other in others if other in there), None)
        found |= {name: known} if known is not None and name not in found else {}
    return found


def _of_the_machine(error: OSError) -> Exception:
    """An error of the file system as a sentence."""
    path = "" if error.filename is None else str(error.filename)
    if isinstance(error, FileExistsError | NotADirectoryError) and path:
        return InvalidArgument(path, "a folder, or the name of a new one", "a file", "Name another one.")
    if isinstance(error, PermissionError) and path:
        return InvalidArgument(
            path, "readable, or in a folder that may be written to", "no permission", "Check the file permissions."
        )
    return error
