"""Processes whose scores are known exactly: the ground truth for tests, documents and plots.

I_kl, the Kullback-Leibler rates, are the long-run growth of s_k - s_l per observation when k is true.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sooner.errors import InvalidArgument
from sooner.inputs import as_between, as_number, as_seed, as_tensor, as_whole
from sooner.types import ArrayLike, FloatArray, Labels, Scores

Observations = Float[Tensor, "batch time channels"]
Matrix: TypeAlias = tuple[tuple[float, ...], ...]


class Sample(NamedTuple):
    """Observations of shape (batch, time, channels), and the class of each series."""

    observations: Observations
    labels: Labels


class Process(ABC):
    """A generator with exact scores."""

    @property
    @abstractmethod
    def classes(self) -> int:
        """K."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """The number of channels."""

    def scores(self, observations: ArrayLike) -> Scores:
        """The exact scores after each observation, from (batch, time, channels)."""
        x = as_tensor(observations, name="observations").double()
        if x.ndim != 3 or x.shape[2] != self.channels or x.shape[1] == 0:
            expected = f"of shape (batch, time, {self.channels}) with at least 1 observation"
            raise InvalidArgument("observations", expected, f"shape {tuple(x.shape)}", "That is what `sample` draws.")
        return self._scores(x)

    @abstractmethod
    def _scores(self, observations: Observations) -> Scores: ...

    @abstractmethod
    def rates(self) -> FloatArray:
        """The matrix of I_kl, zero on the diagonal."""

    @abstractmethod
    def _draw(self, labels: Labels, time: int, generator: torch.Generator) -> Observations: ...

    def sample(self, series: int, time: int, *, seed: int, prior: ArrayLike | None = None) -> Sample:
        """Draw labels from the prior, then a float64 series for each.

        Args:
            series: number of series.
            time: number of observations in each.
            seed: of the random numbers.
            prior: (classes,), probabilities or counts; by default uniform.
        """
        series = as_whole(series, name="series", low=0, remedy="It is the number of series.")
        time = as_whole(time, name="time", low=1, remedy="A series has at least one observation.")
        generator = torch.Generator().manual_seed(as_seed(seed))
        weights = torch.ones(self.classes) if prior is None else as_tensor(prior, name="prior").double()
        total = weights.sum()
        if weights.shape != (self.classes,) or not bool((weights >= 0).all() & total.isfinite() & (total > 0)):
            expected = f"{self.classes} finite numbers of at least 0, not all 0"
            raise InvalidArgument("prior", expected, weights.tolist(), "Give one for each class.")
        labels = torch.zeros(0, dtype=torch.int64)
        if series:
            labels = torch.multinomial(weights, series, replacement=True, generator=generator)
        return Sample(self._draw(labels, time, generator), labels)


class _WithMeans(Process):
    """A process with a mean observation for each class."""

    means: Matrix

    @property
    def classes(self) -> int:
        """K."""
        return len(self.means)

    @property
    def channels(self) -> int:
        """The length of a mean."""
        return len(self.means[0])

    @property
    def _means(self) -> Tensor:
        return torch.tensor(self.means, dtype=torch.float64)


@dataclass(frozen=True)
class Gaussian(_WithMeans):
    """Independent normal observations with a mean for each class and a shared covariance S.

    s_k(t) = sum_u mu_k' S^-1 x_u - t mu_k' S^-1 mu_k / 2 and I_kl = (mu_k - mu_l)' S^-1 (mu_k - mu_l) / 2.

    Args:
        means: (classes, channels).
        covariance: (channels, channels), symmetric positive definite; by default the identity.
    """

    means: Matrix
    covariance: Matrix | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "means", _as_means(self.means))
        if self.covariance is not None:
            object.__setattr__(self, "covariance", _as_covariance(self.covariance, channels=self.channels))

    @classmethod
    def equidistant(cls, classes: int, distance: float) -> "Gaussian":
        """Means at the corners of a regular simplex with this side, in `classes` channels of unit covariance.

        >>> round(float(Gaussian.equidistant(3, 0.5).rates()[0, 1]), 6)  # 0.5^2 / 2
        0.125
        """
        classes = as_whole(classes, name="classes", low=2, remedy="It is the number of classes.")
        distance = as_number(distance, name="distance", low=0.0, remedy="It is the distance of any two means.")
        return cls(_as_tuple(torch.eye(classes, dtype=torch.float64) * distance / math.sqrt(2)))

    def _scores(self, observations: Observations) -> Scores:
        return _gaussian_gains(self._whiten(observations), self._whiten(self._means)).cumsum(dim=1)

    def rates(self) -> FloatArray:
        """I_kl = (mu_k - mu_l)' S^-1 (mu_k - mu_l) / 2."""
        return _square_distances(self._whiten(self._means)) / 2

    def _draw(self, labels: Labels, time: int, generator: torch.Generator) -> Observations:
        return self._means[labels][:, None] + _noise(len(labels), time, self.channels, generator) @ self._factor.T

    def _whiten(self, vectors: Tensor) -> Tensor:
        """L^-1 v for S = L L', with unit covariance and the inner products of S^-1."""
        white: Tensor = torch.linalg.solve_triangular(self._factor.T, vectors, upper=True, left=False)
        return white

    @property
    def _factor(self) -> Tensor:
        if self.covariance is None:
            return torch.eye(self.channels, dtype=torch.float64)
        factor: Tensor = torch.linalg.cholesky(torch.tensor(self.covariance, dtype=torch.float64))
        return factor


