"""The plans of the published tables and figures: all there, readable, and with the published settings."""

from functools import cache
from pathlib import Path

import pytest

from sooner.data.sets.nmnist import FRAMES
from sooner.lab.experiments.plan_file import find_plan, merged, names, plan_from_tables, read_plan, read_plan_tables
from sooner.lab.experiments.published import published
from sooner.lab.experiments.run import Work, stages_of
from sooner.models import build_model
from sooner.train.settings import changed

PLANS = names()
FIGURES = {
    *("sat_nmnist_h", "sat_nmnist_100f", "sat_ucf101", "sat_hmdb51"),
    *("losses_nmnist_h", "losses_nmnist_100f", "ablation_nmnist_100f", "imbalance_nmnist_h"),
    *("tandem_nmnist", "tandem_nmnist_h", "tandem_nmnist_100f"),
    *("trajectories_nmnist_h", "trajectories_nmnist_100f"),
}
TABLES = {
    "sat_nmnist_h": "sat_nmnist_h",
    "sat_nmnist_100f": "sat_nmnist_100f",
    "dre_losses_nmnist_h": "losses_nmnist_h",
    "lsel_vs_logistic_nmnist_100f": "losses_nmnist_100f",
    "ablation_nmnist_100f": "ablation_nmnist_100f",
}
HORIZONS = {**FRAMES, "ucf101": 50, "hmdb51": 79}
# The features of an observation and the classes; then the numbers of trainable parameters that the paper gives. For
# MSPRT-TANDEM on digits it says 133,760: it counts 256 statistics of batch norm as well.
VIDEOS = {"ucf101": (2048, 101), "hmdb51": (2048, 51)}
PEEPHOLE = {(128, 10): 133_504, (2048, 101): 2_387_456, (2048, 51): 2_374_656}
EARLIEST = {(128, 10): 133_646, (2048, 101): 2_387_817, (2048, 51): 2_374_967}
# The column "All but EARLIEST" of the paper's table of phases; NMNIST is not in it, and takes those of NMNIST-H.
PHASES = {"nmnist": (2, 13), "nmnist-h": (2, 13), "nmnist-100f": (19, 100), "ucf101": (1, 50), "hmdb51": (1, 36)}

each_plan = pytest.mark.parametrize("name", PLANS)
each_profile = pytest.mark.parametrize("profile", ["cpu", "paper"])


@cache
def plan_of(name, profile="paper"):
    return read_plan(find_plan(name), profile)


def trained(plan):
    return [each for each in plan.contenders if not each.scores_of]


def of_the_paper(plan):
    return [each for each in trained(plan) if each.reads == "features"]


def built(plan, each):
    """The model, and the shape of what it reads with the number of classes."""
    features, classes = VIDEOS.get(plan.data.set, (128, 10))
    shape = (28, 28) if each.reads == "frames" and plan.data.set in FRAMES else (features,)
    return model_of(each.settings.model, shape, classes), (features, classes)


@cache
def model_of(settings, shape, classes):
    return build_model(settings, shape, classes)


def value_at(settings, dotted):
    for key in dotted.split("."):
        settings = settings[key] if isinstance(settings, dict) else getattr(settings, key)
    return settings


def test_there_is_one_plan_for_each_table_and_figure():
    assert set(PLANS) == FIGURES


@each_plan
def test_a_plan_tells_of_the_published_table_that_is_its_own(name):
    assert plan_of(name).published == {plan: table for table, plan in TABLES.items()}.get(name, "")


@each_profile
@each_plan
def test_every_model_of_a_plan_builds(name, profile):
    plan = plan_of(name, profile)
    for each in trained(plan):
        model, (_, classes) = built(plan, each)
        assert model.classes == classes
        order = each.settings.model.order
        assert order == "full" or order < HORIZONS[plan.data.set]


@each_plan
def test_models_have_the_published_numbers_of_parameters(name):
    plan, seen = plan_of(name), 0
    for each in of_the_paper(plan):
        model, kind = built(plan, each)
        settings, found = each.settings.model, sum(parameter.numel() for parameter in model.parameters())
        if settings.name == "earliest" or settings.cell == "peephole":
            seen += 1
            assert found == (EARLIEST if settings.name == "earliest" else PEEPHOLE)[kind]
    assert seen


@pytest.mark.parametrize("table", TABLES)
def test_every_row_of_a_published_table_meets_a_model_and_a_time(table):
    plan = plan_of(TABLES[table])
    models = {each.published or each.name for each in plan.contenders}
    for model, rows in published(table).items():
        assert model in models
        # EARLIEST has a single point, at a mean time of its own.
        assert model.startswith("EARLIEST") or {row.mean_time for row in rows} <= set(plan.times)


