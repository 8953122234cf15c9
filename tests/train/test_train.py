import csv
import dataclasses
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import small_training
from small_training import PROCESS, SETTINGS, TRAINING, VALIDATION, linear
from sooner import inputs, losses
from sooner.data import Gaussian
from sooner.errors import InvalidArgument, SoonerError, TrainingDiverged
from sooner.evaluate import balanced_error, mean_accuracy
from sooner.losses import LOSSES, dskl, lsel, multiplet
from sooner.models.earliest import Earliest, annealed
from sooner.series import Series
from sooner.train import Drawn, train
from sooner.train.criterion import Criterion
from sooner.train.settings import LossSettings, changed
from sooner.train.sources import InOrder, batch_indices, class_counts
from sooner.types import Windows


def weights_of(model):
    return torch.cat([value.flatten().double() for value in model.state_dict().values()])


def trained(model=None, settings=SETTINGS, **options):
    model = linear() if model is None else model
    return model, train(model, TRAINING, VALIDATION, settings, **options)


def test_training_approaches_the_exact_scores():
    model = linear()
    long = changed(SETTINGS, {"training.iterations": 200, "training.validate_every": 25})
    before = mean_accuracy(model.eval().scores(VALIDATION.observations.float()), VALIDATION.labels)
    record = train(model, TRAINING, VALIDATION, long)
    exact = mean_accuracy(PROCESS.scores(VALIDATION.observations), VALIDATION.labels)
    assert before < 0.6
    assert record.best.metric > exact - 0.02
    now = mean_accuracy(model.scores(VALIDATION.observations.float()), VALIDATION.labels)
    assert now == record.best.metric == max(found.metric for found in record.history)
    assert not model.training


def test_every_nth_step_and_the_last_one_are_validated():
    _, record = trained()
    assert [found.step for found in record.history] == [10, 20, 30, 40, 47]
    assert record.steps == 47
    assert all(math.isfinite(found.loss) for found in record.history)


def test_every_validation_measures_the_balanced_error_of_the_last_observation():
    model, record = trained()
    guesses = model.scores(VALIDATION.observations.float())[:, -1].argmax(dim=1)
    assert record.best.last_error == pytest.approx(balanced_error(guesses, VALIDATION.labels), abs=1e-12)
    assert all(0 <= found.last_error <= 1 for found in record.history)
    assert [found["last_error"] for found in json.loads(record.to_json())["history"]] == [
        found.last_error for found in record.history
    ]


def test_a_checkpoint_of_a_version_without_the_last_error_is_resumed(tmp_path):
    short = changed(SETTINGS, {"training.iterations": 20})
    trained(settings=short, folder=tmp_path)
    state = torch.load(tmp_path / "last.ckpt", weights_only=True)
    history = [validation[:3] for validation in state["selection"]["history"]]
    state["selection"] |= {"history": history, "best": state["selection"]["best"][:3]}
    torch.save(state, tmp_path / "last.ckpt")
    patient = changed(SETTINGS, {"training.patience": 40})
    _, record = trained(settings=patient, folder=tmp_path, resume=True)
    _, unbroken = trained()
    assert [found[:3] for found in record.history] == [found[:3] for found in unbroken.history]
    assert [found.last_error is None for found in record.history] == [True, True, False, False, False]
    first, *_ = json.loads(record.to_json())["history"]
    assert first["last_error"] is None


def test_the_seed_is_all_the_randomness_there_is():
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, _ = trained(linear(dropout=0.3))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(4)
    two, _ = trained(linear(dropout=0.3))
    three, _ = trained(linear(dropout=0.3), changed(SETTINGS, {"training.seed": 1}))
    assert torch.equal(weights_of(one), weights_of(two))
    assert not torch.equal(weights_of(one), weights_of(three))


