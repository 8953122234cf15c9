"""Error messages of the library with the names of command-line options: `max_error` becomes `--max-error`.

Only this module translates: the library does not know the options, and the commands catch no errors.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sooner.errors import InvalidArgument

# Arguments of the library that have another name in a command: the first one that the command has is used.
_SYNONYMS = {
    "random_state": ("seed",),
    "directory": ("folder",),
    "name": ("source",),
    "threshold": ("value",),
    "path": ("MODEL", "out"),
    "X": ("calibration", "source"),
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
_NOT_AN_OPTION = {"y": "labels", "calibration_": "calibration series"}
_VALUE = r'"(?P<word>[^"]*)"|(?P<number>\d+(?:\.\d+)?)'
_ARGUMENT = re.compile(rf"""(?<![\w.('"\[{{])(?P<name>[a-z_]+)=(?:{_VALUE})?(?![\w\['(])""")


def cli_message(error: Exception, command: Any, words: Sequence[str]) -> str:
    """The message of an error of the library or the operating system, with the options of the command that was typed."""
    sentence = str(_file_error(error) if isinstance(error, OSError) else error)
    verb = command
    for word in words:
        verb = getattr(verb, "commands", {}).get(word, verb)
    elsewhere = {name: f"{option} (`sooner train`)" for name, option in _options(command.commands["train"]).items()}
    options = _options(verb)
    typed = {option for option in options.values() for word in words if word.partition("=")[0] == option}
    settings = {key: options[name] for key, name in _SETTINGS.items() if options.get(name) in typed}
    return with_options(sentence, {**_NOT_AN_OPTION, **settings, **options}, elsewhere)


def with_options(sentence: str, options: Mapping[str, str], elsewhere: Mapping[str, str]) -> str:
    """The sentence with options instead of arguments; `elsewhere` are options of `sooner train` that the command lacks.

    >>> with_options('`max_error` must be 0, or pass missing="mask".', {"max_error": "--max-error"}, {"missing": "--missing"})
    '`--max-error` must be 0, or pass --missing mask.'
    """

    def option_for(match: re.Match[str]) -> str:
        option, value = options.get(match["name"]), match["word"] or match["number"]
        if option is None and match["name"] not in elsewhere:
            return match[0]
        name, _, command = (option or elsewhere[match["name"]]).partition(" ")
        return " ".join(filter(None, (name, value, command)))

    sentence = re.sub(r"`([^`]+)`", lambda match: f"`{options.get(match[1], match[1])}`", sentence)
    return _ARGUMENT.sub(option_for, sentence)


def _options(verb: Any) -> dict[str, str]:
    """The options of a command, by argument."""
    options = {}
    for param in verb.params:
        option = next((name for name in param.opts if name.startswith("--")), None)
        options[param.name] = option or (param.metavar or param.name).upper()
    known = {**options, **{name: name for name in options.values()}}
    for name, synonyms in _SYNONYMS.items():
        option = next((known[synonym] for synonym in synonyms if synonym in known), None)
        if option is not None:
            options.setdefault(name, option)
    return options


def _file_error(error: OSError) -> Exception:
    """An error of the file system as a sentence."""
    path = "" if error.filename is None else str(error.filename)
    if isinstance(error, FileExistsError | NotADirectoryError) and path:
        return InvalidArgument(path, "a folder, or the name of a new one", "a file", "Name another one.")
    if isinstance(error, FileNotFoundError) and path:
        return InvalidArgument(path, "there", "no such file or folder", "Check the name.")
    if isinstance(error, PermissionError) and path:
        expected, remedy = "readable, or in a folder that may be written to", "Check the file permissions."
        return InvalidArgument(path, expected, "no permission", remedy)
    return error
