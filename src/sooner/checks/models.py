"""The laws of models."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from sooner.checks.discovery import examples_of
from sooner.errors import LawBroken
from sooner.inputs import as_whole
from sooner.models import Model
from sooner.types import Lengths, LiveState, Observations, Scores, StepScores

TOLERANCE = 1e-5


class ModelCase(NamedTuple):
    """Observations on which a law is tried, some shorter than the model's windows."""

    observations: Observations
    lengths: Lengths
    seed: int


ModelLaw = Callable[[Model, ModelCase], str | None]
"""A law returns the evidence if a model breaks it on a case."""


def check_model(model: Model, *, trials: int = 4) -> None:
    """Try every law of `MODEL_LAWS` on random observations; the first one that is broken is raised as `LawBroken`.

    Args:
        model: an instance of a subclass of `Model`, trained or not. It stays as it is, but without gradients.
        trials: number of cases, of different lengths.
    """
    for name in MODEL_LAWS:
        check_model_law(model, name, trials=trials)


def check_model_law(model: Model, law: str, *, trials: int = 4) -> None:
    """Try one law of `MODEL_LAWS`."""
    training = model.training
    before = {name: value.clone() for name, value in model.state_dict().items()}
    try:
        for seed in range(as_whole(trials, name="trials", low=1, remedy="A law that is never tried shows nothing.")):
            evidence = MODEL_LAWS[law](model.eval(), _case(model, seed))
            if evidence is not None:
                raise LawBroken(type(model).__name__, law, f"{evidence} (case of seed {seed})")
    finally:
        model.train(training)
        model.load_state_dict(before)
        model.zero_grad()


def models() -> Iterator[Model]:
    """Examples of every concrete subclass of `Model` in the program, sooner's own first."""
    return examples_of(Model)


def windows_have_their_shape(model: Model, case: ModelCase) -> str | None:
    """Logits have T-N windows of N+1 positions, or one window of T positions where T <= N or memory is full.

    Halting probabilities are given exactly if the model `halts`, one for each time.
    """
    batch, time = case.observations.shape[:2]
    positions = time if model.order is None else min(model.order + 1, time)
    with torch.no_grad():
        windows = model(case.observations, case.lengths)
    shape, expected = tuple(windows.logits.shape), (batch, time - positions + 1, positions, model.classes)
    halting = None if windows.halting is None else tuple(windows.halting.shape)
    if halting != ((batch, time) if model.halts else None):
        return f"a halting probability of shape {halting} where `halts` is {model.halts}"
    return None if shape == expected else f"logits of shape {shape} instead of {expected}"


def live_equals_batch(model: Model, case: ModelCase) -> str | None:
    """Folding `init` and `step` over live series gives the scores of the batch."""
    with torch.no_grad():
        batch = _scores(model, case.observations, case.lengths)
        state, live = model.init(len(batch)), []
        for observation in case.observations.unbind(dim=1):
            state, scores = _step(model, state, observation)
            live.append(scores)
    return _difference("live", torch.stack(live, dim=1), "in batch", batch, case.lengths)


def live_series_are_independent_of_each_other(model: Model, case: ModelCase) -> str | None:
    """Live series may start and end at different times; their scores are those of the batch."""
    half = len(case.observations) // 2
    first, second = case.observations[:half], case.observations[half : 2 * half]
    with torch.no_grad():
        batch = _scores(model, case.observations)
        state, _ = _step(model, model.init(half), first[:, 0])
        state = tuple(torch.cat(pair) for pair in zip(state, model.init(half), strict=True))
        for t in range(case.observations.shape[1] - 1):
            state, scores = _step(model, state, torch.cat([first[:, t + 1], second[:, t]]))
            expected = torch.cat([batch[:half, t + 1], batch[half : 2 * half, t]])
            evidence = _difference(f"live at step {t}", scores[:, None], "in batch", expected[:, None])
            if evidence is not None:
                return evidence
        _, scores = _step(model, tuple(tensor[half:] for tensor in state), second[:, -1])
    return _difference("after others left", scores[:, None], "in batch", batch[half : 2 * half, -1:])


