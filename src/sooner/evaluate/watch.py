"""Whether a promise about the error still holds, watched for ever with a bounded share of false alarms.

With labels, bets on the losses of the decisions are made against "the error is at most what was promised". Without labels,
statistics of the decisions are compared with those of calibration series by conformal p-values.

========= ============================================================================================
symbol    meaning
========= ============================================================================================
x_n       loss of decision n: 1 if it was wrong; with class shares pi_k, 1 / (K pi_y) if it was wrong
p_n       (#{j < n : v_j > v_n} + U_n #{j <= n : v_j = v_n}) / N_n, over calibration series and earlier ones
delta     probability that any alarm is false, ever; shared equally by the m things that are watched
========= ============================================================================================

A rank among the calibration series alone would give p-values that depend on each other through them, and false alarms in the long
run. Ranks among all earlier values are independent and uniform as long as the series are exchangeable (Vovk, Gammerman, Shafer
2005). To keep the state bounded, values are reduced to bins: a random half of the calibration values sets the edges, and only the
other half is counted, as values that set the edges are not exchangeable with those that come.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sooner.errors import InvalidArgument
from sooner.evaluate.label_sets import ROWS, log_odds_against_of
from sooner.evaluate.wealth import P_VALUE_BETS, Wealth, error_bets, error_factors, p_value_factors
from sooner.inputs import as_between, as_number, as_real, as_seed
from sooner.scores import Scored
from sooner.types import ArrayLike, FloatArray, IntArray

ERROR = "error"
_VERSION = 1
_BINS, _FEWEST = 32, 20
_MASK = 2**64 - 1


@dataclass(frozen=True)
class Alarm:
    """The first sign that a promise no longer holds.

    Attributes:
        what: "error", or the name of the statistic that has drifted.
        after: number of labels, or of values of the statistic, until the alarm.
    """

    what: str
    after: int


class Watch:
    """Watches a promise about the error: `label` takes decisions with their true labels, `see` decisions without labels.

    The probability that any alarm is raised while the promise holds is at most `delta`, however long it is watched. An alarm of
    the error says that the error of the series whose labels came is above the promise: labels must not come more often for wrong
    decisions than for right ones. An alarm of a statistic says that the series are no longer like the calibration series, which
    may or may not cost accuracy.

    Report series in an order that does not depend on them, for example that in which they began. Of many series that run at once
    the easy ones are decided first: in the order of the decisions, the error and the times would seem to rise.

    The state does not grow, and `to_dict` gives it as JSON. Not thread-safe.

    Args:
        error: the promised error, between 0 and 1; None to watch statistics alone.
        delta: probability of a false alarm, ever.
        calibration: values of the statistics at the decisions of calibration series, by name, at least 20 each: for example
            `{"time": decisions.times}`.
        class_shares: the share of each class among the series to come, by label. If given, the balanced error is watched: a wrong
            decision on class k counts 1 / (K share_k). This holds for these shares only. By default the plain share of wrong
            decisions is watched, whatever the shares are.
        seed: for p-values of ties, and for the halves of the calibration values.

    >>> watch = Watch(0.05)
    >>> for _ in range(20):
    ...     watch.label("calm", "calm")
    >>> watch.holds
    True
    >>> [watch.label("calm", "storm") for _ in range(4)][-1]
    Alarm(what='error', after=24)
    """

    def __init__(
        self,
        error: float | None,
        *,
        delta: float = 0.05,
        calibration: Mapping[str, ArrayLike] | None = None,
        class_shares: Mapping[Any, float] | None = None,
        seed: int = 0,
    ) -> None:
        remedy = "It is a fraction: 0.05 means 5%."
        self.delta = as_between(delta, name="delta", low=0.0, high=1.0, remedy=remedy)
        self.promised = None if error is None else as_between(error, name="error", low=0.0, high=1.0, remedy=remedy)
        self._weights = _class_weights(class_shares)
        self._wealth: dict[str, Wealth] = {}
        self._bets = np.zeros(0)
        if self.promised is not None:
            self._bets = error_bets(self.promised)
            self._wealth[ERROR] = Wealth(len(self._bets))
        self._drifts: dict[str, _Drift] = {}
        for index, (name, values) in enumerate((calibration or {}).items()):
            if not isinstance(name, str) or name == ERROR:
                raise InvalidArgument("calibration", "values by name, none of them 'error'", repr(name), "Rename it.")
            self._drifts[name] = _Drift.of(name, values, as_seed(seed) * 1009 + index)
            self._wealth[name] = Wealth(P_VALUE_BETS)
        if not self._wealth:
            remedy = "Give the promised error, or calibration values of a statistic."
            raise InvalidArgument("error", "given where no statistic is watched", "None", remedy)
        self.wrong = 0
        self.alarm: Alarm | None = None

    @property
    def holds(self) -> bool:
        """False once there was an alarm."""
        return self.alarm is None

    @property
    def statistics(self) -> tuple[str, ...]:
        """The names of the watched statistics."""
        return tuple(self._drifts)

    @property
    def labels(self) -> int:
        """Number of labels that came."""
        return self._wealth[ERROR].rounds if ERROR in self._wealth else 0

    @property
    def evidence(self) -> dict[str, float]:
        """Logarithm of the evidence against each thing that is watched; an alarm is raised at `limit`."""
        return {name: wealth.log for name, wealth in self._wealth.items()}

    @property
    def limit(self) -> float:
        """log(m / delta), the evidence at which an alarm is raised."""
        return math.log(len(self._wealth) / self.delta)

    def label(self, decided: Any, truth: Any) -> Alarm | None:
        """The true label of a decision has become known: the alarm, if this raises the first one.

        Args:
            decided: the decided label. A tuple is a label set, wrong if the true label is not in it. None is wrong; do not report
                series without a decision if the promise is about decisions only.
            truth: the true label.
        """
        if self.promised is None:
            raise InvalidArgument("error", "the promised error, to watch labels", "None", "Make a Watch with one.")
        if self._weights is not None and truth not in self._weights:
            got, remedy = repr(truth), "Give the shares of all classes."
            raise InvalidArgument("truth", f"one of {list(self._weights)}", got, remedy)
        wrong = truth not in decided if isinstance(decided, tuple) else decided != truth
        self.wrong += bool(wrong)
        loss = float(bool(wrong)) * (1.0 if self._weights is None else self._weights[truth])
        self._wealth[ERROR].play(error_factors(self._bets, loss, self.promised))
        return self._raised(ERROR)

    def see(self, values: Mapping[str, float]) -> Alarm | None:
        """A decision without a label: the alarm, if this raises the first one.

        Args:
            values: one number for each watched statistic, by name.
        """
        if set(values) != set(self._drifts):
            expected, remedy = f"one number for each of {list(self._drifts)}", "They are those of `calibration`."
            raise InvalidArgument("values", expected, f"{list(values)}", remedy)
        remedy = "It is the value of a statistic at a decision."
        numbers = {
            name: as_number(values[name], name=f"values[{name!r}]", low=-math.inf, remedy=remedy)
            for name in self._drifts
        }
        raised = None
        for name, drift in self._drifts.items():
            self._wealth[name].play(p_value_factors(drift.p_value(numbers[name])))
            raised = raised or self._raised(name)
        return raised

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON; `from_dict` goes on from it."""
        weights = None if self._weights is None else [list(pair) for pair in self._weights.items()]
        return {
            "version": _VERSION,
            "error": self.promised,
            "delta": self.delta,
            "weights": weights,
            "wrong": self.wrong,
            "alarm": None if self.alarm is None else asdict(self.alarm),
            "wealth": {
                name: {"rounds": wealth.rounds, "bets": wealth.bets.tolist() if wealth.rounds else []}
                for name, wealth in self._wealth.items()
            },
            "drifts": {name: asdict(drift) for name, drift in self._drifts.items()},
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> "Watch":
        """The watch of a state that `to_dict` gave."""
        if not isinstance(state, Mapping) or state.get("version") != _VERSION:
            got = f"version {state.get('version')}" if isinstance(state, Mapping) else f"a {type(state).__name__}"
            raise InvalidArgument("state", f"one of version {_VERSION}", got, "Give what `to_dict` returned.")
        watch = cls.__new__(cls)
        watch.promised, watch.delta, watch.wrong = state["error"], state["delta"], state["wrong"]
        watch._weights = None if state["weights"] is None else dict(state["weights"])
        watch._bets = np.zeros(0) if watch.promised is None else error_bets(watch.promised)
        watch._drifts = {name: _Drift(**drift) for name, drift in state["drifts"].items()}
        watch._wealth = {}
        for name, held in state["wealth"].items():
            wealth = watch._wealth[name] = Wealth(len(watch._bets) if name == ERROR else P_VALUE_BETS)
            if held["rounds"]:
                wealth.rounds, wealth.bets = held["rounds"], np.array(held["bets"], dtype=np.float64)
        watch.alarm = None if state["alarm"] is None else Alarm(**state["alarm"])
        return watch

    def __repr__(self) -> str:
        promised = "no error" if self.promised is None else f"an error of {self.promised:g}"
        state = "holds" if self.alarm is None else f"{self.alarm}"
        return f"<Watch of {promised} and {list(self._drifts)}, {self.labels} labels: {state}>"

    def _raised(self, name: str) -> Alarm | None:
        if self.alarm is not None or self._wealth[name].log < self.limit:
            return None
        self.alarm = Alarm(name, self._wealth[name].rounds)
        return self.alarm


def statistics_at(scored: Scored, times: IntArray) -> dict[str, FloatArray]:
    """Statistics of decisions at these times that need no label, for `Watch`.

    `time` is the number of observations read, and `log_odds` the smallest limit with which a label would be left in the label
    set: the largest log-odds so far against the class that is the least excluded. It is large for series like no class.
    """
    known = replace(scored, lengths=np.asarray(times))
    smallest = np.empty(len(known))
    for start in range(0, len(known), ROWS):
        rows = slice(start, start + ROWS)
        smallest[rows] = log_odds_against_of(known, rows).max(axis=1).min(axis=1)
    return {"time": np.asarray(times, dtype=np.float64), "log_odds": smallest}


@dataclass
class _Drift:
    """Smoothed conformal p-values of a statistic, online.

    Args:
        edges: of the bins, ascending; a value belongs to the first bin whose edge it does not exceed, or to the last one.
        counts: how many values so far lie in each bin.
        seed: of the random numbers that break ties; that of a value depends on its number alone.
        seen: values so far, without those of the calibration.
    """

    edges: list[float]
    counts: list[int]
    seed: int
    seen: int = 0

    @classmethod
    def of(cls, name: str, values: ArrayLike, seed: int) -> "_Drift":
        """Edges from one half of the calibration values, counts from the other one."""
        array = as_real(values, name=f"calibration[{name!r}]")
        if array.ndim != 1 or len(array) < _FEWEST or not np.isfinite(array).all():
            got = f"{len(array)} of them" if array.ndim == 1 else f"shape {array.shape}"
            remedy = "They are the values at the decisions of calibration series."
            raise InvalidArgument(f"calibration[{name!r}]", f"at least {_FEWEST} finite numbers", got, remedy)
        array = np.random.default_rng(seed).permutation(array)
        half = len(array) // 2
        edges = np.unique(np.quantile(array[:half], np.arange(1, _BINS) / _BINS, method="lower"))
        counts = np.bincount(np.searchsorted(edges, array[half:]), minlength=len(edges) + 1)
        return cls(edges.tolist(), counts.tolist(), seed)

    def p_value(self, value: float) -> float:
        """The p-value of the next value, small for a large one; the value counts from then on."""
        index = bisect_left(self.edges, value)
        self.counts[index] += 1
        self.seen += 1
        larger, ties = sum(self.counts[index + 1 :]), self.counts[index]
        p = (larger + _uniform(self.seed, self.seen) * ties) / sum(self.counts)
        return min(max(p, 1e-12), 1 - 1e-12)


def _uniform(seed: int, number: int) -> float:
    """A random number in 0..1, ends left out: splitmix64 of the seed and its number, so that no generator is kept."""
    z = (seed * 0xD1342543DE82EF95 + number * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return ((z ^ (z >> 31)) >> 11) / 2**53 + 2**-54


def _class_weights(shares: Mapping[Any, float] | None) -> dict[Any, float] | None:
    """1 / (K share) for each class."""
    if shares is None:
        return None
    remedy = "They are the shares of the classes among the series to come, and add up to 1."
    if not isinstance(shares, Mapping) or len(shares) < 2:
        raise InvalidArgument("class_shares", "a dict from at least 2 labels to shares", repr(shares), remedy)
    numbers = {
        label: as_between(share, name=f"class_shares[{label!r}]", low=0.0, high=1.0, remedy=remedy)
        for label, share in shares.items()
    }
    if not math.isclose(sum(numbers.values()), 1.0, abs_tol=1e-6):
        raise InvalidArgument("class_shares", "shares that add up to 1", sum(numbers.values()), remedy)
    return {label: 1 / (len(numbers) * share) for label, share in numbers.items()}
