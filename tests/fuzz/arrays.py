"""Arrays handed to functions: losses, scores, rules, curves, metrics, bounds, series, and a fitted classifier."""

import math
import random
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import DataConversionWarning

from fuzz.case import Case, Target
from fuzz.models import fitted

NUMBERS = (
    0,
    1,
    -1,
    2,
    0.5,
    1e-300,
    1e300,
    1e38,
    -1e38,
    math.nan,
    math.inf,
    -math.inf,
    2**63,
    -(2**63),
    True,
    None,
    "1",
    "a",
    1j,
)
DTYPES = ("f8", "f4", "f2", ">f8", "i8", "i4", "u1", "u8", "?", "c16", "O", "U3", "M8[s]", "f4", "f8")


def values(chance: random.Random, shape: tuple[int, ...]) -> Any:
    """Numbers of that shape, mostly sound; sometimes one of them is not, or none."""
    array = np.array([chance.gauss(0, 3) for _ in range(math.prod(shape))]).reshape(shape)
    if chance.random() < 0.15 and array.size:
        array.flat[chance.randrange(array.size)] = chance.choice((math.nan, math.inf, -math.inf, 1e300, 1e38, -1e308))
    return array


def whole(chance: random.Random, count: int, most: int) -> Any:
    return np.array([chance.randint(0, most) for _ in range(count)], dtype=np.int64)


def strange(chance: random.Random, value: Any) -> Any:
    """The same, or something like it, or something else."""
    if chance.random() < 0.7:
        return value
    ways: list[Callable[[], Any]] = [
        lambda: value.astype(chance.choice(DTYPES)),
        lambda: value.tolist(),
        lambda: torch.tensor(value, requires_grad=value.dtype.kind == "f"),
        lambda: value[..., None],
        lambda: value[0],
        lambda: value[:0],
        lambda: value[::-1],
        lambda: value.T,
        lambda: np.asfortranarray(value),
        lambda: np.broadcast_to(value, (2, *value.shape)),
        lambda: np.ma.masked_array(value, value > 0),
        lambda: [*value.tolist(), []],
        lambda: list(map(torch.tensor, value)),
        lambda: chance.choice(NUMBERS),
        lambda: [chance.choice(NUMBERS) for _ in range(len(value))],
        lambda: np.array([chance.choice(NUMBERS) for _ in range(len(value))], dtype=object),
        lambda: {"a": value},
        lambda: "text",
        lambda: b"bytes",
        lambda: memoryview(np.ascontiguousarray(value)),
        lambda: iter(value),
        lambda: torch.tensor(value).to_sparse(),
        lambda: torch.tensor(value).bfloat16(),
        lambda: torch.tensor(value, device="meta"),
        lambda: value - 1,
        lambda: value * 1e200 if value.dtype.kind == "f" else value * 2**40,
    ]
    try:
        return chance.choice(ways)()
    except (ValueError, TypeError, IndexError, RuntimeError, OverflowError):
        return value


def scored(chance: random.Random) -> tuple[Any, Any, Any]:
    """Scores, labels and lengths."""
    batch, time, classes = chance.choice((1, 2, 3, 6)), chance.randint(1, 4), chance.choice((2, 2, 3, 4))
    lengths = None if chance.random() < 0.5 else strange(chance, whole(chance, batch, time - 1) + 1)
    return (
        strange(chance, values(chance, (batch, time, classes))),
        strange(chance, whole(chance, batch, classes - 1)),
        lengths,
    )


def _described(*given: Any) -> bytes:
    return repr(given).encode(errors="surrogateescape")


