"""Arrays that torch cannot read as they lie, and other things that users bring."""

import numpy as np
import pytest
import torch

from sooner import evaluate, losses, scores
from sooner.errors import InvalidArgument
from sooner.estimator.cases import as_targets
from sooner.inputs import as_entries, as_number, as_whole
from sooner.rules import MSPRT, FixedTime, ProbabilityThreshold
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


MASKED = np.ma.masked_array(SCORES, SCORES > 1)
COMPLEX = np.array([[1j, 0]])
MESSAGES = {
    "a sparse tensor": (
        lambda: MSPRT(1.0).decide(torch.tensor(SCORES).to_sparse()),
        "`scores` must be a dense tensor, got layout torch.sparse_coo. Convert it first: tensor.to_dense().",
    ),
    "a tensor without values": (
        lambda: losses.lsel(torch.tensor(SCORES), torch.tensor(LABELS, device="meta")),
        "`labels` must be a dense tensor, got one without values. Convert it first: tensor.to_dense().",
    ),
    "masked scores, whose hidden values would count": (
        lambda: MSPRT(1.0).decide(MASKED),
        "`scores` must be an array without masked entries, got some. Fill them in: array.filled(np.nan).",
    ),
    "masked labels": (
        lambda: evaluate.balanced_error(LABELS, np.ma.masked_array(LABELS, LABELS > 0)),
        "`labels` must be an array without masked entries, got some. Fill them in: array.filled(np.nan).",
    ),
    "complex scores": (
        lambda: scores.margin(COMPLEX),
        "`scores` must be of real numbers, got dtype torch.complex128. Take the real part, or its absolute value.",
    ),
    "complex counts": (
        lambda: losses.lsel(SCORES, LABELS, class_counts=COMPLEX[0]),
        "`class_counts` must be of real numbers, got dtype torch.complex128. Take the real part, or its absolute value.",
    ),
    "labels of two types": (
        lambda: evaluate.class_errors([1, 2], np.array(["a", 2], dtype=object)),
        "`labels` must be of one type, got several. Turn them all into text.",
    ),
    "labels of two types for training": (
        lambda: as_targets(np.array(["a", 1.5], dtype=object)),
        "`y` must be of one type, got several. Turn the labels all into text.",
    ),
    "ragged labels": (
        lambda: as_entries([[1], [1, 2]], name="labels"),
        "`labels` must be names in one row, got a list of something else. Give a list or an array with one entry for each.",
    ),
    "an array in the place of a number": (
        lambda: as_number(np.array([1.0]), name="gamma", low=0.0, remedy="Give one."),
        "`gamma` must be a number, got array([1.]). Give one.",
    ),
    "an array of many rows in the place of a number": (
        lambda: as_number(np.eye(2), name="gamma", low=0.0, remedy="Give one."),
        "`gamma` must be a number, got array([[1., 0.], [0., 1.]]). Give one.",
    ),
    "an array in the place of a probability": (
        lambda: ProbabilityThreshold(np.array([0.5, 0.6])),
        "`probability` must be a number, got array([0.5, 0.6]). The leader's posterior is compared with it.",
    ),
    "a time that no tensor holds": (
        lambda: FixedTime(2**63),
        "`time` must be below 2**63, got 9223372036854775808. Times count observations from 1.",
    ),
    "infinity among seeds": (
        lambda: evaluate.over_seeds([1.0, np.inf]),
        "`values` must be finite, got infinity among them. It has no mean: leave that seed out.",
    ),
    "half a letter, which no terminal prints": (
        lambda: as_whole("\udce9", name="seed", low=0, remedy="Give one."),
        "`seed` must be a number, got '\\udce9'. Give one.",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_strange_input_gets_this_sentence(case):
    call, message = MESSAGES[case]
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value) == message


def test_a_sentence_is_one_line_that_can_be_printed_whatever_it_quotes():
    said = str(InvalidArgument("a\nb", "c", "d\x0be\udc80", "f\u2028 g"))
    assert said == "`a b` must be c, got d e\\udc80. f g"


def test_masks_that_hide_nothing_and_numbers_that_numpy_lacks_are_taken():
    assert MSPRT(1.0).decide(np.ma.masked_array(SCORES)) == MSPRT(1.0).decide(SCORES)
    assert as_entries(torch.tensor([1.0, 2.0]).bfloat16(), name="labels").tolist() == [1.0, 2.0]


def test_labels_too_large_to_be_whole_numbers_are_refused_without_a_warning():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):  # as scikit-learn says it
        as_targets([1e300, 0.0])


def test_numbers_too_large_for_their_spread_are_no_warning():
    assert evaluate.over_seeds([1e300, -1e300]).sem == np.inf
