"""Sets of the archives through aeon: as they are published, and a sentence where they cannot be had."""

import sys

import numpy as np
import pytest
import torch

from sooner.data import archives
from sooner.errors import FetchFailed, InvalidArgument

HEADER = "@problemName mine\n@timeStamps false\n@univariate true\n@equalLength false\n@classLabel true up down\n@data\n"
INSIDE = (
    "Inside the aeon package, without a network, there are ACSF1, ArrowHead, BasicMotions, Covid3Month_disc, GunPoint, "
    "ItalyPowerDemand, JapaneseVowels, OSULeaf, PickupGestureWiimoteZ, UnitTest."
)


def test_the_sets_inside_the_package_are_named_and_have_classes():
    names = archives.embedded()
    assert {"BasicMotions", "GunPoint", "JapaneseVowels"} <= set(names)
    assert "Covid3Month" not in names  # its series have numbers, not classes


def test_japanese_vowels_keep_their_lengths_and_their_speakers():
    train, test = archives.load("JapaneseVowels")
    assert (len(train), len(test), train.features) == (270, 370, (12,))
    assert (int(train.lengths.min()), int(train.lengths.max())) == (7, 26)
    assert (int(test.lengths.min()), int(test.lengths.max())) == (7, 29)
    assert train.class_counts().tolist() == [30] * 9
    assert test.class_counts().tolist() == [31, 35, 88, 44, 29, 24, 40, 50, 29]
    assert train.classes.tolist() == test.classes.tolist() == [str(speaker) for speaker in range(1, 10)]


def test_equal_lengths_come_from_the_files_number_by_number():
    train, _ = archives.load("BasicMotions")
    assert train.observations.shape == (40, 100, 6)
    assert train.classes.tolist() == ["badminton", "running", "standing", "walking"]
    x, y = archives.read_ts(_file("BasicMotions_TRAIN.ts"))
    np.testing.assert_array_equal(train.observations.numpy(), x.transpose(0, 2, 1))
    assert train.names(train.labels).tolist() == y.tolist()
    first = _file("BasicMotions_TRAIN.ts").read_text().split("@data\n")[1].split(":")[0]
    assert train.observations[0, :, 0].tolist() == [float(cell) for cell in first.split(",")]


def test_classes_are_shared_where_a_part_lacks_one(monkeypatch):
    parts = {"train": (np.zeros((2, 1, 3)), np.array(["a", "b"])), "test": (np.zeros((2, 1, 3)), np.array(["b", "c"]))}
    monkeypatch.setattr(archives, "_loaded", lambda _name, split: parts[split])
    train, test = archives.load("anything")
    assert train.classes.tolist() == test.classes.tolist() == ["a", "b", "c"]


def test_missing_values_of_a_file_stay_missing(tmp_path):
    path = tmp_path / "data.ts"
    path.write_text(HEADER + "1.0,?,3.0:up\n4.0:down\n")
    x, y = archives.read_ts(path)
    np.testing.assert_array_equal(np.concatenate(x, axis=1), [[1.0, np.nan, 3.0, 4.0]])
    assert y.tolist() == ["up", "down"]


def test_a_file_without_classes_has_no_labels(tmp_path):
    path = tmp_path / "data.ts"
    path.write_text(HEADER.replace("true up down", "false") + "1.0,2.0\n3.0\n")
    x, y = archives.read_ts(path)
    assert [case.tolist() for case in x] == [[[1.0, 2.0]], [[3.0]]]
    assert y is None


def test_a_set_that_cannot_be_downloaded_names_those_that_need_not_be(monkeypatch, tmp_path):
    def offline(*_arguments, **_options):
        raise OSError("no route\nto host")

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("aeon.datasets._data_loaders._get_data_home", lambda: str(tmp_path))
    monkeypatch.setattr("aeon.datasets._data_loaders.urlopen", offline)
    with pytest.raises(FetchFailed) as caught:
        archives.load("Beef")
    said = str(caught.value)
    assert said.startswith("Beef could not be fetched: Could not download files for Beef from Zenodo record ")
    assert said.endswith(f"no route to host. {INSIDE}")
    assert "\n" not in said


def _file(name):
    return archives._aeon_folder() / "datasets" / "data" / name.split("_")[0] / name


