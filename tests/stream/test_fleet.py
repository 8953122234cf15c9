"""The shell around the fold: keys, endings, errors that lose nothing, rules that change, and what a series costs."""

import math

import numpy as np
import pytest
import torch

from sooner.data import Series, Standardizer
from sooner.errors import InvalidArgument
from sooner.models import FrameClassifier, PrefixScorer, Recurrent
from sooner.models.image.encoders import Identity
from sooner.rules import MSPRT, FixedTime, Patience, ProbabilityThreshold
from sooner.series import with_mask
from sooner.stream import Decision, Fleet, Stream

UP, DOWN = [2.0, 0.0], [0.0, 2.0]


def evidence(channels=2):
    """A model whose scores are the sums of what it observes."""
    model = FrameClassifier(Identity((channels,)), 2).eval()
    model.head.weight.data.copy_(torch.eye(2, channels))
    return model


def fleet_of(threshold=3.0, **options):
    return Fleet(evidence(), MSPRT(threshold), classes=["up", "down"], **options)


def said_by(doing):
    with pytest.raises(InvalidArgument) as caught:
        doing()
    return str(caught.value)


def everything(fleet):
    return {key: fleet.scores(key).tolist() for key in fleet.keys()}, dict(fleet.decided)  # noqa: SIM118


def test_a_series_opens_by_itself_and_closes_with_its_decision():
    fleet = fleet_of()
    assert fleet.update({"a": UP, 7: DOWN}) == {}
    assert (len(fleet), "a" in fleet, 7 in fleet, list(fleet.keys())) == (2, True, True, ["a", 7])
    assert fleet.update({"a": UP, "b": UP}) == {"a": Decision("up", 2, True)}
    assert ("a" in fleet, set(fleet.keys())) == (False, {7, "b"})
    assert fleet.decided == {"a": Decision("up", 2, True)}
    assert repr(fleet) == "<Fleet of 2 open and 1 decided series, MSPRT(threshold=3.0)>"


def test_an_update_never_forces_and_an_empty_one_does_nothing():
    fleet = fleet_of(math.inf)
    assert [fleet.update({"a": UP}) for _ in range(50)] == [{}] * 50
    assert fleet.update({}) == {}
    assert fleet.finish("a") == Decision("up", 50, False)


def test_a_finished_series_keeps_its_decision():
    fleet = fleet_of()
    fleet.update({"a": DOWN, "b": UP})
    assert fleet.finish("a") == fleet.finish("a") == Decision("down", 1, False)
    fleet.update({"b": UP})
    assert fleet.finish("b") == Decision("up", 2, True)
    assert fleet.finish_all() == {}


def test_a_forgotten_key_begins_anew():
    fleet = fleet_of()
    fleet.update({"a": UP, "b": DOWN})
    fleet.forget("a")
    assert fleet.update({"a": UP}) == {}
    assert fleet.update({"a": UP}) == {"a": Decision("up", 2, True)}
    fleet.forget("a")
    assert fleet.decided == {}
    assert fleet.update({"a": DOWN}) == {}
    assert fleet.scores("b").tolist() == DOWN


def test_labels_are_the_names_that_were_given():
    names = np.array(["cat", "dog"])
    fleet = Fleet(evidence(), MSPRT(1.0), classes=names)
    label = fleet.update({"a": DOWN})["a"].label
    assert label == "dog"
    assert type(label) is str
    assert Fleet(evidence(), MSPRT(1.0), classes=torch.tensor([3, 9])).update({"a": UP})["a"].label == 3
    assert Fleet(evidence(), MSPRT(1.0)).update({"a": DOWN})["a"].label == 1


def test_an_offset_shifts_the_scores_before_the_rule_sees_them():
    fleet = fleet_of(offset=[0.0, 1.0])
    assert fleet.update({"a": UP, "b": DOWN}) == {"b": Decision("down", 1, True)}
    assert fleet.scores("a").tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    "x", [[2, 0], (2.0, 0.0), np.float32([2, 0]), torch.tensor([2.0, 0.0]), np.array([2, 0], ">i2")]
)
def test_observations_come_as_lists_arrays_or_tensors(x):
    fleet = fleet_of()
    fleet.update({"a": x})
    fleet.update({"b": UP, "c": x, "d": torch.tensor([2, 0])})
    assert {tuple(fleet.scores(key)) for key in "abcd"} == {(2.0, 0.0)}
    fleet.update({"e": np.ones(2), "f": x})
    assert fleet.scores("f").tolist() == [2.0, 0.0]


