"""The journal: what was synced survives a cut at any byte, with the same event IDs."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sooner.errors import InvalidArgument, JournalFailed, UnreadableFile
from sooner.rules import MSPRT
from sooner.stream import LiveSeries, LiveSettings, Rearm
from sooner.stream.journal import Journal
from sooner.stream.journal import folder as journal_folder
from stream.live_parts import SETTINGS, courses, fleet_of, seen, told_by, ups

NEXT = LiveSettings(rearm=Rearm("next"))


def live_in(folder, how=NEXT, *, now=0.0, fleet=None, **sizes):
    return LiveSeries(fleet or fleet_of(), how, journal=Journal(folder, **sizes), now=now)


def let_go(live):
    """As if the process were killed: nothing is written any more."""
    live.journal.wait()
    live.journal._end()
    live.journal.decisions.close()
    live.journal._open.close()


def state_of(live):
    page = live.open(limit=1000)
    shown = [(s.series, s.run, s.time, s.margin, s.opened, tuple(s.scores)) for s in page.series]
    return shown, live.last_id, live.rule, live.delivered


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=courses(), how=SETTINGS, small=st.booleans(), killed=st.integers(0, 7))
def test_a_restart_goes_on_with_the_same_events(tmp_path_factory, steps, how, small, killed):
    # The silence of open series is counted anew after a restart, so there is none here.
    how = LiveSettings(rearm=how.rearm, deadline_seconds=how.deadline_seconds, late=how.late)
    folder = tmp_path_factory.mktemp("journal")
    expected = told_by(LiveSeries(fleet_of(), how), steps)
    sizes = {"segment_bytes": 200, "snapshot_bytes": 700} if small else {}
    live = live_in(folder, how, **sizes)
    events = told_by(live, steps[:killed]).events
    live.sync()
    before = state_of(live)
    let_go(live)
    live = live_in(folder, how, **sizes)
    assert state_of(live) == before
    assert live.events() == events
    events += told_by(live, steps[killed:]).events
    assert events == expected.events
    assert live.events(limit=10_000) == expected.events
    live.close()


def test_a_journal_that_is_cut_at_any_byte_has_a_prefix_of_the_state(tmp_path):
    live = live_in(tmp_path / "whole")
    states = [state_of(live)]
    for now in range(1, 7):
        live.take([*ups("a"), seen("b", 1, 0), seen(f"c{now}", 0, 1, end=True)], float(now))
        states.append(state_of(live))
        if now == 3:
            live.set_rule(MSPRT(2.5), 3.5)
            states.append(state_of(live))
    live.sync()
    let_go(live)
    (segment,) = (tmp_path / "whole").glob("segment-*.log")
    size, found = segment.stat().st_size, []
    for end in [*range(0, size, 23), size]:
        folder = tmp_path / "cut"
        shutil.copytree(tmp_path / "whole", folder)
        os.truncate(folder / segment.name, end)
        again = live_in(folder)
        found.append(states.index(state_of(again)))
        findings = again.journal.findings
        assert [event.id for event in again.events()] == list(range(1, again.last_id + 1))
        again.close()
        shutil.rmtree(folder)
        assert len(findings) <= 1
    assert found == sorted(found)
    assert set(found) == set(range(len(states)))


def test_a_torn_end_is_cut_with_a_sentence_and_set_aside(tmp_path):
    live = live_in(tmp_path)
    live.take(ups("a"), 0.0)
    live.take(ups("b"), 0.0)
    live.sync()
    let_go(live)
    (segment,) = tmp_path.glob("segment-*.log")
    data = bytearray(segment.read_bytes())
    data[-3] ^= 1
    segment.write_bytes(data)
    again = live_in(tmp_path)
    (finding,) = again.journal.findings
    assert finding.startswith("The end of the journal was torn: ")
    assert "bytes from entry 2 on could not be read and were cut off. They are in " in finding
    assert (tmp_path / "cut-2.bin").stat().st_size > 0
    assert [shown.series for shown in again.open().series] == ["a"]
    again.close()
    again = live_in(tmp_path)
    assert again.journal.findings == []
    again.close()


def test_damage_in_an_earlier_segment_is_refused(tmp_path):
    live = live_in(tmp_path, segment_bytes=200)
    for _ in range(5):
        live.take(ups("a"), 0.0)
    let_go(live)
    first, *others = sorted(tmp_path.glob("segment-*.log"))
    assert others
    data = bytearray(first.read_bytes())
    data[60] ^= 1
    first.write_bytes(data)
    with pytest.raises(
        UnreadableFile, match="must be a whole segment of the journal, got one whose entry 1 is damaged"
    ):
        live_in(tmp_path)
    first.unlink()
    with pytest.raises(UnreadableFile, match="a segment is missing"):
        live_in(tmp_path)


def test_a_segment_of_a_later_version_is_refused_and_not_cut(tmp_path):
    live = live_in(tmp_path)
    live.take(ups("a"), 0.0)
    let_go(live)
    (segment,) = tmp_path.glob("segment-*.log")
    data = segment.read_bytes().replace(b"journal 1", b"journal 2", 1)
    segment.write_bytes(data)
    with pytest.raises(UnreadableFile, match=r"a segment of version 1 of its format, got version 2\."):
        live_in(tmp_path)
    assert segment.read_bytes() == data


def test_a_damaged_snapshot_is_refused(tmp_path):
    live_in(tmp_path).close()
    (snapshot,) = tmp_path.glob("snapshot-*.sooner")
    data = bytearray(snapshot.read_bytes())
    data[-1] ^= 1
    snapshot.write_bytes(data)
    with pytest.raises(InvalidArgument, match="`journal` must be that of live series, as it was written"):
        live_in(tmp_path)
    snapshot.unlink()
    (tmp_path / "segment-00000000000000000001.log").write_bytes(b"")
    with pytest.raises(UnreadableFile, match="segments without one"):
        live_in(tmp_path)


def test_one_process_at_a_time_uses_a_journal(tmp_path):
    live = live_in(tmp_path)
    with pytest.raises(InvalidArgument, match="`journal` must be a folder that no other process uses"):
        Journal(tmp_path)
    live.close()
    live_in(tmp_path).close()
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="`journal` must be a folder, got the file"):
        Journal(tmp_path / "file")


def test_the_journal_of_another_model_is_refused(tmp_path):
    live_in(tmp_path).close()
    journal = Journal(tmp_path)
    with pytest.raises(InvalidArgument, match="`journal` must be of this model and these classes, got one of others"):
        LiveSeries(fleet_of(scale=2.0), NEXT, journal=journal)
    journal.close()
    journal = Journal(tmp_path)
    with pytest.raises(InvalidArgument, match="`deadline` must be that of the snapshot, null, got 3"):
        LiveSeries(fleet_of(deadline=3), NEXT, journal=journal)
    journal.close()


def test_the_dial_survives_and_the_settings_may_change(tmp_path):
    live = live_in(tmp_path)
    live.take([seen("a", 1, 0)], 0.0)
    live.set_rule(MSPRT(5.0), 1.0)
    live.deliver(7)
    live.sync()
    let_go(live)
    live = live_in(tmp_path, LiveSettings(idle=10.0), now=100.0)
    assert (live.rule, live.delivered, live.settings.idle) == (MSPRT(5.0), 7, 10.0)
    assert live.next_tick() == 110.0  # nothing could arrive while no process ran
    assert [event.series for event in live.tick(110.0)] == ["a"]
    live.close()


def test_other_calls_are_repeated_too(tmp_path):
    live = live_in(tmp_path, LiveSettings(idle=5.0))
    live.take([seen(key, 1, 0) for key in "abcd"], 0.0)
    live.finish("a", 1.0)
    live.forget("b", 1.0)
    live.take([seen("c", 1, 0)], 4.0)
    live.tick(6.0)
    live.finish_all(7.0)
    live.sync()
    before, events = state_of(live), live.events()
    assert [(event.series, event.ended) for event in events] == [("a", "end"), ("d", "idle"), ("c", "close")]
    let_go(live)
    live = live_in(tmp_path, LiveSettings(idle=5.0))
    assert (state_of(live), live.events()) == (before, events)
    live.close()


def test_decisions_can_be_read_after_their_entries_are_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("sooner.stream.event_log.RECENT", 20)
    monkeypatch.setattr("sooner.stream.journal.decisions.PER_FILE", 30)
    live = live_in(tmp_path, snapshot_bytes=2000)
    events = []
    for now in range(50):
        events += live.take(ups("a", 4), float(now)).events
        live.sync()
    assert len(events) == 100
    assert live.events(0, 1000) == events
    assert live.events(57, 5) == events[57:62]
    assert (live.first_id, live.last_id) == (1, 100)
    let_go(live)
    live = live_in(tmp_path)
    assert live.events(0, 1000) == events
    assert live.events(98, 10) == events[98:]
    live.close()
    assert len(list(tmp_path.glob("decisions-*.jsonl"))) == 4


def test_a_torn_decision_comes_again(tmp_path):
    live = live_in(tmp_path)
    events = live.take(ups("a", 8), 0.0).events
    live.sync()
    live._log.save()
    let_go(live)
    (file,) = tmp_path.glob("decisions-*.jsonl")
    os.truncate(file, file.stat().st_size - 5)
    live = live_in(tmp_path)
    assert live.events() == events
    live.close()


class TestFullDisk:
    def test_refuses_and_changes_nothing(self, tmp_path, monkeypatch):
        live = live_in(tmp_path)
        live.take(ups("a"), 0.0)
        before = state_of(live)
        with monkeypatch.context() as patch:
            patch.setattr(journal_folder, "write_all", _half)
            with pytest.raises(
                JournalFailed, match=r"No space left on device\. Nothing was taken\. Make room"
            ) as caught:
                live.take(ups("a"), 1.0)
            assert caught.value.full
        assert state_of(live) == before
        assert len(live.take(ups("a"), 2.0).events) == 1
        live.sync()
        after = state_of(live)
        let_go(live)
        live = live_in(tmp_path)
        assert (state_of(live), live.journal.findings) == (after, [])
        live.close()

    def test_in_a_new_segment_does_so_too(self, tmp_path, monkeypatch):
        live = live_in(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(journal_folder, "write_all", _half)
            with pytest.raises(JournalFailed):
                live.take(ups("a"), 1.0)
        assert live.take(ups("a", 2), 2.0).events
        live.close()

    def test_of_a_sync_is_final(self, tmp_path, monkeypatch):
        live = live_in(tmp_path)
        live.take(ups("a"), 0.0)

        def fail(_):
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(journal_folder, "_sync_data", fail)
        with pytest.raises(JournalFailed, match="Start the program again"):
            live.sync()
        monkeypatch.undo()
        with pytest.raises(JournalFailed, match="Start the program again"):
            live.take(ups("a"), 1.0)
        with pytest.raises(JournalFailed):
            live.close()
        live = live_in(tmp_path)
        assert len(live) == 1
        live.close()

    def test_while_it_starts_is_tried_again_with_the_first_entry(self, tmp_path, monkeypatch):
        live = live_in(tmp_path)
        live.take(ups("a"), 0.0)
        live.sync()
        let_go(live)

        def fail(*_):
            raise JournalFailed(str(tmp_path), "No space left on device", full=True)

        with monkeypatch.context() as patch:
            patch.setattr(Journal, "install", fail)
            live = live_in(tmp_path, now=5.0)
            with pytest.raises(JournalFailed):
                live.take(ups("a"), 6.0)
        assert len(live.take(ups("a"), 7.0).events) == 1
        live.close()


def _half(descriptor, data):
    os.write(descriptor, bytes(data)[: len(data) // 2])
    raise OSError(errno.ENOSPC, "No space left on device")


def test_folders_stay_small(tmp_path):
    live = live_in(tmp_path, segment_bytes=1000, snapshot_bytes=4000)
    for now in range(300):
        live.take(ups(f"s{now % 7}"), float(now))
        live.sync()
    live.close()
    assert sum(path.stat().st_size for path in Path(tmp_path).iterdir()) < 100_000
    assert len(list(tmp_path.glob("snapshot-*"))) == 1
    assert list(tmp_path.glob("segment-*")) == []