@pytest.mark.parametrize("size", [1, 3, 7, 10, 20])
def test_batches_are_full_and_an_epoch_repeats_nobody(size):
    per_epoch = max(10 // size, 1)
    for epoch in range(3):
        batches = [batch_indices(epoch * per_epoch + place, 10, size, seed=5) for place in range(per_epoch)]
        assert {len(batch) for batch in batches} == {min(size, 10)}
        assert len(set(np.concatenate(batches).tolist())) == per_epoch * min(size, 10)
    assert batch_indices(0, 10, 5, seed=5).tolist() != batch_indices(2, 10, 5, seed=5).tolist()


class Cut(Exception):
    pass


@pytest.mark.parametrize(("step", "schedule"), [(3, "constant"), (10, "cosine"), (36, "cosine")])
def test_cut_at_any_step_and_resumed_it_is_as_if_nothing_had_happened(tmp_path, step, schedule):
    settings = changed(SETTINGS, {"optimizer.schedule": schedule})
    whole, unbroken = trained(linear(dropout=0.3), settings)
    broken = linear(dropout=0.3)

    def cut(*_):
        if broken.training and broken.steps == step:
            raise Cut

    hook = broken.register_forward_pre_hook(cut)
    with pytest.raises(Cut):
        trained(broken, settings, folder=tmp_path)
    hook.remove()
    resumed, record = trained(linear(dropout=0.3), settings, folder=tmp_path, resume=True)
    assert torch.equal(weights_of(resumed), weights_of(whole))
    assert (record.history, record.best, record.steps) == (unbroken.history, unbroken.best, unbroken.steps)


@pytest.mark.faults
def test_killed_and_resumed_it_is_as_if_nothing_had_happened(tmp_path):
    step = int(np.random.default_rng().integers(1, 47))
    program = [sys.executable, small_training.__file__, "die", str(tmp_path), str(step)]
    killed = subprocess.run(program, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert killed.returncode == -9, step
    assert (tmp_path / "last.ckpt").exists() == (step >= 10)
    whole, unbroken = trained(linear(dropout=0.3))
    resumed, record = trained(linear(dropout=0.3), folder=tmp_path, resume=True)
    assert torch.equal(weights_of(resumed), weights_of(whole)), step
    assert record.history == unbroken.history, step


def explored(monkeypatch, cut_at=None, **options):
    """EARLIEST after a run, its record, and the exploration of each training step; cut at one, if asked for."""
    found, plain = [], Earliest.loss

    def loss(model, *arguments, epsilon, **others):
        if model.training:
            if len(found) == cut_at:
                raise Cut
            found.append(epsilon)
        else:
            assert epsilon == 0.0
        return plain(model, *arguments, epsilon=epsilon, **others)

    with torch.random.fork_rng(devices=[]), monkeypatch.context() as patch:
        torch.manual_seed(0)
        model = Earliest((3,), 3, hidden=4)
        patch.setattr(Earliest, "loss", loss)
        try:
            return *trained(model, changed(SETTINGS, {"model.name": "earliest"}), **options), found
        except Cut:
            return None, None, found


def test_exploration_of_earliest_goes_from_one_to_zero_and_a_resumed_run_goes_on_with_it(tmp_path, monkeypatch):
    whole, unbroken, found = explored(monkeypatch)
    assert found == [annealed(step / 46) for step in range(47)]
    assert (found[0], found[-1]) == (1.0, 0.0)
    assert explored(monkeypatch, cut_at=26, folder=tmp_path)[2] == found[:26]
    resumed, record, rest = explored(monkeypatch, folder=tmp_path, resume=True)
    assert rest == found[20:]  # from the last checkpoint
    assert torch.equal(weights_of(resumed), weights_of(whole))
    assert record.history == unbroken.history


@pytest.mark.parametrize("name", ["sgdw", "rmsprop"])
def test_a_run_can_be_prolonged(tmp_path, name):
    settings = changed(SETTINGS, {"optimizer.name": name})
    trained(settings=settings, folder=tmp_path)
    longer = changed(settings, {"training.iterations": 60})
    prolonged, record = trained(settings=longer, folder=tmp_path, resume=True)
    whole, unbroken = trained(settings=longer)
    assert [found.step for found in record.history] == [10, 20, 30, 40, 47, 50, 60]
    assert record.history[-2:] == unbroken.history[-2:]
    if record.best.step != 47:
        assert torch.equal(weights_of(prolonged), weights_of(whole))


def test_a_finished_run_gives_its_record_again(tmp_path):
    first, record = trained(folder=tmp_path)
    again, same = trained(linear(), folder=tmp_path, resume=True)
    assert same.history == record.history
    assert torch.equal(weights_of(first), weights_of(again))


def test_early_stopping_stops_and_stays_stopped(tmp_path):
    hasty = changed(SETTINGS, {"training.patience": 2, "training.validate_every": 3, "training.iterations": 400})
    model, record = trained(settings=hasty, folder=tmp_path)
    place = record.history.index(record.best)
    assert len(record.history) == place + 3
    assert record.steps == record.history[-1].step < 400
    again, same = trained(settings=hasty, folder=tmp_path, resume=True)
    assert same.history == record.history
    assert torch.equal(weights_of(model), weights_of(again))


def test_the_folder_holds_everything_about_the_run(tmp_path):
    _, record = trained(folder=tmp_path / "run")
    files = {path.name.split(".")[0] for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert files == {"best", "last", "record", "metrics"}
    said = json.loads((tmp_path / "run" / "record.json").read_text())
    assert said["best"] == record.best._asdict()
    assert said["settings"]["optimizer"]["lr"] == 0.03
    assert set(said["versions"]) == {"python", "torch", "sooner"}
    best = torch.load(tmp_path / "run" / "best.ckpt", weights_only=True)
    assert best["learner"]["step"] == record.best.step


def test_the_log_has_the_losses_of_steps_and_every_validation(tmp_path):
    _, record = trained(folder=tmp_path)
    with (tmp_path / "logs" / "start_0" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["step", "loss/total", "loss/multiplet", "loss/lsel", "mean_accuracy", "validation_loss"]
    assert [int(row["step"]) for row in rows if row["loss/total"]] == [10, 20, 30, 40]
    validated = [(int(row["step"]), float(row["mean_accuracy"])) for row in rows if row["mean_accuracy"]]
    assert validated == [(found.step, found.metric) for found in record.history]


def test_nothing_is_written_without_a_folder_and_nothing_is_said(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    trained()
    assert list(Path(tmp_path).iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("columns", ["80", "140"])
def test_a_verbose_run_shows_a_bar(capfd, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    trained(verbose=True)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "47/47" in shown.err
    if columns == "140":
        assert re.search(r"best mean accuracy over time 0\.\d{4} at step \d+, validation", shown.err)


def test_a_loss_that_is_no_number_is_named_with_step_and_series():
    wild = changed(SETTINGS, {"loss.weights.lsif": 1.0, "optimizer.lr": 1e4, "optimizer.name": "sgdw"})
    with pytest.raises(TrainingDiverged) as caught:
        trained(settings=wild)
    step, series = caught.value.step, caught.value.series
    assert set(series) <= set(batch_indices(step, len(TRAINING), 64, seed=0).tolist())
    said = str(caught.value)
    assert said.startswith(f"The loss at step {step} is not finite (multiplet = ")
    assert f"on training series {', '.join(map(str, series[:5]))} and {len(series) - 5} more." in said
    assert said.endswith(
        "Try a learning rate below 10000, gradient clipping, or another loss: LSIF, LSIFwC and BARR overflow by definition."
    )
    assert isinstance(caught.value, SoonerError)


@pytest.mark.parametrize("name", LOSSES)
def test_weights_that_are_no_numbers_are_found_whichever_loss_reads_them(name):
    model = linear()
    with torch.no_grad():
        model.linear.weight[0, 0] = math.nan
    settings = dataclasses.replace(SETTINGS, loss=LossSettings({name: 1.0}))
    with pytest.raises(TrainingDiverged, match=rf"step 0 is not finite \({name} = nan\)"):
        trained(model, settings)


def test_scores_that_are_no_numbers_end_the_training_at_their_step(monkeypatch):
    model = linear()
    whole = type(model).forward

    def forward(self, observations, lengths=None):
        windows = whole(self, observations, lengths)
        logits = windows.logits.clone()
        logits[1, 2] = torch.nan if self.steps == 3 else logits[1, 2]
        return Windows(logits)

    monkeypatch.setattr(type(model), "forward", forward)
    with pytest.raises(
        TrainingDiverged, match=r"The loss at step 2 is not finite \(multiplet = nan, lsel = nan\)"
    ) as caught:
        trained(model, SETTINGS)
    assert caught.value.series == batch_indices(2, len(TRAINING), 64, seed=0).tolist()[1:2]


def test_no_step_checks_what_was_checked_before_the_training(monkeypatch):
    """Labels, lengths, class counts and finiteness are looked at once, however many steps, losses and validations follow."""
    calls = Counter()

    def counted(name, function):
        def count(*args, **kwargs):
            calls[name] += 1
            return function(*args, **kwargs)

        return count

    for name in (
        "as_labels",
        "as_lengths",
        "as_real_tensor",
        "refuse_nonfinite",
        "with_lengths",
        "batch_of",
        "as_counts",
    ):
        home = losses.means if name in ("batch_of", "as_counts") else inputs
        original = getattr(home, name)
        for module in [each for key, each in sys.modules.items() if key.split(".")[0] == "sooner"]:
            if vars(module).get(name) is original:
                monkeypatch.setattr(module, name, counted(name, original))
    lengths = torch.randint(1, 7, (len(TRAINING),), generator=torch.Generator().manual_seed(0))
    weights = {name: 1e-3 for name in LOSSES if name not in ("lsif", "lsif_halved", "lsifwc")}
    training = Series.from_arrays(TRAINING.observations, TRAINING.labels, lengths=lengths)
    seen = []
    for steps in (2, 20):
        calls.clear()
        settings = changed(SETTINGS, {"training.iterations": steps, "training.validate_every": 2, "optimizer.lr": 1e-4})
        settings = dataclasses.replace(settings, loss=LossSettings(weights))
        train(linear(), training, VALIDATION, settings)
        seen.append(dict(calls))
    assert seen[0] == seen[1]
    assert {name: seen[0].get(name, 0) for name in ("as_labels", "as_lengths", "as_counts")} == {
        "as_labels": 0,
        "as_lengths": 0,
        "as_counts": 1,
    }  # labels and lengths were checked where the record was made


def test_ctrl_c_is_a_keyboard_interrupt():
    def press(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(watch=press)


def test_what_pads_a_series_changes_nothing():
    lengths = torch.randint(1, 7, (len(TRAINING),), generator=torch.Generator().manual_seed(0))
    results = []
    for padding in (0.0, math.nan):
        observations = TRAINING.observations.clone()
        observations[torch.arange(6) >= lengths[:, None]] = padding
        model = linear()
        train(model, Series.from_arrays(observations, TRAINING.labels, lengths=lengths), VALIDATION, SETTINGS)
        results.append(weights_of(model))
    assert torch.equal(*results)


def test_the_loss_is_the_weighted_sum_with_the_counts_of_the_training_set():
    counts = class_counts(TRAINING, 3)
    criterion = Criterion(LossSettings({"multiplet": 0.5, "lsel": 10.0, "dskl": 0.0}), counts)
    model, batch = linear().eval(), dataclasses.replace(TRAINING, observations=TRAINING.observations.float())
    batch = InOrder(batch, 20).take(np.arange(20))
    judged = criterion(model, batch)
    logits, scores = model(batch.observations).logits, model.scores(batch.observations)
    expected = 0.5 * multiplet(logits, batch.labels) + 10 * lsel(scores, batch.labels, class_counts=counts[0])
    torch.testing.assert_close(judged.total, expected)
    assert set(judged.terms) == {"multiplet", "lsel"}


def test_series_that_have_ended_count_no_more_where_a_loss_needs_to_know():
    lengths = torch.randint(1, 7, (len(TRAINING),), generator=torch.Generator().manual_seed(0))
    examples = dataclasses.replace(TRAINING, lengths=lengths)
    counts = class_counts(examples, 3)
    assert torch.equal(counts[0], class_counts(TRAINING, 3)[0])
    assert counts.shape == (6, 3)
    assert int(counts[4, 1]) == int(((lengths >= 5) & (TRAINING.labels == 1)).sum())
    model, batch = linear().eval(), InOrder(examples, 9).take(np.arange(len(TRAINING)))
    batch = batch._replace(observations=batch.observations.float())
    for rows, horizon in ((counts, 6), (counts[0], 4)):
        part = batch._replace(observations=batch.observations[:, :horizon], lengths=lengths.clamp_max(horizon))
        expected = dskl(model.scores(part.observations), part.labels, class_counts=rows, lengths=part.lengths)
        torch.testing.assert_close(Criterion(LossSettings({"dskl": 1.0}), counts)(model, part).total, expected)


@pytest.mark.parametrize("name", ["cost_sensitive_lsel", "lsifwc", "barr", "ranking_margin"])
@pytest.mark.parametrize("costs", ["uniform", "inverse_frequency", "effective_number"])
def test_losses_with_options_of_their_own_can_be_trained(name, costs):
    criterion = Criterion(LossSettings({name: 1.0}, gamma=0.1, costs=costs, beta=0.99), class_counts(TRAINING, 3))
    batch = InOrder(TRAINING, 30).take(np.arange(30))
    judged = criterion(linear(), batch._replace(observations=batch.observations.float()))
    assert math.isfinite(float(judged.total.detach()))


@pytest.mark.parametrize("name", ["adamw", "sgdw", "rmsprop"])
def test_every_optimizer_learns(name):
    _, record = trained(settings=changed(SETTINGS, {"optimizer.name": name, "training.gradient_clip": 1.0}))
    assert record.best.metric > 0.65


def test_mixed_precision_learns_where_the_device_has_it():
    _, record = trained(settings=changed(SETTINGS, {"training.precision": "bf16-mixed"}))
    assert record.best.metric > 0.65


NAN = TRAINING.observations.clone()
NAN[7, 2, 1] = math.nan
MESSAGES = {
    "NaN in the data": (
        lambda _: Series.from_arrays(NAN, TRAINING.labels),
        "`observations` must be finite, got nan at series 7, time 2, channel 1 (counted from 0). "
        'Fill missing values in, or pass missing="mask"; unequal lengths need no padding with NaN.',
    ),
    "no time axis": (
        lambda _: Series.from_arrays(torch.zeros(3), [0, 1, 2]),
        "`observations` must be of shape (series, time, *features) with at least 1 observation, got shape (3,). "
        "Stack series of equal length, or pad them and give `lengths`.",
    ),
    "negative label": (
        lambda _: Drawn([0, -1], (3, 1), lambda rows, epoch: torch.zeros(len(rows), 3, 1) + epoch),
        "`labels` must be at least 0, got -1 at index 1. Classes count from 0.",
    ),
    "class beyond the model's": (
        lambda _: train(
            linear(), Series.from_arrays(*Gaussian.equidistant(4, 1.0).sample(50, 2, seed=0)), VALIDATION, SETTINGS
        ),
        "`observations` must be of shape (batch, time, 3), got shape (50, 2, 4). That is what the model reads.",
    ),
    "class that never occurs": (
        lambda _: train(
            linear(), Series.from_arrays(torch.zeros(2, 3, 3), [0, 2], classes=range(3)), VALIDATION, SETTINGS
        ),
        "`labels` must be of all 3 classes, got none of class 1. "
        "Nothing can be learned about the others: leave them out of the model.",
    ),
    "classes that mean something else in the validation set": (
        lambda _: train(linear(), TRAINING, Series.from_arrays(torch.zeros(2, 6, 3), [0, 2]), SETTINGS),
        "`validation` must be of the classes of the training set, [0, 1, 2], got [0, 2]. "
        "Pass classes= to both where one of them lacks a class.",
    ),
    "half precision on a CPU": (
        lambda _: trained(settings=changed(SETTINGS, {"training.precision": "16-mixed"})),
        "`training.precision` must be '32' or 'bf16-mixed' on a CPU, got '16-mixed'. Half precision needs a GPU.",
    ),
    "resuming from nowhere": (
        lambda _: trained(resume=True),
        "`folder` must be the folder of the run to resume, got None. Without one there is nothing saved.",
    ),
    "a folder that is taken": (
        lambda folder: trained(folder=folder),
        "`folder` must be without a run in it, got a folder with last.ckpt. "
        "Pass resume=True to go on with it, or name another folder.",
    ),
    "resuming with other settings": (
        lambda folder: trained(settings=changed(SETTINGS, {"optimizer.lr": 0.5}), folder=folder, resume=True),
        "`optimizer.lr` must be what the run in the folder has, got 0.5. "
        "The run began with 0.03; resume it so, or name another folder.",
    ),
}


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("taken")
    trained(folder=folder)
    return folder


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_this_sentence(case, taken):
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call(taken)
    assert str(caught.value) == message


@pytest.mark.parametrize("damage", [b"", b"no checkpoint", b"PK\x03\x04 half of one", "half", "no learner"])
def test_a_damaged_checkpoint_gets_a_sentence_that_says_how_to_go_on(tmp_path, taken, damage):
    if damage == "no learner":
        torch.save({"settings": {}}, tmp_path / "last.ckpt")
    else:
        whole = (taken / "last.ckpt").read_bytes()
        (tmp_path / "last.ckpt").write_bytes(whole[: len(whole) // 2] if damage == "half" else damage)
    with pytest.raises(InvalidArgument) as caught:
        train(linear(), TRAINING, VALIDATION, SETTINGS, folder=tmp_path, resume=True)
    assert str(caught.value) == (
        "`folder` must be the folder of a run, got one whose last.ckpt is damaged. Remove last.ckpt to begin again, or put "
        "best.ckpt in its place."
    )


def test_a_file_in_the_place_of_the_folder_gets_a_sentence(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(InvalidArgument, match=r"`folder` must be a folder, got the file .*run\. Name another one\."):
        train(linear(), TRAINING, VALIDATION, SETTINGS, folder=tmp_path / "run")