BEST = {
    # The best values of the appendix: optimizer, learning rate, weight decay, the second loss and its weight, batch, iterations.
    "sat_nmnist_h": {
        "MSPRT-TANDEM": ("rmsprop", 1e-4, 1e-4, "lsel", 10.0, 500, 5000),
        "LSTM-s": ("rmsprop", 1e-4, 1e-4, "ranking_score", 0.01, 500, 5000),
        "LSTM-m": ("rmsprop", 1e-4, 1e-5, "ranking_margin", 0.01, 500, 5000),
        "EARLIEST 1e-2": ("rmsprop", 1e-3, 1e-4, "", 1e-2, 1000, 20000),
        "EARLIEST 1e2": ("rmsprop", 1e-3, 1e-3, "", 1e2, 1000, 20000),
    },
    "sat_nmnist_100f": {
        "MSPRT-TANDEM": ("adamw", 1e-2, 1e-5, "lsel", 0.1, 100, 5000),
        "LSTM-s": ("adamw", 1e-3, 1e-5, "ranking_score", 0.1, 500, 5000),
        "LSTM-m": ("rmsprop", 1e-3, 1e-5, "ranking_margin", 0.01, 500, 5000),
        "EARLIEST 1e-2": ("adamw", 1e-5, 1e-3, "", 1e-2, 1000, 20000),
        "EARLIEST 1e-4": ("rmsprop", 1e-3, 1e-4, "", 1e-4, 1000, 20000),
    },
    "sat_ucf101": {
        "MSPRT-TANDEM": ("adamw", 1e-4, 1e-3, "cost_sensitive_lsel", 1 / 101, 256, 10000),
        "LSTM-s": ("adamw", 1e-3, 1e-4, "ranking_score", 10.0, 256, 5000),
        "LSTM-m": ("adamw", 1e-3, 1e-4, "ranking_margin", 1.0, 256, 5000),
        "EARLIEST 1e-1": ("rmsprop", 1e-4, 1e-4, "", 1e-1, 256, 5000),
        "EARLIEST 1e-10": ("rmsprop", 1e-3, 1e-4, "", 1e-10, 256, 5000),
    },
    "sat_hmdb51": {
        "MSPRT-TANDEM": ("adamw", 1e-4, 1e-4, "cost_sensitive_lsel", 100 / 51, 128, 10000),
        "LSTM-s": ("rmsprop", 1e-4, 1e-3, "ranking_score", 10.0, 128, 10000),
        "LSTM-m": ("rmsprop", 1e-4, 1e-3, "ranking_margin", 10.0, 128, 10000),
        "EARLIEST 1e-1": ("adamw", 1e-4, 1e-3, "", 1e-1, 256, 5000),
        "EARLIEST 1e-10": ("rmsprop", 1e-3, 1e-3, "", 1e-10, 256, 5000),
    },
    "losses_nmnist_h": {
        "LSIF, as run": ("adamw", 1e-4, 1e-2, "lsif_clipped", 1.0, 500, 5000),
        "LSIFwC": ("adamw", 1e-4, 1e-2, "lsifwc", 1.0, 500, 5000),
        "DSKL": ("rmsprop", 1e-3, 1e-4, "dskl", 1.0, 500, 5000),
        "BARR": ("adamw", 1e-4, 1e-4, "barr", 1.0, 500, 5000),
        "LLLR": ("adamw", 1e-3, 1e-4, "lllr", 1.0, 500, 5000),
        "Logistic": ("rmsprop", 1e-4, 1e-5, "logistic", 1.0, 500, 5000),
        "LSEL": ("rmsprop", 1e-4, 1e-4, "lsel", 1.0, 500, 5000),
    },
    "losses_nmnist_100f": {
        "LSEL": ("adamw", 1e-2, 1e-4, "lsel", 0.1, 100, 5000),
        "Logistic": ("adamw", 1e-2, 1e-5, "logistic", 100.0, 100, 5000),
    },
    "ablation_nmnist_100f": {
        "TANDEM Mult": ("adamw", 1e-2, 1e-5, "multiplet", 1.0, 100, 5000),
        "TANDEM LSEL": ("adamw", 1e-2, 1e-4, "lsel", 0.1, 100, 5000),
    },
}


