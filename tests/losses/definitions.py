"""Every loss as its definition reads: loops over series, times and pairs of classes, on the K x K matrix of ratios.

Slow on purpose, and written without a look at the code it judges. `weights` are M / B and the counts M_k: on a whole set
B = M, so the factor is 1.
"""

import torch
from torch import Tensor


class Set:
    def __init__(self, scores: Tensor, labels: Tensor, counts: Tensor | None = None) -> None:
        self.s, self.y = scores, labels.tolist()
        self.ratio = scores[..., :, None] - scores[..., None, :]  # [i, t, k, l] = s_k - s_l
        self.B, self.T, self.K = scores.shape
        counts = torch.bincount(labels, minlength=self.K) if counts is None else counts
        self.counts = [float(c) for c in counts]
        self.M = sum(self.counts)

    def members(self, k: int) -> list[int]:
        return [i for i in range(self.B) if self.y[i] == k]

    def mean_in_class(self, k: int, values: list[Tensor]) -> Tensor:
        """E_k: (M / (B M_k)) times the sum over the batch's series of class k."""
        return self.M / (self.B * self.counts[k]) * sum(values, torch.zeros(()).double())

    def balanced(self, term) -> Tensor:
        total = torch.zeros(()).double()
        for i in range(self.B):
            for t in range(self.T):
                total = total + self.M / (self.K * self.counts[self.y[i]]) * term(i, t, self.y[i])
        return total / (self.B * self.T)

    def plain(self, term) -> Tensor:
        terms = [term(i, t, self.y[i]) for i in range(self.B) for t in range(self.T)]
        return sum(terms, torch.zeros(()).double()) / (self.B * self.T)

    def pairs(self, term) -> Tensor:
        terms = [term(t, k, m) for t in range(self.T) for k in range(self.K) for m in range(self.K) if k != m]
        return sum(terms, torch.zeros(()).double())

    def rivals(self, y: int) -> list[int]:
        return [k for k in range(self.K) if k != y]


def lsel(d: Set) -> Tensor:
    return d.balanced(lambda i, t, y: torch.log(1 + sum(torch.exp(-d.ratio[i, t, y, k]) for k in d.rivals(y))))


def modified_lsel(d: Set) -> Tensor:
    def term(i, t, y):
        return torch.log(1 + sum(d.counts[k] / d.counts[y] * torch.exp(-d.ratio[i, t, y, k]) for k in d.rivals(y)))

    return d.plain(term)


def cost_sensitive_lsel(d: Set, costs: Tensor) -> Tensor:
    return d.plain(lambda i, t, y: costs[y] * torch.log(1 + sum(torch.exp(-d.ratio[i, t, y, k]) for k in d.rivals(y))))


def lscel(d: Set, costs: Tensor) -> Tensor:
    return d.plain(
        lambda i, t, y: torch.log(1 + sum(costs[y, k] * torch.exp(-d.ratio[i, t, y, k]) for k in d.rivals(y)))
    )


def nga_lsel(d: Set, costs: Tensor) -> Tensor:
    def term(i, t, y):
        return sum(
            costs[y, k] * torch.log(sum(torch.exp(-d.ratio[i, t, k, m]) for m in range(d.K))) for k in d.rivals(y)
        )

    return d.plain(term)


def logistic(d: Set) -> Tensor:
    return d.balanced(
        lambda i, t, y: sum(torch.log(1 + torch.exp(-d.ratio[i, t, y, k])) for k in d.rivals(y)) / (d.K - 1)
    )


def modified_logistic(d: Set) -> Tensor:
    def term(i, t, y):
        odds = [d.counts[k] / d.counts[y] * torch.exp(-d.ratio[i, t, y, k]) for k in d.rivals(y)]
        return sum(torch.log(1 + x) for x in odds) / (d.K - 1)

    return d.plain(term)


def c_logistic(d: Set, costs: Tensor) -> Tensor:
    def term(i, t, y):
        return sum(costs[y, k] * torch.log(1 + torch.exp(-d.ratio[i, t, y, k])) for k in d.rivals(y)) / (d.K - 1)

    return d.plain(term)


def logistic_c(d: Set, costs: Tensor) -> Tensor:
    def term(i, t, y):
        return sum(torch.log(1 + costs[y, k] * torch.exp(-d.ratio[i, t, y, k])) for k in d.rivals(y)) / (d.K - 1)

    return d.plain(term)


def _expected(d: Set, k: int, t: int, function) -> Tensor:
    return d.mean_in_class(k, [function(d.ratio[i, t]) for i in d.members(k)])


def lsif(d: Set) -> Tensor:
    def term(t, k, m):
        square = _expected(d, m, t, lambda r: torch.exp(2 * r[k, m]))
        return square - _expected(d, k, t, lambda r: torch.exp(r[k, m]))

    return d.pairs(term)


def lsif_halved(d: Set) -> Tensor:
    def term(t, k, m):
        square = _expected(d, m, t, lambda r: torch.exp(2 * r[k, m]))
        return square / 2 - _expected(d, k, t, lambda r: torch.exp(r[k, m]))

    return d.pairs(term)


def lsif_clipped(d: Set) -> Tensor:
    def term(t, k, m):
        def clipped(r):
            return r[k, m].clamp(-35, 35)

        square = _expected(d, m, t, lambda r: torch.exp(2 * clipped(r)))
        return square - 2 * _expected(d, k, t, lambda r: torch.exp(clipped(r)))

    return d.pairs(term)


def _constraint(d: Set, t: int, k: int, m: int) -> Tensor:
    return (_expected(d, m, t, lambda r: torch.exp(r[k, m])) - 1).abs()


def lsifwc(d: Set, gamma: float) -> Tensor:
    return lsif(d) + gamma * d.pairs(lambda t, k, m: _constraint(d, t, k, m))


def dskl(d: Set) -> Tensor:
    def term(t, k, m):
        return _expected(d, m, t, lambda r: r[k, m]) - _expected(d, k, t, lambda r: r[k, m])

    return d.pairs(term)


def barr(d: Set, gamma: float) -> Tensor:
    def term(t, k, m):
        return -_expected(d, k, t, lambda r: r[k, m]) + gamma * _constraint(d, t, k, m)

    return d.pairs(term)


def lllr(d: Set) -> Tensor:
    def term(t, k, m):
        denominators = sum((torch.sigmoid(d.ratio[i, t, k, m]) for i in d.members(m)), torch.zeros(()).double())
        numerators = sum((1 - torch.sigmoid(d.ratio[i, t, k, m]) for i in d.members(k)), torch.zeros(()).double())
        return d.M / (d.B * (d.counts[k] + d.counts[m])) * (denominators + numerators)

    return d.pairs(term)


def ranking_score(d: Set) -> Tensor:
    p = d.s.softmax(-1)

    def term(i, t, y):
        return torch.clamp(max(p[i, u, y] for u in range(t)) - p[i, t, y], min=0) if t else torch.zeros(()).double()

    return d.plain(term)


def ranking_margin(d: Set) -> Tensor:
    p = d.s.softmax(-1)

    def margin(i, t, y):
        return p[i, t, y] - max(p[i, t, k] for k in d.rivals(y))

    def term(i, t, y):
        return (
            torch.clamp(max(margin(i, u, y) for u in range(t)) - margin(i, t, y), min=0)
            if t
            else torch.zeros(()).double()
        )

    return d.plain(term)