def test_a_number_is_an_observation_of_one_channel():
    stream = Stream(evidence(channels=1), MSPRT(3.0), classes=["up", "down"])
    assert stream.update(2) is None
    assert stream.update(np.float64(1.5)) == Decision("up", 2, True)


def test_a_sender_may_use_its_memory_again():
    seen, model = [], evidence()
    step, memory = model.step, np.array([1.0, 0.0])
    model.step = lambda state, x: seen.append(x) or step(state, x)
    stream = Stream(model, MSPRT(9.0))
    stream.update(memory)
    tensor = torch.tensor([1.0, 0.0])
    stream.update(tensor)
    memory[:], tensor[:] = -1.0, -1.0
    assert [x.tolist() for x in seen] == [[[1.0, 0.0]]] * 2


def test_what_arrives_is_prepared_as_it_was_for_the_batch():
    random = np.random.default_rng(0)
    raw = random.normal(5.0, 3.0, size=(4, 6, 3))
    raw[random.random(raw.shape) < 0.2] = np.nan
    masked = Series.from_arrays(raw, [0, 1, 0, 1], missing="mask")
    standard = Standardizer.fit(masked)
    model, rule = Recurrent((6,), 2, hidden=4, order=2).eval(), FixedTime(5)
    fleet = Fleet(model, rule, prepare=lambda x: standard.apply_step(with_mask(x)))
    for t in range(4):
        assert fleet.update({key: raw[key, t] for key in range(4)}) == {}
    with torch.no_grad():
        scores = model.scores(standard.apply(masked).observations)
    np.testing.assert_allclose([fleet.scores(key) for key in range(4)], scores[:, 3], rtol=1e-5, atol=1e-6)


def test_only_open_series_are_computed_and_only_those_that_are_named():
    rows, model = [], evidence()
    step = model.step
    model.step = lambda state, x: rows.append((len(state[0]), len(x))) or step(state, x)
    fleet = Fleet(model, MSPRT(3.0))
    for wave in range(3):
        fleet.update({(key := f"{wave}-{i}"): UP for i in range(10)})
        fleet.update({f"{wave}-{i}": UP for i in range(9)})
    fleet.update({key: UP})
    assert rows == [(10, 10), (9, 9)] * 3 + [(1, 1)]
    assert len(fleet.decided) == 28


def test_a_step_over_all_open_series_copies_no_row():
    """The model's state goes in as it came out, in whatever order the keys are named."""
    given_back, model = [], evidence()
    step = model.step

    def spy(state, x):
        out = step(state, x)
        given_back.append((state[0].data_ptr(), out.state[0].data_ptr()))
        return out

    model.step = spy
    fleet = Fleet(model, MSPRT(99.0))
    for _ in range(3):
        fleet.update(dict.fromkeys("abcd", UP))
        fleet.update(dict.fromkeys("dacb", UP))
    assert [came for came, _ in given_back[1:]] == [went for _, went in given_back[:-1]]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            {"b": [1.0, 2.0, 3.0]},
            "`observations['b']` must be of shape (2,), got shape (3,). That is what the model reads.",
        ),
        (
            {"b": [1.0, math.nan]},
            "`observations['b']` must be finite, got nan at 1 (counted from 0). "
            "Leave it out, or use a model that was fitted with missing values.",
        ),
        (
            {"b": "words"},
            "`observations['b']` must be an array of numbers, all rows of one length, got a str. "
            "Pass a torch tensor or a NumPy array of a numeric type.",
        ),
        (
            {"late": UP},
            "`observations` must be of series that are still open, got one of 'late', which was decided at time 1 as 'up'. "
            "Call forget('late') to start a new series under that key.",
        ),
        (
            {"gone": UP},
            "`observations` must be of series that are still open, got one of 'gone', which was decided at time 1 as 'down'. "
            "Call forget('gone') to start a new series under that key.",
        ),
        ({2.5: UP}, "`key` must be a string or a whole number, got 2.5, a float. Convert it first."),
        ({True: UP}, "`key` must be a string or a whole number, got True, a bool. Convert it first."),
        (
            {"b": [3e38, 3e38]},
            "`scores` must be finite, got [inf, inf] from observations['b'] at time 2. "
            "Check for an overflow in the model or in its input.",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else str(next(iter(value))),
)
def test_an_update_with_one_bad_observation_changes_nothing(bad, message):
    fleet = fleet_of()
    fleet.update({"a": DOWN, "late": [9.0, 0.0], "gone": DOWN, "b": [3e38, 3e38]})
    fleet.finish("gone")
    before = everything(fleet)
    for update in ({"new": UP, "a": DOWN, **bad}, {**bad, "a": DOWN}):
        assert said_by(lambda update=update: fleet.update(update)) == message
        assert everything(fleet) == before
    assert "new" not in fleet
    assert fleet.update({"a": DOWN, "new": DOWN}) == {"a": Decision("down", 2, True)}


