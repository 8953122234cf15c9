"""Plans: what a profile changes, and one sentence for each slip."""

from dataclasses import replace

import pytest

import small_plan
from sooner.errors import InvalidArgument, UnknownName
from sooner.lab.experiments import published, stages
from sooner.lab.experiments.plan import DataPlan
from sooner.lab.experiments.plan_file import find_plan, folder_of_plans, merged, names, read_plan
from sooner.lab.experiments.run import stages_of
from sooner.train.settings import changed, settings_from_dict

LINES = {
    "title": 'title = "t"',
    "times": "times = [1, 2]",
    "more": "",
    "data": '[data]\nset = "nmnist-h"',
    "models": "[models.a.model]\norder = 1",
    "profiles": "",
}


def _plan(tmp_path, profile="paper", **changes):
    path = tmp_path / "mine.toml"
    path.write_text("\n".join((LINES | changes).values()), encoding="utf-8")
    return read_plan(path, profile)


# --- what a plan says ---------------------------------------------------------------------------------------------------


def test_a_plan_is_read_with_its_name_and_what_is_left_out_has_a_default(tmp_path):
    plan = _plan(tmp_path)
    assert (plan.name, plan.profile, plan.title, plan.times) == ("mine", "paper", "t", (1, 2))
    assert plan.data == DataPlan("nmnist-h", "equal", "all", "all", "all")
    assert (plan.encoder, plan.headline, plan.phases, plan.seeds, plan.trajectories) == (None, "", (), 3, 0)
    a = plan.contender("a")
    assert a.settings == settings_from_dict({"model": {"order": 1}})
    assert (a.reads, a.masks, a.rule, a.scores_of, a.search) == ("features", "fixed", "msprt", "", None)


def test_all_of_a_plan_comes_through(tmp_path):
    plan = small_plan.read(tmp_path)
    assert [each.name for each in plan.contenders] == ["MSPRT-TANDEM", "NP test", "EARLIEST 1e-2", "pooling"]
    assert [each.rule for each in plan.contenders] == ["msprt", "fixed_time", "halting", "msprt"]
    assert plan.data == DataPlan("nmnist-h", train=100, validation=30, test=60)
    assert plan.encoder.settings.model.encoder == "convolution"
    assert (plan.encoder.reads, plan.encoder.masks, plan.encoder.validation) == ("frames", "redrawn", "all")
    assert plan.encoder.settings.loss.weights == {"multiplet": 1.0}
    assert plan.phases == (("early", 2), ("late", 10))
    assert (plan.headline, plan.headline_times, plan.trajectories) == ("pooling", (2, 5), 2)
    assert (plan.published, plan.about) == ("sat_nmnist_h", "All of it.")
    assert set(plan.contender("MSPRT-TANDEM").search.axes) == {"optimizer.lr", "model.order"}
    assert (plan.contender("pooling").reads, plan.contender("pooling").masks) == ("frames", "redrawn")


def test_who_shares_scores_shares_the_settings_they_come_from(tmp_path):
    plan = small_plan.read(tmp_path, ('scores_of = "MSPRT-TANDEM"', 'scores_of = "pooling"'))
    np_test, pooling = plan.contender("NP test"), plan.contender("pooling")
    assert np_test.settings == pooling.settings
    assert (np_test.reads, np_test.masks, np_test.rule) == ("frames", "redrawn", "fixed_time")


# --- profiles -----------------------------------------------------------------------------------------------------------

MODELS = """
[models.a]
model = { order = 1, hidden = 5 }
training = { iterations = 100, batch_size = 7 }
[models.b.model]
order = 2
[models.c]
scores_of = "a"
rule = "fixed_time"
"""
PROFILES = """
[profiles.cpu]
about = "Short."
title = "other"
data.train = 9
each.training = { iterations = 10 }
models.b.training = { iterations = 20 }
models.b.model.hidden = 3
"""


def test_a_profile_is_laid_over_the_published_settings_key_by_key(tmp_path):
    plan = _plan(tmp_path, "cpu", models=MODELS, profiles=PROFILES)
    a, b, c = (plan.contender(name).settings for name in "abc")
    assert (plan.title, plan.about, plan.data.train, plan.data.set) == ("other", "Short.", 9, "nmnist-h")
    assert (a.training.iterations, a.training.batch_size, a.model.order, a.model.hidden) == (10, 7, 1, 5)
    assert (b.training.iterations, b.model.order, b.model.hidden) == (20, 2, 3)
    assert c == a
    assert plan.contender("c").rule == "fixed_time"