def make_losses(chance: random.Random, _folder: Path) -> Case:
    from losses import definitions
    from sooner.losses import SCORE_LOSSES, multiplet

    name = chance.choice([*SCORE_LOSSES, "multiplet"])
    scores, labels, lengths = scored(chance)
    words: dict[str, Any] = {} if lengths is None else {"lengths": lengths}
    if chance.random() < 0.1:
        words["class_counts"] = strange(chance, whole(chance, chance.choice((2, 3)), 5) + 1)
    if name in ("lsifwc", "barr") and chance.random() < 0.5:
        words["gamma"] = chance.choice(NUMBERS)
    if name in ("cost_sensitive_lsel", "lscel", "nga_lsel", "c_logistic", "logistic_c"):
        size = chance.choice((2, 2, 3))
        shape = (size,) if name == "cost_sensitive_lsel" else (size, size)
        words["costs"] = strange(chance, np.abs(values(chance, shape)))
    if name == "multiplet":
        scores = strange(chance, values(chance, (chance.randint(1, 3), chance.randint(1, 3), chance.randint(1, 3), 2)))
        words = {}

    def run() -> Any:
        return (multiplet if name == "multiplet" else SCORE_LOSSES[name])(scores, labels, **words)

    def judge(loss: Any) -> str | None:
        plain = getattr(definitions, name, None)
        if loss.shape != ():
            return f"a loss of shape {loss.shape}"
        given, truth = tensor_of(scores), tensor_of(labels).long()
        small = bool(given.double().abs().max() < 20) and given.dtype != torch.bfloat16
        if plain is None or words or name == "multiplet" or not small or "ranking" in name:
            return None
        if len(torch.unique(truth)) < given.shape[-1]:
            return None  # what a class without series adds is tested elsewhere
        wanted = plain(definitions.Set(given.detach().double(), truth), *([1.0] if name in ("lsifwc", "barr") else []))
        near = torch.allclose(
            loss.detach().double(), wanted, rtol=2e-2 if given.dtype == torch.float16 else 1e-4, atol=1e-4
        )
        return None if near else f"{name} {float(loss)}, not {float(wanted)}"

    return Case(_described(name, scores, labels, words), run, judge)


def make_rules(chance: random.Random, _folder: Path) -> Case:
    from sooner.rules import MSPRT, FixedTime, LogOdds, Patience, ProbabilityThreshold

    scores, _, lengths = scored(chance)
    threshold: Any = chance.choice((0.0, 1.0, 2.5, *NUMBERS, strange(chance, np.abs(values(chance, (2, 2))))))
    kind = chance.choice((MSPRT, MSPRT, MSPRT, LogOdds, ProbabilityThreshold, FixedTime, Patience))

    def run() -> Any:
        rule = Patience(threshold, MSPRT(1.0)) if kind is Patience else kind(threshold)
        return rule, rule.decide(scores, lengths)

    def judge(found: Any) -> str | None:
        rule, decisions = found
        if kind is not MSPRT or not isinstance(rule.threshold, float):
            return None
        wanted = [_stopped(case, rule.threshold) for case in _cut(scores, lengths)]
        parts = (decisions.labels, decisions.times, decisions.crossed)
        read = list(zip(*(part.tolist() for part in parts), strict=True))
        return None if read == wanted else f"{read}, not {wanted}"

    return Case(_described(kind, threshold, scores, lengths), run, judge)


def _cut(scores: Any, lengths: Any) -> list[Any]:
    """The scores of each series, in the type that they came in: differences are rounded to it."""
    scores = tensor_of(scores)
    scores = scores.detach() if scores.is_floating_point() else scores.double()
    ends = [scores.shape[1]] * len(scores) if lengths is None else tensor_of(lengths).tolist()
    return [case[:end] for case, end in zip(scores, ends, strict=True)]


