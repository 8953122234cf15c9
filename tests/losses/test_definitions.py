"""Every loss equals the transcription of its definition, in values and gradients, in float64."""

import importlib.util
import inspect
import pathlib

import pytest
import torch

from sooner import losses
from sooner.losses.means import batch_of, trusted_batch
from sooner.losses.windows import WindowBatch

_spec = importlib.util.spec_from_file_location("definitions", pathlib.Path(__file__).with_name("definitions.py"))
definitions = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(definitions)

K, T = 4, 3
COUNTS = [7, 4, 2, 1]
OPTIONS = {
    "cost_sensitive_lsel": {"costs": torch.rand(K, generator=torch.Generator().manual_seed(1)).double() + 0.1},
    **{
        name: {"costs": torch.rand(K, K, generator=torch.Generator().manual_seed(2)).double() + 0.1}
        for name in ("lscel", "nga_lsel", "c_logistic", "logistic_c")
    },
    "lsifwc": {"gamma": 0.3},
    "barr": {"gamma": 0.7},
}
NONLINEAR = {"lsifwc", "barr"}  # |E - 1|: their mean over minibatches is not their value on the set


def _set(seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(K), torch.tensor(COUNTS))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    scores = torch.randn(len(labels), T, K, generator=generator, dtype=torch.float64)
    return scores.requires_grad_(), labels


def _value_and_gradient(function, scores):
    value = function(scores)
    return value, torch.autograd.grad(value, scores)[0]


@pytest.mark.parametrize("name", losses.SCORE_LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_loss_on_the_whole_set_is_its_definition(name, seed):
    scores, labels = _set(seed)
    options = OPTIONS.get(name, {})
    ours = _value_and_gradient(lambda s: losses.SCORE_LOSSES[name](s, labels, **options), scores)
    theirs = _value_and_gradient(lambda s: getattr(definitions, name)(definitions.Set(s, labels), **options), scores)
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", losses.SCORE_LOSSES)
def test_loss_on_a_minibatch_that_misses_classes_is_its_definition(name):
    scores, labels = _set()
    rows = torch.nonzero(labels < 2)[:5, 0]
    options, counts = OPTIONS.get(name, {}), torch.tensor(COUNTS)

    def ours(s):
        return losses.SCORE_LOSSES[name](s[rows], labels[rows], class_counts=counts, **options)

    def theirs(s):
        return getattr(definitions, name)(definitions.Set(s[rows], labels[rows], counts), **options)

    torch.testing.assert_close(
        _value_and_gradient(ours, scores), _value_and_gradient(theirs, scores), rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("name", sorted(set(losses.SCORE_LOSSES) - NONLINEAR))
def test_mean_over_minibatches_is_the_value_on_the_set(name):
    scores, labels = _set()
    options = OPTIONS.get(name, {})
    loss = losses.SCORE_LOSSES[name]
    parts = [
        loss(scores[rows], labels[rows], class_counts=torch.tensor(COUNTS), **options)
        for rows in torch.arange(len(labels)).split(2)
    ]
    torch.testing.assert_close(torch.stack(parts).mean(), loss(scores, labels, **options), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", losses.SCORE_LOSSES)
def test_counts_of_the_labels_are_the_default(name):
    scores, labels = _set()
    options = OPTIONS.get(name, {})
    loss = losses.SCORE_LOSSES[name]
    assert torch.equal(loss(scores, labels, **options), loss(scores, labels, class_counts=COUNTS, **options))


def test_multiplet_is_the_mean_cross_entropy_over_windows_and_positions():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, 2, K, generator=generator, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 3, 1])

    def definition(z):
        terms = [
            torch.log(torch.exp(z[i, w, j] - z[i, w, j, labels[i]]).sum())
            for i in range(3)
            for w in range(4)
            for j in range(2)
        ]
        return sum(terms) / len(terms)

    ours = _value_and_gradient(lambda z: losses.multiplet(z, labels), logits)
    torch.testing.assert_close(ours, _value_and_gradient(definition, logits))


@pytest.mark.parametrize("name", losses.SCORE_LOSSES)
def test_the_inner_loss_is_the_public_one_without_its_checks(name):
    loss, options = losses.SCORE_LOSSES[name], OPTIONS.get(name, {})
    scores, labels = _set()
    lengths = 1 + torch.arange(len(labels)) % T
    counts = torch.tensor(COUNTS)[None].double()
    expected = loss(scores, labels, class_counts=counts[0], lengths=lengths, **options)
    padded = scores.where((torch.arange(T) < lengths[:, None])[..., None], torch.nan)
    assert torch.equal(loss.inner(trusted_batch(padded, labels, counts, lengths), **options), expected)
    named = [*inspect.signature(loss).parameters]
    assert named == ["scores", "labels", *options, "class_counts", "lengths"]
    assert loss.__name__ == loss.inner.__name__ == name
    assert loss.__doc__ == loss.inner.__doc__


def test_the_inner_multiplet_loss_is_the_public_one_without_its_checks():
    logits = torch.randn(3, 4, 2, 3, generator=torch.Generator().manual_seed(0))
    labels, lengths = torch.tensor([0, 1, 2]), torch.tensor([5, 3, 1])
    for ends in (None, lengths):
        expected = losses.multiplet(logits, labels, lengths=ends)
        assert torch.equal(losses.multiplet.inner(WindowBatch(logits, labels, ends)), expected)
    broken = WindowBatch(logits.index_fill(1, torch.tensor([0]), torch.nan), labels, lengths)
    assert losses.multiplet.inner(broken).isnan()


def test_what_losses_share_is_computed_once_for_a_batch():
    batch = batch_of(torch.randn(2, 3, 4), [0, 1], None, None)
    for name in ("ahead", "others", "running", "shares", "frequencies"):
        assert getattr(batch, name) is getattr(batch, name)
