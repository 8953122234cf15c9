"""What came out: rows that follow from real decisions, means that follow from rows, and a record of plain numbers."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from sooner.errors import UnknownName
from sooner.evaluate import balanced_error, sat_curve, stopping_curve
from sooner.lab.experiments import Result, Work, result_of
from sooner.lab.experiments.published import published
from sooner.lab.experiments.result import Row, SeedResult, curve_of
from sooner.lab.experiments.run import Stages, Trial, stages_of
from sooner.lab.experiments.stages import Stage
from sooner.rules import MSPRT, FixedTime
from sooner.train.settings import to_dict

NAMES = ["MSPRT-TANDEM", "NP test", "EARLIEST 1e-2", "pooling"]


def _kept(trial, work, name="scores"):
    return np.load(trial.scores.folder(work) / f"{name}.npy")


def _rows(small, name):
    """Every row of a model with the trial it came from."""
    for trial in small.stages.trials:
        if trial.contender.name == name:
            outcome = next(each for each in small.result.outcomes[name] if each.seed == trial.seed)
            for row in outcome.rows:
                yield trial, row


def _decided(trial, threshold, work):
    """What the rule itself says at a threshold: the labels and the times of its decisions."""
    scores = torch.from_numpy(_kept(trial, work))
    if trial.contender.rule == "halting":
        halting = _kept(trial, work, "halting").astype(np.float64)
        stops = np.array([next((t for t in range(20) if row[t] >= threshold), 19) for row in halting])
        return scores.argmax(dim=2).numpy()[np.arange(len(stops)), stops], stops + 1
    if trial.contender.rule == "fixed_time":
        decisions = FixedTime(20 if math.isinf(threshold) else int(threshold)).decide(scores)
    else:
        decisions = MSPRT(threshold).decide(scores)
    return decisions.labels, decisions.times


# --- rows ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_what_the_rule_decides_at_their_threshold(small, name):
    seen = 0
    for trial, row in _rows(small, name):
        truth = _kept(trial, small.work.folder, "labels")
        guesses, times = _decided(trial, row.threshold, small.work.folder)
        assert row.wrong == tuple(int(((guesses != truth) & (truth == k)).sum()) for k in range(10))
        assert row.series == tuple(int((truth == k).sum()) for k in range(10)) == (6,) * 10
        assert row.mean_time == pytest.approx(times.mean(), abs=1e-12)
        assert row.error == pytest.approx(100 * balanced_error(guesses, truth), abs=1e-4)
        seen += 1
    assert seen == 2 * 5


@pytest.mark.parametrize("name", NAMES)
def test_errors_follow_from_the_numbers_of_wrong_decisions(small, name):
    for _, row in _rows(small, name):
        shares = [wrong / series for wrong, series in zip(row.wrong, row.series, strict=True)]
        assert row.error == round(100 * sum(shares) / 10, 4)


@pytest.mark.parametrize("name", NAMES)
def test_the_threshold_is_the_largest_that_does_not_take_longer_than_asked(small, name):
    for trial, row in _rows(small, name):
        curve, statistic, predictions, labels = curve_of(trial, small.work.folder)
        assert row.mean_time <= row.asked
        place = int(np.flatnonzero(curve.thresholds == row.threshold)[0])
        assert row.mean_time == pytest.approx(curve.mean_times[place], abs=1e-12)
        assert row.error == pytest.approx(100 * curve.errors[place], abs=1e-4)
        later = curve.mean_times[place + 1 :]
        assert (later > row.asked).all()
        assert statistic.shape == predictions.shape == (60, 20)
        assert labels.shape == (60,)


@pytest.mark.parametrize("name", ["MSPRT-TANDEM", "pooling"])
def test_errors_are_those_of_the_exact_curve_between_its_neighbouring_points(small, name):
    for trial, row in _rows(small, name):
        curve = sat_curve(_kept(trial, small.work.folder), _kept(trial, small.work.folder, "labels"))
        place = int(np.searchsorted(curve.mean_times, row.asked, side="right")) - 1
        ends = 100 * curve.errors[place : place + 2]
        assert ends.min() - 1e-4 <= 100 * curve.error_at(row.asked) <= ends.max() + 1e-4
        assert row.error == pytest.approx(ends[0], abs=1e-4)


def test_the_fixed_time_test_stops_everyone_at_the_time_that_was_asked_for(small):
    for trial, row in _rows(small, "NP test"):
        assert row.mean_time == row.asked
        scores, truth = _kept(trial, small.work.folder), _kept(trial, small.work.folder, "labels")
        guesses = scores[:, int(row.asked) - 1].argmax(axis=1)
        assert row.error == pytest.approx(100 * balanced_error(guesses, truth), abs=1e-4)
        if row.asked < 20:
            assert row.threshold == row.asked


def test_the_halting_rule_sweeps_the_models_own_statistic(small):
    for trial, row in _rows(small, "EARLIEST 1e-2"):
        halting, scores = (_kept(trial, small.work.folder, name) for name in ("halting", "scores"))
        assert halting.shape == (60, 20)
        truth = _kept(trial, small.work.folder, "labels")
        curve = stopping_curve(halting, scores.argmax(axis=2), truth, classes=10)
        place = int(np.searchsorted(curve.mean_times, row.asked, side="right")) - 1
        assert row.threshold == curve.thresholds[place]
        assert 0 <= row.threshold <= 1 or row.asked == 20
        assert curve_of(trial, small.work.folder)[0] == curve


def test_sampled_points_are_those_of_a_loop_over_the_same_draws(small):
    points = []
    for trial in (each for each in small.stages.trials if each.contender.name == "EARLIEST 1e-2"):
        halting, scores = (_kept(trial, small.work.folder, name) for name in ("halting", "scores"))
        truth = _kept(trial, small.work.folder, "labels")
        draws = torch.bernoulli(torch.from_numpy(halting), generator=torch.Generator().manual_seed(trial.seed))
        times, wrong, series = [], [0] * 10, [0] * 10
        for row, label in enumerate(truth.tolist()):
            tau = next((t for t in range(20) if draws[row, t]), 19)
            times.append(tau + 1)
            series[label] += 1
            wrong[label] += int(scores[row, tau].argmax()) != label
        found = small.result.outcomes["EARLIEST 1e-2"][trial.seed].sampled
        assert found.draws == trial.seed
        assert found.mean_time == pytest.approx(np.mean(times), abs=1e-4)
        assert found.error == pytest.approx(100 * np.mean(np.divide(wrong, series)), abs=1e-4)
        assert (found.wrong, found.series) == (tuple(wrong), tuple(series))
        points.append(found)
    assert points[0] != points[1]
    told = small.result.to_dict("", "")["models"]
    assert [seed["sampled"]["error"] for seed in told["EARLIEST 1e-2"]["seeds"]] == [each.error for each in points]
    for key, (mean, sem) in told["EARLIEST 1e-2"]["sampled"].items():
        values = [getattr(each, key) for each in points]
        assert mean == pytest.approx(np.mean(values), abs=1e-4)
        assert sem == pytest.approx(np.std(values, ddof=1) / math.sqrt(2), abs=1e-4)


def test_only_a_model_that_halts_by_itself_has_a_sampled_point(small):
    told = small.result.to_dict("", "")["models"]
    assert [name for name in NAMES if "sampled" in told[name]] == ["EARLIEST 1e-2"]
    assert small.result.sampled("MSPRT-TANDEM") is None


def test_whoever_may_wait_for_the_end_does(small):
    for name in NAMES:
        for _, row in _rows(small, name):
            assert math.isinf(row.threshold) == (row.asked == 20)


# --- by hand ------------------------------------------------------------------------------------------------------------


def _by_hand(plan, work, scores, labels, *, rule="msprt", halting=None):
    """A trial whose scores are known, as its stages would have left them."""
    training = Stage("training", "by hand", {"rule": rule}, (), lambda _folder: {})
    stage = Stage("scores", "by hand", {}, (training,), lambda _folder: {})
    contender = plan.contender("EARLIEST 1e-2" if rule == "halting" else "MSPRT-TANDEM")
    about = {"training_seconds": 90.0, "best": {"step": 1, "metric": 0.5, "loss": 0.5}, "parameters": 7}
    for each, left in ((training, {**about, "settings": to_dict(contender.settings)}), (stage, {})):
        each.folder(work).mkdir(parents=True)
        (each.folder(work) / "done.json").write_text(json.dumps(left), encoding="utf-8")
    np.save(stage.folder(work) / "scores.npy", np.asarray(scores, dtype=np.float32))
    np.save(stage.folder(work) / "labels.npy", np.asarray(labels))
    if halting is not None:
        np.save(stage.folder(work) / "halting.npy", np.asarray(halting, dtype=np.float32))
    trial = Trial(replace(contender, rule=rule), 0, training, stage)
    return Stages((trial,), (training, stage))


# Two series of two classes and three times, and their margins: 1, 2, 4 and 3, 1, 5; the first one is wrong at first.
SCORES = [[[0, 1], [2, 0], [4, 0]], [[0, 3], [0, 1], [0, 5]]]
LABELS = [0, 1]


def _plan(small, *times):
    return replace(small.plan, times=times, headline_times=times[:1], headline="MSPRT-TANDEM", phases=(), encoder=None)


def test_rows_of_two_series_can_be_followed_by_hand(small, tmp_path):
    plan = _plan(small, 1, 1.4, 1.5, 2.4, 2.5, 3)
    result = result_of(plan, _by_hand(plan, tmp_path, SCORES, LABELS), tmp_path)
    (outcome,) = result.outcomes["MSPRT-TANDEM"]
    assert outcome.rows == (
        Row(1, 1.0, 1.0, 50.0, (1, 0), (1, 1)),
        Row(1.4, 1.0, 1.0, 50.0, (1, 0), (1, 1)),
        Row(1.5, 2.0, 1.5, 0.0, (0, 0), (1, 1)),
        Row(2.4, 3.0, 2.0, 0.0, (0, 0), (1, 1)),
        Row(2.5, 3.0, 2.0, 0.0, (0, 0), (1, 1)),
        Row(3, math.inf, 3.0, 0.0, (0, 0), (1, 1)),
    )
    assert (outcome.seed, outcome.training_minutes, outcome.parameters) == (0, 1.5, 7)
    assert outcome.precision_note == ""  # stages of earlier versions say nothing of it
    assert result.encoder_minutes is None


@pytest.mark.parametrize(
    ("rule", "halting", "expected"),
    [
        ("fixed_time", None, [(1, 1.0, 50.0), (1.75, 1.0, 50.0), (2, 2.0, 0.0), (3, 3.0, 0.0)]),
        # Both at once; the first one at its second time; the first one at its end; both at their ends.
        (
            "halting",
            [[0.1, 0.6, 0.5], [0.7, 0.2, 0.1]],
            [(1, 1.0, 50.0), (1.75, 1.5, 0.0), (2, 2.0, 0.0), (3, 3.0, 0.0)],
        ),
    ],
)
def test_other_rules_can_be_followed_by_hand(small, tmp_path, rule, halting, expected):
    plan = _plan(small, 1, 1.75, 2, 3)
    stages = _by_hand(plan, tmp_path, SCORES, LABELS, rule=rule, halting=halting)
    ((outcome,),) = result_of(plan, stages, tmp_path).outcomes.values()
    assert [(row.asked, row.mean_time, row.error) for row in outcome.rows] == expected


def test_classes_without_a_test_series_count_none_and_do_not_dilute_the_error(small, tmp_path):
    scores = [[[0, 1, 0, 0]], [[0, 5, 0, 0]]]
    plan = _plan(small, 1)
    result = result_of(plan, _by_hand(plan, tmp_path, scores, [0, 1]), tmp_path)
    (row,) = result.outcomes["MSPRT-TANDEM"][0].rows
    assert row.error == 50.0
    assert (row.wrong, row.series) == ((1, 0, 0, 0), (1, 1, 0, 0))


# --- means --------------------------------------------------------------------------------------------------------------


def _outcome(seed, errors, loss=0.5):
    rows = tuple(Row(time, 1.0, time, error, (1,), (2,)) for time, error in errors.items())
    return SeedResult(seed, rows, 1.0, {"step": 3, "metric": 0.5, "loss": loss}, 7)


def _result(small, *outcomes, **changes):
    plan = replace(small.plan, headline="pooling", headline_times=(2, 5), **changes)
    return Result(plan, {"pooling": outcomes}, None)


def test_means_and_standard_errors_are_over_seeds(small):
    result = _result(small, *(_outcome(seed, {2: error}) for seed, error in enumerate((10.0, 20.0, 60.0))))
    mean, sem = result.mean("pooling", 2)
    assert mean == pytest.approx(30.0)
    assert sem == pytest.approx(np.std([10, 20, 60], ddof=1) / math.sqrt(3))
    assert result.errors("pooling", 2).tolist() == [10.0, 20.0, 60.0]


def test_a_time_that_not_every_seed_reaches_is_left_out(small):
    result = _result(small, _outcome(0, {1: 50.0, 2: 10.0, 5: 4.0}), _outcome(1, {5: 8.0}))
    assert result.mean("pooling", 2) is None
    assert result.mean("pooling", 10) is None
    assert result.headline() == {"5": 6.0}
    record = result.to_dict("", "")
    assert record["models"]["pooling"]["mean"] == {"5": [6.0, 2.0]}
    assert [seed["errors"] for seed in record["models"]["pooling"]["seeds"]] == [
        {"1": 50.0, "2": 10.0, "5": 4.0},
        {"5": 8.0},
    ]


def test_a_time_before_the_first_point_of_a_curve_has_no_row(small, tmp_path):
    plan = _plan(small, 1, 2)
    object.__setattr__(plan, "times", (0.5, 0.99, 1))  # no plan that is read has such times
    (outcome,) = result_of(plan, _by_hand(plan, tmp_path, SCORES, LABELS), tmp_path).outcomes["MSPRT-TANDEM"]
    assert [row.asked for row in outcome.rows] == [1]


def test_the_headline_is_the_mean_over_seeds_of_the_rows_in_the_record(small):
    record = small.result.to_dict("", "")
    assert set(record["headline"]) == {"2", "5"}
    assert [seed["seed"] for seed in record["seeds"]] == [0, 1]
    for place, time in enumerate((2, 5)):
        rows = [seed["rows"][place] for seed in record["seeds"]]
        assert [row["asked"] for row in rows] == [time, time]
        shares = [np.divide(row["wrong"], row["series"]).mean() for row in rows]
        assert record["headline"][f"{time}"] == pytest.approx(100 * np.mean(shares), abs=2e-4)
        assert record["models"]["pooling"]["mean"][f"{time}"][0] == record["headline"][f"{time}"]


@pytest.mark.parametrize("name", NAMES)
def test_the_means_of_a_record_follow_from_its_seeds(small, name):
    told = small.result.to_dict("", "")["models"][name]
    assert set(told["mean"]) == {"1", "2", "5", "10", "20"}
    for time, (mean, sem) in told["mean"].items():
        errors = [seed["errors"][time] for seed in told["seeds"]]
        assert mean == pytest.approx(np.mean(errors), abs=1e-4)
        assert sem == pytest.approx(np.std(errors, ddof=1) / math.sqrt(2), abs=1e-4)


# --- the record ---------------------------------------------------------------------------------------------------------


def _refuse(word):
    raise AssertionError(word)


def test_the_record_is_strict_json_and_comes_back_as_it_was(small):
    record = small.result.to_dict("sooner reproduce small", "2026-01-02")
    text = json.dumps(record, allow_nan=False)
    assert json.loads(text, parse_constant=_refuse) == json.loads(json.dumps(record))
    assert (record["command"], record["date"]) == ("sooner reproduce small", "2026-01-02")
    assert (record["name"], record["profile"], record["shortened"]) == ("small", "cpu", "All of it.")


def test_the_record_says_what_was_run_and_what_was_published(small):
    record = small.result.to_dict("", "")
    shares = {"train": 100, "validation": 30, "test": 60}
    assert record["data"] == {"set": "nmnist-h", "frequencies": "equal", **shares, "view": "any"}
    assert record["encoder"] == to_dict(small.plan.encoder.settings)
    assert set(record["settings"]) == {"MSPRT-TANDEM", "EARLIEST 1e-2", "pooling"}
    assert list(record["models"]) == list(record["contenders"]) == NAMES
    assert record["contenders"]["pooling"]["masks"] == "redrawn"
    assert record["published"]["MSPRT-TANDEM"]["5"] == 11.994
    assert "pooling" not in record["published"]
    assert small.result.published == published("sat_nmnist_h")
    assert record["encoder_minutes"] >= 0
    features = {split: small.stages.features[split].outcome(small.work.folder) for split in ("validation", "test")}
    assert record["frame_accuracy"] == {split: round(left["frame_accuracy"], 4) for split, left in features.items()}
    assert record["rows"] == {
        name: {time: mean for time, (mean, _) in model["mean"].items()} for name, model in record["models"].items()
    }
    assert record["machine"]["cores"] >= 1
    assert replace(small.result, plan=replace(small.plan, published="")).published == {}


def test_published_rows_of_another_name_stand_beside_the_model_they_belong_to(small):
    *rest, pooling = small.plan.contenders
    plan = replace(small.plan, contenders=(*rest, replace(pooling, published="LSTM-s")))
    found = replace(small.result, plan=plan).published
    assert found["pooling"] == published("sat_nmnist_h")["LSTM-s"]
    assert "LSTM-s" not in found
    with pytest.raises(UnknownName, match=r"^`models.pooling.published` must be one of .*, got 'LSTM-z'"):
        replace(small.plan, contenders=(*rest, replace(pooling, published="LSTM-z")))


def test_best_validations_and_sizes_are_those_of_the_trainings(small):
    for trial in small.stages.trials:
        left = trial.training.outcome(small.work.folder)
        told = small.result.to_dict("", "")["models"][trial.contender.name]["seeds"][trial.seed]
        assert told["seed"] == trial.seed
        assert told["best_validation"] == left["best"]
        assert told["parameters"] == left["parameters"] > 0
        assert told["training_minutes"] == round(left["training_seconds"] / 60, 2)
        # On a machine without bfloat16, `pooling` is trained in float32; that must be in the record.
        as_asked = left["precision"] == left["settings"]["training"]["precision"]
        assert told.get("precision_note", "") == left["precision_note"]
        assert (left["precision_note"] == "") == as_asked


def test_an_infinite_threshold_is_a_word(small):
    result = replace(small.result, plan=replace(small.plan, headline_times=(20,)))
    rows = [row for seed in result.to_dict("", "")["seeds"] for row in seed["rows"]]
    assert [row["threshold"] for row in rows] == ["inf", "inf"]


def test_one_seed_alone_has_no_standard_error_and_is_strict_json_too(small):
    record = _result(small, _outcome(0, {2: 10.0, 5: 20.0})).to_dict("", "")
    json.dumps(record, allow_nan=False)
    assert record["models"]["pooling"]["mean"]["2"] == [10.0, None]


@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_a_validation_loss_that_overflowed_is_strict_json_too(small, loss):
    """LSIF and BARR overflow by definition, and a training goes on as long as the scores are numbers."""
    record = _result(small, _outcome(0, {2: 10.0}, loss)).to_dict("", "")
    json.dumps(record, allow_nan=False)
    assert record["models"]["pooling"]["seeds"][0]["best_validation"] == {"step": 3, "metric": 0.5, "loss": None}


def test_without_a_headline_there_is_none(small):
    record = replace(small.result, plan=replace(small.plan, headline="", headline_times=())).to_dict("", "")
    assert (record["headline_model"], record["headline"], record["seeds"]) == ("", {}, [])


# --- what is not done ---------------------------------------------------------------------------------------------------


def test_trials_that_are_not_done_are_left_out(small):
    more = stages_of(small.plan, replace(small.work, seeds=4))
    result = result_of(small.plan, more, small.work.folder)
    seeds = {name: [each.seed for each in outcomes] for name, outcomes in result.outcomes.items()}
    assert seeds == {name: [0, 1] for name in NAMES}
    assert result.outcomes == small.result.outcomes
    assert result.left_out == dict.fromkeys(NAMES, (2, 3))


def test_a_plan_of_which_nothing_is_done_has_an_empty_record(small, tmp_path):
    result = result_of(small.plan, stages_of(small.plan, Work(tmp_path)), tmp_path)
    assert (result.outcomes, result.encoder_minutes, result.headline()) == ({}, None, {})
    json.dumps(result.to_dict("", ""), allow_nan=False)
