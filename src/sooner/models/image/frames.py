"""A classifier of single observations: an encoder and a linear layer.

A model of order 0 reads every observation as a window of its own, so the multiplet loss is the cross-entropy of single
frames: so the paper trains its feature extractor. The trained encoder then writes features to a file (`encode_to_file`), or
becomes the encoder of a `Recurrent`, which is trained further.
"""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from sooner.inputs import as_lengths, as_whole
from sooner.models.base import LiveStep, Model, of_each_observation
from sooner.models.image.encoders import Dense, Encoder
from sooner.scores import m_tandem_step
from sooner.types import ArrayLike, Lengths, LiveState, Observations, Windows


class FrameClassifier(Model):
    """An encoder and a linear layer without bias on each observation alone: order 0.

    Args:
        encoder: the encoder of single observations.
        classes: K.
        formula: "m_tandem" adds up the evidence of single observations, "m_tandem_oblivion" uses only the newest one (which
            shows all earlier ones in NMNIST-H).
        moments: number of observations of each series that a training step reads, sampled at random; "all" reads every one.
        log_prior: (classes,), see `sooner.scores`.

    >>> FrameClassifier(Dense((3,), 8), 4)(torch.zeros(5, 6, 3)).logits.shape
    torch.Size([5, 6, 1, 4])
    """

    def __init__(
        self,
        encoder: Encoder,
        classes: int,
        *,
        formula: str = "m_tandem",
        moments: int | Literal["all"] = "all",
        log_prior: ArrayLike | None = None,
    ) -> None:
        super().__init__(encoder.features, classes, order=0, formula=formula, log_prior=log_prior)
        remedy = 'It counts observations of a series; or say "all".'
        self.moments = moments if moments == "all" else as_whole(moments, name="moments", low=1, remedy=remedy)
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, self.classes, bias=False)

    @classmethod
    def examples(cls) -> Iterator["FrameClassifier"]:
        """Both formulas, with and without a prior."""
        yield cls(Dense((3,), 5), 4)
        yield cls(Dense((2, 3), 5, hidden=(4,)), 3, formula="m_tandem_oblivion", log_prior=[-1.0, -1.2, -1.1])
        yield cls(Dense((3,), 5), 3, log_prior=[-1.0, -1.2, -1.1])

    def forward(self, observations: Observations, lengths: Lengths | None = None) -> Windows:
        """The logits of every observation."""
        return Windows(of_each_observation(self._read, *self.admit(observations, lengths))[:, :, None])

    def training_windows(self, observations: Observations, lengths: Lengths | None) -> tuple[Windows, Lengths | None]:
        """The logits of uniformly sampled observations of each series; each observation is its own window."""
        time = observations.shape[1]
        if self.moments == "all" or self.moments >= time:
            return self(observations, lengths), lengths
        ends = as_lengths(lengths, observations, time=time)
        times = (torch.rand(len(ends), self.moments, device=ends.device) * ends[:, None]).long()
        return self(observations[torch.arange(len(ends), device=ends.device)[:, None], times]), None

    def init(self, streams: int) -> LiveState:
        """The scores so far, and whether there was an observation."""
        zeros = self.head.weight.new_zeros
        return zeros(streams, self.classes), zeros(streams)

    def step(self, state: LiveState, observation: ArrayLike) -> LiveStep:
        """The formula for the logits of the newest observation."""
        now = self._read(self.admit_step(state, observation))
        scores, started = state
        prior = torch.zeros(self.classes).to(scores) if self.log_prior is None else self.log_prior
        young = (started == 0) | (self.formula == "m_tandem_oblivion")
        scores = m_tandem_step(scores, now, prior.expand_as(now), young=young, log_prior=prior)
        return LiveStep((scores, torch.ones_like(started)), scores)

    def _read(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.head(self.encoder(rows))
        return logits
