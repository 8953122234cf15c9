import copy
import pickle

import pytest

from sooner import losses
from sooner.errors import InvalidArgument
from sooner.train.settings import (
    LossSettings,
    ModelSettings,
    OptimizerSettings,
    Settings,
    TrainingSettings,
    changed,
    read_settings,
    settings_from_dict,
    to_dict,
    write_toml,
)

FILE = """
[model]
hidden = 128
order = 15
formula = "m_tandem_oblivion"

[loss.weights]
multiplet = 1
lsel = 10.0

[optimizer]
name = "rmsprop"
lr = 1e-4

[training]
batch_size = 500
patience = 20

[search]
"model.order" = [0, 15]
"""

DOTTED = sorted(f"{table}.{key}" for table, keys in to_dict(Settings()).items() for key in keys)

MESSAGES = {
    "unknown key": (
        lambda: settings_from_dict({"model": {"hiden": 3}}),
        "`key in [model]` must be one of 'activation', 'batch_norm', 'cell', 'encoder', 'epsilon', 'formula', 'hidden', "
        "'moments', 'name', 'order', 'penalty', 'prior', 'reader', 'stem', 'width', got 'hiden'. "
        "Did you mean 'hidden'?",
    ),
    "unknown table": (
        lambda: settings_from_dict({"optimiser": {}}),
        "`table` must be one of 'loss', 'model', 'optimizer', 'search', 'training', got 'optimiser'. "
        "Did you mean 'optimizer'?",
    ),
    "workers of nobody": (
        lambda: TrainingSettings(workers=2),
        "`training.workers` must be 1 where training.engine is 'local', got 2. "
        'This process has no workers: set engine = "ray" as well.',
    ),
    "more workers than series": (
        lambda: TrainingSettings(batch_size=4, engine="ray", workers=5),
        "`training.workers` must be at most training.batch_size, got 5. 4 series cannot be shared by so many.",
    ),
    "unknown loss": (
        lambda: settings_from_dict({"loss": {"weights": {"lsell": 1.0}}}),
        f"`key in [loss.weights]` must be one of {', '.join(map(repr, sorted(losses.LOSSES)))}, got 'lsell'. "
        "Did you mean 'lsel'?",
    ),
    "key where a table belongs": (
        lambda: settings_from_dict({"model": "recurrent"}),
        "`model` must be a table, got 'recurrent'. Write [model] on a line of its own, its keys below.",
    ),
    "number in quotes": (
        lambda: ModelSettings(hidden="64"),
        "`model.hidden` must be a whole number, got '64'. It is the size of the model's state.",
    ),
    "true as a number": (
        lambda: TrainingSettings(iterations=True),
        "`training.iterations` must be a whole number, got True. It is the number of steps in all.",
    ),
    "half a step": (
        lambda: TrainingSettings(validate_every=2.5),
        "`training.validate_every` must be a whole number, got 2.5. It is the number of steps between validations.",
    ),
    "another word": (
        lambda: ModelSettings(order="all"),
        "`model.order` must be a whole number or 'full', got 'all'. "
        "It is the number of earlier observations a window holds.",
    ),
    "negative order": (
        lambda: ModelSettings(order=-1),
        "`model.order` must be at least 0, got -1.0. It is the number of earlier observations a window holds.",
    ),
    "unknown choice": (
        lambda: ModelSettings(cell="grue"),
        "`model.cell` must be one of 'gru', 'lstm', 'peephole', got 'grue'. Did you mean 'gru'?",
    ),
    "number for a choice": (
        lambda: TrainingSettings(precision=32),
        "`training.precision` must be one of '32', 'bf16-mixed', '16-mixed', got 32. It is a text, in quotes.",
    ),
    "no learning": (
        lambda: OptimizerSettings(lr=0),
        "`optimizer.lr` must be above 0, got 0.0. A learning rate is a small number such as 1e-3.",
    ),
    "infinite learning": (
        lambda: OptimizerSettings(lr=float("inf")),
        "`optimizer.lr` must be a number, got inf. A learning rate is a small number such as 1e-3.",
    ),
    "no gradient": (
        lambda: TrainingSettings(gradient_clip=0),
        "`training.gradient_clip` must be above 0, got 0.0. It is the largest norm a gradient may have.",
    ),
    "negative weight": (
        lambda: LossSettings({"lsel": -1.0}),
        "`loss.weights.lsel` must be at least 0, got -1.0. It weighs the loss in the sum.",
    ),
    "nothing to minimise": (
        lambda: LossSettings({"lsel": 0.0}),
        "`loss.weights` must be at least one weight above 0, got {'lsel': 0.0}. "
        "Name each loss with its weight: multiplet = 1.0, lsel = 10.0.",
    ),
    "change of what is not there": (
        lambda: changed(Settings(), {"model.order.lower": 1}),
        f"`setting` must be one of {', '.join(map(repr, DOTTED))}, got 'model.order.lower'. Did you mean 'model.order'?",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_settings_get_this_sentence(case):
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"[model]\nhidden = \n",
            "`s.toml` must be a TOML file, got a slip: Invalid value (at line 2, column 10). Correct it there.",
        ),
        (b"\xff", "`s.toml` must be a TOML file, got bytes that are not UTF-8. Save it as UTF-8 text."),
        (None, "`s.toml` must be a file that can be read, got No such file or directory. Looked for {path}."),
    ],
)
def test_a_broken_file_gets_one_sentence(tmp_path, content, message):
    path = tmp_path / "s.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidArgument) as caught:
        read_settings(path)
    assert str(caught.value) == message.format(path=path)


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000])
def test_values_that_python_does_not_take_get_one_sentence(tmp_path, value):
    (tmp_path / "s.toml").write_text(f"[model]\norder = {value}\n")
    with pytest.raises(InvalidArgument, match=r"^`s.toml` must be a TOML file, got a slip: .*\. Correct it there\.$"):
        read_settings(tmp_path / "s.toml")


def test_a_file_says_only_what_differs_from_the_defaults(tmp_path):
    (tmp_path / "s.toml").write_text(FILE)
    settings = read_settings(tmp_path / "s.toml")
    assert settings.model == ModelSettings(hidden=128, order=15, formula="m_tandem_oblivion")
    assert settings.loss.weights == {"multiplet": 1.0, "lsel": 10.0}
    assert settings.optimizer == OptimizerSettings("rmsprop", lr=1e-4)
    assert settings.training == TrainingSettings(batch_size=500, patience=20)


@pytest.mark.parametrize("changes", [{}, {"model.order": 3, "training.patience": 4, "optimizer.lr": 1e-5}])
def test_what_is_written_reads_back_the_same(tmp_path, changes):
    settings = changed(Settings(model=ModelSettings(name="pooling")), changes)
    write_toml(settings, tmp_path / "s.toml")
    assert read_settings(tmp_path / "s.toml") == settings
    assert settings_from_dict(to_dict(settings)) == settings


def test_settings_do_not_change_and_can_be_copied_and_hashed():
    weights = {"lsel": 1.0}
    settings = Settings(loss=LossSettings(weights))
    weights["lsel"] = 2.0
    assert settings.loss.weights == {"lsel": 1.0}
    assert copy.deepcopy(settings) == pickle.loads(pickle.dumps(settings)) == settings
    assert len({settings, copy.deepcopy(settings)}) == 1
    with pytest.raises(AttributeError):
        settings.loss.gamma = 2.0