def test_the_profile_paper_changes_nothing_and_need_not_be_there(tmp_path):
    plan = _plan(tmp_path, "paper", models=MODELS, profiles=PROFILES)
    assert (plan.title, plan.about, plan.data.train) == ("t", "", "all")
    assert [plan.contender(name).settings.training.iterations for name in "abc"] == [100, 1000, 100]


def test_each_speaks_of_models_with_settings_of_their_own_and_leaves_the_tables_alone():
    tables = {"models": {"a": {"model": {"order": 1}}, "b": {"scores_of": "a"}}, "title": "t"}
    laid = merged(tables, {"each": {"model": {"hidden": 2}}, "title": "u"})
    assert laid == {
        "models": {"a": {"model": {"order": 1, "hidden": 2}}, "b": {"scores_of": "a"}},
        "title": "u",
    }
    assert tables == {"models": {"a": {"model": {"order": 1}}, "b": {"scores_of": "a"}}, "title": "t"}
    assert merged({"title": "t"}, {}) == {"title": "t"}


# --- what several plans share --------------------------------------------------------------------------------------------


def _split(tmp_path, shared, own):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "all.toml").write_text(shared, encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(f'include = "shared/all.toml"\n{own}', encoding="utf-8")
    return path


def test_a_plan_is_laid_over_the_tables_that_it_includes_key_by_key(tmp_path):
    shared = 'times = [1, 2]\n[data]\nset = "nmnist-h"\ntrain = 5\n[profiles.cpu]\nabout = "Short."\neach.training.iterations = 7'
    own = 'title = "t"\ntimes = [3]\n[data]\ntrain = 6\n[models.a.model]\norder = 1\n[profiles.cpu]\nmodels.a.training.crop = 2'
    plan = read_plan(_split(tmp_path, shared, own), "cpu")
    assert (plan.name, plan.title, plan.times, plan.about) == ("mine", "t", (3,), "Short.")
    assert plan.data == DataPlan("nmnist-h", train=6)
    training = plan.contender("a").settings.training
    assert (training.iterations, training.crop) == (7, 2)


def test_a_plan_in_two_files_has_the_stages_of_the_same_plan_in_one(small, tmp_path):
    start, end = (small_plan.PLAN.index(word) for word in ("[data]", "[models.MSPRT-TANDEM]"))
    shared, own = small_plan.PLAN[start:end], small_plan.PLAN[:start] + small_plan.PLAN[end:]
    plan = read_plan(_split(tmp_path, shared, own))
    assert replace(plan, name="small") == small.plan
    found = stages_of(plan, replace(small.work, seeds=2))
    assert [stage.digest for stage in found.in_order] == [stage.digest for stage in small.stages.in_order]


@pytest.mark.parametrize(
    ("included", "sentence"),
    [
        ("3", "`include` must be the path of a TOML file, got 3."),
        ('"none.toml"', "`none.toml` must be a file that can be read, got No such file"),
        ('"mine.toml"', "`key in the plan` must be one of "),
    ],
)
def test_an_include_that_is_no_file_or_includes_another_is_told(tmp_path, included, sentence):
    with pytest.raises(InvalidArgument) as caught:
        _plan(tmp_path, more=f"include = {included}")
    assert str(caught.value).startswith(sentence)


# --- slips --------------------------------------------------------------------------------------------------------------

SLIPS = {
    "an unknown key": ({"more": "tilte = 3"}, "`key in the plan` must be one of ", "Did you mean 'title'?"),
    "an unknown key of the data": (
        {"data": LINES["data"] + "\ntran = 3"},
        "`key in data` must be one of 'frequencies', 'set', 'test', 'train', 'validation', 'view', got 'tran'.",
        "Did you mean 'train'?",
    ),
    "an unknown key of a model": (
        {"models": '[models.a]\nrul = "msprt"'},
        "`key in models.a` must be one of ",
        "got 'rul'. Did you mean 'rule'?",
    ),
    "an unknown setting": (
        {"models": "[models.a.model]\noder = 1"},
        "`key in [model]` must be one of ",
        "got 'oder'. Did you mean 'order'?",
    ),
    "an unknown table of the encoder": (
        {"more": "encoder.modell.width = 3"},
        "`key in encoder` must be one of ",
        "got 'modell'. Did you mean 'model'?",
    ),
    "an unknown setting of the encoder": (
        {"more": "encoder.model.widht = 3"},
        "`key in [model]` must be one of ",
        "got 'widht'. Did you mean 'width'?",
    ),
    "an unknown key of the trials of tuning": (
        {"more": "tuning = { iteration = 5 }"},
        "`key in [training]` must be one of ",
        "Did you mean 'iterations'?",
    ),
    "trials of tuning that are no table": (
        {"more": "tuning = 5"},
        "`tuning` must be a table, got 5.",
        "Write [tuning] on a line of its own, its keys below.",
    ),
    "trials of no steps": (
        {"more": "tuning = { iterations = 0 }"},
        "`training.iterations` must be at least 1, got 0",
        "It is the number of steps in all.",
    ),
    "a history of nobody": ({"more": 'history = ["b"]'}, "`history` must be one of 'a', got 'b'.", "No close match."),
    "a history of one who trains nothing": (
        {"more": 'history = ["b"]', "models": LINES["models"] + '\n[models.b]\nscores_of = "a"'},
        "`history` must be one of 'a', got 'b'.",
        "No close match.",
    ),
    "a history in words": (
        {"more": 'history = "all"'},
        "`history` must be true, or a list of models, got 'all'.",
        'For example history = ["LSEL"].',
    ),
    "an encoder of an unknown set": (
        {"more": 'encoder = { set = "nmnist-g", model.name = "frames" }'},
        "`encoder.set` must be one of 'nmnist', 'nmnist-100f', 'nmnist-h', got 'nmnist-g'.",
        "Did you mean 'nmnist-h'?",
    ),
    "an encoder of digits for videos": (
        {
            "more": 'encoder = { set = "nmnist-h", masks = "fixed", model.name = "frames" }',
            "data": '[data]\nset = "ucf101"',
        },
        "`encoder.set` must be left out for ucf101, got 'nmnist-h'.",
        "Only the frames of generated digits are alike.",
    ),
    "an encoder of whole series": (
        {"more": 'encoder.model = { name = "recurrent", encoder = "dense" }'},
        "`encoder.model.name` must be 'frames', got 'recurrent'.",
        "Others have no features of single frames.",
    ),
    "an encoder that is no table": (
        {"more": "encoder = 3"},
        "`encoder` must be a table, got 3.",
        "Write [encoder] on a line of its own, its keys below.",
    ),
    "an unknown key of a search": (
        {"models": "[models.a.search]\nmodel.oder = [1]"},
        "`key in [model]` must be one of ",
        "Did you mean 'order'?",
    ),
    "an unknown set": (
        {"data": '[data]\nset = "nmnist-g"'},
        "`data.set` must be one of 'hmdb51', 'nmnist', 'nmnist-100f', 'nmnist-h', 'ucf101', got 'nmnist-g'.",
        "Did you mean 'nmnist-h'?",
    ),
    "unknown frequencies": (
        {"data": LINES["data"] + '\nfrequencies = "tenfolds"'},
        "`data.frequencies` must be one of 'equal', 'tenfold', got 'tenfolds'.",
        "Did you mean 'tenfold'?",
    ),
    "no series": (
        {"data": LINES["data"] + "\ntest = 0"},
        "`data.test` must be at least 1, got 0",
        'It counts series; or write "all".',
    ),
    "series in words": (
        {"data": LINES["data"] + '\nvalidation = "some"'},
        "`data.validation` must be a whole number or 'all', got 'some'.",
        'It counts series; or write "all".',
    ),
    "half a series": (
        {"data": LINES["data"] + "\ntrain = 1.5"},
        "`data.train` must be a whole number, got 1.5.",
        'It counts series; or write "all".',
    ),
    "an unknown rule": (
        {"models": '[models.a]\nrule = "msprd"'},
        "`models.a.rule` must be one of 'fixed_time', 'halting', 'msprt', got 'msprd'.",
        "Did you mean 'msprt'?",
    ),
    "unknown masks": (
        {"models": '[models.a]\nmasks = "fixd"'},
        "`models.a.masks` must be one of 'fixed', 'redrawn', got 'fixd'.",
        "Did you mean 'fixed'?",
    ),
    "an unknown reading": (
        {"models": '[models.a]\nreads = "frame"'},
        "`models.a.reads` must be one of 'features', 'frames', got 'frame'.",
        "Did you mean 'frames'?",
    ),
    "redrawn masks with features": (
        {"models": '[models.a]\nmasks = "redrawn"'},
        "`models.a.masks` must be 'fixed' where features are read, got 'redrawn'.",
        'Features are written once. Set reads = "frames".',
    ),
    "scores of nobody": (
        {"models": LINES["models"] + '\n[models.b]\nscores_of = "c"'},
        "`models.b.scores_of` must be one of 'a', got 'c'.",
        "No close match.",
    ),
    "scores of one who has none": (
        {"models": LINES["models"] + '\n[models.b]\nscores_of = "a"\n[models.c]\nscores_of = "b"'},
        "`models.c.scores_of` must be one of 'a', got 'b'.",
        "No close match.",
    ),
    "a headline of nobody": (
        {"more": 'headline = "b"'},
        "`headline` must be one of 'a', got 'b'.",
        "No close match.",
    ),
    "no times": (
        {"times": "times = []"},
        "`times` must be at least 1 mean time, got none.",
        "For example times = [2, 5, 10].",
    ),
    "times left out": ({"times": ""}, "`the plan.times` must be given, got nothing.", "Every plan has one."),
    "a title left out": ({"title": ""}, "`the plan.title` must be given, got nothing.", "Every plan has one."),
    "a set left out": ({"data": ""}, "`data.set` must be given, got nothing.", "Every plan has one."),
    "a time before the first": (
        {"times": "times = [0.5]"},
        "`times` must be at least 1, got 0.5.",
        "A mean time is at least 1.",
    ),
    "a headline's time before the first": (
        {"more": "headline_times = [0]"},
        "`times` must be at least 1, got 0",
        "A mean time is at least 1.",
    ),
    "a time in words": (
        {"more": 'phases = { early = "soon" }'},
        "`times` must be a number, got 'soon'.",
        "A mean time is at least 1.",
    ),
    "no seeds": ({"more": "seeds = 0"}, "`seeds` must be at least 1, got 0", "It counts the trials of each model."),
    "fewer than no trajectories": (
        {"more": "trajectories = -1"},
        "`trajectories` must be at least 0, got -1",
        "It counts series.",
    ),
    "no models": ({"models": ""}, "`models` must be at least 1, got none.", "Name one: [models.MSPRT-TANDEM.model]."),
    "data that are no table": (
        {"more": "data = 3", "data": ""},
        "`data` must be a table, got 3.",
        "Write [data] on a line of its own, its keys below.",
    ),
    "phases that are no table": (
        {"more": "phases = 3"},
        "`phases` must be a table, got 3.",
        "Write [phases] on a line of its own, its keys below.",
    ),
    "no TOML": ({"more": "seeds = = 3"}, "`mine.toml` must be a TOML file, got a slip: ", "Correct it there."),
}


@pytest.mark.parametrize(("changes", "begins", "ends"), SLIPS.values(), ids=SLIPS)
def test_a_slip_gets_one_sentence(tmp_path, changes, begins, ends):
    with pytest.raises(InvalidArgument) as caught:
        _plan(tmp_path, **changes)
    said = str(caught.value)
    assert said.startswith(begins)
    assert said.endswith(ends)


OTHER_KINDS = {
    "models": {"more": "models = 3", "models": ""},
    "models.a": {"models": "[models]\na = 3"},
    "models.a, a text": {"models": '[models]\na = "MSPRT-TANDEM"'},
    "models.a.search": {"models": "[models.a]\nsearch = 3"},
    "models.b.scores_of": {"models": LINES["models"] + '\n[models.b]\nscores_of = ["a"]'},
    "profiles": {"more": "profiles = 3"},
    "profiles.cpu": {"profiles": "[profiles]\ncpu = 3"},
    "times": {"times": "times = 5"},
    "headline_times": {"more": "headline_times = 5"},
    "data.train": {"data": LINES["data"] + "\ntrain = true"},
}


@pytest.mark.parametrize(("where", "changes"), OTHER_KINDS.items(), ids=OTHER_KINDS)
def test_what_is_of_another_kind_gets_a_sentence_too(tmp_path, where, changes):
    with pytest.raises(InvalidArgument) as caught:
        _plan(tmp_path, "cpu" if "cpu" in where else "paper", **changes)
    assert where.split(",")[0].split(".")[-1] in str(caught.value)


@pytest.mark.parametrize("key", ["name", "profile", "contenders", "encoder_set"])
def test_keys_that_no_file_decides_are_refused(tmp_path, key):
    with pytest.raises(UnknownName, match=f"got '{key}'"):
        _plan(tmp_path, more=f'{key} = "x"')


@pytest.mark.parametrize("key", ["name", "settings"])
def test_keys_that_no_table_of_a_model_decides_are_refused(tmp_path, key):
    with pytest.raises(UnknownName, match=f"got '{key}'"):
        _plan(tmp_path, models=LINES["models"] + f'\n[models.b]\n{key} = "x"')


@pytest.mark.parametrize("key", ["name", "settings", "reads", "rule", "published", "scores_of", "search"])
def test_keys_that_only_a_model_of_the_comparison_has_are_refused_for_the_encoder(tmp_path, key):
    with pytest.raises(UnknownName, match=rf"^`key in encoder` must be one of .*, got '{key}'"):
        _plan(tmp_path, more=f'encoder.model.name = "frames"\nencoder.{key} = "x"')


def test_an_encoder_may_have_masks_and_a_validation_of_its_own(tmp_path):
    encoder = _plan(tmp_path, more='encoder = { masks = "fixed", validation = 7, model.name = "frames" }').encoder
    assert (encoder.name, encoder.reads, encoder.masks, encoder.validation) == ("encoder", "frames", "fixed", 7)


def test_trials_of_tuning_may_be_shorter_and_a_profile_says_how_short(tmp_path):
    plan = _plan(tmp_path, "cpu", profiles="[profiles.cpu]\ntuning = { iterations = 30, validate_every = 10 }")
    own, short = plan.contender("a").settings, plan.tuning_settings(plan.contender("a"))
    assert short == changed(own, {"training.iterations": 30, "training.validate_every": 10})
    assert own.training.iterations == 1000
    plain = _plan(tmp_path)
    assert plain.tuning_settings(plain.contender("a")) == plain.contender("a").settings


@pytest.mark.parametrize(("asked", "expected"), [("true", ("a", "c")), ("false", ()), ('["c"]', ("c",)), ("[]", ())])
def test_the_history_of_all_models_that_train_or_of_some(tmp_path, asked, expected):
    models = f'{LINES["models"]}\n[models.b]\nscores_of = "a"\n[models.c.model]\norder = 2'
    assert _plan(tmp_path, models=models, more=f"history = {asked}").history == expected


def test_an_encoder_is_trained_on_the_set_of_its_plan_or_on_another_one_with_the_same_numbers_of_series(tmp_path):
    data = '[data]\nset = "nmnist"\ntrain = 50'
    own = _plan(tmp_path, data=data, more='encoder.model.name = "frames"')
    other = _plan(tmp_path, data=data, more='encoder = { set = "nmnist-h", model.name = "frames" }')
    assert own.encoder_data == own.data
    assert other.encoder_data == DataPlan("nmnist-h", train=50)
    assert other.encoder == own.encoder


def test_settings_that_nobody_would_use_are_refused(tmp_path):
    """Who shares scores trains nothing."""
    with pytest.raises(InvalidArgument, match=r"models\.b"):
        _plan(tmp_path, models=LINES["models"] + '\n[models.b]\nscores_of = "a"\nmodel.order = 2')


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_model_that_cannot_halt_is_told_before_it_is_trained(tmp_path, name):
    models = {
        "a": '[models.a]\nrule = "halting"\nmodel.order = 1',
        "b": LINES["models"] + '\n[models.b]\nscores_of = "a"\nrule = "halting"',
    }
    with pytest.raises(InvalidArgument, match=rf"^`models\.{name}\.rule` must be "):
        _plan(tmp_path, models=models[name])


def test_a_published_table_that_is_not_there_is_told_before_anything_is_trained(tmp_path):
    with pytest.raises(UnknownName, match=r"^`published` must be one of .*'sat_nmnist_h'.*, got 'sat_nmnist_g'"):
        _plan(tmp_path, more='published = "sat_nmnist_g"')


def test_frequencies_of_videos_cannot_be_changed_and_that_is_told(tmp_path):
    with pytest.raises(InvalidArgument, match=r"^`data\.frequencies` must be "):
        _plan(tmp_path, data='[data]\nset = "ucf101"\nfrequencies = "tenfold"')


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ('set = "ucf101"\nview = "hole"', "`data.view` must be one of 'any', 'crop', 'whole', got 'hole'."),
        (
            'set = "nmnist-h"\nview = "whole"',
            "`data.view` must be 'any' for nmnist-h, got 'whole'. Only videos have a view.",
        ),
    ],
)
def test_a_view_that_there_is_not_is_told(tmp_path, data, sentence):
    with pytest.raises(InvalidArgument) as caught:
        _plan(tmp_path, data=f"[data]\n{data}")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("profile", ["cpu", "paper"])
