"""One door: whatever the file, the same series, ids and channels; or a sentence that names the file."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from sooner.data import archives, digits
from sooner.data import read as files
from sooner.errors import InvalidArgument
from sooner.series.columns import Columns

X = np.random.default_rng(0).normal(size=(6, 2, 5)).round(3)
Y = np.array(["up", "down", "up", "left", "down", "left"])
LENGTHS = np.array([5, 3, 1, 4, 5, 2])
NAN = float("nan")
HOLE = X.copy()
HOLE[1, 0, 2] = NAN


def table_text(head="series,time,label,u,v"):
    rows = [
        f"{case},{time},{Y[case]},{X[case, 0, time]},{X[case, 1, time]}"
        for case in range(6)
        for time in range(LENGTHS[case])
    ]
    return "\n".join([head, *rows]) + "\n"


def ts_text():
    header = "@problemName mine\n@timeStamps false\n@univariate false\n@equalLength false\n@classLabel true up down left\n@data\n"
    cases = [
        ":".join([*(",".join(map(str, channel[:length])) for channel in case), label])
        for case, length, label in zip(X, LENGTHS, Y, strict=True)
    ]
    return header + "\n".join(cases) + "\n"


@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_kind_of_file_gives_the_same_record():
    Path("a.csv").write_text(table_text())
    Path("a.ts").write_text(ts_text())
    np.savez("a.npz", X=X, y=Y, lengths=LENGTHS)
    np.savez_compressed("b.npz", observations=X.transpose(0, 2, 1), labels=Y, lengths=LENGTHS)
    for source in ("a.csv", Path("a.ts"), "a.npz", "b.npz"):
        table = files.read(source)
        assert table.ids.tolist() == list(range(6))
        assert table.lengths.tolist() == LENGTHS.tolist()
        assert table.classes.tolist() == ["down", "left", "up"]
        assert table.names(table.labels).tolist() == Y.tolist()
        for case, length, x in zip(X, LENGTHS, table.observations, strict=True):
            np.testing.assert_allclose(x[:length], case[:, :length].T, rtol=1e-6)
            assert not x[length:].any()
        unlabelled = files.read_observations(source)
        assert torch.equal(unlabelled.observations, table.observations)
        assert torch.equal(unlabelled.lengths, table.lengths)
        assert unlabelled.ids.tolist() == table.ids.tolist()
        assert unlabelled.channels == table.channels


def test_equal_lengths_need_no_lengths():
    np.savez("a.npz", X=X, y=Y)
    np.save("x.npy", X)
    np.save("y.npy", Y)
    for table in (files.read("a.npz"), files.read("x.npy", y="y.npy")):
        assert torch.equal(table.observations, torch.from_numpy(X).transpose(1, 2))
        assert table.channels == ("0", "1")


def test_two_axes_are_one_channel():
    np.savez("a.npz", X=X[:, 0], y=Y, lengths=LENGTHS)
    np.savez("b.npz", X=X[:, :1], y=Y, lengths=LENGTHS)
    assert torch.equal(files.read("a.npz").observations, files.read("b.npz").observations)


def test_whatever_else_an_npz_holds_is_kept():
    who = list("aabbcc")
    np.savez(
        "a.npz", X=X, y=Y, groups=who, classes=["up", "left", "down", "right"], ids=list("pqrstu"), channels=["x", "z"]
    )
    table = files.read("a.npz")
    assert table.groups.tolist() == who
    assert table.classes.tolist() == ["up", "left", "down", "right"]
    assert table.ids.tolist() == list("pqrstu")
    assert table.channels == ("x", "z")
    assert files.read("a.npz", classes=["down", "left", "up"]).classes.tolist() == ["down", "left", "up"]


def test_images_have_no_channels_to_name():
    np.savez("a.npz", observations=np.zeros((6, 3, 8, 8), dtype=np.uint8), labels=Y)
    table = files.read("a.npz")
    assert table.channels == ()
    assert table.features == (8, 8)


def test_missing_values_get_masks_from_every_kind_of_file():
    np.savez("a.npz", X=HOLE, y=Y)
    np.save("x.npy", HOLE)
    np.save("y.npy", Y)
    Path("a.ts").write_text(ts_text().replace(str(X[1, 0, 2]), "?"))
    for table in (
        files.read("a.npz", missing="mask"),
        files.read("x.npy", y="y.npy", missing="mask"),
        files.read("a.ts", missing="mask"),
    ):
        assert table.mask_channels == 2
        assert table.observations[1, 2].tolist() == [0.0, X[1, 1, 2], 0.0, 1.0]
        assert table.channels == ("0", "1")
    assert files.read_observations("a.npz", missing="mask").mask_channels == 2


def test_columns_of_a_table_are_named_in_one_place():
    Path("a.csv").write_text(table_text("machine,hour,state,u,v"))
    columns = Columns(series="machine", time="hour", label="state", channels=["v"])
    table = files.read("a.csv", columns=columns, gaps="channel")
    assert table.channels == ("v", "gap")
    assert table.names(table.labels).tolist() == Y.tolist()
    assert files.read_observations("a.csv", columns=columns).channels == ("v",)


def test_folders_and_patterns_are_tables():
    Path("all").mkdir()
    head, *rows = table_text().splitlines()
    for place, part in enumerate((rows[:7], rows[7:])):
        Path(f"all/{place}.csv").write_text("\n".join([head, *part]))
    assert len(files.read("all")) == len(files.read("all/*.csv")) == 6


def test_named_sets_come_in_their_parts():
    for part, known in digits.load()._asdict().items():
        table = files.read("digits", part=part)
        assert torch.equal(table.observations, known.observations)
        assert torch.equal(table.labels, known.labels)
    for part, known in archives.load("JapaneseVowels")._asdict().items():
        table = files.read("JapaneseVowels", part=part)
        assert torch.equal(table.observations, known.observations)
        assert torch.equal(table.labels, known.labels)
        assert len(table.channels) == 12


def test_a_folder_does_not_hide_the_digits():
    Path("digits").mkdir()
    assert len(files.read("digits", part="test")) == 359


def _npz(**arrays):
    np.savez("data.npz", **arrays)
    return "data.npz"


def _npy(array, name="x.npy"):
    np.save(name, array, allow_pickle=True)
    return name


def _content(name, content):
    Path(name).write_bytes(content)
    return name


KINDS = ".parquet, .pq, .csv, .csv.gz, .tsv, .tsv.gz, .npz, .npy, .ts"
RAGGED = np.array([np.zeros((2, 3)), np.zeros((3, 4))], dtype=object)


def _npy_bytes(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _zip(name, parts):
    with zipfile.ZipFile(name, "w") as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    return name


MESSAGES = {
    "another suffix": (
        lambda: files.read(_content("data.xls", b"x")),
        f"`data.xls` must be a file of data, got .xls. It ends in one of {KINDS}.",
    ),
    "no suffix": (
        lambda: files.read(_content("data", b"x")),
        f"`data` must be a file of data, got no suffix. It ends in one of {KINDS}.",
    ),
    "no such table": (
        lambda: files.read("nothing.csv"),
        "`nothing.csv` must be a table, got nothing there. Check the name and the current folder.",
    ),
    "no such arrays": (
        lambda: files.read("nothing.npz"),
        "`nothing.npz` must be a .npz file, got nothing there. Check the name and the current folder.",
    ),
    "no such labels": (
        lambda: files.read(_npy(X), y="y.npy"),
        "`y.npy` must be a .npy file, got nothing there. Check the name and the current folder.",
    ),
    "no bytes": (
        lambda: files.read(_content("data.npz", b"")),
        "`data.npz` must be a .npz file, got an empty file. Check the program that wrote this file.",
    ),
    "a damaged file": (
        lambda: files.read(_content("data.npz", Path(_npz(X=X, y=Y)).read_bytes()[:-50])),
        "`data.npz` must be a readable .npz file, got something else. Check the program that wrote this file.",
    ),
    "damaged bytes": (
        lambda: files.read(
            _content("data.npz", Path(_npz(X=X, y=Y)).read_bytes().replace(X[0, 0, 0].tobytes(), bytes(8)))
        ),
        "`data.npz` must be a readable .npz file, got something else. Check the program that wrote this file.",
    ),
    "words": (
        lambda: files.read(_content("data.npy", b"not an array")),
        "`data.npy` must be a readable .npy file, got something else. Check the program that wrote this file.",
    ),
    "one kind in the name of another": (
        lambda: files.read(_content("data.npy", Path(_npz(X=X, y=Y)).read_bytes())),
        "`data.npy` must be a readable .npy file, got something else. Check the program that wrote this file.",
    ),
    "mixed channel counts": (
        lambda: files.read(_npz(X=RAGGED, y=Y[:2])),
        "`data.npz` must be arrays of plain numbers or text, got Python objects. "
        "Save series of unequal lengths as one padded array, with their `lengths` beside it.",
    ),
    "objects in .npy": (
        lambda: files.read(_npy(RAGGED), y=_npy(Y[:2], "y.npy")),
        "`x.npy` must be arrays of plain numbers or text, got Python objects. "
        "Save series of unequal lengths as one padded array, with their `lengths` beside it.",
    ),
    "other names": (
        lambda: files.read(_npz(data=X, target=Y)),
        "`data.npz` must be arrays called X and y, or observations and labels, got ['data', 'target']. "
        "Save them by these names: np.savez(file, X=..., y=...).",
    ),
    "no labels": (
        lambda: files.read(_npz(X=X)),
        "In data.npz: `labels` must be known for every series, got none. Save both in one .npz file, as X and y.",
    ),
    "no labels beside .npy": (
        lambda: files.read(_npy(X)),
        "In x.npy: `labels` must be known for every series, got none. Save both in one .npz file, as X and y.",
    ),
    "one class": (
        lambda: files.read(_npz(X=X, y=["up"] * 6)),
        "In data.npz: `labels` must be of at least 2 classes, got only ['up']. With one class there is nothing to decide.",
    ),
    "too few labels": (
        lambda: files.read(_npz(X=X, y=Y[:5])),
        "In data.npz: `labels` must be of shape (6,), got shape (5,). Give one for each series.",
    ),
    "no series": (
        lambda: files.read(_npz(X=X[:0], y=Y[:0])),
        "In data.npz: `X` must be a batch of at least 1 series, got an empty batch. Skip empty batches before the call.",
    ),
    "no axes": (
        lambda: files.read_observations(_npy(np.float64(1.0))),
        "In x.npy: `X` must be of shape (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints), got shape (). "
        "Series of unequal lengths come as a list of (n_channels, n_timepoints).",
    ),
    "words for numbers": (
        lambda: files.read(_npz(X=Y, y=Y)),
        "In data.npz: `X` must be an array of numbers, all rows of one length, got a ndarray. "
        "Pass a torch tensor or a NumPy array of a numeric type.",
    ),
    "a missing value": (
        lambda: files.read(_npz(X=HOLE, y=Y)),
        "In data.npz: `X` must be finite, got nan at series 1, time 2, channel 0 (counted from 0). Fill missing values in, "
        'or pass missing="mask"; unequal lengths need no padding with NaN.',
    ),
    "infinity": (
        lambda: files.read(_npz(observations=[[1.0, np.inf], [1.0, 2.0]], labels=[0, 1])),
        "In data.npz: `observations` must be finite, got inf at series 0, time 1, channel 0 (counted from 0). Fill missing "
        'values in, or pass missing="mask"; unequal lengths need no padding with NaN.',
    ),
    "a length beyond the end": (
        lambda: files.read(_npz(X=X, y=Y, lengths=LENGTHS + 1)),
        "In data.npz: `lengths` must be in 1..5, got 6 at index 0. The tensor holds 5 observation(s) a series.",
    ),
    "an id twice": (
        lambda: files.read(_npz(X=X, y=Y, ids=[1, 2, 3, 4, 5, 5])),
        "In data.npz: `ids` must be 6 different ones, got 5 in shape (6,). Give each series one.",
    ),
    "a channel without a name": (
        lambda: files.read(_npz(X=X, y=Y, channels=["x"])),
        "In data.npz: `channels` must be 2 different names, got 1. Give each channel one.",
    ),
    "labels for a file that has its own": (
        lambda: files.read(_npz(X=X, y=Y), y="y.npy"),
        "`y` must be None for data.npz, got 'y.npy'. Only .npy files have their labels elsewhere.",
    ),
    "labels for a table": (
        lambda: files.read(_content("data.csv", table_text().encode()), y="y.npy"),
        "`y` must be None for data.csv, got 'y.npy'. A table has its labels in a column.",
    ),
    "columns of arrays": (
        lambda: files.read(_npz(X=X, y=Y), columns=Columns(label="y")),
        "`label` must be left out for data.npz, got 'y'. Only tables have columns.",
    ),
    "times of arrays": (
        lambda: files.read(_npz(X=X, y=Y), gaps="channel"),
        "`gaps` must be \"none\" for data.npz, got 'channel'. Only tables have times.",
    ),
    "a .ts file without classes": (
        lambda: files.read(_content("data.ts", b"@classLabel false\n@univariate true\n@data\n1.0,2.0\n")),
        "In data.ts: `labels` must be known for every series, got none. Save both in one .npz file, as X and y.",
    ),
    "X of four axes with lengths": (
        lambda: files.read(_npz(X=X[..., None], y=Y, lengths=LENGTHS)),
        "In data.npz: `X` must be of shape (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints), got shape "
        "(6, 2, 5, 1). Series of unequal lengths come as a list of (n_channels, n_timepoints).",
    ),
    "a header that is cut": (
        lambda: files.read(_content("data.npy", _npy_bytes(X).replace(b"True", b"(((1").replace(b"False", b"(((11"))),
        "`data.npy` must be a readable .npy file, got something else. Check the program that wrote this file.",
    ),
    "a shape that fits into no memory": (
        lambda: files.read(_content("data.npy", _npy_bytes(X).replace(b"(6, 2, 5), }      ", b"(6, 2, 5000000000)}"))),
        "`data.npy` must be a readable .npy file, got something else. Check the program that wrote this file.",
    ),
    "something that is no array among arrays": (
        lambda: files.read(_zip("data.npz", {"X.npy": _npy_bytes(X), "y.npy": b"up,down"})),
        "`data.npz` must be a readable .npz file, got something else. Check the program that wrote this file.",
    ),
    "codes that are no letters": (
        lambda: files.read(
            _zip("data.npz", {"X.npy": _npy_bytes(X), "y.npy": _npy_bytes(Y).replace(b"u\0\0\0", b"u\0\0\x7f")})
        ),
        "`data.npz` must be arrays of Unicode text, got other codes. Check the program that wrote this file.",
    ),
    "a part that a set does not have": (
        lambda: files.read("JapaneseVowels", part="validation"),
        "`part` must be one of 'test', 'train', got 'validation'. Did you mean 'train'?",
    ),
    "a part that nobody has": (
        lambda: files.read("digits", part="tests"),
        "`part` must be one of 'test', 'train', 'validation', got 'tests'. Did you mean 'test'?",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_this_sentence(case):
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message


def test_a_name_that_nobody_knows_is_looked_up_in_the_archives():
    with pytest.raises(InvalidArgument) as caught:
        files.read("GunPint")
    assert "must be a set of the UCR or UEA archives, got 'GunPint'. Did you mean 'GunPoint'?" in str(caught.value)
