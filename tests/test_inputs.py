"""Arrays that torch cannot read as they lie, and other things that users bring."""

import numpy as np
import pytest
import torch

from sooner.rules import MSPRT
from sooner.types import Decisions

SCORES = np.random.default_rng(0).normal(size=(4, 3, 2))
LABELS = np.array([0, 1, 1, 0])


def _frozen(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "given",
    [
        SCORES.tolist(),
        SCORES[::-1][::-1],
        SCORES.astype(">f8"),
        _frozen(SCORES),
        np.asfortranarray(SCORES),
        torch.tensor(SCORES, requires_grad=True),
        [torch.tensor(row, requires_grad=True) for row in SCORES],
        np.repeat(SCORES, 2, axis=1)[:, ::2],
    ],
)
def test_scores_of_every_make_are_read_alike(given):
    assert MSPRT(1.0).decide(given) == MSPRT(1.0).decide(torch.tensor(SCORES))


def test_reversed_arrays_are_read_in_their_own_order():
    assert MSPRT(1.0).decide(SCORES[:, ::-1]) == MSPRT(1.0).decide(torch.tensor(SCORES[:, ::-1].copy()))


def test_decisions_are_compared_as_values():
    one = Decisions(LABELS, LABELS + 1, LABELS > 0)
    assert one == Decisions(LABELS.copy(), LABELS + 1, LABELS > 0)
    assert one != Decisions(LABELS, LABELS + 2, LABELS > 0)
