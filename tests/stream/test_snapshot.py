"""A snapshot goes on elsewhere as if nothing had happened, or is refused by a sentence."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from sooner import checks
from sooner.errors import InvalidArgument
from sooner.models import PrefixScorer, Recurrent
from sooner.rules import MSPRT, FixedTime, Patience
from sooner.stream import Decision, Fleet, Stream

with torch.random.fork_rng(devices=[]):
    torch.manual_seed(1)
    MODELS = [model.eval() for model in checks.models() if type(model).__module__.startswith("sooner.")]


def recurrent(seed=0, classes=3):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Recurrent((2,), classes, hidden=6, order=2).eval()


def observations(model, series=5, time=9):
    return 3 * torch.randn(series, time, *model.features, generator=torch.Generator().manual_seed(2))


def refused(fleet, data):
    with pytest.raises(InvalidArgument) as caught:
        fleet.restore(data)
    assert len(fleet) == 0
    return str(caught.value)


def some_fleet(**options):
    fleet = Fleet(recurrent(), MSPRT(0.09), classes=["a", "b", "c"], **options)
    for t in range(3):
        fleet.update({key: x for key, x in enumerate(observations(recurrent())[:, t]) if key not in fleet.decided})
    return fleet


@pytest.mark.parametrize(
    "place", range(len(MODELS)), ids=[f"{type(model).__name__}{i}" for i, model in enumerate(MODELS)]
)
@pytest.mark.parametrize("rule", [MSPRT(0.2), Patience(3, FixedTime(2))], ids=str)
def test_restored_series_have_the_same_scores_to_the_last_bit(place, rule):
    model = MODELS[place]
    x = observations(model)
    for moment in (0, 2, 5):
        fleet, decided = Fleet(model, rule), []
        for t in range(x.shape[1]):
            if t == moment:
                again = Fleet(model, rule)
                again.restore(fleet.snapshot())
                assert (list(again.keys()), dict(again.decided)) == (list(fleet.keys()), dict(fleet.decided))
            now = {key: x[key, t] for key in range(len(x)) if key not in fleet.decided and (key + t) % 4}
            decided.append(fleet.update(now))
            if t >= moment:
                assert again.update(now) == decided[-1]
                assert all(again.scores(key).tobytes() == fleet.scores(key).tobytes() for key in fleet.keys())  # noqa: SIM118
        assert again.finish_all() == fleet.finish_all()


ELSEWHERE = """
import json, sys
from pathlib import Path
import torch
from sooner.models import Recurrent
from sooner.rules import MSPRT
from sooner.stream import Fleet

torch.set_num_threads(1)
torch.manual_seed(0)
fleet = Fleet(Recurrent((2,), 3, hidden=6, order=2).eval(), MSPRT(0.09), classes=["a", "b", "c"])
fleet.restore(Path(sys.argv[1]).read_bytes())
said = {"open": [[key, fleet.scores(key).tobytes().hex()] for key in fleet.keys()], "decided": []}
for now in json.loads(sys.argv[2]):
    named = {int(key): x for key, x in now.items() if int(key) not in fleet.decided}
    said["decided"] += [[key, d.label, d.time, d.crossed] for key, d in fleet.update(named).items()]
