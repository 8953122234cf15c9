"""Live series between machines: their state as bytes, which an engine keeps and hands to the next process."""

from sooner.errors import InvalidArgument
from sooner.stream.fleet import Fleet, Key
from sooner.stream.journal.state import SavedState, packed_state, unpacked_state
from sooner.stream.live import LiveSeries
from sooner.stream.settings import LiveSettings
from sooner.stream.sources import Streamable, saved_runs


class CarriedSeries(LiveSeries):
    """Live series whose state an engine keeps: instead of a journal, `state` gives it as bytes after some arrivals.

    The same state and the same arrivals at the same times lead to the same events, with the same numbers.

    Args:
        source: a fitted classifier. Its weights and class names must be those of the state; its rule may be another one, and
            is then taken from the next observation on.
        settings: when series end; `deadline`, `at_end` and `coverage` must be those of the state.
        state: what `state` gave; None for new live series.
        now: the time at which new live series start, in seconds.

    >>> from sooner.models import FrameClassifier
    >>> from sooner.models.image.encoders import Identity
    >>> from sooner.rules import MSPRT
    >>> from sooner.stream import Arrival, Fleet
    >>> model = FrameClassifier(Identity((2,)), 2).eval()
    >>> def fleet():
    ...     return Fleet(model, MSPRT(3.0))
    >>> live = CarriedSeries(fleet(), LiveSettings())
    >>> live.take([Arrival(1, "", "north", [0.0, 2.0], None, False)], now=0.0).accepted
    1
    >>> CarriedSeries(fleet(), LiveSettings(), live.state()).finish("north", now=1.0).time
    1
    """

    def __init__(
        self,
        source: Streamable | Fleet,
        settings: LiveSettings,
        state: bytes | None = None,
        *,
        now: float = 0.0,
    ) -> None:
        super().__init__(source, settings, now=now)
        if state is not None:
            rule = self.rule
            self._continue(state, settings)
            if self.rule != rule:
                self.set_rule(rule, self._now)

    def state(self) -> bytes:
        """Everything that is known of the series, open and closed."""
        newest = saved_runs(self.model, self._runs.newest)()
        return packed_state(SavedState(newest, self.settings, self._now, self.last_id, self.delivered, []))

    def hear(self, keys: list[Key], now: float) -> None:
        """Note that these IDs are not silent: the observations that came of them are still to be taken."""
        runs = self._runs.newest
        rows = runs.rows.rows_of(keys)
        runs.stamps.seen[rows[rows >= 0]] = now

    def silent_since(self, now: float) -> None:
        """Count the silence of all open series from now on, as after a time in which nothing could arrive."""
        self._clock(now)
        self._runs.silent_since(self._now)

    def _continue(self, state: bytes, settings: LiveSettings) -> None:
        try:
            self._resume(unpacked_state(state))
        except InvalidArgument as error:
            raise error.about("state") if error.argument in ("journal", "snapshot") else error from None
        self._runs.change(settings)