@pytest.mark.parametrize("name", BEST)
def test_what_stands_outside_of_the_profiles_are_the_best_values_of_the_paper_s_appendix(name):
    for model, (optimizer, lr, decay, loss, weight, batch, iterations) in BEST[name].items():
        settings = plan_of(name).contender(model).settings
        assert (settings.optimizer.name, settings.optimizer.lr, settings.optimizer.weight_decay) == (
            optimizer,
            lr,
            decay,
        )
        found = settings.loss.weights[loss] if loss else settings.model.penalty
        assert found == pytest.approx(weight, rel=0.01)
        assert (settings.training.batch_size, settings.training.iterations) == (batch, iterations)


@each_plan
def test_the_published_point_lies_in_its_grid(name):
    for each in trained(plan_of(name)):
        axes = {} if each.search is None else each.search.axes
        for key, axis in axes.items():
            assert value_at(each.settings, key) in axis.values, (each.name, key)


@pytest.mark.parametrize(
    "name", ["sat_nmnist_h", "sat_nmnist_100f", "sat_ucf101", "sat_hmdb51", *list(TABLES.values())[2:]]
)
def test_every_model_that_the_paper_tuned_can_be_tuned(name):
    plan = plan_of(name)
    rows = published(plan.published) if plan.published else {each.name for each in of_the_paper(plan)}
    assert all(each.search for each in of_the_paper(plan) if (each.published or each.name) in rows)


def frames_read(each, horizon):
    """The frames that a training reads, those of crops and of whole series."""
    training = each.settings.training
    if training.crop == "none":
        return training.iterations * training.batch_size * horizon
    whole = training.iterations // training.whole_every
    return training.batch_size * (whole * horizon + (training.iterations - whole) * training.crop)


@each_plan
def test_the_cpu_profile_trains_all_that_is_compared_alike(name):
    """As many frames for each model of a plan; with whole series, as many steps, and fewer of them than the paper's."""
    plan = plan_of(name, "cpu")
    short, long = (of_the_paper(each) for each in (plan, plan_of(name)))
    for key in ("training.batch_size", "optimizer.schedule"):
        lasting = {(value_at(each.settings, key), each.validation) for each in short}
        assert len(lasting) == 1 or plan.data.set in VIDEOS
    read = [frames_read(each, HORIZONS[plan.data.set]) for each in short]
    assert max(read) <= 1.05 * min(read) or plan.data.set in VIDEOS
    for ours, theirs in zip(
        (each.settings.training for each in short), (each.settings.training for each in long), strict=True
    ):
        assert ours.batch_size <= theirs.batch_size
        if plan.data.set != "nmnist-100f":  # whose integrators are trained for longer than the paper's
            assert (ours.crop, ours.iterations <= theirs.iterations) == ("none", True)
            assert ours.iterations * ours.batch_size < theirs.iterations * theirs.batch_size


@each_plan
def test_the_cpu_profile_changes_nothing_of_a_model_but_how_much_it_is_trained(name):
    """And, on NMNIST-100f, the order where it is 25 in the paper, and the weight decay, which stays on the published grid."""
    short, long = plan_of(name, "cpu"), plan_of(name)
    keys = ("iterations", "batch_size", "validate_every", "crop", "whole_every")
    keys = (*(f"training.{key}" for key in keys), "optimizer.schedule")
    for ours, theirs in zip(trained(short), trained(long), strict=True):
        lengths = {key: value_at(theirs.settings, key) for key in keys}
        order, decay = theirs.settings.model.order, theirs.settings.optimizer.weight_decay
        assert ours.settings.model.order == (50 if (order, short.data.set) == (25, "nmnist-100f") else order)
        of_the_paper_here = ours in of_the_paper(short) and short.data.set == "nmnist-100f"
        assert ours.settings.optimizer.weight_decay == (1e-3 if of_the_paper_here else decay)
        assert (
            changed(ours.settings, {**lengths, "model.order": order, "optimizer.weight_decay": decay})
            == theirs.settings
        )
    assert (short.data, short.times, short.phases, short.seeds) == (long.data, long.times, long.phases, long.seeds)


@each_plan
def test_the_cpu_profile_says_in_one_sentence_what_is_different(name):
    about = plan_of(name, "cpu").about
    assert about.endswith(".")
    assert ". " not in about
    for each in of_the_paper(plan_of(name, "cpu")):
        assert f"{each.settings.training.iterations:,}" in about or each.settings.model.name == "earliest"


@each_plan
def test_the_paper_profile_changes_nothing(name):
    tables = read_plan_tables(find_plan(name))
    assert set(tables.pop("profiles")) == {"cpu"}
    assert plan_of(name) == plan_from_tables(name, "paper", merged(tables, {}))
    assert plan_of(name).about == ""


