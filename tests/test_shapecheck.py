"""The hook that checks shapes is on, and sees a wrong one."""

import jaxtyping
import pytest
import torch

from sooner.losses.means import Batch
from sooner.rules import MSPRT


def test_a_wrong_shape_behind_the_door_is_caught():
    with pytest.raises(jaxtyping.TypeCheckError):
        MSPRT(1.0).step(torch.empty(2, 0), torch.zeros(2, 3, 4))


def test_a_wrong_record_is_caught():
    with pytest.raises(jaxtyping.TypeCheckError):
        Batch(torch.zeros(2, 3), torch.zeros(2).long(), torch.ones(2).long(), torch.ones(1, 3))
