"""True labels that come later: compared with the decisions, and given to the watch over the promised error."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from sooner.errors import InvalidArgument, SoonerError
from sooner.estimator import EarlyClassifier
from sooner.evaluate import Watch
from sooner.serve.answers import sentence
from sooner.storage import write_whole
from sooner.stream.events import Event

Find: TypeAlias = Callable[[Any, int], Event | None]


class Labels:
    """Compares labels with decisions.

    Args:
        classes: the labels of the model.
        watch: over the promised error; None where nothing is promised.
        find: finds the decision of a series and a run; older ones than it finds get no labels.
        file: a log of the labels that were taken, for a restart; None without a journal.
    """

    def __init__(self, classes: Sequence[Any], watch: Watch | None, find: Find, file: Path | None = None) -> None:
        self.classes, self.watch, self._find, self._file = list(classes), watch, find, file
        self._names = {str(name): name for name in classes}
        self._labelled: set[int] = set()
        self.taken, self.wrong = 0, 0
        if file is not None:
            self._restore(file)

    def take(self, given: Any) -> dict[str, Any]:
        """One label or a list of them; each that cannot be used is returned with the reason."""
        entries = given if isinstance(given, list) else [given]
        rejected, log = [], []
        for line, entry in enumerate(entries, start=1):
            try:
                event, truth = self._matched(entry)
            except SoonerError as error:
                rejected.append({"line": line, "reason": sentence(error)})
                continue
            self._labelled.add(event.id)
            self._count(event.label, truth)
            log.append(json.dumps({"id": event.id, "decided": event.label, "label": truth}) + "\n")
        if self._file is not None and log:
            with self._file.open("a", encoding="utf-8") as file:
                file.write("".join(log))
                file.flush()
                os.fsync(file.fileno())
        return {"taken": len(log), "rejected": rejected}

    def state(self) -> dict[str, Any]:
        """For `/v1/watch`."""
        about = {"labels": self.taken, "errors": self.wrong}
        if self.watch is None or self.watch.promised is None:
            message = "Nothing is promised: certify the threshold with a confidence, or start with --watch 0.05."
            return {"state": "none", "message": message, **about}
        promised = f"an error of at most {100 * self.watch.promised:g}%"
        if self.watch.alarm is not None:
            message = f"Alarm after {self.watch.alarm.after:,} labels: the promise of {promised} does not hold."
            return {"state": "alarm", "message": message, **about}
        message = f"{self.taken:,} labels so far are compatible with {promised}."
        return {"state": "quiet", "message": message, **about}

    def _matched(self, entry: Any) -> tuple[Event, Any]:
        """The decision that a label belongs to, and the class."""
        if not isinstance(entry, Mapping) or "series" not in entry or "label" not in entry:
            remedy = 'For example {"series": "pump-7", "run": 1, "label": "leak"}.'
            raise InvalidArgument("label", "an object with series, run and label", _shown(entry), remedy)
        series, run, truth = entry["series"], entry.get("run", 1), entry["label"]
        known = isinstance(series, str | int | None) and type(run) is int
        event = self._find(series, run) if known else None
        if event is None or event.id in self._labelled:
            got, remedy = f"{_shown(series)}, run {_shown(run)}", "Each decision takes one label."
            raise InvalidArgument("series", "one that was decided and has no label yet", got, remedy)
        if not isinstance(truth, str | int | float) or str(truth) not in self._names:
            expected = f"one of {', '.join(map(repr, self.classes[:20]))}"
            raise InvalidArgument("label", expected, _shown(truth), "Give the class as in training.")
        return event, self._names[str(truth)]

    def _count(self, decided: Any, truth: Any) -> None:
        if self.watch is not None and self.watch.promised is not None:
            self.watch.label(decided, truth)
        self.taken += 1
        self.wrong += truth not in decided if isinstance(decided, tuple) else decided != truth

    def _restore(self, file: Path) -> None:
        """Count the labels in the log again; a log about another promise or other classes is set aside."""
        head = {"promised": None if self.watch is None else self.watch.promised, "classes": self.classes}
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        if not lines or _parsed(lines[0]) != head:
            if lines:
                file.replace(file.with_suffix(".old"))
            write_whole(file, json.dumps(head) + "\n")
            return
        for line in lines[1:]:
            entry = _parsed(line)
            if isinstance(entry, dict):  # the last line may be torn
                decided = tuple(entry["decided"]) if isinstance(entry["decided"], list) else entry["decided"]
                self._labelled.add(entry["id"])
                self._count(decided, entry["label"])
        write_whole(file, "".join(line + "\n" for line in lines if _parsed(line) is not None))


def labels_of(clf: EarlyClassifier, error: float | None, find: Find, file: Path | None) -> Labels:
    """Labels for a classifier; the watch is over its promise, or over the given error."""
    return Labels(clf.classes_.tolist(), _watch_of(clf, error), find, file)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _watch_of(clf: EarlyClassifier, error: float | None) -> Watch | None:
    promise = clf.promise_
    if error is not None:
        return Watch(error)
    if promise is None or promise.risk not in ("error", "balanced_error"):
        return None
    if promise.risk == "error":
        return Watch(promise.level)
    shares = clf.class_counts_ / clf.class_counts_.sum()  # the best guess of the shares to come
    return Watch(promise.level, class_shares=dict(zip(clf.classes_.tolist(), shares.tolist(), strict=True)))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