MESSAGES = {
    "a name with a slip": (
        lambda _: archives.load("JapaneseVowel"),
        f"`name` must be a set of the UCR or UEA archives, got 'JapaneseVowel'. Did you mean 'JapaneseVowels'? {INSIDE}",
    ),
    "a number for a name": (
        lambda _: archives.load(3),
        f"`name` must be a set of the UCR or UEA archives, got 3. {INSIDE}",
    ),
    "no such file": (
        lambda _: archives.read_ts("nothing.ts"),
        "`nothing.ts` must be a .ts file, got nothing there. Check the name and the current folder.",
    ),
    "a word among numbers": (
        lambda write: archives.read_ts(write(HEADER + "1.0,2.0:up\n1.0,much:down\n")),
        "`data.ts` must be a .ts file of numbers, and a class behind the last colon, got 'much' in line 8. "
        "Check that line; '?' means a missing value.",
    ),
    "mixed channel counts": (
        lambda write: archives.read_ts(write(HEADER + "1.0,2.0:up\n1.0:2.0:down\n")),
        "`data.ts` must be a .ts file that aeon reads, got Inconsistent number of dimensions in case 2. Expecting 1 but have "
        "read 2. Check the program that wrote this file.",
    ),
    "no series": (
        lambda write: archives.read_ts(write(HEADER)),
        "`data.ts` must be a .ts file of at least 1 series, got none. Check the program that wrote this file.",
    ),
    "an empty file": (
        lambda write: archives.read_ts(write("")),
        "`data.ts` must be a .ts file of at least 1 series, got none. Check the program that wrote this file.",
    ),
    "numbers to be predicted": (
        lambda write: archives.read_ts(
            write(HEADER.replace("@classLabel true up down", "@targetLabel true") + "1.0:2.0\n")
        ),
        "`data.ts` must be a .ts file of classes, got one of numbers to be predicted. It is a set for regression.",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_this_sentence(case, tmp_path, monkeypatch):
    def write(content):
        (tmp_path / "data.ts").write_text(content)
        return "data.ts"

    monkeypatch.chdir(tmp_path)
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call(write)
    assert str(caught.value) == message


def test_a_series_without_a_class_is_refused_and_blanks_make_no_other_class(tmp_path):
    (tmp_path / "data.ts").write_text(HEADER + "1.0,2.0:up\n2.0,1.0: up\n")
    assert archives.read_ts(tmp_path / "data.ts")[1].tolist() == ["up", "up"]
    (tmp_path / "data.ts").write_text(HEADER + "1.0,2.0:up\n2.0,1.0:?\n")
    with pytest.raises(InvalidArgument, match=r"a class for every series, got none at series 1 \(counted from 0\)"):
        archives.read_ts(tmp_path / "data.ts")


def test_a_file_with_nul_bytes_is_no_text(tmp_path):
    # NumPy's texts end at their last NUL, so that different classes would become the same.
    (tmp_path / "data.ts").write_text(HEADER + "1.0:up\n2.0:up\0\n")
    with pytest.raises(InvalidArgument, match=r"data.ts` must be a .ts file of text, got NUL bytes. Save it as UTF-8."):
        archives.read_ts(tmp_path / "data.ts")


def test_without_aeon_a_sentence_says_how_to_get_it(monkeypatch, tmp_path):
    (tmp_path / "data.ts").write_text(HEADER + "1.0:up\n")
    monkeypatch.setitem(sys.modules, "aeon", None)
    for call in (archives.embedded, lambda: archives.load("GunPoint"), lambda: archives.read_ts(tmp_path / "data.ts")):
        with pytest.raises(InvalidArgument) as caught:
            call()
        assert str(caught.value) == (
            '`archives` must be read by aeon, got no package `aeon`. Install it: pip install "sooner[archives]".'
        )


def test_masks_are_for_who_asks_for_them(monkeypatch):
    hole = np.zeros((2, 1, 3))
    hole[1, 0, 2] = np.nan
    monkeypatch.setattr(archives, "_loaded", lambda _name, _split: (hole, np.array(["a", "b"])))
    train, _ = archives.load("anything", missing="mask")
    assert train.mask_channels == 1
    assert torch.equal(train.observations[1], torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]]))
    with pytest.raises(InvalidArgument, match="got nan at series 1, time 2, channel 0"):
        archives.load("anything")
