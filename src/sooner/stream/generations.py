"""Runs of several models: when the model is changed, new series take the new one, and open ones end with theirs."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from sooner.errors import InvalidArgument
from sooner.rules.base import Rule
from sooner.stream.batch import ArrivalBatch
from sooner.stream.events import Ended
from sooner.stream.fleet import Key
from sooner.stream.runs import Processed, Runs, Verdict
from sooner.stream.settings import LiveSettings
from sooner.types import FloatArray, IntArray


class Generations:
    """The runs of the newest model, and those of older models that are still open. Its methods are those of `Runs`.

    What is known of closed IDs is with the newest model, so that a run of an older one is gone from there when it ends.

    Args:
        newest: the runs of the newest model.
        model: its name.

    Attributes:
        older: the runs of older models, with their names, in the order of the changes; each has open series.
    """

    def __init__(self, newest: Runs, model: str) -> None:
        self.newest, self.model = newest, model
        self.older: list[tuple[str, Runs]] = []

    def __len__(self) -> int:
        return sum(len(runs.fleet) for runs in self)

    def __iter__(self) -> Iterator[Runs]:
        yield from (runs for _, runs in self.older)
        yield self.newest

    def __contains__(self, key: Key) -> bool:
        return any(key in runs.fleet for runs in self)

    def check(self, newest: Runs) -> None:
        """Refuse runs that cannot replace the newest ones."""
        ours, theirs = self.newest.fleet.classes, newest.fleet.classes
        if ours != theirs:
            remedy = "Its decisions would be about something else."
            raise InvalidArgument("source", f"a model of the classes {list(ours)}", f"{list(theirs)}", remedy)

    def replace(self, newest: Runs, model: str) -> None:
        """Give new series another model."""
        before = self.newest
        newest.inherit(before)
        if len(before.fleet):
            self.older.append((self.model, before))
        self.newest, self.model = newest, model

    def set_rule(self, rule: Rule) -> None:
        """Change the rule of the newest model, and that of older ones that can go on with it."""
        self.newest.fleet.rule = rule
        for _, runs in self.older:
            with suppress(InvalidArgument):
                runs.fleet.rule = rule

    @property
    def settings(self) -> LiveSettings:
        """When runs end."""
        return self.newest.settings

    def take(self, batch: ArrivalBatch, now: float) -> Processed:
        """Process some arrivals, any number for each series, in their order."""
        if not self.older:
            return self.newest.take(batch, now)
        whole = Processed(batch, rejected=list(batch.rejected))
        for wave in batch.waves():
            shares: dict[int, list[int]] = {}
            for index in wave:
                shares.setdefault(self._place(batch.keys[index]), []).append(index)
            generations = list(self)
            for place, indices in shares.items():
                runs = generations[place]
                whole.add(runs.take(batch.part(np.array(indices)), now), indices)
                self._hand_over(runs, [batch.keys[index] for index in indices])
        return whole

    def next_due(self) -> float | None:
        """When the next run ends by silence or by its deadline in seconds, if nothing comes; None for never."""
        return min((due for runs in self if (due := runs.next_due()) is not None), default=None)

    def due(self, now: float) -> dict[Key, Ended]:
        """The IDs whose silence or deadline in seconds is over; those of older models first."""
        return {key: ended for runs in self for key, ended in runs.due(now).items()}

    def end(self, ends: dict[Key, Ended]) -> list[Verdict]:
        """End some open runs."""
        if not self.older:
            return self.newest.end(ends)
        verdicts: dict[Key, Verdict] = {}
        for runs in list(self):
            own = {key: ended for key, ended in ends.items() if key in runs.fleet}
            verdicts |= {verdict.key: verdict for verdict in runs.end(own)}
            self._hand_over(runs, list(own))
        return [verdicts[key] for key in ends]

    def all(self) -> list[Key]:
        """The IDs of all open runs, in the order in which they began."""
        return [key for runs in self for key in runs.all()]

    def unknown(self, keys: Sequence[Key]) -> list[Key]:
        """The IDs among these of which no series is open or closed, each once, in their order."""
        decided, rows = self.newest.fleet.decided, self.newest.rows.rows_of(keys)
        fresh = dict.fromkeys(keys[index] for index in np.flatnonzero(rows < 0).tolist())
        return [key for key in fresh if key not in decided and not (self.older and key in self)]

    def knows(self, key: Key) -> bool:
        """Whether anything is known of an ID."""
        return any(runs.knows(key) for runs in self)

    def forget(self, key: Key) -> None:
        """Forget an ID, open or closed."""
        for runs in list(self):
            if runs.knows(key):
                runs.forget(key)
        self._drop_empty()

    def number(self, key: Key) -> int:
        """The number of the run of an open ID."""
        return self._of(key).number(key)

    def peek(self, keys: Sequence[Key]) -> tuple[FloatArray, IntArray]:
        """Of some open series: (keys, classes), their newest scores, and (keys,), how many observations were read."""
        if not self.older or not keys:
            return self.newest.rows.peek(keys)
        found = [self._of(key).rows.peek([key]) for key in keys]
        return np.concatenate([scores for scores, _ in found]), np.concatenate([ages for _, ages in found])

    def times(self, keys: Sequence[Key]) -> tuple[list[float], list[float]]:
        """When some open series began, and when they were last seen."""
        if not self.older:
            rows, stamps = self.newest.rows.rows_of(keys), self.newest.stamps
            return stamps.opened[rows].tolist(), stamps.seen[rows].tolist()
        places = [(self._of(key).stamps, int(self._of(key).rows.rows_of([key])[0])) for key in keys]
        return [float(stamps.opened[row]) for stamps, row in places], [
            float(stamps.seen[row]) for stamps, row in places
        ]

    def silent_since(self, now: float) -> None:
        """Count the silence of all open series from now on."""
        for runs in self:
            runs.silent_since(now)

    def change(self, settings: LiveSettings) -> None:
        """Use other settings from now on."""
        for runs in self:
            runs.change(settings)

    def to_json(self) -> dict[str, Any]:
        """All that is known beside the fleet of the newest model, as JSON types."""
        return self.newest.to_json()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `to_json` gave, after the fleet was restored."""
        self.newest.restore(state)

    def _of(self, key: Key) -> Runs:
        """The runs that an open ID belongs to; the newest ones for others."""
        return next((runs for runs in self if key in runs.fleet), self.newest)

    def _place(self, key: Key) -> int:
        """The index of the runs that take the next observation of an ID."""
        return next((place for place, (_, runs) in enumerate(self.older) if key in runs.fleet), len(self.older))

    def _hand_over(self, runs: Runs, keys: Sequence[Key]) -> None:
        """Tell the newest runs of IDs that have ended in older ones."""
        if runs is not self.newest:
            self.newest.inherit(runs, [key for key in keys if key not in runs.fleet])
            self._drop_empty()

    def _drop_empty(self) -> None:
        self.older = [(name, runs) for name, runs in self.older if len(runs.fleet)]