def tensor_of(value: Any) -> torch.Tensor:
    """Any array-like, with a copy where torch cannot read the memory as it lies."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    array = np.array([np.asarray(part) for part in value]) if isinstance(value, list) else np.array(value)
    return torch.tensor(array.astype(array.dtype.newbyteorder("=")))


def _stopped(case: Any, threshold: float) -> tuple[int, int, bool]:
    case = case.float() if case.dtype == torch.bfloat16 else case  # as stored scores are compared, live and in a batch
    for t, now in enumerate(case, start=1):
        first, second = now.sort(descending=True).values[:2]
        if float(first - second) >= threshold:
            return int(now.argmax()), t, True
    return int(case[-1].argmax()), len(case), False


def make_curves(chance: random.Random, _folder: Path) -> Case:
    from sooner.evaluate import sat_curve

    scores, labels, lengths = scored(chance)

    def judge(curve: Any) -> str | None:
        truths = tensor_of(labels).long().numpy()
        for threshold, time, error in zip(curve.thresholds, curve.mean_times, curve.errors, strict=True):
            made = [_stopped(case, threshold) for case in _cut(scores, lengths)]
            wrong = [np.mean([made[i][0] != k for i in np.flatnonzero(truths == k)]) for k in np.unique(truths)]
            if abs(np.mean([t for _, t, _ in made]) - time) > 1e-9 or abs(np.mean(wrong) - error) > 1e-9:
                return f"({time}, {error}) at {threshold}, not ({np.mean([t for _, t, _ in made])}, {np.mean(wrong)})"
        return None

    return Case(_described(scores, labels, lengths), lambda: sat_curve(scores, labels, lengths=lengths), judge)


@cache
def _functions() -> dict[str, tuple[Callable[..., Any], int]]:
    """Functions of one, two or three arrays whose results need no more than to be there."""
    from sooner import evaluate, scores
    from sooner.evaluate import choose
    from sooner.evaluate import intervals as bands
    from sooner.rules import MSPRT, bounds

    def chosen(x: Any, y: Any, limit: Any) -> Any:
        return choose.choose_rule(MSPRT, x, y, max_error=limit)

    def decisions(x: Any, y: Any) -> Any:
        made = MSPRT(1.0).decide(x)
        return evaluate.average_cost(made, y, lengths=np.full(len(made.times), 4))

    return {
        "m_tandem": (scores.m_tandem, 1),
        "m_tandem_oblivion": (scores.m_tandem_oblivion, 1),
        "margin": (scores.margin, 1),
        "log_odds": (scores.log_odds, 1),
        "ratio_matrix": (scores.ratio_matrix, 1),
        "balanced_error": (evaluate.balanced_error, 2),
        "class_errors": (evaluate.class_errors, 2),
        "mean_time": (evaluate.mean_time, 1),
        "hitting_times": (evaluate.hitting_times, 1),
        "mean_accuracy": (evaluate.mean_accuracy, 2),
        "over_seeds": (evaluate.over_seeds, 1),
        "achieved": (lambda x, y: evaluate.achieved(MSPRT(1.0), x, y), 2),
        "exact_limits": (bands.exact_limits, 2),
        "balanced_limits": (bands.balanced_limits, 2),
        "choose_rule": (chosen, 3),
        "average_cost": (decisions, 2),
        "for_pair_errors": (bounds.for_pair_errors, 1),
        "for_class_errors": (lambda x: bounds.for_class_errors(x, classes=2), 1),
        "for_decision_errors": (lambda x, y: bounds.for_decision_errors(x, weights=y), 2),
        "error_bounds": (lambda x: bounds.error_bounds(x, classes=2), 1),
        "first_order_times": (bounds.first_order_times, 2),
        "least_mean_times": (bounds.least_mean_times, 2),
    }


def make_functions(chance: random.Random, _folder: Path) -> Case:
    name = chance.choice(list(_functions()))
    function, count = _functions()[name]
    batch = chance.randint(1, 4)
    shapes: list[Callable[[], Any]] = [
        lambda: values(chance, (batch, 3, 2)),
        lambda: values(chance, (batch, 2, 2, 2)),
        lambda: whole(chance, batch, 1),
        lambda: np.abs(values(chance, (2, 2))) / 10,
        lambda: values(chance, (batch,)),
    ]
    given = [strange(chance, chance.choice(shapes)()) for _ in range(count)]
    if name in ("achieved", "choose_rule", "average_cost", "mean_accuracy", "balanced_error") and chance.random() < 0.7:
        first = whole(chance, batch, 1) if name == "balanced_error" else values(chance, (batch, 3, 2))
        given[:2] = [strange(chance, first), strange(chance, whole(chance, batch, 1))]
    return Case(_described(name, *given), lambda: function(*given), lambda _result: None)


def make_series(chance: random.Random, _folder: Path) -> Case:
    from sooner.data import Series

    cases, channels, time = chance.randint(2, 5), chance.randint(1, 3), chance.randint(1, 5)
    sound = values(chance, chance.choice(((cases, channels, time), (cases, time))))
    unequal = [values(chance, (channels, chance.randint(1, time))) for _ in range(cases)]
    x: Any = strange(chance, sound) if chance.random() < 0.6 else unequal
    if isinstance(x, list) and x and chance.random() < 0.2:
        x[0] = strange(chance, np.array(x[0]))
    y = strange(chance, np.array([chance.choice(("a", "b", "c")) for _ in range(cases)]))
    words: dict[str, Any] = {"missing": chance.choice(("refuse", "refuse", "mask", "other"))}
    if chance.random() < 0.2:
        words["classes"] = strange(chance, np.array(["a", "b", "c"]))
    if chance.random() < 0.2:
        words["groups"] = strange(chance, whole(chance, cases, 2))

    def judge(series: Any) -> str | None:
        names = None if series.labels is None else series.names(series.labels).tolist()  # which need not be known
        given = np.asarray(y).tolist()  # which makes one type of several, as scikit-learn does
        if names != given:
            return f"labels {names}, not {given}"
        for place, case in enumerate(np.asarray(x) if isinstance(x, memoryview) else x):
            array = tensor_of(case).double().numpy()
            array = array[None] if array.ndim == 1 else array
            wanted = np.nan_to_num(array, nan=0.0) if words["missing"] == "mask" else array
            read = series.observations[place, : array.shape[1], : len(array)].double().numpy().T
            if int(series.lengths[place]) != array.shape[1] or not np.array_equal(read, wanted):
                return f"series {place}: {read.tolist()}, not {wanted.tolist()}"
        return None

    return Case(_described(x, y, words), lambda: Series.from_aeon(x, y, **words), judge)


def _from_scikit_learn(error: BaseException) -> bool:
    """Whether the checks of scikit-learn, which this door calls by its conventions, refused it themselves."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return isinstance(error, ValueError | TypeError) and name.startswith("sklearn.")


