"""DataFrames: a long one by the names of its columns, a wide one where it can be nothing else, and a sentence for the rest."""

import numpy as np
import pyarrow as pa
import pytest

from sooner.errors import InvalidArgument
from sooner.series import Series
from sooner.series.frame import is_frame, refuse_ambiguous, wide_array

ROWS = {
    "pump": ["b", "a", "b", "a", "b"],
    "minute": [2, 1, 1, 2, 3],
    "hum": [2.0, 10.0, 1.0, 20.0, 3.0],
    "flow": [0.2, 0.0, 0.1, 0.0, 0.3],
    "state": ["leak", "fine", "leak", "fine", "leak"],
    "site": [7, 8, 7, 8, 7],
}
NAMED = {"series": "pump", "time": "minute", "label": "state", "group": "site"}


def pandas(columns):
    return pytest.importorskip("pandas").DataFrame(columns)


def polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


every_library = pytest.mark.parametrize("library", [pandas, polars, pa.table])


@every_library
def test_a_long_frame_is_read_by_the_names_of_its_columns(library):
    found = Series.of(library(ROWS), **NAMED)
    assert found.ids.tolist() == ["b", "a"]
    assert found.lengths.tolist() == [3, 2]
    assert found.channels == ("hum", "flow")
    assert found.observations[0].tolist() == [[1.0, 0.1], [2.0, 0.2], [3.0, 0.3]]
    assert found.observations[1].tolist() == [[10.0, 0.0], [20.0, 0.0], [0.0, 0.0]]
    assert found.names(found.labels).tolist() == ["leak", "fine"]
    assert found.groups.tolist() == [7, 8]


@every_library
def test_it_is_what_a_file_of_the_same_rows_gives(library, tmp_path):
    import pyarrow.parquet as pq

    from sooner.data import Columns
    from sooner.data.read import read

    pq.write_table(pa.table(ROWS), tmp_path / "a.parquet")
    known, found = read(tmp_path / "a.parquet", columns=Columns(**NAMED)), Series.of(library(ROWS), **NAMED)
    for name, value in vars(known).items():
        other = getattr(found, name)
        assert (value == other) if value is None or isinstance(value, tuple | int) else bool((value == other).all())


@every_library
def test_without_a_label_there_are_none(library):
    columns = {name: ROWS[name] for name in ("pump", "minute", "hum")}
    found = Series.of(library(columns), series="pump", time="minute", weights=[1.0, 2.0])
    assert found.labels is None
    assert found.classes is None
    assert found.weights.tolist() == [1.0, 2.0]


def test_columns_can_be_chosen_or_left_out():
    for given in ({"channels": ["flow"]}, {"ignore": ["hum", "site"]}):
        found = Series.of(pa.table(ROWS), series="pump", time="minute", label="state", **given)
        assert found.channels == ("flow",)


def test_missing_values_and_timestamps_of_pandas():
    days = pytest.importorskip("pandas").to_datetime(["2026-01-02", "2026-01-01", "2026-01-01"])
    frame = pandas({"id": ["a", "a", "b"], "t": days, "x": [2.0, np.nan, 3.0], "y": ["u", "u", "v"]})
    frame["id"] = frame["id"].astype("category")
    found = Series.of(frame.rename(columns={"y": "kind"}), series="id", label="kind", missing="mask")
    assert found.observations.tolist() == [[[0.0, 0.0], [2.0, 1.0]], [[3.0, 1.0], [0.0, 0.0]]]
    assert found.mask_channels == 1
    with pytest.raises(
        InvalidArgument, match=r"`X` must be a table of finite numbers in column 'x', got nothing at row 2"
    ):
        Series.of(frame.rename(columns={"y": "kind"}), series="id", label="kind")


def test_an_index_that_has_a_name_is_a_column():
    frame = pandas(ROWS).set_index(["pump", "minute"])
    assert Series.of(frame, **NAMED).lengths.tolist() == [3, 2]


@every_library
@pytest.mark.parametrize("names", [["0", "1", "2"], ["t0", "t1", "t10"], ["feature 0", "feature 1", "feature 2"]])
def test_a_frame_that_can_only_be_wide_is_an_array(library, names):
    x = np.arange(6.0).reshape(2, 3)
    frame = library(dict(zip(names, x.T, strict=True)))
    assert is_frame(frame)
    assert wide_array(frame).tolist() == x.tolist()
    assert Series.of(frame, ["a", "b"]).observations[..., 0].tolist() == x.tolist()


@every_library
@pytest.mark.parametrize(
    "columns",
    [
        {"series": [1, 1], "time": [1, 2], "x": [1.0, 2.0]},
        {"t1": [1.0], "t0": [1.0]},
        {"t0": [1.0], "u1": [1.0]},
        {"t0": [1.0], "t1": ["a"]},
        {"x": [1.0], "x1": [2.0]},
    ],
)
def test_any_other_frame_is_refused_with_both_remedies(library, columns):
    frame = library(columns)
    for call in (Series.of, refuse_ambiguous):
        with pytest.raises(InvalidArgument) as caught:
            call(frame)
        assert str(caught.value) == (
            f"`X` must be an array or a Series, got a DataFrame with the columns {', '.join(map(repr, columns))}. If each row is "
            "one observation, pass Series.of(df, series=..., time=..., label=...) with the names of these columns; if each "
            "row is one series, pass df.to_numpy()."
        )


MESSAGES = {
    "a name that is not there": (
        lambda: Series.of(pa.table(ROWS), series="pomp"),
        "`series`, `time` must be columns of X, got 'pomp'; none called 'time', 't', 'timestamp'. It has the columns "
        "'pump', 'minute', 'hum', 'flow', 'state', 'site': name one by time=.",
    ),
    "labels beside the table": (
        lambda: Series.of(pa.table(ROWS), ["leak", "fine"], **NAMED),
        "`y` must be None for a long DataFrame, got a value. Name its column: label=.",
    ),
    "no rows": (
        lambda: Series.of(pa.table(ROWS)[:0], **NAMED),
        "`X` must be a DataFrame with at least 1 row, got none. Check what made it.",
    ),
    "text among the channels": (
        lambda: Series.of(pa.table(ROWS), series="pump", time="minute", label="site"),
        "`channels` must be columns of numbers in X, got text in 'state'. Leave it out by ignore=, or name its role: series=, "
        "time=, label= or group=.",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_bad_input_gets_this_sentence(case):
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message


def test_columns_of_one_name_are_a_sentence():
    frame = pandas(ROWS).set_axis(["a", "a", "b", "c", "d", "e"], axis=1)
    with pytest.raises(
        InvalidArgument, match="`X` must be a DataFrame that Arrow can read, got Duplicate column names"
    ):
        Series.of(frame, series="a")


def test_arrays_are_no_frames():
    import torch

    assert not any(map(is_frame, ([[1.0]], np.zeros((2, 3)), torch.zeros(2, 3), Series.of(np.zeros((2, 3)), [0, 1]))))
