"""What the library says about its arguments, in the words of the command line: `max_error` is `--max-error` here.

This is the one place where they are translated: the library knows no options, and the verbs catch nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sooner.errors import InvalidArgument

# What the library calls otherwise than the verbs do, and the parameters of a verb that it may be, the first one there is.
_ALSO = {
    "random_state": ("seed",),
    "directory": ("folder",),
    "name": ("source",),
    "threshold": ("value",),
    "path": ("MODEL", "out"),
}
# Settings that an option stands for as well; a person may have written either.
_SETTINGS = {
    "key in [loss.weights]": "loss",
    "loss.weights": "loss",
    "model.order": "order",
    "training.engine": "engine",
    "training.seed": "seed",
    "training.workers": "workers",
}
_PLAIN = {"y": "labels"}  # what is no option anywhere
_PASSED = re.compile(r"""(?<![\w.('"\[{])(?P<name>[a-z_]+)=(?:"(?P<word>[^"]*)")?(?![\w\['(])""")


def spoken(error: Exception, command: Any, words: Sequence[str]) -> str:
    """The sentence of an error.

    Args:
        error: what the library, or the machine, has raised.
        command: the whole command line, as click knows it.
        words: what was typed behind its name.
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
    """The sentence with options in the place of arguments.

    Args:
        sentence: of the library.
        options: what the verb at hand calls its arguments.
        elsewhere: what another one calls them, for advice on what this one cannot change.

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
    """What a verb calls its arguments on the command line."""
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
    """What a disk refuses, as a sentence."""
    path = "" if error.filename is None else str(error.filename)
    if isinstance(error, FileExistsError | NotADirectoryError) and path:
        return InvalidArgument(path, "a folder, or the name of a new one", "a file", "Name another one.")
    if isinstance(error, PermissionError) and path:
        return InvalidArgument(path, "readable, or in a folder that may be written to", "no permission", "Ask for it.")
    return error