said["decided"] += [[key, d.label, d.time, d.crossed] for key, d in fleet.finish_all().items()]
said["all"] = [[key, d.label, d.time, d.crossed] for key, d in fleet.decided.items()]
print(json.dumps(said))
"""


def test_another_process_goes_on_to_the_same_decisions(tmp_path):
    fleet, x = some_fleet(), observations(recurrent())
    assert fleet.decided
    assert len(fleet)
    (tmp_path / "fleet").write_bytes(fleet.snapshot())
    coming = [{key: x[key, t].tolist() for key in range(5)} for t in range(3, 7)]
    command = [sys.executable, "-c", ELSEWHERE, str(tmp_path / "fleet"), json.dumps(coming)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    said = json.loads(done.stdout)
    assert said["open"] == [[key, fleet.scores(key).tobytes().hex()] for key in fleet.keys()]  # noqa: SIM118
    decided = []
    for now in coming:
        update = fleet.update({key: value for key, value in now.items() if key not in fleet.decided})
        decided += [[key, d.label, d.time, d.crossed] for key, d in update.items()]
    decided += [[key, d.label, d.time, d.crossed] for key, d in fleet.finish_all().items()]
    assert said["decided"] == decided
    assert said["all"] == [[key, d.label, d.time, d.crossed] for key, d in fleet.decided.items()]
    assert {crossed for _, _, _, crossed in decided} == {True, False}


def test_keys_and_decisions_come_back_as_they_were():
    fleet = Fleet(
        recurrent(), MSPRT(np.inf), classes=[("x", 1), 2.5, "ü"], deadline=2, at_end="abstain", offset=[0, 9, 0]
    )
    for key in ("7", 7, "ключ\n\ud800", 2**70):
        fleet.update({key: [0.0, 1.0]})
    fleet.rule = MSPRT(0.0)
    fleet.update({7: [0.0, 1.0]})
    fleet.rule = MSPRT(np.inf)
    fleet.update({"7": [0.0, 1.0]})
    again = Fleet(
        recurrent(), MSPRT(np.inf), classes=[("x", 1), 2.5, "ü"], deadline=2, at_end="abstain", offset=[0, 9, 0]
    )
    again.restore(fleet.snapshot())
    assert list(again.decided.items()) == [(7, Decision(2.5, 2, True)), ("7", Decision(None, 2, False))]
    assert list(again.keys()) == list(fleet.keys())
    assert set(again.keys()) == {"ключ\n\ud800", 2**70}
    assert again.update({2**70: [1.0, 0.0]}) == {2**70: Decision(None, 2, False)}


def test_a_stream_goes_on_too():
    x = observations(recurrent())[0]
    stream, again = (Stream(recurrent(), FixedTime(4)) for _ in range(2))
    for now in x[:3]:
        stream.update(now)
    again.restore(stream.snapshot())
    assert again.scores.tobytes() == stream.scores.tobytes()
    assert again.update(x[3]) == stream.update(x[3])
    late = Stream(recurrent(), FixedTime(4))
    late.restore(stream.snapshot())
    assert late.decision == stream.decision
    with pytest.raises(InvalidArgument, match="is still open"):
        late.update(x[4])
    assert refused(Fleet(recurrent(), FixedTime(4)), stream.snapshot()) == (
        "`snapshot` must be of a fleet, got one of a stream. Restore it into a stream."
    )


def test_a_snapshot_is_taken_in_by_a_new_fleet_only():
    fleet = some_fleet()
    with pytest.raises(InvalidArgument, match=r"`fleet` must be new, without series, got one of \d open and"):
        fleet.restore(fleet.snapshot())


OTHERS = "`snapshot` must be of this model and these classes, got one of others. " + (
    "Its series can only continue with the same weights and class names."
)


def test_a_snapshot_of_another_model_is_refused():
    data = some_fleet().snapshot()
    assert refused(Fleet(recurrent(seed=5), MSPRT(0.09), classes=["a", "b", "c"]), data) == OTHERS
    assert refused(Fleet(recurrent(), MSPRT(0.09), classes=["a", "c", "b"]), data) == OTHERS
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        lstm = Recurrent((2,), 3, hidden=6, order=2, formula="m_tandem_oblivion").eval()
    assert refused(Fleet(lstm, MSPRT(0.09), classes=["a", "b", "c"]), data) == OTHERS


def test_a_prefix_scorer_is_known_by_its_calibrations():
    x, y = torch.randn(12, 4, 2, generator=torch.Generator().manual_seed(0)), np.arange(12) % 2
    fits = [PrefixScorer((2,), 2, evaluation_times=[2]).fit(x * scale, y).eval() for scale in (1.0, 1.0, 0.5)]
    fits[2].fit(x[:, :, [1, 0]] + 0.3 * x**2, y)
    fleet = Fleet(fits[0], MSPRT(9.0))
    fleet.update({"a": x[0, 0]})
    same = Fleet(fits[1], MSPRT(9.0))
    same.restore(fleet.snapshot())
    assert "a" in same
    assert refused(Fleet(fits[2], MSPRT(9.0)), fleet.snapshot()) == OTHERS


@pytest.mark.parametrize(
    ("options", "rule", "message"),
    [
        (
            {},
            MSPRT(0.5),
            '`rule` must be that of the snapshot, {"MSPRT": {"threshold": 0.09}}, got {"MSPRT": {"threshold": 0.5}}.',
        ),
        ({"deadline": 9}, MSPRT(0.09), "`deadline` must be that of the snapshot, null, got 9."),
        ({"offset": [0.5, 0, 0]}, MSPRT(0.09), "`offset` must be that of the snapshot, null, got [0.5, 0.0, 0.0]."),
        ({"at_end": "abstain"}, MSPRT(0.09), '`at_end` must be that of the snapshot, "force", got "abstain".'),
    ],
)
def test_a_snapshot_under_other_settings_is_refused(options, rule, message):
    fleet = Fleet(recurrent(), rule, classes=["a", "b", "c"], **options)
    remedy = " Restore with the same settings; the rule may be changed afterwards."
    assert refused(fleet, some_fleet().snapshot()) == message + remedy


def test_thresholds_are_compared_exactly():
    """NumPy prints eight digits of a matrix, and leaves out the middle of a large one."""
    one, other = np.full((3, 3), 1.0), np.full((3, 3), 1.0)
    other[1, 2] += 1e-12
    assert repr(MSPRT(one)) == repr(MSPRT(other))
    data = Fleet(recurrent(), MSPRT(one)).snapshot()
    Fleet(recurrent(), MSPRT(one)).restore(data)
    assert refused(Fleet(recurrent(), MSPRT(other)), data).startswith("`rule` must be that of the snapshot")


def foreign(tensors=None, **header):
    return save(tensors or {"rows.0": torch.zeros(2)}, header or None)


@pytest.mark.parametrize("kept", [0, 7, 40, 0.5, -1])
def test_a_truncated_snapshot_is_refused(kept):
    data = some_fleet().snapshot()
    part = data[: int(kept * len(data)) if isinstance(kept, float) else kept]
    said = refused(Fleet(recurrent(), MSPRT(0.09), classes=["a", "b", "c"]), part)
    assert said.startswith("`snapshot` must be ")
    assert said.endswith("Give the bytes that `snapshot()` returned, all of them.")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("text", "`snapshot` must be bytes, got a str. Give the bytes that `snapshot()` returned, all of them."),
        (
            b"PK" * 20,
            "`snapshot` must be one of live series, got 40 bytes of something else, or of a part of one. "
            "Give the bytes that `snapshot()` returned, all of them.",
        ),
        (
            foreign(format="sooner.stream", version="2"),
            "`snapshot` must be one of live series of version 1 of its format, got version 2. Update sooner to read it.",
        ),
        (
            foreign(format="sooner.stream", version="1"),
            "`snapshot` must be one of live series, as it was written, got bytes that were changed since. "
            "Give the bytes that `snapshot()` returned, all of them.",
        ),
    ],
    ids=["text", "foreign", "newer", "incomplete"],
)
def test_bytes_that_are_no_snapshot_are_refused(data, message):
    assert refused(Fleet(recurrent(), MSPRT(0.09), classes=["a", "b", "c"]), data) == message


@pytest.mark.parametrize("data", [foreign(), foreign(format="pt")], ids=["safetensors", "of another tool"])
def test_safetensors_of_something_else_are_refused(data):
    said = refused(Fleet(recurrent(), MSPRT(0.09), classes=["a", "b", "c"]), data)
    assert "bytes of something else" in said


def test_a_damaged_snapshot_is_refused():
    data = bytearray(some_fleet().snapshot())
    data[-5] ^= 1
    said = refused(Fleet(recurrent(), MSPRT(0.09), classes=["a", "b", "c"]), bytes(data))
    assert said.startswith(
        "`snapshot` must be one of live series, as it was written, got bytes that were changed since."
    )


def test_a_snapshot_holds_tensors_and_text_only():
    tensors = load(some_fleet().snapshot())
    assert json.loads(tensors["open.keys"].numpy().tobytes()) == list(some_fleet().keys())
    assert tensors["closed"].shape == (len(some_fleet().decided), 3)