@pytest.mark.parametrize("name", ["sat_ucf101", "sat_hmdb51"])
def test_features_of_videos_are_those_of_whole_frames(name, profile):
    assert read_plan(find_plan(name), profile).data.view == "whole"


def test_masks_of_videos_cannot_be_redrawn_and_that_is_told(tmp_path):
    models = '[models.a]\nreads = "frames"\nmasks = "redrawn"'
    with pytest.raises(InvalidArgument, match=r"masks` must be "):
        _plan(tmp_path, data='[data]\nset = "ucf101"', models=models)


def test_an_unknown_profile_is_told_those_there_are(tmp_path):
    with pytest.raises(UnknownName, match=r"^`profile` must be one of 'cpu', 'paper', got 'gpu'"):
        _plan(tmp_path, "gpu", profiles=PROFILES)
    with pytest.raises(UnknownName, match=r"^`profile` must be one of 'paper', got 'cpu'"):
        _plan(tmp_path, "cpu")


def test_an_unknown_model_is_told_those_there_are(tmp_path):
    with pytest.raises(UnknownName, match=r"^`model` must be one of 'a', got 'b'"):
        _plan(tmp_path).contender("b")


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InvalidArgument, match=r"^`none.toml` must be a file that can be read, got No such file"):
        read_plan(tmp_path / "none.toml")


