"""Rows without gaps, in memory of their own."""

import torch

from sooner.stream.rows import Rows


def test_rows_never_share_memory_with_what_made_them():
    one = torch.arange(6.0).reshape(3, 2)
    rows = Rows((one[:0], one[:0, 0]))
    rows.replace((one, one[:, 0]))
    rows.put(torch.tensor([1]), (torch.tensor([[9.0, 9.0]]), torch.tensor([7.0])))
    assert one.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert [part.tolist() for part in rows.all()] == [[[0, 1], [9, 9], [4, 5]], [0, 7, 4]]


def test_rows_that_leave_are_replaced_by_the_last_ones_and_memory_follows():
    rows = Rows((torch.empty(0), torch.empty(0, dtype=torch.int64)))
    for start in range(0, 1000, 10):
        rows.append((torch.arange(start, start + 10.0), torch.arange(start, start + 10)))
    assert len(rows._tensors[0]) <= 2000
    assert rows.drop([0, 998, 5]) == [(0, 997), (5, 999)]
    assert rows.all()[1][[0, 5]].tolist() == [997, 999]
    assert rows.count == 997
    while rows.count > 10:
        rows.drop(list(range(rows.count - 7, rows.count)))
    assert len(rows._tensors[0]) <= 160
    assert [part.tolist() for part in rows.all()] == [[997, 1, 2, 3, 4, 999, 6, 7, 8, 9]] * 2
    rows.drop(list(range(rows.count)))
    assert (rows.count, len(rows._tensors[0])) == (0, 0)
