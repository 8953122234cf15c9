"""Records of several commands: what was not run again stays, as long as it would be trained in the same way today."""

import copy
import json

import pytest

from sooner.errors import UnreadableFile
from sooner.lab.experiments.earlier import read_record, with_earlier
from sooner.train.settings import to_dict

COMMAND, LATER = (
    "sooner reproduce small --profile cpu --seeds 2",
    "sooner reproduce small --profile cpu --seeds 2 --only pooling",
)


@pytest.fixture
def earlier(small):
    return small.result.to_dict(COMMAND, "2026-11-16")


def _again(earlier, *names):
    """The record of a later run of these models alone."""
    record = copy.deepcopy(earlier) | {"command": LATER, "date": "2026-11-18"}
    for key in ("models", "rows"):
        record[key] = {name: value for name, value in record[key].items() if name in names}
    for name in names:
        record["models"][name] |= {"command": LATER, "date": "2026-11-18"}
    record["left_out"] = {name: [0, 1] for name in earlier["models"] if name not in names}
    return record | {"headline": {}, "seeds": []}


def test_models_that_were_not_run_again_stay_with_their_own_command_and_date(small, earlier):
    record = with_earlier(_again(earlier, "pooling"), small.plan, earlier)
    assert list(record["models"]) == [each.name for each in small.plan.contenders]
    assert (record["command"], record["date"]) == (LATER, "2026-11-18")
    for name, model in record["models"].items():
        expected = (LATER, "2026-11-18") if name == "pooling" else (COMMAND, "2026-11-16")
        assert (model["command"], model["date"]) == expected
        assert model["mean"] == earlier["models"][name]["mean"]
    assert record["rows"] == earlier["rows"]
    assert record["left_out"] == {}


def test_the_headline_of_a_model_that_was_not_run_again_stays(small, earlier):
    assert earlier["headline_model"] == "pooling"
    record = with_earlier(_again(earlier, "MSPRT-TANDEM"), small.plan, earlier)
    assert record["headline"] == earlier["headline"]
    assert record["seeds"] == earlier["seeds"]


def test_without_an_earlier_record_nothing_is_added(small, earlier):
    record = _again(earlier, "pooling")
    assert with_earlier(record, small.plan, None) == record


def test_what_was_run_again_replaces_what_was_there(small, earlier):
    before = copy.deepcopy(earlier)
    before["models"]["pooling"]["mean"] = {"2": [0.0, 0.0]}
    record = with_earlier(_again(earlier, "pooling"), small.plan, before)
    assert record["models"]["pooling"]["mean"] == earlier["models"]["pooling"]["mean"]


@pytest.mark.parametrize("key", ["settings", "encoder", "encoder_set", "data"])
def test_models_that_would_be_trained_otherwise_today_do_not_stay(small, earlier, key):
    before = copy.deepcopy(earlier)
    if key == "settings":
        before["settings"]["MSPRT-TANDEM"]["training"]["iterations"] += 1
        gone = {"MSPRT-TANDEM", "NP test"}  # the test uses the scores of the other
    elif key.startswith("encoder"):
        if key == "encoder_set":
            before["encoder_set"] = "nmnist"
        else:
            before["encoder"]["optimizer"]["lr"] *= 2
        gone = {each.name for each in small.plan.contenders if each.reads == "features"}
    else:
        before["data"]["train"] = 7
        gone = {each.name for each in small.plan.contenders}
    record = with_earlier(_again(earlier), small.plan, before)
    assert gone
    assert set(record["models"]) == {each.name for each in small.plan.contenders} - gone


def test_a_model_that_the_plan_no_longer_has_does_not_stay(small, earlier):
    before = copy.deepcopy(earlier)
    before["models"]["another"] = before["models"]["pooling"]
    assert "another" not in with_earlier(_again(earlier, "pooling"), small.plan, before)["models"]


@pytest.fixture
def tuned(small, earlier):
    """An earlier record whose first model was tuned."""
    before = copy.deepcopy(earlier)
    plan = small.plan
    each = plan.contender("MSPRT-TANDEM")
    entry = {"space": each.search.to_dict(), "settings_of_trials": to_dict(plan.tuning_settings(each)), "trials": []}
    before["tuning"] = {each.name: entry}
    before["settings"][each.name]["optimizer"]["lr"] = 4e-2
    for name in (each.name, "NP test"):
        before["models"][name]["tuned"] = True
    return before


def test_a_tuned_model_that_was_not_run_again_stays_with_its_settings_and_its_tuning(small, earlier, tuned):
    record = with_earlier(_again(earlier, "pooling"), small.plan, tuned)
    assert record["tuning"] == tuned["tuning"]
    assert record["settings"]["MSPRT-TANDEM"]["optimizer"]["lr"] == 4e-2
    assert {"MSPRT-TANDEM", "NP test"} <= set(record["models"])


def test_a_tuning_stays_when_its_model_is_trained_again_as_in_the_plan(small, earlier, tuned):
    record = with_earlier(_again(earlier, "MSPRT-TANDEM", "NP test"), small.plan, tuned)
    assert record["tuning"] == tuned["tuning"]
    assert "tuned" not in record["models"]["MSPRT-TANDEM"]
    assert record["settings"]["MSPRT-TANDEM"]["optimizer"]["lr"] == 1e-2


@pytest.mark.parametrize("key", ["space", "settings_of_trials", "data", "encoder_set"])
def test_a_tuning_whose_trials_would_be_others_today_does_not_stay_and_nor_do_its_models(small, earlier, tuned, key):
    entry = tuned["tuning"]["MSPRT-TANDEM"]
    if key == "space":
        entry["space"] = {"optimizer.lr": [1.0]}
    elif key == "settings_of_trials":
        entry["settings_of_trials"]["training"]["iterations"] += 1
    elif key == "data":
        tuned["data"]["train"] = 7
    else:
        tuned["encoder_set"] = "nmnist"
    record = with_earlier(_again(earlier, "pooling"), small.plan, tuned)
    assert record["tuning"] == {}
    assert not {"MSPRT-TANDEM", "NP test"} & set(record["models"])


def test_a_record_that_is_none_gets_a_sentence(tmp_path):
    path = tmp_path / "small.json"
    assert read_record(path) is None
    for text in ("{", "[]", '{"models": 3}'):
        path.write_text(text)
        with pytest.raises(UnreadableFile, match="must be a record of `sooner reproduce`, got "):
            read_record(path)
    path.write_text(json.dumps({"models": {}}))
    assert read_record(path) == {"models": {}}