@dataclass(frozen=True)
class AR1(Process):
    """x_t = phi_k x_{t-1} + noise, stationary from the start.

    s_k(1) = log N(x_1; 0, sigma^2 / (1 - phi_k^2)), then s_k grows by -(x_t - phi_k x_{t-1})^2 / (2 sigma^2);
    I_kl = (phi_k - phi_l)^2 / (2 (1 - phi_k^2)). The scores of order N = 1 are exact.

    Args:
        coefficients: phi_k of each class, between -1 and 1.
        sigma: standard deviation of the noise.
    """

    coefficients: tuple[float, ...]
    sigma: float = 1.0

    def __post_init__(self) -> None:
        phi = as_tensor(self.coefficients, name="coefficients").double()
        if phi.ndim != 1 or len(phi) < 2 or not bool((phi.abs() < 1).all()):
            expected = "at least 2 numbers between -1 and 1"
            raise InvalidArgument("coefficients", expected, phi.tolist(), "Others are not stationary.")
        object.__setattr__(self, "coefficients", tuple(phi.tolist()))
        remedy = "It is a standard deviation."
        object.__setattr__(self, "sigma", as_between(self.sigma, name="sigma", low=0.0, high=math.inf, remedy=remedy))

    @property
    def classes(self) -> int:
        """K."""
        return len(self.coefficients)

    @property
    def channels(self) -> int:
        """1."""
        return 1

    def _scores(self, observations: Observations) -> Scores:
        x, phi = observations, torch.tensor(self.coefficients, dtype=torch.float64)
        precision = (1 - phi**2) / self.sigma**2
        first = (precision.log() - x[:, :1] ** 2 * precision) / 2
        gains = -((x[:, 1:] - x[:, :-1] * phi) ** 2) / (2 * self.sigma**2)
        return torch.cat([first, gains], dim=1).cumsum(dim=1)

    def rates(self) -> FloatArray:
        """I_kl = (phi_k - phi_l)^2 / (2 (1 - phi_k^2))."""
        phi = np.array(self.coefficients)
        rates: FloatArray = np.subtract.outer(phi, phi) ** 2 / (2 * (1 - phi[:, None] ** 2))
        return rates

    def _draw(self, labels: Labels, time: int, generator: torch.Generator) -> Observations:
        phi = torch.tensor(self.coefficients, dtype=torch.float64)[labels]
        x = self.sigma * _noise(len(labels), time, 1, generator)
        x[:, 0, 0] /= (1 - phi**2).sqrt()
        for t in range(1, time):
            x[:, t, 0] += phi * x[:, t - 1, 0]
        return x


