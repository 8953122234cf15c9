"""Losses on series of unequal lengths, and on scores as large as a diverging network makes them."""

import pytest
import torch

from sooner import losses

OVERFLOWING = {"lsif", "lsif_halved", "lsifwc", "barr"}
SMOOTH = sorted(set(losses.SCORE_LOSSES) - OVERFLOWING - {"dskl", "lllr", "lsif_clipped"})


def _ragged(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(9, 5, 3, generator=generator, dtype=dtype)
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2])
    return scores, labels, torch.tensor([5, 3, 1, 4, 5, 2, 2, 3, 1])  # nobody of class 2 runs beyond 3


@pytest.mark.parametrize("name", losses.SCORE_LOSSES)
def test_padding_reaches_neither_value_nor_gradient(name):
    scores, labels, lengths = _ragged()
    padding = (torch.arange(5) >= lengths[:, None])[..., None]
    loss = losses.SCORE_LOSSES[name]
    results = []
    for filler in (0.0, torch.nan):
        s = torch.where(padding, filler, scores).requires_grad_()
        value = loss(s, labels, lengths=lengths)
        results.append((value, torch.autograd.grad(value, s)[0]))
    torch.testing.assert_close(results[0], results[1])
    assert not results[1][1][padding.expand_as(scores)].any()


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_losses_average_each_series_over_its_own_steps(name):
    scores, labels, lengths = _ragged()
    counts = torch.bincount(labels)
    loss = losses.SCORE_LOSSES[name]
    alone = [loss(scores[i : i + 1, : lengths[i]], labels[i : i + 1], class_counts=counts) for i in range(len(labels))]
    torch.testing.assert_close(loss(scores, labels, lengths=lengths), torch.stack(alone).mean())


@pytest.mark.parametrize("name", ["lsif", "lsif_halved", "lsif_clipped", "lsifwc", "dskl", "barr", "lllr"])
def test_ratio_losses_use_at_each_time_the_series_that_still_run(name):
    scores, labels, lengths = _ragged()
    loss = losses.SCORE_LOSSES[name]
    steps = []
    for t in range(5):
        rows = lengths > t
        present = labels[
            rows
        ].unique()  # a class of which nobody runs takes no part: the others are a problem of their own
        steps.append(loss(scores[rows, t : t + 1][..., present], torch.searchsorted(present, labels[rows])))
    torch.testing.assert_close(loss(scores, labels, lengths=lengths), torch.stack(steps).sum())


@pytest.mark.parametrize("name", ["lsif", "lsif_halved", "lsif_clipped", "dskl", "lllr"])
def test_counts_by_time_make_minibatches_of_unequal_lengths_exact(name):
    scores, labels, lengths = _ragged()
    loss = losses.SCORE_LOSSES[name]
    alive = torch.arange(5)[:, None] < lengths
    counts = torch.stack([(alive & (labels == k)).sum(dim=1) for k in range(3)], dim=1)
    parts = [
        loss(scores[rows], labels[rows], lengths=lengths[rows], class_counts=counts)
        for rows in torch.arange(9).split(3)
    ]
    torch.testing.assert_close(torch.stack(parts).mean(), loss(scores, labels, lengths=lengths))


def test_multiplet_of_a_short_series_is_its_own_one_window():
    logits = torch.randn(1, 3, 4, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)  # T = 6, N = 3
    label = torch.tensor([1])
    for length in range(1, 7):
        expected = logits[:, : max(length - 3, 1), : min(length, 4)]
        torch.testing.assert_close(losses.multiplet(logits, label, lengths=[length]), losses.multiplet(expected, label))


@pytest.mark.parametrize("name", sorted(set(losses.LOSSES) - OVERFLOWING))
@pytest.mark.parametrize("size", [1e4, 3e4])
def test_losses_stay_finite_at_huge_scores_in_float32(name, size):
    signs = torch.randint(-1, 2, (16, 4, 5), generator=torch.Generator().manual_seed(0))
    scores = (size * signs.float()).requires_grad_()
    labels = torch.arange(16) % 5
    value = losses.LOSSES[name](scores[:, None] if name == "multiplet" else scores, labels)
    (gradient,) = torch.autograd.grad(value, scores)
    assert torch.isfinite(value)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", sorted(OVERFLOWING))
def test_losses_that_hold_the_ratio_itself_overflow_and_are_not_clamped(name):
    scores = torch.tensor([[[0.0, 1e4]], [[0.0, 0.0]]])
    assert not torch.isfinite(losses.LOSSES[name](scores, torch.tensor([0, 1])))


@pytest.mark.parametrize("name", losses.SCORE_LOSSES)
def test_loss_memory_is_linear_in_the_number_of_classes(name):
    """No tensor larger than a few batch x time x classes is made; the ratio losses may make time x classes x classes."""

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        entries = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            for tensor in torch.utils._pytree.tree_leaves(out):
                if isinstance(tensor, torch.Tensor):
                    self.entries = max(self.entries, tensor.numel())
            return out

    batch, time, classes = 8, 2, 60
    scores = torch.randn(batch, time, classes, requires_grad=True)
    labels = torch.arange(batch)
    with Largest() as largest:
        losses.SCORE_LOSSES[name](scores, labels).backward()
    allowed = time * classes * classes if name in ("lsifwc", "barr") else max(batch * time * classes, classes * classes)
    assert largest.entries <= allowed


@pytest.mark.parametrize("name", losses.SCORE_LOSSES)
def test_half_precision_gives_what_single_precision_gives(name):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(12, 3, 3, generator=generator).half()
    labels = torch.arange(12) % 3
    loss = losses.SCORE_LOSSES[name]
    counts = [50_000, 70_000, 90_000]
    torch.testing.assert_close(
        loss(scores, labels, class_counts=counts), loss(scores.float(), labels, class_counts=counts)
    )


@pytest.mark.parametrize("name", ["lsel", "modified_lsel", "cost_sensitive_lsel", "lscel", "multiplet"])
def test_log_sum_exp_losses_can_be_differentiated_twice_and_by_functional_transforms(name):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 2, 2, 4, generator=generator, dtype=torch.float64)
    scores = (scores if name == "multiplet" else scores[:, 0]).requires_grad_()
    labels = torch.tensor([0, 3, 1])

    def value(s):
        return losses.LOSSES[name](s, labels)

    assert torch.autograd.gradgradcheck(value, (scores,))
    torch.testing.assert_close(torch.func.grad(value)(scores.detach()), torch.autograd.grad(value(scores), scores)[0])