@each_plan
def test_digits_have_the_paper_s_encoder_and_videos_have_none(name):
    plan = plan_of(name)
    if plan.data.set in VIDEOS:
        assert plan.encoder is None
    else:
        model = plan.encoder.settings.model
        assert (model.encoder, model.width, model.moments) == ("resnet110", 128, HORIZONS[plan.data.set])


@each_profile
@each_plan
def test_the_paper_s_parts_have_keras_s_batch_norm_and_ours_have_torch_s(name, profile):
    plan = plan_of(name, profile)
    for each in trained(plan):
        if each.settings.model.name != "earliest":  # which has none
            assert each.settings.model.batch_norm == ("keras" if each in of_the_paper(plan) else "torch")
    if plan.encoder is not None:
        model = plan.encoder.settings.model
        assert model.batch_norm == ("keras" if model.encoder == "resnet110" else "torch")


@each_plan
def test_our_own_models_and_encoders_decay_as_they_did_when_pytorch_s_meaning_was_theirs(name):
    for plan in (plan_of(name), plan_of(name, "cpu")):
        for each in trained(plan):
            if each not in of_the_paper(plan):
                optimizer = each.settings.optimizer
                assert (optimizer.name, optimizer.weight_decay) == ("adamw", pytest.approx(1e-4 * optimizer.lr))
        if plan.encoder is not None:
            optimizer = plan.encoder.settings.optimizer
            decays = {"resnet110": 1e-5, "tokens": 2e-5}  # that of tokens is newer than the meaning
            decay = decays.get(plan.encoder.settings.model.encoder, 1e-4 * optimizer.lr)
            assert optimizer.weight_decay == pytest.approx(decay)


def test_gammas_of_losses_that_were_summed_over_the_batch_are_times_its_size():
    plan = plan_of("losses_nmnist_h")
    for model, gamma in {"LSIFwC": 1e-4, "BARR": 1e-3}.items():
        each = plan.contender(model)
        assert each.settings.loss.gamma == pytest.approx(gamma * each.settings.training.batch_size)
        grid = [1e-4 * 500, 1e-3 * 500, 1e-2 * 500, 1.0 * 500, 10.0 * 500]
        assert each.search.axes["loss.gamma"].values == pytest.approx(tuple(grid))


def test_lsif_is_compared_as_it_was_run_and_as_it_was_printed():
    plan = plan_of("losses_nmnist_h")
    run, printed = (plan.contender(f"LSIF, as {how}") for how in ("run", "printed"))
    assert (run.published, printed.published) == ("LSIF", "")
    assert (set(run.settings.loss.weights), set(printed.settings.loss.weights)) == ({"lsif_clipped"}, {"lsif"})


@each_profile
@each_plan
def test_plans_of_the_same_frames_share_their_encoder(name, profile):
    plan = plan_of(name, profile)
    if plan.encoder is not None:
        # NMNIST has no published encoder of its own, and takes that of NMNIST-H.
        source = plan_of("sat_nmnist_100f" if plan.data.set == "nmnist-100f" else "sat_nmnist_h", profile)
        assert (plan.encoder, plan.encoder_data.set) == (source.encoder, source.encoder_data.set)


@each_profile
@pytest.mark.parametrize(
    ("plan", "model", "source", "origin"),
    [
        ("trajectories_nmnist_h", "MSPRT-TANDEM", "sat_nmnist_h", "MSPRT-TANDEM"),
        ("trajectories_nmnist_100f", "MSPRT-TANDEM", "sat_nmnist_100f", "MSPRT-TANDEM"),
        ("tandem_nmnist_h", "M-TANDEMwO+Mult", "sat_nmnist_h", "MSPRT-TANDEM"),
        ("tandem_nmnist_100f", "M-TANDEM+Mult", "sat_nmnist_100f", "MSPRT-TANDEM"),
        ("losses_nmnist_100f", "LSEL+Mult", "sat_nmnist_100f", "MSPRT-TANDEM"),
        ("losses_nmnist_100f", "LSEL+Mult, M-TANDEMwO", "tandem_nmnist_100f", "M-TANDEMwO+Mult"),
        ("losses_nmnist_100f", "LSEL, M-TANDEMwO", "tandem_nmnist_100f", "M-TANDEMwO"),
        ("tandem_nmnist", "M-TANDEM+Mult", "tandem_nmnist_h", "M-TANDEM+Mult"),
        ("tandem_nmnist", "M-TANDEMwO", "tandem_nmnist_h", "M-TANDEMwO"),
        ("ablation_nmnist_100f", "TANDEM LSEL+Mult", "sat_nmnist_100f", "MSPRT-TANDEM"),
        ("ablation_nmnist_100f", "TANDEM LSEL", "losses_nmnist_100f", "LSEL"),
    ],
)
def test_what_two_plans_share_has_one_set_of_settings(plan, model, source, origin, profile):
    assert plan_of(plan, profile).contender(model).settings == plan_of(source, profile).contender(origin).settings