@dataclass(frozen=True)
class HiddenOnset(_WithMeans):
    """Standard normal noise, to which the class mean is added from a hidden onset on.

    The onset is geometric with rate rho. With f_k the density after the onset and f_0 before it, and A = 1, B_k = 0 at
    the start, an observation x does B_k <- (B_k + rho A) f_k(x) / f_0(x), then A <- (1 - rho) A; s_k = log(A + B_k).
    I_kl = min(D(f_k, f_l), D(f_k, f_0) - log(1 - rho)). Every finite order is biased.

    Args:
        means: (classes, channels).
        rate: rho, the probability of the onset at each observation, between 0 and 1.
    """

    means: Matrix
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "means", _as_means(self.means))
        remedy = "It is the chance of onset at each observation."
        object.__setattr__(self, "rate", as_between(self.rate, name="rate", low=0.0, high=1.0, remedy=remedy))

    def _scores(self, observations: Observations) -> Scores:
        """The recursion above, in logarithms."""
        gains = _gaussian_gains(observations, self._means)
        log_before = 0.0
        log_after = torch.full_like(gains[:, 0], -torch.inf)
        scores = torch.empty_like(gains)
        for t in range(gains.shape[1]):
            started = torch.full_like(log_after, math.log(self.rate) + log_before)
            log_after = torch.logaddexp(log_after, started) + gains[:, t]
            log_before += math.log1p(-self.rate)
            scores[:, t] = torch.logaddexp(log_after, torch.full_like(log_after, log_before))
        return scores

    def rates(self) -> FloatArray:
        """I_kl = min(D(f_k, f_l), D(f_k, f_0) - log(1 - rho))."""
        between = _square_distances(self._means) / 2
        from_noise = self._means.square().sum(dim=1).numpy() / 2 - math.log1p(-self.rate)
        return np.minimum(between, from_noise[:, None])

    def _draw(self, labels: Labels, time: int, generator: torch.Generator) -> Observations:
        x = _noise(len(labels), time, self.channels, generator)
        chance = torch.rand(len(labels), dtype=torch.float64, generator=generator)
        onset = (torch.log1p(-chance) / math.log1p(-self.rate)).floor()
        started = torch.arange(time) >= onset[:, None]
        return x + started[..., None] * self._means[labels][:, None]


def _gaussian_gains(observations: Observations, means: Tensor) -> Scores:
    """log f_k(x) - log f_0(x) of unit normals: mu_k' x - |mu_k|^2 / 2."""
    return observations @ means.T - means.square().sum(dim=1) / 2


def _square_distances(means: Tensor) -> FloatArray:
    return (means[:, None] - means[None]).square().sum(dim=2).numpy()


def _noise(series: int, time: int, channels: int, generator: torch.Generator) -> Observations:
    return torch.randn(series, time, channels, dtype=torch.float64, generator=generator)


def _as_means(means: ArrayLike) -> Matrix:
    tensor = as_tensor(means, name="means").double()
    if tensor.ndim != 2 or len(tensor) < 2 or tensor.shape[1] < 1 or not bool(torch.isfinite(tensor).all()):
        expected = "finite numbers of shape (classes, channels), with at least 2 classes"
        raise InvalidArgument("means", expected, f"shape {tuple(tensor.shape)}", "Give one row for each class.")
    return _as_tuple(tensor)


def _as_covariance(covariance: ArrayLike, *, channels: int) -> Matrix:
    tensor = as_tensor(covariance, name="covariance").double()
    square = tensor.shape == (channels, channels)
    alike = square and bool(tensor.isfinite().all()) and torch.allclose(tensor, tensor.T)
    if not alike or int(torch.linalg.cholesky_ex(tensor).info):
        expected = f"symmetric and positive definite, of shape ({channels}, {channels})"
        remedy = "Use the sample covariance of independent channels, or the identity."
        raise InvalidArgument("covariance", expected, f"{tensor.tolist()}", remedy)
    return _as_tuple((tensor + tensor.T) / 2)


def _as_tuple(matrix: Tensor) -> Matrix:
    return tuple(tuple(row) for row in matrix.tolist())