def _calmly(run: Callable[[], Any]) -> Any:
    """Without the warnings that belong to an answer: a column of labels is taken, and a rule is near chance."""
    from sooner.errors import NearChance

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataConversionWarning)
        warnings.simplefilter("ignore", NearChance)
        return run()


def make_classifier(chance: random.Random, _folder: Path) -> Case:
    """A fitted classifier: decisions, scores and thresholds."""
    clf = fitted("rocket")
    cases = chance.randint(1, 4)
    sound = values(chance, (cases, 2, chance.randint(1, 10)))
    x: Any = (
        strange(chance, sound)
        if chance.random() < 0.7
        else [values(chance, (2, chance.randint(1, 9))) for _ in range(cases)]
    )
    y, limit = strange(chance, whole(chance, cases, 1)), chance.choice((0.5, 0.1, 1.0, *NUMBERS))
    ways: dict[str, Callable[[], Any]] = {
        "decide": lambda: clf.decide(x),
        "threshold": lambda: clf.decide(x, limit),
        "deadline": lambda: clf.decide(x, deadline=limit),
        "scores": lambda: clf.scores(x),
        "predict_proba": lambda: clf.predict_proba(x),
        "score": lambda: clf.score(x, y),
        "speed_accuracy": lambda: clf.speed_accuracy(x, y),
        "update": lambda: clf.stream().update(x),
    }
    way = chance.choice(list(ways))

    def judge(found: Any) -> str | None:
        if way == "scores" and not np.isfinite(found.scores).all():
            return "scores that are not finite"
        if way == "decide" and not (isinstance(x, np.ndarray) and x.dtype == object):
            alone = [clf.decide(tensor_of(case)[None]) for case in (np.asarray(x) if isinstance(x, memoryview) else x)]
            if [one.labels.tolist() + one.times.tolist() for one in alone] != [
                [label, time] for label, time in zip(found.labels.tolist(), found.times.tolist(), strict=True)
            ]:
                return "another decision where a series is alone"
        return None

    return Case(_described(way, x, y, limit), lambda: _calmly(ways[way]), judge, _from_scikit_learn)


def make_fit(chance: random.Random, _folder: Path) -> Case:
    from sooner import EarlyClassifier

    cases = chance.randint(4, 8)
    x, y = strange(chance, values(chance, (cases, 1, chance.randint(1, 6)))), strange(chance, np.arange(cases) % 2)
    model = chance.choice(("rocket", "prefix", "gru"))
    clf = EarlyClassifier(model=model, max_epochs=1, hidden=2, device="cpu")

    def judge(fitted: Any) -> str | None:
        return None if len(fitted.classes_) >= 2 else "a classifier of one class"

    return Case(_described(model, x, y), lambda: _calmly(lambda: clf.fit(x, y)), judge, _from_scikit_learn)


TARGETS = [
    Target("losses", 4, make_losses),
    Target("rules", 3, make_rules),
    Target("curves", 3, make_curves),
    Target("functions", 4, make_functions),
    Target("series", 4, make_series),
    Target("classifier", 2, make_classifier),
    Target("fit", 0.1, make_fit),
]
