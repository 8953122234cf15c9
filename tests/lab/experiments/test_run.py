"""A plan goes through its stages: once, shared, in any number of attempts, and always with the same numbers."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import small_plan
from sooner import storage
from sooner.errors import InvalidArgument
from sooner.lab.experiments import Work, result_of, run
from sooner.lab.experiments.pages import write_pages
from sooner.lab.experiments.plan import DataPlan
from sooner.lab.experiments.run import SilentObserver, StageMaker, stages_of
from sooner.lab.experiments.sets import SPLITS, Sets
from sooner.lab.experiments.stages import Stage, taken
from sooner.models import FrameClassifier, build_model, features_from_file
from sooner.models.image.encoders import Identity
from sooner.train.learner import Learner
from sooner.train.settings import changed, settings_from_dict, to_dict

running = sys.modules["sooner.lab.experiments.run"]  # the package offers a function under the name of the module
STAGES = small_plan.STAGES


def _second(labels):
    return [label.replace("seed 0", "seed 1") for label in labels if "seed" in label]


def _trial(small, name, seed=0):
    return next(each for each in small.stages.trials if (each.contender.name, each.seed) == (name, seed))


def _numbers(plan, found, work):
    """The record without the times it took, and the scores of every trial, bit by bit."""
    record = result_of(plan, found, work).to_dict("a command", "a date")
    record["encoder_minutes"] = None
    for outcome in [*record["seeds"], *(seed for model in record["models"].values() for seed in model["seeds"])]:
        outcome["training_minutes"] = None
    scores = [np.load(trial.scores.folder(work) / "scores.npy").tobytes() for trial in found.trials]
    return record, scores


def _of_one_seed(small):
    return _numbers(small.plan, stages_of(small.plan, replace(small.work, seeds=1)), small.work.folder)


@pytest.fixture
def hollow(monkeypatch):
    """Stages are done without anything being done."""

    def perform(stage, work):
        (stage.folder(work) / "done.json").write_text('{"seconds": 6.0}', encoding="utf-8")

    monkeypatch.setattr(Stage, "perform", perform)


def _heard(plan, work):
    heard = small_plan.Heard()
    found = run(plan, replace(work, observer=heard))
    return heard.labels, found


# --- from end to end ----------------------------------------------------------------------------------------------------


def test_a_whole_plan_runs_from_its_encoder_to_the_scores_of_every_seed(small):
    assert small.heard.labels == STAGES + _second(STAGES)
    assert small.heard.places == [(place, 16) for place in range(1, 17)]
    assert all(stage.outcome(small.work.folder) is not None for stage in small.stages.in_order)
    assert [(each.contender.name, each.seed) for each in small.stages.trials] == [
        (name, seed) for seed in (0, 1) for name in ("MSPRT-TANDEM", "NP test", "EARLIEST 1e-2", "pooling")
    ]


def test_the_time_that_is_left_is_guessed_once_something_of_the_kind_is_known(small):
    assert small.heard.left[0] is None
    assert all(guess is not None and guess >= 0 for guess in small.heard.left[6:])


def test_a_rule_of_its_own_shares_training_and_scores(small):
    shared, owner = _trial(small, "NP test", 1), _trial(small, "MSPRT-TANDEM", 1)
    assert shared.training is owner.training
    assert shared.scores is owner.scores
    assert shared.contender.rule == "fixed_time"


def test_something_is_learned(small):
    chance = 90.0
    assert all(error < chance - 40 for error in small.result.errors("MSPRT-TANDEM", 20))
    assert small.result.mean("MSPRT-TANDEM", 20)[0] < small.result.mean("MSPRT-TANDEM", 2)[0]


def test_features_are_those_of_the_trained_encoder_on_fixed_masks(small):
    encoder = small.stages.encoder
    model = build_model(small.plan.encoder.settings.model, (28, 28), 10).eval()
    model.load_state_dict(torch.load(encoder.folder(small.work.folder) / "weights.pt", weights_only=True))
    sets = Sets(small.plan.data)
    for stage in (each for each in small.stages.in_order if each.name == "features"):
        frames = sets.frames(stage.ingredients["split"], masks="fixed", seed=0)
        kept = features_from_file(stage.folder(small.work.folder) / "features.npy")
        assert kept.shape == (len(frames), 20, 8)
        assert stage.outcome(small.work.folder)["series"] == len(frames)
        with torch.no_grad():
            expected = model.encoder(frames.observe(torch.arange(5), 0).flatten(0, 1)).unflatten(0, (5, 20))
        torch.testing.assert_close(kept[:5], expected, rtol=1e-4, atol=1e-5)
        assert float(kept.std()) > 0.01
        with torch.no_grad():
            right = model.head(kept).argmax(dim=2) == frames.labels[:, None]
        recalls = [float(right[frames.labels == digit].double().mean()) for digit in frames.labels.unique()]
        assert stage.outcome(small.work.folder)["frame_accuracy"] == pytest.approx(sum(recalls) / len(recalls))


def test_the_accuracy_of_single_frames_is_that_of_the_classifier_on_the_frames_themselves(small):
    model = build_model(small.plan.encoder.settings.model, (28, 28), 10).eval()
    weights = small.stages.encoder.folder(small.work.folder) / "weights.pt"
    model.load_state_dict(torch.load(weights, weights_only=True))
    for split, stage in small.stages.features.items():
        source = Sets(small.plan.data).frames(split, masks="fixed", seed=0)
        hits, shown = [0] * 10, [0] * 10
        with torch.no_grad():
            guesses = model(source.observe(torch.arange(len(source)), 0)).logits[:, :, 0].argmax(dim=2)
        for label, guessed in zip(source.labels.tolist(), guesses.tolist(), strict=True):
            hits[label] += guessed.count(label)
            shown[label] += len(guessed)
        found = stage.outcome(small.work.folder)["frame_accuracy"]
        assert found == pytest.approx(np.mean(np.divide(hits, shown)), abs=1e-12)
        assert found > 0.3  # chance is 0.1


def test_the_accuracy_of_single_frames_weighs_all_classes_alike_however_rare_they_are():
    """Of 250 series, 5 are of class 1 and none is of class 2; class 0 is always told, class 1 at every fourth time."""
    model = FrameClassifier(Identity((3,)), 3)
    torch.nn.init.eye_(model.head.weight)
    labels = (torch.arange(250) % 50 == 49).long()
    guesses = torch.where((labels == 1)[:, None] & (torch.arange(8) % 4 == 0), 1, 0)
    features = torch.nn.functional.one_hot(guesses, 3).float()
    assert running._frame_accuracy(model, features, labels) == pytest.approx((1 + 1 / 4) / 2, abs=1e-12)


def test_an_encoder_and_a_model_of_the_same_settings_are_one_training(small):
    same = replace(small.plan.encoder, name="single frames")
    stages = stages_of(replace(small.plan, contenders=(*small.plan.contenders, same)), replace(small.work, seeds=2))
    trainings = [trial.training for trial in stages.trials if trial.contender.name == "single frames"]
    assert trainings[0].digest == stages.encoder.digest
    assert trainings[1].digest != stages.encoder.digest
    assert [stage.digest for stage in stages.in_order].count(stages.encoder.digest) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"masks": "fixed"},
        {"validation": 20},
        {"settings": {"model.moments": 3}},
        {"settings": {"optimizer.lr": 0.02}},
    ],
)
def test_a_model_of_single_frames_with_anything_else_is_a_training_of_its_own(small, change):
    other = replace(small.plan.encoder, name="single frames")
    change = {**change, "settings": changed(other.settings, change.get("settings", {}))}
    plan = replace(small.plan, contenders=(*small.plan.contenders, replace(other, **change)))
    stages = stages_of(plan, replace(small.work, seeds=1))
    assert stages.trials[-1].training.digest != stages.encoder.digest


def test_where_a_model_shares_the_training_of_the_encoder_only_its_scores_are_left_to_do(tmp_path, hollow):  # noqa: ARG001
    own = re.search(r"^\[encoder\]\n(.*?)\n\n", small_plan.PLAN, re.DOTALL | re.MULTILINE)[1]
    models = f'[models."single frames"]\nreads = "frames"\nmasks = "redrawn"\n{own}\n\n[profiles.cpu]'
    plan = small_plan.read(tmp_path, ("[profiles.cpu]", models))
    labels, found = _heard(plan, Work(tmp_path / "runs", seeds=1))
    assert labels == [*STAGES, "scores of single frames, seed 0"]
    assert found.trials[-1].scores.needs[0].folder(tmp_path) == found.encoder.folder(tmp_path)


def test_an_encoder_of_another_set_is_the_training_of_that_set_and_its_features_are_of_the_plan_s_own(small, tmp_path):
    """The second plan finds the trained encoder of the first one, and writes features of its own set with it."""
    shutil.copytree(small.work.folder, tmp_path / "runs")
    changes = ('set = "nmnist-h"', 'set = "nmnist"'), ("[encoder]", '[encoder]\nset = "nmnist-h"')
    plan, work = small_plan.read(tmp_path, *changes), Work(tmp_path / "runs", seeds=1, only=("MSPRT-TANDEM",))
    labels, found = _heard(plan, work)
    assert found.encoder.digest == small.stages.encoder.digest
    assert labels == STAGES[1:6]
    model = build_model(plan.encoder.settings.model, (28, 28), 10).eval()
    model.load_state_dict(torch.load(found.encoder.folder(work.folder) / "weights.pt", weights_only=True))
    for split, stage in found.features.items():
        assert stage.digest != small.stages.features[split].digest
        frames = Sets(plan.data).frames(split, masks="fixed", seed=0)
        kept = features_from_file(stage.folder(work.folder) / "features.npy")
        with torch.no_grad():
            expected = model.encoder(frames.observe(torch.arange(5), 0).flatten(0, 1)).unflatten(0, (5, 20))
        torch.testing.assert_close(kept[:5], expected, rtol=1e-4, atol=1e-5)
    result = result_of(plan, found, work.folder)
    assert set(result.frame_accuracy) == {"validation", "test"}
    assert result.to_dict("", "")["encoder_set"] == "nmnist-h"


TOKENS = """
title = "Tokens in small"
times = [10, 100]

