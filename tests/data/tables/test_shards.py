"""Shards: wherever a table is cut, every series is read once and whole."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sooner.data.tables import files as sources
from sooner.data.tables import plan as plans
from sooner.data.tables.plan import ROWS, TablePlan
from sooner.data.tables.shards import RangeUnreadable, SeriesReturns, ShardReader
from sooner.data.tables.spill import sorted_by_series
from sooner.errors import InvalidArgument, UnreadableFile
from sooner.series.columns import Columns


def frame(sizes, ids=lambda n: f"unit {n}", first=0):
    """Series of these sizes; their observations count all rows of the table."""
    owners = np.repeat(np.arange(len(sizes)), sizes)
    total = len(owners)
    columns = {
        "series": [ids(int(n) + first) for n in owners],
        "time": np.concatenate([np.arange(size) for size in sizes]) if total else np.zeros(0, int),
        "u": np.arange(total) + 1000.0 * first,
        "v": np.zeros(total),
    }
    return pa.table(columns)


def written(table, folder, cuts=(), row_group_size=1000):
    """The table as files that are cut there."""
    folder.mkdir(exist_ok=True)
    ends = [0, *sorted(cuts), len(table)]
    for place, (low, high) in enumerate(itertools.pairwise(ends)):
        pq.write_table(
            table.slice(low, high - low),
            folder / f"{place:03}.parquet",
            row_group_size=row_group_size,
            write_page_checksum=True,
            use_dictionary=["series"],
        )
    return folder


def in_shards(path, columns, shard_rows=ROWS):
    return TablePlan.of(path, columns, "unlabelled", shard_rows=shard_rows)


def damaged(path, group=0, column=2):
    """A byte of the data is no longer what it was."""
    about = pq.read_metadata(path).row_group(group).column(column)
    content = bytearray(path.read_bytes())
    content[about.data_page_offset + about.total_compressed_size - 2] ^= 255
    path.write_bytes(content)


def walked(plan, shard, room=64):
    """{id: first channel} of the series that begin in a shard, without those that are torn, as `Scoring` does it."""
    broken = plan.broken
    while True:
        reader = ShardReader(plan, shard, broken)
        try:
            parts = list(reader.series(room))
            break
        except RangeUnreadable as error:
            broken = {**broken, error.index: error.reason}
    found = {}
    for part in parts:
        for name, x, length in zip(part.ids.tolist(), part.observations, part.lengths.tolist(), strict=True):
            assert name not in found
            found[name] = x[:length, 0].tolist()
            assert not x[length:].any()
    return {name: values for name, values in found.items() if name not in reader.torn}


def all_of(plan, room=64):
    found = {}
    for shard in range(len(plan.shards)):
        here = walked(plan, shard, room)
        assert not found.keys() & here.keys()
        found |= here
    return found


def expected(table):
    found = {}
    for name, value in zip(table["series"].to_pylist(), table["u"].to_pylist(), strict=True):
        found.setdefault(name, []).append(value)
    return found


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=14),
    st.lists(st.integers(0, 60), max_size=5),
    st.integers(1, 11),
    st.integers(1, 30),
    st.integers(1, 40),
)
def test_wherever_it_is_cut_every_series_comes_once_and_whole(tmp_path_factory, sizes, cuts, group, least, room):
    table = frame(sizes)
    cuts = [min(cut, len(table)) for cut in cuts]
    folder = written(table, tmp_path_factory.mktemp("table") / "t", cuts, group)
    plan = in_shards(folder, Columns(), shard_rows=least)
    found = all_of(plan, room)
    assert found == expected(table)
    assert list(found) == list(expected(table))
    assert plan.rows == len(table)


def test_batches_of_the_reader_do_not_matter(tmp_path, monkeypatch):
    table = frame([7, 1, 30, 2, 2, 19, 4])
    folder = written(table, tmp_path / "t", [20, 50], 9)
    for batch in (1, 3, 8):
        monkeypatch.setattr(sources, "_ROWS", batch)
        assert all_of(in_shards(folder, Columns(), shard_rows=13), room=20) == expected(table)


def test_shards_have_the_rows_that_were_asked_for_but_for_the_last(tmp_path):
    folder = written(frame([5] * 200), tmp_path / "t", [33, 400, 401, 900], 70)
    plan = in_shards(folder, Columns(), shard_rows=120)
    sizes = [sum(plan.ranges[index].stop - plan.ranges[index].start for index in shard) for shard in plan.shards]
    assert sizes == [120] * 8 + [40]


def test_a_very_long_table_has_no_more_shards_than_that(tmp_path, monkeypatch):
    monkeypatch.setattr(plans, "MOST", 7)
    plan = in_shards(written(frame([5] * 200), tmp_path / "t"), Columns(), shard_rows=10)
    assert len(plan.shards) == 7


def test_padding_is_counted_so_that_a_long_series_does_not_blow_up_short_ones(tmp_path):
    folder = written(frame([1] * 50 + [400] + [1] * 50), tmp_path / "t")
    reader = ShardReader(in_shards(folder, Columns()), 0, {})
    shapes = [tuple(part.observations.shape[:2]) for part in reader.series(room=300)]
    assert all(series * time <= 300 for series, time in shapes if series > 1)
    assert (1, 400) in shapes
    assert sum(series for series, _ in shapes) == 101
    assert reader.rows == 500


def test_ids_keep_their_type(tmp_path):
    kinds = {
        "int32": pa.array([3, 3, 4], pa.int32()),
        "uint64": pa.array([3, 3, 2**63], pa.uint64()),
        "large_string": pa.array(["a", "a", "b"], pa.large_string()),
        "string": pa.array(["a", "a", "b"]).dictionary_encode(),
        "bool": pa.array([True, True, False]),
    }
    for kind, ids in kinds.items():
        path = tmp_path / f"{kind}.parquet"
        pq.write_table(pa.table({"series": ids, "time": [1, 2, 1], "u": [1.0, 2.0, 3.0]}), path)
        plan = in_shards(path, Columns())
        assert str(plan.id_type) == kind
        assert next(ShardReader(plan, 0, {}).series()).ids.tolist() == list(dict.fromkeys(ids.to_pylist()))


def test_files_whose_ids_differ_in_size_meet_in_the_larger_type(tmp_path):
    for place, kind in enumerate((pa.int16(), pa.int64())):
        ids = pa.array([place, place], kind)
        pq.write_table(pa.table({"series": ids, "time": [1, 2], "u": [1.0, 2.0]}), tmp_path / f"{place}.parquet")
    plan = in_shards(tmp_path, Columns())
    assert plan.id_type == pa.int64()
    assert list(all_of(plan)) == [0, 1]


def test_a_file_without_a_footer_is_passed_over_and_series_of_its_neighbours_are_whole(tmp_path):
    table = frame([4, 4, 4, 4, 4])
    folder = written(table, tmp_path / "t", [8, 12])
    (folder / "001.parquet").write_bytes(b"PAR1 and no more")
    (folder / "0015.parquet").write_bytes(b"")
    for least in (1, 5, 100):
        plan = in_shards(folder, Columns(), shard_rows=least)
        whole = expected(table)
        assert all_of(plan) == {name: whole[name] for name in ("unit 0", "unit 1", "unit 3", "unit 4")}
        assert len(plan.broken) == 2
        assert "an empty file" in plan.broken.values()


def test_a_series_on_both_sides_of_what_cannot_be_read_is_left_out(tmp_path):
    table = frame([4, 12, 4])
    folder = written(table, tmp_path / "t", [8, 12])
    (folder / "001.parquet").write_bytes(b"PAR1 and no more")
    for least in (1, 3, 8, 100):
        found = all_of(in_shards(folder, Columns(), shard_rows=least))
        assert found == {name: values for name, values in expected(table).items() if name != "unit 1"}


@pytest.mark.parametrize("least", [1, 7, 20, 1000])
def test_of_a_file_that_is_damaged_inside_no_row_is_wrong(tmp_path, monkeypatch, least):
    monkeypatch.setattr(sources, "_ROWS", 4)
    table = frame([6] * 20)
    folder = written(table, tmp_path / "t", [], 20)  # groups: rows 0-19, 20-39, ...
    damaged(folder / "000.parquet", group=2)
    found = all_of(in_shards(folder, Columns(), shard_rows=least))
    whole = expected(table)
    assert all(values == whole[name] for name, values in found.items())
    lost = {f"unit {n}" for n in range(40 // 6, 59 // 6 + 1)}  # all that have a row in the damaged group
    assert not lost & found.keys()
    if least in (1, 20):  # no range is in two groups
        assert found.keys() == whole.keys() - lost


def test_nothing_to_read_is_a_sentence(tmp_path):
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"nonsense" * 10)
    with pytest.raises(
        UnreadableFile, match=r"readable Parquet file, got .* Check the program that wrote this file\.$"
    ):
        in_shards(bad, Columns())
    empty = tmp_path / "empty.parquet"
    pq.write_table(frame([]), empty)
    with pytest.raises(
        InvalidArgument,
        match=r"must be a table with at least 1 row, got none\. Check the program that wrote this file\.$",
    ):
        in_shards(empty, Columns())


def test_files_that_do_not_fit_together_are_refused_before_any_work(tmp_path):
    first, other = tmp_path / "0.parquet", tmp_path / "1.parquet"
    pq.write_table(frame([2]), first)
    pq.write_table(frame([2]).rename_columns(["series", "time", "u", "w"]), other)
    with pytest.raises(InvalidArgument, match=r"1.parquet` must be a table of the same columns as .*0.parquet"):
        in_shards(tmp_path, Columns())
    pq.write_table(frame([2], ids=int), other)
    with pytest.raises(InvalidArgument) as caught:
        in_shards(tmp_path, Columns())
    assert str(caught.value) == (
        f"`{other}` must be a table with string in column 'series' as in {first}, got int64. Write all files alike."
    )


def test_a_series_that_comes_back_is_seen_from_the_ids_and_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_ROWS", 2)
    table = pa.concat_tables([frame([3, 3]), frame([3])])
    for cuts, least in (([], 1000), ([6], 1000), ([2, 4], 2)):
        folder = written(table, tmp_path / f"{len(cuts)}", cuts)
        plan = in_shards(folder, Columns(), shard_rows=least)
        assert not plan.contiguous()
        if least > len(table):
            with pytest.raises(SeriesReturns):
                all_of(plan)
    assert in_shards(written(frame([3, 1, 7, 2]), tmp_path / "t", [4, 8]), Columns()).contiguous()


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=14),
    st.lists(st.integers(0, 60), max_size=5),
    st.integers(1, 30),
    st.integers(1, 40),
    st.randoms(use_true_random=False),
)
def test_whatever_the_order_of_rows_the_shards_are_those_of_the_sorted_table(
    tmp_path_factory, sizes, cuts, least, room, chance
):
    table, folder = frame(sizes), tmp_path_factory.mktemp("table")
    ends = np.cumsum([0, *sizes])
    firsts = ends[:-1].tolist()  # series first appear in their order
    others = sorted(set(range(len(table))) - set(firsts))
    chance.shuffle(others)
    order = [*firsts, *others]
    mixed = written(table.take(pa.array(order)), folder / "mixed", [min(cut, len(table)) for cut in cuts], 7)
    plan = in_shards(written(table, folder / "t"), Columns(), shard_rows=least)
    with sorted_by_series(in_shards(mixed, Columns(), shard_rows=least), least, folder) as in_order:
        found = [shapes(in_order, shard, room) for shard in range(len(in_order.shards))]
        assert all_of(in_order, room) == all_of(plan, room) == expected(table)
        assert list(all_of(in_order, room)) == list(expected(table))
    assert found == [here for shard in range(len(plan.shards)) if (here := shapes(plan, shard, room))]
    assert sorted(path.name for path in folder.iterdir()) == ["mixed", "t"]


def shapes(plan, shard, room):
    return [tuple(part.observations.shape) for part in ShardReader(plan, shard, {}).series(room)]


def test_a_sorted_table_still_names_the_row_of_a_fault(tmp_path):
    table = frame([3, 3]).take(pa.array([0, 3, 1, 4, 2, 5]))
    u = table["u"].to_pylist()
    u[4] = None
    folder = written(table.set_column(2, "u", pa.array(u)), tmp_path / "t", [3])
    plan = in_shards(folder, Columns())
    with sorted_by_series(plan, 1000) as in_order, pytest.raises(InvalidArgument) as caught:
        all_of(in_order)
    assert str(caught.value).startswith(
        f"`{folder / '001.parquet'}` must be a table of finite numbers in column 'u', got nothing at row 2 "
        "(series 'unit 0', time 2)."
    )


def test_where_rows_are_lost_a_table_that_is_not_contiguous_is_refused_and_the_folder_goes(tmp_path):
    folder = written(frame([3, 3]).take(pa.array([0, 3, 1, 4, 2, 5])), tmp_path / "t", [2, 4])
    whole = (folder / "001.parquet").read_bytes()
    for name, content in (("001.parquet", b"PAR1 and no more"), ("002.parquet", None)):
        (folder / "001.parquet").write_bytes(whole)
        if content:
            (folder / name).write_bytes(content)
        else:
            damaged(folder / name)
        plan = in_shards(folder, Columns())
        assert not plan.contiguous()
        with pytest.raises(UnreadableFile, match=name), sorted_by_series(plan, 100, tmp_path):
            raise AssertionError
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