def test_a_model_that_breaks_off_loses_nothing():
    model = evidence()
    fleet, step = Fleet(model, MSPRT(3.0)), model.step
    fleet.update({"a": UP})
    model.step = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        fleet.update({"a": UP, "b": UP})
    model.step = step
    assert fleet.update({"a": UP, "b": UP}) == {"a": Decision(0, 2, True)}


def test_who_abstained_is_said_to_have_named_no_class():
    fleet = fleet_of(at_end="abstain")
    fleet.update({"a": DOWN})
    assert fleet.finish("a") == Decision(None, 1, False)
    assert "got one of 'a', which was closed at time 1 without a class." in said_by(lambda: fleet.update({"a": UP}))


def test_what_prepare_refuses_is_told_by_key():
    standard = Standardizer.fit(Series.from_arrays(np.zeros((2, 3, 2)), [0, 1]))
    fleet = Fleet(evidence(), MSPRT(3.0), prepare=standard.apply_step)
    assert said_by(lambda: fleet.update({"a": UP, "b": [1.0, 2.0, 3.0]})) == (
        "`observations['b']` must be one that `prepare` can read, got shape (3,). "
        "`observations` must be of shape (..., 2), got shape (1, 3). It was fitted on observations of that shape."
    )
    doubled = Fleet(evidence(), MSPRT(3.0), prepare=with_mask)
    assert said_by(lambda: doubled.update({"a": UP})) == (
        "`observations['a']` must be of shape (2,), got shape (2,), which `prepare` turned into (4,). "
        "That is what the model reads."
    )
    lenient = Fleet(evidence(), MSPRT(3.0), prepare=lambda x: x.expand(-1, 2))
    assert said_by(lambda: lenient.update({"a": [1.0], "b": UP})) == (
        "`observations` must be numbers, all of one shape, got others. One observation for each key."
    )


def test_a_stream_speaks_of_itself():
    stream = Stream(evidence(), MSPRT(3.0), classes=["up", "down"])
    assert (stream.scores, stream.decision) == (None, None)
    assert said_by(stream.finish) == (
        "`stream` must be one with observations to be finished, got none. A series begins with its first observation."
    )
    assert said_by(lambda: stream.update([1.0])) == (
        "`observation` must be of shape (2,), got shape (1,). That is what the model reads."
    )
    stream.update(UP)
    assert stream.scores.tolist() == UP
    assert stream.update(UP) == stream.decision == stream.finish() == Decision("up", 2, True)
    assert stream.scores is None
    assert said_by(lambda: stream.update(UP)) == (
        "`observation` must be of a series that is still open, got one after it was decided at time 2 as 'up'. "
        "Make a new stream for the next series."
    )


def test_a_rule_with_a_memory_cannot_join_later():
    fleet = fleet_of()
    fleet.rule = FixedTime(4)
    assert fleet.update({"a": UP}) == {}
    assert said_by(lambda: setattr(fleet, "rule", Patience(2))) == (
        "`rule` must be of the same kind, or one without a memory, got Patience(count=2, rule=MSPRT(threshold=0.0)) in place "
        "of FixedTime(time=4) while 1 series run. "
        "It would need to have seen them from the start: finish them first, or make a new fleet."
    )
    assert fleet.rule == FixedTime(4)
    fleet.rule = FixedTime(2)
    assert fleet.update({"a": UP}) == {"a": Decision("up", 2, True)}
    fleet.rule = Patience(2, MSPRT(1.0))
    fleet.update({"b": UP})
    fleet.rule = Patience(3, MSPRT(0.5))
    with pytest.raises(InvalidArgument, match="same kind"):
        fleet.rule = Patience(3, ProbabilityThreshold(0.5))
    fleet.rule = MSPRT(9.0)
    with pytest.raises(InvalidArgument, match="same kind"):
        fleet.rule = FixedTime(5)
    assert fleet.update({"b": UP}) == {}
    stream = Stream(evidence(), MSPRT(3.0))
    stream.rule = MSPRT(1.0)
    assert stream.rule == MSPRT(1.0)
    assert stream.update(UP) == Decision(0, 1, True)


