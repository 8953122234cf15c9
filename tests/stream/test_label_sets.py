"""Label sets of live series: the sets of the batch, at every observation, at the end, and after a restart."""

import json

import numpy as np
import pytest
import torch

from sooner import checks
from sooner.errors import InvalidArgument, UnknownName
from sooner.estimator.dial import decided
from sooner.evaluate import label_sets
from sooner.models import Recurrent
from sooner.rules import MSPRT, SingleLabel
from sooner.scores import Scored, log_odds_against
from sooner.stream import Decision, Fleet, Stream, decisions_of

with torch.random.fork_rng(devices=[]):
    torch.manual_seed(2)  # one whose scores decide some series by their ends, and not others
    MODEL = Recurrent((2,), 4, hidden=5, order=2).eval()
    # After MODEL: which models there are depends on the tests that were imported before, and so do their weights.
    MODELS = [model.eval() for model in checks.models() if type(model).__module__.startswith("sooner.")]
NAMES, SERIES, TIME = np.array(["d", "c", "b", "a"]), 8, 7


def case(model, seed=0):
    """Observations, lengths, scores, and a limit in a wide gap of their log-odds, so that rounding decides nothing."""
    random = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(SERIES, TIME, *model.features, generator=random)
    lengths = torch.randint(1, TIME + 1, (SERIES,), generator=random)
    with torch.no_grad():
        scores = model.scores(x, lengths)
    values = log_odds_against(scores).flatten().unique()
    middle = values[2 * len(values) // 3 : 9 * len(values) // 10]
    widest = int(middle.diff().argmax())
    return x, lengths, scores, float(middle[widest : widest + 2].mean())


def between(scores):
    margins = MSPRT.statistic(scores).flatten().double().sort().values
    return MSPRT(float(margins[-6:-4].mean()))


@pytest.mark.parametrize("place", range(len(MODELS)), ids=lambda place: f"{type(MODELS[place]).__name__}{place}")
def test_live_sets_are_those_of_the_batch_for_every_model(place):
    model = MODELS[place]
    x, lengths, scores, limit = case(model)
    sets = label_sets(scores, limit, lengths=lengths)
    fleet = Fleet(model, MSPRT(np.inf), limit=limit)
    for t in range(TIME):
        going = [key for key in range(SERIES) if t < lengths[key]]
        fleet.update({key: x[key, t] for key in going})
        assert [fleet.labels(key) for key in going] == [sets.at(t + 1)[key] for key in going]


@pytest.mark.parametrize("deadline", [None, 3])
@pytest.mark.parametrize("single", [False, True], ids=["msprt", "single label"])
def test_the_sets_at_the_end_of_live_series_are_those_of_the_batch(single, deadline):
    x, lengths, scores, limit = case(MODEL)
    rule = SingleLabel(limit, 4) if single else between(scores)
    live, options = [], {"classes": NAMES, "deadline": deadline, "at_end": "set", "limit": limit}
    for series, length in zip(x, lengths.tolist(), strict=True):
        stream = Stream(MODEL, rule, **options)
        for now in series[:length]:
            if stream.update(now):
                break
        live.append(stream.finish())
    scored = Scored.of(scores, lengths=lengths)
    batch = decided(rule, scored, NAMES, deadline, "set", limit)
    assert [d.label for d in live] == batch.labels.tolist()
    assert [d.time for d in live] == batch.times.tolist()
    assert [d.crossed for d in live] == batch.crossed.tolist()
    ends = [d.label for d in live if not d.crossed]
    assert ends
    assert all(isinstance(names, tuple) and list(names) == [name for name in NAMES if name in names] for names in ends)
    if single:
        assert all(len(names) > 1 for names in ends)


def test_the_set_never_grows_and_is_gone_after_the_decision():
    x, _, _, limit = case(MODEL)
    decisions = []
    for series in x:
        stream, before = Stream(MODEL, SingleLabel(limit, 4), classes=NAMES, limit=limit), set(NAMES)
        assert stream.labels is None
        for now in series:
            if stream.update(now):
                break
            assert 1 < len(stream.labels) <= len(before)
            assert set(stream.labels) <= before
            before = set(stream.labels)
        decisions.append(stream.finish())
        assert stream.labels is None
    assert any(decision.crossed for decision in decisions)


def test_no_class_is_left_where_no_known_one_explains_the_series():
    """Scores that first exclude the second class, then the first one."""

    class Turning(Recurrent):
        def step(self, state, observations):
            return super().step(state, observations)._replace(scores=torch.cat([observations, -observations], dim=1))

    model = Turning((1,), 2, hidden=2, order=1).eval()
    stream = Stream(model, MSPRT(np.inf), limit=2.0, at_end="set", classes=["x", "y"])
    for value, labels in ((0.5, ("x", "y")), (2.0, ("x",)), (-2.0, ())):
        stream.update([value])
        assert stream.labels == labels
    assert stream.finish() == Decision((), 3, False)
    alone = Stream(model, SingleLabel(2.0, 2), classes=["x", "y"])
    alone.update([0.5])
    both = Stream(model, SingleLabel(-10.0, 2), classes=["x", "y"])
    assert both.update([0.5]) == Decision(None, 1, True)  # crossed: the rule said so, not the end
    assert alone.finish() == Decision("x", 1, False)


def test_a_snapshot_goes_on_with_the_same_sets():
    x, lengths, scores, limit = case(MODEL)
    options = {"classes": NAMES, "at_end": "set", "limit": limit}
    fleet, again = (Fleet(MODEL, between(scores), **options) for _ in range(2))
    for t in range(2):
        fleet.update({key: x[key, t] for key in range(SERIES) if t < lengths[key] and key not in fleet.decided})
    for key in range(SERIES):
        if lengths[key] <= 2:
            fleet.finish(key)
    assert any(isinstance(decision.label, tuple) for decision in fleet.decided.values())
    again.restore(fleet.snapshot())
    assert dict(again.decided) == dict(fleet.decided)
    assert [again.labels(key) for key in again.keys()] == [fleet.labels(key) for key in fleet.keys()]  # noqa: SIM118
    for t in range(2, TIME):
        now = {key: x[key, t] for key in range(SERIES) if t < lengths[key] and key not in fleet.decided}
        assert again.update(now) == fleet.update(now)
    assert again.finish_all() == fleet.finish_all()


@pytest.mark.parametrize("limit", [None, 2.5])
def test_a_snapshot_under_another_limit_is_refused(limit):
    fleet = Fleet(MODEL, MSPRT(9.0), limit=1.5)
    fleet.update({"a": [0.0, 1.0]})
    with pytest.raises(InvalidArgument, match=r"`limit` must be that of the snapshot, 1\.5, got"):
        Fleet(MODEL, MSPRT(9.0), limit=limit).restore(fleet.snapshot())


def test_lines_have_a_list_of_labels():
    x, _, _, limit = case(MODEL)
    fleet = Fleet(MODEL, MSPRT(np.inf), classes=NAMES, at_end="set", limit=limit)
    records = list(decisions_of([json.dumps({"series": "s", "x": now.tolist()}) for now in x[1]], fleet))
    read = json.loads(json.dumps(records[0]))
    assert read["label"] == [name for name in NAMES if name in read["label"]]
    assert read["crossed"] is False


def test_what_needs_a_limit_says_so():
    with pytest.raises(InvalidArgument, match=r'`limit` must be given with at_end="set", got None'):
        Fleet(MODEL, MSPRT(1.0), at_end="set")
    with pytest.raises(InvalidArgument, match=r"`limit` must be a number, got nan"):
        Fleet(MODEL, MSPRT(1.0), limit=np.nan)
    with pytest.raises(UnknownName, match="`at_end` must be one of 'abstain', 'force', 'set', got 'guess'"):
        Fleet(MODEL, MSPRT(1.0), at_end="guess", limit=1.0)
    fleet = Fleet(MODEL, MSPRT(9.0))
    fleet.update({"a": [0.0, 1.0]})
    with pytest.raises(InvalidArgument, match="`limit` must be given to read label sets, got None"):
        fleet.labels("a")
    with pytest.raises(InvalidArgument, match="`key` must be that of an open series, got 'b'"):
        fleet.labels("b")


def test_label_sets_cost_a_number_for_each_class():
    plain, sets = Fleet(MODEL, MSPRT(9.0)), Fleet(MODEL, MSPRT(9.0), limit=1.0)
    assert sets.bytes_per_stream - plain.bytes_per_stream == 8 * 4
