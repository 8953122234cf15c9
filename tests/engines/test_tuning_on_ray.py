"""A study that workers of a cluster share."""

import pytest

from on_ray import Doomed, two_cores
from small_training import SETTINGS, SPACE, TRAINING, VALIDATION, linear
from sooner.errors import InvalidArgument
from sooner.lab.tuning import tune
from sooner.lab.tuning.study import Search
from sooner.lab.tuning.workers import _work
from sooner.train.settings import changed, read_settings

pytest.importorskip("ray", reason="no ray: install sooner[ray]")
pytestmark = [pytest.mark.ray, pytest.mark.cluster]


SHORT = changed(SETTINGS, {"training.iterations": 12, "training.validate_every": 4})
SHARED = changed(SHORT, {"training.engine": "ray"})


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with two_cores():
        yield


def tuned(make=lambda _: linear(), settings=SHARED, **options):
    chosen = {"trials": 6, "pruner": "none", "workers": 2, **options}
    return tune(make, TRAINING, VALIDATION, settings, SPACE, **chosen)


def states(record):
    return sorted(trial.state for trial in record.trials)


def test_a_worker_killed_in_the_midst_of_a_trial_costs_nothing_of_the_budget(tmp_path):
    storage, alive = f"sqlite:///{tmp_path}/study.db", tmp_path / "alive"
    doomed = Doomed(alive, step=7)
    record = tuned(lambda _: doomed, storage=storage, folder=tmp_path)
    assert not alive.exists()
    assert states(record) == ["complete"] * 6 + ["failed"]
    assert read_settings(tmp_path / "best.toml") == record.settings
    assert record.settings.training.engine == "ray"
    longer = tuned(settings=SHORT, storage=storage, trials=7, workers=None)
    assert states(longer) == ["complete"] * 7 + ["failed"]
    assert longer.trials[:7] == record.trials


def test_a_crash_in_a_trial_is_raised_as_it_is_and_ends_the_others(tmp_path):
    def broken(_):
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        tuned(broken, storage=f"sqlite:///{tmp_path}/study.db")
    record = tuned(storage=f"sqlite:///{tmp_path}/study.db", trials=2)
    assert states(record)[:3] == ["complete", "complete", "failed"]
    assert set(states(record)) == {"complete", "failed"}


def test_a_worker_that_sees_another_study_says_so(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"
    search = Search(linear, TRAINING, VALIDATION, SHORT, SPACE, 2, "sooner", url, "none", 0)
    with pytest.raises(InvalidArgument, match="`storage` must be a database that all workers reach, got 'sqlite://"):
        _work((search, "a call of another driver"), 0)


MESSAGES = {
    "memory": (
        lambda: tuned(),
        "`storage` must be a database that all workers reach, got None. "
        "For example postgresql://host/studies, or on one machine sqlite:///study.db.",
    ),
    "nobody to work": (
        lambda: tuned(workers=0),
        "`workers` must be at least 1, got 0.0. It counts trials that run at a time.",
    ),
    "workers without an engine": (
        lambda: tuned(settings=SHORT),
        "`workers` must be None where training.engine is 'local', got 2. "
        'This process does one trial at a time: set training.engine = "ray".',
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_this_sentence(case):
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message
