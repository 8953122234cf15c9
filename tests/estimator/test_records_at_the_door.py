"""What a Series, a DataFrame or scores bring with them is used, or refused with a sentence: never left aside in silence."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import cross_val_score

from sooner import EarlyClassifier, Series
from sooner.data import read_table, table_parts
from sooner.errors import InvalidArgument
from sooner.estimator.learning import own_model
from sooner.series.columns import Columns
from waves import waves

X, Y = waves(90, seed=1)
NEW_X, NEW_Y = waves(60, seed=2)


@pytest.fixture(scope="module")
def fitted():
    return EarlyClassifier().fit(Series.of(X, Y, channels=["a", "b"]))


def test_channels_are_read_by_their_names(fitted):
    right = Series.of(NEW_X, NEW_Y, channels=["a", "b"])
    swapped = Series.of(NEW_X[:, ::-1].copy(), NEW_Y, channels=["b", "a"])
    more = Series.of(np.concatenate([NEW_X[:, :1], NEW_X], axis=1), NEW_Y, channels=["c", "a", "b"])
    assert fitted.evaluate(swapped) == fitted.evaluate(right) == fitted.evaluate(more) == fitted.evaluate(NEW_X, NEW_Y)
    with pytest.raises(InvalidArgument) as caught:
        fitted.predict(Series.of(NEW_X, channels=["a", "c"]))
    assert str(caught.value) == (
        "`X` must be a Series with the channels 'a', 'b', got a Series with 'a', 'c'. "
        "Give the channels the model was trained on."
    )


def test_mask_channels_follow_the_names():
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    clf = EarlyClassifier(missing="mask").fit(Series.of(holes, Y, channels=["a", "b"], missing="mask"))
    swapped = Series.of(holes[:, ::-1].copy(), Y, channels=["b", "a"], missing="mask")
    assert clf.evaluate(swapped) == clf.evaluate(Series.of(holes, Y, missing="mask"))
    for missing, record in (("refuse", Series.of(holes, Y, missing="mask")), ("mask", Series.of(X, Y))):
        with pytest.raises(InvalidArgument, match="a Series read with missing="):
            EarlyClassifier(missing=missing).fit(record)


def test_labels_and_groups_beside_scores_count(fitted):
    scores = fitted.scores(NEW_X)
    assert fitted.evaluate(scores, NEW_Y) == fitted.evaluate(NEW_X, NEW_Y)
    assert fitted.evaluate(scores, NEW_Y, groups=np.arange(60) // 3).groups == 20
    assert fitted.evaluate(scores, NEW_Y[::-1]).error != fitted.evaluate(scores, NEW_Y).error
    with pytest.raises(InvalidArgument, match="`y` must be the labels of the series"):
        fitted.evaluate(scores)
    for call in (fitted.evaluate, fitted.speed_accuracy, fitted.menu):
        with pytest.raises(InvalidArgument, match=r"`labels` must be of shape \(batch,\) = \(60,\)"):
            call(NEW_X, NEW_Y[:-1])


def test_an_unknown_class_matters_where_it_is_judged_and_nowhere_else(fitted):
    names = np.where(np.arange(60) == 7, "other", NEW_Y)
    strange = Series.of(NEW_X, names)
    assert fitted.predict(strange).tolist() == fitted.predict(NEW_X).tolist()
    assert fitted.predict_proba(strange).shape == (60, 3)
    with pytest.raises(InvalidArgument, match="among the classes"):
        fitted.evaluate(strange)


def test_the_score_of_a_labelled_series_needs_no_other_labels(fitted):
    assert fitted.score(Series.of(NEW_X, NEW_Y)) == fitted.score(NEW_X, NEW_Y)


def test_wide_frames_keep_their_rows_whatever_their_index_is():
    frame = pd.DataFrame(X[:, 0])
    assert np.isfinite(cross_val_score(EarlyClassifier(), frame, Y, cv=3)).all()
    mixed = frame.sample(frac=1, random_state=0)
    clf = EarlyClassifier().fit(frame, Y)
    assert clf.predict(mixed).tolist() == clf.predict(frame)[mixed.index].tolist()


def test_a_record_takes_groups_and_weights_and_a_frame_s_columns_belong_to_frames():
    record = Series.of(Series.of(X, Y), groups=np.arange(90) // 2, weights=np.ones(90))
    assert len(set(record.groups.tolist())) == 45
    assert record.weights.tolist() == [1.0] * 90
    for name in ("series", "time", "label", "group"):
        with pytest.raises(InvalidArgument, match=f"`{name}` must be None for arrays"):
            Series.of(X, Y, **{name: "a"})
    with pytest.raises(InvalidArgument, match="2 different names"):
        Series.of(X, Y, channels=["a", "a"])


def test_columns_may_come_as_any_sequence_of_names():
    rows = pd.DataFrame({"id": [1, 1, 2, 2], "t": [0, 1, 0, 1], "u": 1.0, "v": 2.0, "label": ["a", "a", "b", "b"]})
    found = Series.of(rows, series="id", time="t", label="label", channels=rows.columns[2:4])
    assert found.channels == ("u", "v")
    assert Columns(channels=np.array(["u", "v"])).given() == {"channels": ("u", "v")}


def test_a_frame_with_two_columns_that_could_be_labels_is_not_read_without_one():
    rows = pd.DataFrame({"id": [1, 2], "t": [0, 0], "u": [1.0, 2.0], "class": [0, 1], "target": [0, 1]})
    with pytest.raises(InvalidArgument, match="label"):
        Series.of(rows, series="id", time="t")
    assert Series.of(rows, series="id", time="t", label="class", ignore=["target"]).channels == ("u",)


def test_classes_of_a_table_are_different_names(tmp_path):
    (tmp_path / "a.csv").write_text("series,time,label,v\n1,0,x,1.0\n2,0,y,2.0\n")
    with pytest.raises(InvalidArgument, match="different names in one row"):
        read_table(tmp_path / "a.csv", classes=["x", "x", "y"])


def test_files_of_several_time_zones_are_one_table_in_parts_as_well(tmp_path):
    start = pd.Timestamp("2026-01-01", tz="UTC")
    for name, zone, hours in (("a", "Europe/Berlin", (0, 1)), ("b", "UTC", (2, 3))):
        frame = pd.DataFrame([(i, start + pd.Timedelta(hours=h), i % 2, float(h)) for h in hours for i in range(4)])
        frame.columns = ["series", "time", "label", "v"]
        frame["time"] = frame["time"].dt.tz_convert(zone)
        frame.to_parquet(tmp_path / f"{name}.parquet")
    whole = read_table(tmp_path)
    parts = list(table_parts(tmp_path, classes=[0, 1], rows=5))
    assert len(parts) > 1
    assert [i for part in parts for i in part.ids.tolist()] == whole.ids.tolist()
    assert torch.equal(torch.cat([part.observations for part in parts]), whole.observations)


def test_a_record_says_in_one_line_what_it_is():
    assert (
        repr(Series.of(X, Y, channels=["a", "b"])) == "<Series: 90 series of 30 observations, channels a, b, 3 classes>"
    )


def test_what_makes_no_model_gets_a_sentence():
    with pytest.raises(InvalidArgument, match="one that makes a Model"):
        own_model(dict, (2,), 3)