def test_a_rule_without_a_memory_lets_go_of_what_the_last_one_remembered():
    fleet = fleet_of()
    fleet.rule = FixedTime(9)
    fleet.update({"a": UP, "b": DOWN})
    before, fleet.rule = fleet.bytes_per_stream, MSPRT(3.0)
    assert fleet.bytes_per_stream == before - 8
    assert fleet.update({"new": UP, "a": UP}) == {"a": Decision("up", 2, True)}
    assert fleet.update({"new": UP}) == {"new": Decision("up", 2, True)}


def test_the_bytes_of_a_stream_are_those_of_its_tensors():
    model = Recurrent((3,), 4, hidden=8, order=5).eval()
    fleet = Fleet(model, FixedTime(9))
    assert fleet.bytes_per_stream == model.bytes_per_stream() + 8 + 4 * 4 + 8
    before = fleet.bytes_per_stream
    for _ in range(3):
        fleet.update({"a": [0.0, 1.0, 2.0]})
    assert fleet.bytes_per_stream == before == Stream(model, FixedTime(9)).bytes_per_stream


@pytest.mark.parametrize(
    ("doing", "message"),
    [
        (
            lambda: Fleet(evidence().train(), MSPRT(1.0)),
            "`model` must be in evaluation mode, got one in training mode. "
            "Call model.eval() first: batch norm and dropout would mix live series.",
        ),
        (
            lambda: Fleet(torch.nn.Linear(2, 2), MSPRT(1.0)),
            "`model` must be a model of `sooner.models`, got Linear(in_features=2, out_features=2, bias=True). "
            "Derive one from `Model`.",
        ),
        (
            lambda: Fleet(evidence(), 3.0),
            "`rule` must be a rule, for example MSPRT(2.0), got 3.0. Make one of it first.",
        ),
        (
            lambda: Fleet(evidence(), MSPRT(np.ones((3, 3)))),
            "`scores` must be of 3 classes, as the threshold matrix is, got 2 classes. "
            "Give a matrix with one row and one column for each class.",
        ),
        (
            lambda: fleet_of(at_end="guess"),
            "`at_end` must be one of 'abstain', 'force', 'set', got 'guess'. No close match.",
        ),
        (
            lambda: fleet_of(deadline=0),
            "`deadline` must be at least 1, got 0.0. It counts observations from 1; None lets a series go on.",
        ),
        (
            lambda: fleet_of(offset=[0.0, math.inf]),
            "`offset` must be 2 finite numbers, got [0.0, inf]. "
            "It is added to the scores: for other priors, the log of new over old.",
        ),
        (
            lambda: Fleet(evidence(), MSPRT(1.0), classes="abc"),
            "`classes` must be 2 names, got 3. The model has 2 classes.",
        ),
        (
            lambda: Fleet(evidence(), MSPRT(1.0), classes=["a", None]),
            "`classes` must be different names, got ['a', None]. "
            "Give each class a name of its own; None says that none was named.",
        ),
        (lambda: fleet_of(prepare=3), "`prepare` must be a function, got 3. It makes what the model reads."),
        (lambda: fleet_of().update([UP]), '`observations` must be a dict, got a list. {"sensor-7": x} is one.'),
        (
            lambda: fleet_of().finish("a"),
            "`key` must be that of a series with observations, got 'a'. A series begins with its first observation.",
        ),
        (
            lambda: fleet_of().forget("a"),
            "`key` must be that of a series, open or closed, got 'a'. There is nothing to forget.",
        ),
        (lambda: fleet_of().scores("a"), "`key` must be that of an open series, got 'a'. Check with `key in fleet`."),
        (
            lambda: Fleet(PrefixScorer((2,), 2).eval(), MSPRT(1.0)),
            "`model` must be fitted, got a PrefixScorer without fits. Call fit(observations, labels) first.",
        ),
    ],
)
def test_what_cannot_be_gets_a_sentence(doing, message):
    assert said_by(doing) == message


def test_a_model_that_is_put_back_into_training_is_refused_too():
    fleet = fleet_of()
    fleet.update({"a": UP})
    fleet._fold.model.train()
    assert "got one in training mode" in said_by(lambda: fleet.update({"a": UP}))
    fleet._fold.model.eval()
    assert fleet.update({"a": UP}) == {"a": Decision("up", 2, True)}