@each_profile
@pytest.mark.parametrize("multiplet", ["", "+Mult"])
@pytest.mark.parametrize("name", ["tandem_nmnist", "tandem_nmnist_h", "tandem_nmnist_100f"])
def test_the_two_formulas_differ_in_nothing_else(name, multiplet, profile):
    plan = plan_of(name, profile)
    plain, oblivious = (plan.contender(f"{model}{multiplet}").settings for model in ("M-TANDEM", "M-TANDEMwO"))
    assert (plain.model.formula, "multiplet" in plain.loss.weights) == ("m_tandem", bool(multiplet))
    assert changed(plain, {"model.formula": "m_tandem_oblivion"}) == oblivious


@each_profile
def test_the_panels_of_the_appendix_have_each_loss_with_both_formulas_with_and_without_multiplet(profile):
    plan = plan_of("losses_nmnist_100f", profile)
    for loss in ("LSEL", "Logistic"):
        for multiplet in ("", "+Mult"):
            for suffix, formula in (("", "m_tandem"), (", M-TANDEMwO", "m_tandem_oblivion")):
                settings = plan.contender(f"{loss}{multiplet}{suffix}").settings
                weights = set(settings.loss.weights)
                assert weights == {loss.lower(), *(["multiplet"] if multiplet else [])}
                assert settings.model.formula == formula
                # At order 99 both formulas are the same model; only the published panel has it.
                windows = 25 if profile == "paper" else 50
                assert settings.model.order == (windows if multiplet or suffix else 99)


@each_profile
def test_what_the_plans_say_together_is_the_same_training(profile):
    """Plans that share a model share its stage."""
    for plan, model, source, origin in (
        ("losses_nmnist_100f", "LSEL, M-TANDEMwO", "tandem_nmnist_100f", "M-TANDEMwO"),
        ("tandem_nmnist_100f", "M-TANDEM+Mult", "sat_nmnist_100f", "MSPRT-TANDEM"),
        ("ablation_nmnist_100f", "TANDEM LSEL", "losses_nmnist_100f", "LSEL"),
        ("tandem_nmnist_h", "M-TANDEMwO+Mult", "sat_nmnist_h", "MSPRT-TANDEM"),
    ):
        ours, theirs = (stages_of(plan_of(name, profile), Work(Path("runs"), seeds=1)) for name in (plan, source))
        one = next(trial for trial in ours.trials if trial.contender.name == model)
        other = next(trial for trial in theirs.trials if trial.contender.name == origin)
        assert one.scores.digest == other.scores.digest


@each_profile
def test_nmnist_reads_with_the_encoder_that_was_trained_on_nmnist_h(profile):
    ours, theirs = (
        stages_of(plan_of(name, profile), Work(Path("runs"), seeds=1)) for name in ("tandem_nmnist", "sat_nmnist_h")
    )
    assert ours.encoder.digest == theirs.encoder.digest
    assert ours.features["test"].digest != theirs.features["test"].digest


@pytest.mark.parametrize("name", ["losses_nmnist_h", "imbalance_nmnist_h"])
def test_losses_are_compared_one_at_a_time_and_with_full_memory(name):
    found = [each.settings for each in plan_of(name).contenders]
    assert {settings.model.order for settings in found} == {"full"}
    assert all(len(settings.loss.weights) == 1 for settings in found)
    assert len({settings.model for settings in found}) == 1


@each_plan
def test_phases_are_those_of_the_set(name):
    plan = plan_of(name)
    if name.startswith("trajectories"):
        assert plan.phases == ()
    elif name.startswith("ablation"):
        assert plan.phases == (("at", 20),)  # a single one: the analysis of variance is one-way
    else:
        assert plan.phases == tuple(zip(("early", "late"), PHASES[plan.data.set], strict=True))


@pytest.mark.parametrize("name", [name for name in PLANS if not name.startswith("trajectories")])
def test_the_table_goes_on_to_the_end_of_the_series(name):
    plan = plan_of(name)
    assert plan.times == tuple(range(1, HORIZONS[plan.data.set] + 1))
    assert set(plan.headline_times) <= set(plan.times)