[data]
set = "nmnist-100f"
train = 100
validation = 20
test = 30

[encoder]
model = { name = "frames", encoder = "tokens", width = 8, moments = 8 }
loss.weights = { multiplet = 1.0 }
optimizer.lr = 1e-2
training = { batch_size = 50, iterations = 30, validate_every = 30 }

[models.MSPRT-TANDEM]
model = { hidden = 8, order = 0 }
optimizer.lr = 1e-2
training = { batch_size = 50, iterations = 60, validate_every = 60 }
"""


def test_a_plan_whose_encoder_reads_tokens_learns_from_the_few_pixels_that_a_frame_shows(tmp_path):
    plan, work = small_plan.read(tmp_path, text=TOKENS, profile="paper"), Work(tmp_path / "runs", seeds=1)
    labels, found = _heard(plan, work)
    assert labels == STAGES[:6]
    sizes = {"train": 100, "validation": 20, "test": 30}
    for split, stage in found.features.items():
        assert features_from_file(stage.folder(work.folder) / "features.npy").shape == (sizes[split], 100, 8)
        assert 0.2 < stage.outcome(work.folder)["frame_accuracy"] <= 1  # chance is 0.1
    result = result_of(plan, found, work.folder)
    assert result.mean("MSPRT-TANDEM", 100)[0] < 70  # chance is 90


@pytest.mark.parametrize("name", ["MSPRT-TANDEM", "EARLIEST 1e-2", "pooling"])
@pytest.mark.parametrize("seed", [0, 1])
def test_scores_are_those_of_the_trained_model_on_the_test_set(small, name, seed):
    trial, work = _trial(small, name, seed), small.work.folder
    frames = Sets(small.plan.data).frames("test", masks="fixed", seed=0)
    tested = next(stage for stage in small.stages.in_order if stage.label == "features, test")
    observations = features_from_file(tested.folder(work) / "features.npy")
    if trial.contender.reads == "frames":
        observations = frames.observe(torch.arange(60), 0)
    settings = settings_from_dict(trial.training.outcome(work)["settings"])
    assert settings == changed(trial.contender.settings, {"training.seed": seed})
    model = build_model(settings.model, tuple(observations.shape[2:]), 10, log_prior=torch.zeros(10)).eval()
    model.load_state_dict(torch.load(trial.training.folder(work) / "weights.pt", weights_only=True))
    folder = trial.scores.folder(work)
    with torch.no_grad():
        expected = model.scores(observations[:10])
    np.testing.assert_allclose(np.load(folder / "scores.npy")[:10], expected.numpy(), rtol=1e-3, atol=1e-4)
    assert np.load(folder / "scores.npy").shape == (60, 20, 10)
    assert np.load(folder / "labels.npy").tolist() == frames.labels.tolist()
    assert (folder / "halting.npy").exists() == (name == "EARLIEST 1e-2")


def test_the_prior_of_a_model_is_that_of_its_training_set(small):
    settings = changed(small.plan.contender("MSPRT-TANDEM").settings, {"model.encoder": "dense", "model.width": 4})
    sets = Sets(DataPlan("nmnist-h", "tenfold"))
    model = StageMaker(sets, small.work).untrained(settings, sets.frames("train", masks="fixed", seed=0))
    counts = torch.tensor([round(20 * 0.1 ** (k / 9)) for k in range(10)])
    torch.testing.assert_close(model.log_prior, (counts / counts.sum()).log())
    left = _trial(small, "MSPRT-TANDEM").training.folder(small.work.folder) / "weights.pt"
    torch.testing.assert_close(torch.load(left, weights_only=True)["log_prior"], torch.full((10,), 0.1).log())


def test_weights_begin_with_the_seed_and_leave_the_randomness_of_the_process_alone(small):
    settings, sets = small.plan.contender("MSPRT-TANDEM").settings, Sets(small.plan.data)
    source = sets.frames("train", masks="fixed", seed=0)
    settings = changed(settings, {"model.encoder": "dense", "model.width": 4})
    torch.manual_seed(3)
    state = torch.get_rng_state()
    first, again = (StageMaker(sets, small.work).untrained(settings, source).state_dict() for _ in range(2))
    other = StageMaker(sets, small.work).untrained(changed(settings, {"training.seed": 1}), source).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_model_may_be_judged_by_fewer_series_of_the_validation_set(small, tmp_path):
    sets, features = Sets(small.plan.data), _features(tmp_path, small.plan.data)
    for reads in ("features", "frames"):
        each = replace(small.plan.contender("MSPRT-TANDEM"), reads=reads, validation=20)
        whole = replace(each, validation="all")
        work = Work(tmp_path)
        for split, size in (("train", 100), ("validation", 20), ("test", 60)):
            some, full = (StageMaker(sets, work, features).source(who, split, 0) for who in (each, whole))
            rows = torch.arange(size)
            assert len(some) == size
            assert torch.equal(some.labels[rows], full.labels[rows])
            assert torch.equal(some.observe(rows, 0), full.observe(rows, 0))
    assert len(StageMaker(sets, work, features).source(replace(each, validation=31), "validation", 0)) == 30


@pytest.mark.parametrize("validation", [20, 31, 45, 200])
def test_features_keep_their_labels_whatever_part_of_a_thinned_set_a_model_is_judged_by(small, tmp_path, validation):
    data = DataPlan("nmnist-h", "tenfold", validation=50)
    features, work = _features(tmp_path, data), Work(tmp_path)
    each = replace(small.plan.contender("MSPRT-TANDEM"), validation=validation)
    source = StageMaker(Sets(data), work, features).source(each, "validation", 0)
    assert source.observations[:, 0].argmax(dim=1).tolist() == source.labels.tolist()


def _features(work, data):
    """Stages of features that are nothing but the classes of the series, one at a time."""
    found = {}
    for split in SPLITS:
        found[split] = Stage("features", split, {"split": split}, (), lambda _folder: {})
        folder = found[split].folder(work)
        folder.mkdir(parents=True, exist_ok=True)
        labels = Sets(data).frames(split, masks="fixed", seed=0).labels
        vectors = torch.nn.functional.one_hot(labels, 10).float()[:, None].expand(-1, 20, -1)
        np.save(folder / "features.npy", vectors.numpy())
    return found


# --- what is done already -----------------------------------------------------------------------------------------------


def test_a_second_run_does_nothing(small, monkeypatch):
    def refuse(_stage, _work):
        raise AssertionError

    monkeypatch.setattr(Stage, "perform", refuse)
    labels, found = _heard(small.plan, small.work)
    assert labels == []
    assert _numbers(small.plan, found, small.work.folder) == _numbers(small.plan, small.stages, small.work.folder)


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (("pooling",), STAGES[8:]),
        (("MSPRT-TANDEM",), STAGES[:6]),
        (("NP test",), STAGES[:6]),
        (("EARLIEST 1e-2", "pooling"), STAGES[:4] + STAGES[6:]),
        ((), STAGES),
    ],
)
def test_only_what_is_needed_for_some_models_is_run(tmp_path, hollow, only, expected):  # noqa: ARG001
    plan = small_plan.read(tmp_path)
    labels, found = _heard(plan, Work(tmp_path / "runs", seeds=1, only=only))
    assert labels == expected
    assert [stage.label for stage in found.in_order] == STAGES
    labels, _ = _heard(plan, Work(tmp_path / "runs", seeds=1))
    assert labels == [stage for stage in STAGES if stage not in expected]


def test_a_model_that_no_plan_has_is_refused_before_anything_is_done(tmp_path, hollow):  # noqa: ARG001
    with pytest.raises(InvalidArgument) as caught:
        run(small_plan.read(tmp_path), Work(tmp_path / "runs", only=("pooling", "MSPRT")))
    assert str(caught.value) == (
        "`only` must be among MSPRT-TANDEM, NP test, EARLIEST 1e-2, pooling, got 'MSPRT'. Names are exact."
    )
    assert not (tmp_path / "runs").exists()


def test_more_seeds_add_to_what_is_there(tmp_path, hollow):  # noqa: ARG001
    plan = small_plan.read(tmp_path)
    first, _ = _heard(plan, Work(tmp_path / "runs", seeds=1))
    more, _ = _heard(plan, Work(tmp_path / "runs", seeds=2))
    assert (first, more) == (STAGES, _second(STAGES))


def test_two_plans_share_the_stages_that_are_the_same(small, tmp_path):
    shutil.copytree(small.work.folder, tmp_path / "runs")
    changes = (
        ('title = "In small"', 'title = "Another"'),
        ("hidden = 8, order = 3", "hidden = 8, order = 2"),
        ('[models."EARLIEST 1e-2"]', "[models.renamed]"),
    )
    plan = small_plan.read(tmp_path, *changes)
    labels, found = _heard(plan, Work(tmp_path / "runs", seeds=1))
    assert labels == ["MSPRT-TANDEM, seed 0", "scores of MSPRT-TANDEM, seed 0"]
    assert set(result_of(plan, found, tmp_path / "runs").outcomes) == {each.name for each in plan.contenders}


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (("optimizer.lr = 1e-2\ntraining = { batch_size = 20", "training = { batch_size = 20"), STAGES[:8]),
        (("test = 60", "test = 50"), STAGES),
        (('set = "nmnist-h"', 'set = "nmnist"'), STAGES),
        (('masks = "redrawn"', 'masks = "fixed"'), STAGES[8:]),
        (("penalty = 1e-2", "penalty = 1e-3"), STAGES[6:8]),
        (('rule = "fixed_time"', 'rule = "msprt"'), []),
        (("times = [1, 2, 5, 10, 20]", "times = [3]"), []),
    ],
)
def test_what_depends_on_a_change_is_done_again_and_nothing_else(tmp_path, hollow, change, again):  # noqa: ARG001
    work = Work(tmp_path / "runs", seeds=1)
    run(small_plan.read(tmp_path), work)
    labels, _ = _heard(small_plan.read(tmp_path, change), work)
    assert labels == again


def test_the_order_of_models_in_a_file_does_not_matter(tmp_path, hollow):  # noqa: ARG001
    shared = '[models."NP test"]\nscores_of = "MSPRT-TANDEM"\nrule = "fixed_time"\n'
    plan = small_plan.read(tmp_path, (shared, ""), ("[models.MSPRT-TANDEM]", f"{shared}\n[models.MSPRT-TANDEM]"))
    assert [each.name for each in plan.contenders][:2] == ["NP test", "MSPRT-TANDEM"]
    labels, found = _heard(plan, Work(tmp_path / "runs", seeds=1))
    assert labels == STAGES
    assert [each.contender.name for each in found.trials][:2] == ["NP test", "MSPRT-TANDEM"]


def test_nobody_need_listen(tmp_path, hollow):  # noqa: ARG001
    work = Work(tmp_path / "runs", seeds=1)
    assert isinstance(work.observer, SilentObserver)
    assert len(run(small_plan.read(tmp_path), work).in_order) == len(STAGES)


# --- cut, killed, shared ------------------------------------------------------------------------------------------------


class Cutting(small_plan.Heard):
    """Raises at the first sign of every stage, then in the midst of every one."""

    def __init__(self):
        super().__init__()
        self.cuts = []

    def stage(self, label, place, total, seconds_left):
        super().stage(label, place, total, seconds_left)
        self.cut("before")

    def step(self, done, total):  # noqa: ARG002
        self.cut("amid")

    def cut(self, when):
        if (self.labels[-1], when) not in self.cuts:
            self.cuts.append((self.labels[-1], when))
            raise KeyboardInterrupt


@pytest.mark.faults
def test_interrupted_before_amid_and_after_every_stage_it_ends_with_the_same_numbers(small, tmp_path, monkeypatch):
    def cut_before_the_last_word(source, target):
        if target.name == "done.json":
            observer.cut("after")
        replace_(source, target)

    replace_, observer, heeded = os.replace, Cutting(), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(storage.os, "replace", cut_before_the_last_word)
    plan = small_plan.read(tmp_path)
    work = Work(tmp_path / "runs", seeds=1, observer=observer)
    for _ in range(3 * len(STAGES)):
        with pytest.raises(KeyboardInterrupt):
            run(plan, work)
    found = run(plan, work)
    assert observer.cuts == [(label, when) for label in STAGES for when in ("before", "amid", "after")]
    assert signal.getsignal(signal.SIGINT) is heeded
    assert _numbers(plan, found, work.folder) == _of_one_seed(small)


@pytest.mark.faults
def test_killed_while_it_shares_the_work_it_leaves_the_rest_to_the_other_process(small, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_POLL_SECONDS", 0.05)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    other = subprocess.Popen([sys.executable, small_plan.__file__, str(tmp_path)], env=environment)
    try:
        begun, deadline = tmp_path / "begun.txt", time.monotonic() + 120
        while other.poll() is None and time.monotonic() < deadline:
            if begun.exists() and len(begun.read_text().splitlines()) == 3:
                break
            time.sleep(0.02)
        plan = small_plan.read(tmp_path)
        (tmp_path / "shared.txt").touch()
        mine, found = _heard(plan, Work(tmp_path / "runs", seeds=1))
        assert other.wait(timeout=60) == -signal.SIGKILL
    finally:
        other.kill()
        other.wait()
    assert begun.read_text().splitlines() == STAGES[:3]
    assert sorted(mine) == sorted(STAGES[2:])
    assert _numbers(plan, found, tmp_path / "runs") == _of_one_seed(small)


def test_what_another_process_does_is_waited_for_while_there_is_other_work(tmp_path, monkeypatch, hollow):  # noqa: ARG001
    plan, work = small_plan.read(tmp_path), Work(tmp_path / "runs", seeds=1)
    heard, naps = small_plan.Heard(), []
    encoder = stages_of(plan, work).in_order[0]

    def nap(seconds):
        naps.append(seconds)
        assert heard.labels == STAGES[8:]
        encoder.perform(work.folder)

    monkeypatch.setattr(running.time, "sleep", nap)
    with taken(encoder.folder(work.folder)) as mine:
        assert mine
        run(plan, replace(work, observer=heard))
    assert len(naps) == 1
    assert heard.labels == STAGES[8:] + STAGES[1:8]


# --- tuning -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned(small, tmp_path_factory):
    """The first model of the small plan after two trials of tuning, in a copy of the finished folder."""
    folder = tmp_path_factory.mktemp("tuned") / "runs"
    shutil.copytree(small.work.folder, folder)
    heard = small_plan.Heard()
    work = Work(folder, seeds=2, trials=2, only=("MSPRT-TANDEM",), observer=heard)
    return work, run(small.plan, work), heard


def _tuning(found):
    return next(stage for stage in found.in_order if stage.name == "tuning")


def test_tuning_comes_before_the_trainings_and_all_seeds_share_it(tuned):
    work, found, heard = tuned
    assert heard.labels == [
        "tuning MSPRT-TANDEM",
        "MSPRT-TANDEM, seed 0",
        "scores of MSPRT-TANDEM, seed 0",
        "MSPRT-TANDEM, seed 1",
        "scores of MSPRT-TANDEM, seed 1",
    ]
    assert [stage.name for stage in found.in_order].count("tuning") == 1
    folder = _tuning(found).folder(work.folder)
    assert {"best.toml", "record.json", "study.db"} <= {path.name for path in folder.iterdir()}


def test_trainings_have_the_settings_that_tuning_found(small, tuned):
    work, found, _ = tuned
    outcome = _tuning(found).outcome(work.folder)
    best = settings_from_dict(outcome["settings"])
    axes = small.plan.contender("MSPRT-TANDEM").search.axes
    assert best.optimizer.lr in axes["optimizer.lr"].values
    assert best.model.order in axes["model.order"].values
    assert 0 < outcome["metric"] <= 1
    for trial in found.trials:
        if trial.contender.name in ("MSPRT-TANDEM", "NP test"):
            used = trial.training.outcome(work.folder)["settings"]
            assert used == to_dict(changed(best, {"training.seed": trial.seed}))


def test_the_record_tells_the_settings_that_were_used(small, tuned):
    work, found, _ = tuned
    best = _tuning(found).outcome(work.folder)["settings"]
    told = result_of(small.plan, found, work.folder).to_dict("", "")["settings"]["MSPRT-TANDEM"]
    assert best["optimizer"] != to_dict(small.plan.contender("MSPRT-TANDEM").settings)["optimizer"]
    assert (told["model"], told["optimizer"]) == (best["model"], best["optimizer"])


def test_the_record_has_the_trials_the_choice_and_the_space(small, tuned):
    work, found, _ = tuned
    record = result_of(small.plan, found, work.folder).to_dict("a command", "a date")
    assert [name for name, model in record["models"].items() if model.get("tuned")] == ["MSPRT-TANDEM", "NP test"]
    entry = record["tuning"]["MSPRT-TANDEM"]
    left = json.loads((_tuning(found).folder(work.folder) / "record.json").read_text())
    assert entry["trials"] == left["trials"]
    assert {key for trial in entry["trials"] for key in trial} == {"number", "state", "values", "metric", "seconds"}
    assert all(trial["seconds"] > 0 for trial in entry["trials"])
    best = max((trial for trial in entry["trials"] if trial["metric"]), key=lambda trial: trial["metric"])
    assert (entry["chosen"], entry["metric"]) == (best["values"], best["metric"])
    assert entry["space"] == {"optimizer.lr": [1.5e-2, 2e-2, 3e-2, 4e-2], "model.order": [0, 1, 2, 3]}
    assert entry["published"] == {"optimizer.lr": 1e-2, "model.order": 3}
    assert entry["settings_of_trials"] == to_dict(small.plan.contender("MSPRT-TANDEM").settings)
    assert (entry["command"], entry["mean"]) == ("a command", record["models"]["MSPRT-TANDEM"]["mean"])
    assert small.result.to_dict("", "")["tuning"] == {}


def test_the_page_lays_the_published_choice_beside_the_best_trials(small, tuned, tmp_path):
    work, found, _ = tuned
    result = result_of(small.plan, found, work.folder)
    table = write_pages(tmp_path, result, found, work.folder, None).tables[-1]
    assert table.title == "Tuning of MSPRT-TANDEM"
    assert table.columns == ("trial", "optimizer.lr", "model.order", "mean accuracy", "minutes")
    assert table.rows[-1] == ("published choice", "0.01", "3", "not tried", "")
    assert float(table.rows[0][3]) == round(result.tuned["MSPRT-TANDEM"]["metric"], 4)
    assert table.note.startswith("2 trials (")
    assert "of at most 30 steps of 25 series" in table.note


def test_trials_may_be_shorter_than_the_training_with_the_chosen_settings(small, tmp_path):
    for stage in small.stages.in_order[:4]:
        shutil.copytree(stage.folder(small.work.folder), stage.folder(tmp_path))
    plan = replace(small.plan, tuning=(("iterations", 8), ("validate_every", 4)))
    work = Work(tmp_path, seeds=1, trials=1, only=("MSPRT-TANDEM",))
    found = run(plan, work)
    assert _tuning(found).digest != _tuning(stages_of(small.plan, work)).digest
    outcome = _tuning(found).outcome(tmp_path)
    assert outcome["settings_of_trials"]["training"]["iterations"] == 8
    assert outcome["settings"]["training"]["iterations"] == 30
    trained = found.trials[0].training.outcome(tmp_path)
    assert [validation["step"] for validation in trained["history"]] == [10, 20, 30]


def test_tuning_that_is_interrupted_in_every_trial_tries_the_same_points(small, tuned, tmp_path, monkeypatch):
    def cut(learner):
        counted.append(learner)
        if len(counted) in (2, 6):  # the second validation of the first trial, and that of the second one
            raise KeyboardInterrupt
        return validated(learner)

    work, found, _ = tuned
    for stage in small.stages.in_order[:4]:
        shutil.copytree(stage.folder(small.work.folder), stage.folder(tmp_path))
    stage = _tuning(stages_of(small.plan, Work(tmp_path, seeds=1, trials=2)))
    validated, counted = Learner.validate, []
    with monkeypatch.context() as patch, taken(stage.folder(tmp_path)):
        patch.setattr(Learner, "validate", cut)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                stage.perform(tmp_path)
        stage.perform(tmp_path)
    unbroken, resumed = (_tuning(found).folder(work.folder), stage.folder(tmp_path))
    assert _points(resumed) == _points(unbroken)
    assert (resumed / "best.toml").read_text() == (unbroken / "best.toml").read_text()


def _points(folder):
    """Where the trials of a study that came to their ends were, and what they reached."""
    trials = json.loads((folder / "record.json").read_text())["trials"]
    return [(trial["values"], trial["metric"]) for trial in trials if trial["state"] == "complete"]


def test_without_trials_nothing_is_tuned_and_with_others_it_is_tuned_again(small):
    found = {
        trials: stages_of(small.plan, replace(small.work, trials=trials)).trials[0].training.digest
        for trials in (0, 1, 2)
    }
    assert len(set(found.values())) == 3
    assert found[0] == _trial(small, "MSPRT-TANDEM").training.digest


def test_masks_reading_and_validation_are_ingredients_of_tuning(small):
    search = small.plan.contender("MSPRT-TANDEM").search
    work = replace(small.work, trials=1)
    pooling = replace(small.plan.contender("pooling"), search=search)

    def digest(contender):
        return _tuning(stages_of(replace(small.plan, contenders=(contender,), headline=""), work)).digest

    variants = [
        digest(pooling),
        digest(replace(pooling, masks="fixed")),
        digest(replace(pooling, masks="fixed", reads="features")),
        digest(replace(pooling, validation=20)),
    ]
    assert len(set(variants)) == 4


# --- sentences ----------------------------------------------------------------------------------------------------------


def test_videos_without_features_stop_a_plan_before_it_begins(small, tmp_path):
    some = tuple(each for each in small.plan.contenders if each.masks == "fixed")
    plan = replace(small.plan, data=DataPlan("ucf101"), contenders=some, headline="")
    with pytest.raises(InvalidArgument, match=r"^`features` must be the features of ucf101, got nothing"):
        run(plan, Work(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_a_set_that_lacks_a_class_is_told(tmp_path):
    plan = small_plan.read(tmp_path, ("train = 100", "train = 9"))
    with pytest.raises(InvalidArgument, match=r"^`labels` must be of all 10 classes, got none of class 9"):
        run(plan, Work(tmp_path / "runs", seeds=1, only=("pooling",)))
