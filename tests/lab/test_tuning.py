import json
import os
import subprocess
import sys
import time

import optuna
import pytest
from optuna.trial import TrialState, create_trial

import small_training
from small_training import SETTINGS, SPACE, TRAINING, VALIDATION, linear
from sooner.errors import InvalidArgument, NoTrialFinished
from sooner.lab.tuning import Grid, Range, SearchSpace, read_search, tune
from sooner.lab.tuning.study import _free_index
from sooner.train.settings import changed, read_settings

SHORT = changed(SETTINGS, {"training.iterations": 12, "training.validate_every": 4})


def tuned(space=SPACE, settings=SHORT, **options):
    chosen = {"trials": 4, "pruner": "none", **options}
    return tune(lambda _: linear(), TRAINING, VALIDATION, settings, space, **chosen)


def points(record):
    return [(trial.values, trial.state, trial.metric) for trial in record.trials]


def test_the_better_learning_rate_is_found_and_written(tmp_path):
    record = tuned(trials=6, folder=tmp_path)
    assert {trial.values["optimizer.lr"] for trial in record.trials} == {1e-6, 0.1}
    assert record.settings == changed(SHORT, {"optimizer.lr": 0.1}) == read_settings(tmp_path / "best.toml")
    assert record.metric == max(trial.metric for trial in record.trials)
    said = json.loads((tmp_path / "record.json").read_text())
    assert said["metric"] == record.metric
    assert len(said["trials"]) == 6
    assert "optuna" in said["versions"]