# --- plans that come with the package -----------------------------------------------------------------------------------


def test_an_unknown_name_of_a_plan_is_told_those_there_are():
    with pytest.raises(UnknownName) as caught:
        find_plan("sat_nmnist_hh")
    assert str(caught.value) == (
        f"`name` must be one of {', '.join(map(repr, names()))}, got 'sat_nmnist_hh'. Did you mean 'sat_nmnist_h'?"
    )


def test_a_name_is_found_in_the_package_and_a_file_is_itself(tmp_path):
    assert find_plan("sat_nmnist_h") == folder_of_plans() / "sat_nmnist_h.toml"
    assert find_plan(str(tmp_path / "x.toml")) == tmp_path / "x.toml"


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("profile", ["cpu", "paper"])
def test_every_plan_of_the_package_can_be_read_and_its_published_table_is_there(name, profile):
    plan = read_plan(find_plan(name), profile)
    assert (plan.name, plan.profile) == (name, profile)
    assert plan.title
    assert plan.about or profile == "paper"
    if plan.published:
        rows = published.published(plan.published)
        assert {each.name for each in plan.contenders} & set(rows)


def test_published_rows_ascend_and_are_complete():
    rows = published.published("sat_nmnist_h")
    assert [row.mean_time for row in rows["LSTM-m"]] == sorted(row.mean_time for row in rows["LSTM-m"])
    assert rows["MSPRT-TANDEM"][3] == published.PublishedRow(5.0, 11.994, 0.046, 300)
    assert {table: len(published.published(table)) > 0 for table in _tables()} == dict.fromkeys(_tables(), True)
    with pytest.raises(UnknownName, match="got 'sat'"):
        published.published("sat")


def _tables():
    folder = stages.Path(published.__file__).parent / "tables"
    return [path.stem for path in folder.glob("*.csv") if not path.stem.startswith("p_values_")]