def no_peeking(model: Model, case: ModelCase) -> str | None:
    """Observations after time t do not change the scores up to t."""
    with torch.no_grad():
        before = _scores(model, case.observations)
        for t in range(1, case.observations.shape[1]):
            changed = case.observations.clone()
            changed[:, t:] = -changed[:, t:] + 0.5
            after = _scores(model, changed)
            evidence = _difference(f"with another future after {t}", after[:, :t], "before", before[:, :t])
            if evidence is not None:
                return evidence
    return None


def padding_is_inert(model: Model, case: ModelCase) -> str | None:
    """Neither padding, even NaN, nor the width of the batch changes the scores of a series."""
    padding = torch.arange(case.observations.shape[1]) >= case.lengths[:, None]
    padding = padding.reshape(*padding.shape, *(1 for _ in model.features))
    with torch.no_grad():
        clean = _scores(model, case.observations, case.lengths)
        padded = _scores(model, torch.where(padding, torch.nan, case.observations), case.lengths)
        evidence = _difference("with NaN as padding", padded, "without", clean, case.lengths)
        for row, length in enumerate(case.lengths.tolist()):
            alone = _scores(model, case.observations[row : row + 1, :length])
            name = f"in a batch of its own length {length}"
            evidence = evidence or _difference(name, alone, "padded", clean[row : row + 1, :length])
    return evidence


def gradient_reaches_every_parameter(model: Model, case: ModelCase) -> str | None:
    """The gradient of the logits (and of the halting probabilities) reaches every parameter that can be trained."""
    model.train()
    model.zero_grad()
    windows = model(case.observations)
    if not windows.logits.requires_grad:
        return "the logits carry no gradient" if any(p.requires_grad for p in model.parameters()) else None
    generator = torch.Generator().manual_seed(case.seed)
    value = (windows.logits * torch.randn(windows.logits.shape, generator=generator)).sum()
    if windows.halting is not None:
        value = value + (windows.halting * torch.randn(windows.halting.shape, generator=generator)).sum()
    value.backward()
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    unreached = [name for name, p in trainable.items() if p.grad is None or not p.grad.any()]
    unreached = [name for name in unreached if name not in model.unreached_parameters()]
    # A series of one observation has no recurrence, so the shortest case shows nothing.
    return f"no gradient at {', '.join(unreached)}" if unreached and case.observations.shape[1] > 2 else None


MODEL_LAWS: Mapping[str, ModelLaw] = {
    law.__name__.replace("_", " "): law
    for law in (
        windows_have_their_shape,
        live_equals_batch,
        live_series_are_independent_of_each_other,
        no_peeking,
        padding_is_inert,
        gradient_reaches_every_parameter,
    )
}


def _case(model: Model, seed: int) -> ModelCase:
    generator = torch.Generator().manual_seed(seed)
    batch, time = 6, (9, 1, 3, 6)[seed % 4]
    observations = torch.randn(batch, time, *model.features, generator=generator)
    return ModelCase(observations, torch.randint(1, time + 1, (batch,), generator=generator), seed)


def _scores(model: Model, observations: Observations, lengths: Lengths | None = None) -> Scores:
    """The scores of the batch, with the halting probability, if the model has one, as the last column."""
    scores, halting = model.scores_and_halting(observations, lengths)
    return scores if halting is None else torch.cat([scores, halting[..., None]], dim=-1)


def _step(model: Model, state: LiveState, observation: Tensor) -> tuple[LiveState, StepScores]:
    """The new state, and the newest scores with the same columns."""
    state, scores, halting = model.step(state, observation)
    return state, scores if halting is None else torch.cat([scores, halting[:, None]], dim=-1)


def _difference(one: str, first: Scores, other: str, second: Scores, lengths: Tensor | None = None) -> str | None:
    differs = (first - second).abs().nan_to_num(torch.inf) > TOLERANCE * (1 + second.abs())
    if lengths is not None:
        differs = differs & (torch.arange(differs.shape[1]) < lengths[:, None])[..., None]
    if not bool(differs.any()):
        return None
    index = tuple(differs.nonzero()[0].tolist())
    return f"scores{list(index)} are {float(first[index])} {one}, {float(second[index])} {other}"