def test_a_study_resumed_is_a_study_unbroken(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"
    space = SearchSpace.from_dict({"optimizer.lr": {"low": 1e-4, "high": 0.1, "log": True}})
    first = tuned(space, trials=2, storage=storage)
    resumed = tuned(space, trials=5, storage=storage)
    unbroken = tuned(space, trials=5)
    assert points(first) == points(resumed)[:2]
    assert points(resumed) == points(unbroken)
    assert len({trial.values["optimizer.lr"] for trial in resumed.trials}) == 5
    spent = tuned(space, trials=5, storage=storage)
    assert points(spent) == points(resumed)


@pytest.mark.faults
def test_two_processes_share_a_study_and_its_budget(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"
    program = [sys.executable, small_training.__file__, "study", storage, "5"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    workers = [subprocess.Popen(program, env=environment) for _ in range(2)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    trials = optuna.load_study(study_name="sooner", storage=storage).get_trials()
    assert sum(trial.state == optuna.trial.TrialState.COMPLETE for trial in trials) == 5


def test_a_trial_that_diverges_does_not_end_the_study():
    wild = changed(SHORT, {"loss.weights.lsif": 1.0, "optimizer.name": "sgdw"})
    record = tuned(SearchSpace.from_dict({"optimizer.lr": [1e-9, 1e4]}), wild, trials=6)
    assert {trial.state for trial in record.trials} == {"complete", "diverged"}
    assert record.settings.optimizer.lr == 1e-9
    with pytest.raises(NoTrialFinished, match=r"None of the 2 trial\(s\) of study 'sooner' came to its end"):
        tuned(SearchSpace.from_dict({"optimizer.lr": [1e4]}), wild, trials=2)


def test_a_combination_that_no_settings_allow_does_not_end_the_study():
    space = SearchSpace.from_dict({"loss.weights.lsel": [0.0, 1.0], "loss.weights.multiplet": [0.0, 1.0]})
    found = tune(linear, TRAINING, VALIDATION, SETTINGS, space, trials=5, study="combinations", seed=0)
    assert sum(found.settings.loss.weights.values()) > 0


def test_hopeless_trials_are_pruned():
    space = SearchSpace.from_dict({"optimizer.lr": {"low": 1e-6, "high": 0.1, "log": True}})
    record = tuned(space, trials=10, pruner="median")
    states = [trial.state for trial in record.trials]
    assert "pruned" in states
    assert set(states) == {"complete", "pruned"}


def test_a_crash_in_a_trial_is_not_hidden_and_costs_no_budget(tmp_path):
    storage = f"sqlite:///{tmp_path}/study.db"

    def broken(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tune(broken, TRAINING, VALIDATION, SHORT, SPACE, trials=2, storage=storage, pruner="none")
    record = tuned(trials=2, storage=storage)
    assert [trial.state for trial in record.trials] == ["failed", "complete", "complete"]


def test_a_killed_trial_is_made_up_for(tmp_path, monkeypatch):
    monkeypatch.setattr("sooner.lab.tuning.study.HEARTBEAT", 1)
    monkeypatch.setattr("sooner.lab.tuning.study.GRACE", 1)
    storage = f"sqlite:///{tmp_path}/study.db"
    tuned(trials=1, storage=storage)
    database = optuna.storages.RDBStorage(storage)
    killed = optuna.load_study(study_name="sooner", storage=database).ask()
    database.record_heartbeat(killed._trial_id)
    database.engine.dispose()
    assert [trial.state for trial in tuned(trials=2, storage=storage).trials] == ["complete", "running"]
    time.sleep(2.5)
    assert [trial.state for trial in tuned(trials=2, storage=storage).trials] == ["complete", "failed", "complete"]


def test_a_space_reads_dotted_and_nested_keys(tmp_path):
    (tmp_path / "s.toml").write_text(
        '[search]\nmodel.order = [0, "full"]\n"loss.weights.lsel" = [1, 10]\n'
        "optimizer.lr = { low = 1e-4, high = 1e-2, log = true }\n[search.training]\nbatch_size = { low = 8, high = 64 }\n"
    )
    assert read_search(tmp_path / "s.toml").axes == {
        "model.order": Grid((0, "full")),
        "loss.weights.lsel": Grid((1, 10)),
        "optimizer.lr": Range(1e-4, 1e-2, log=True),
        "training.batch_size": Range(8, 64),
    }


def test_whole_ends_make_a_whole_range():
    study = optuna.create_study()
    assert all(isinstance(Range(1, 9).draw(study.ask(), "x"), int) for _ in range(5))
    assert isinstance(Range(1.0, 9.0).draw(study.ask(), "y"), float)


def test_the_place_of_a_trial_that_was_killed_is_taken_by_the_next():
    study = optuna.create_study(direction="maximize")
    for place, state in enumerate((TrialState.COMPLETE, TrialState.FAIL, TrialState.COMPLETE, TrialState.RUNNING)):
        value = 0.5 if state == TrialState.COMPLETE else None
        study.add_trial(create_trial(state=state, value=value, user_attrs={"place": place} if place < 3 else {}))
    assert [_free_index(study, number) for number in (0, 1, 2, 3, 4)] == [0, 1, 1, 1, 3]


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('study')}/study.db"
    tuned(trials=1, storage=url)
    return url


def of(**table):
    return lambda _: SearchSpace.from_dict(table)


MESSAGES = {
    "a single value": (
        of(optimizer={"lr": 0.1}),
        "`search.optimizer.lr` must be a list of values, or { low, high, log }, got 0.1. "
        "Put a single value into the settings.",
    ),
    "a range without an end": (
        of(optimizer={"lr": {"low": 0.1}}),
        "`search.optimizer.lr` must be { low, high, log }, got ['low']. `log` may be left out.",
    ),
    "a logarithm of zero": (
        of(optimizer={"lr": {"low": 0.0, "high": 1.0, "log": True}}),
        "`search` must be a range { low, high, log } with low < high, and 0 < low where log is true, "
        "got low 0.0, high 1.0, log True. For a few values give a list of them.",
    ),
    "nowhere to look": (of(), "`search` must be a table with at least one key, got {}. List the values to try."),
    "an unknown key": (
        lambda _: tuned(SearchSpace({"optimizer.rl": Grid((0.1,))})),
        "`key in [optimizer]` must be one of 'lr', 'momentum', 'name', 'schedule', 'weight_decay', got 'rl'. Did you mean 'lr'?",
    ),
    "a value that settings refuse": (
        lambda _: tuned(SearchSpace({"model.order": Grid((0, "none"))})),
        "`model.order` must be a whole number or 'full', got 'none'. "
        "It is the number of earlier observations a window holds.",
    ),
    "an unknown pruner": (
        lambda _: tuned(pruner="mean"),
        "`pruner` must be one of 'median', 'none', got 'mean'. Did you mean 'median'?",
    ),
    "another space in the same study": (
        lambda url: tuned(SearchSpace({"optimizer.lr": Grid((0.1,))}), storage=url),
        "`study` must be a study of the same settings and space, got 'sooner'. "
        "Its trials cannot be compared with these: name another study.",
    ),
    "a database without its driver": (
        lambda _: tuned(storage="mssql+pymssql://host/studies"),
        "`storage` must be a database whose driver is installed, got 'mssql+pymssql://host/studies'. "
        "Install the driver of this database, for PostgreSQL: pip install psycopg2-binary.",
    ),
    "no URL": (
        lambda _: tuned(storage="study.db"),
        "`storage` must be the URL of a database, got 'study.db'. For example sqlite:///study.db.",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_this_sentence(case, storage):
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call(storage)
    assert str(caught.value) == message
