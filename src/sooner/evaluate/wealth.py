"""Wealth of bets against a hypothesis: a test that may be read at any time, and never raises false alarms too often.

========= ===========================================================================
symbol    meaning
========= ===========================================================================
f_c       factor of bet c in a round: at least 0, with mean at most 1 under the hypothesis
U_n       share of the stake that is not yet placed after n rounds: 1 / (1 + log(1 + n))
R_c       wealth of bet c: R_c <- (R_c + (U_{n-1} - U_n) / C) f_c
M_n       U_n + sum_c R_c, the wealth; it begins with 1
========= ===========================================================================

Under the hypothesis M is a supermartingale, so P(M_n >= 1/delta for any n) <= delta (Ville's inequality). A part of the stake is
placed anew in every round: evidence that was lost while the hypothesis held delays the alarm after a change by the logarithm of
the number of rounds only. State: one number for each bet, and n.
"""

import math
from collections.abc import Sequence

import numpy as np

from sooner.types import FloatArray

_RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Bets on errors: the error is larger than promised by these factors of it."""
_BOLDEST = 0.9
_POWERS = (0.2, 0.5, 0.8)
_SLOPES = (0.25, 0.5, 0.9)
"""Bets on p-values that are too small or too large."""


class Wealth:
    """M_n in logarithms. `log` has its logarithm, `bets` the logarithms of the R_c.

    >>> wealth = Wealth(2)
    >>> wealth.play([math.log(2.0), math.log(0.5)])   # two bets on a coin: heads pays the first one
    >>> round(math.exp(wealth.log), 3)
    1.102
    """

    def __init__(self, bets: int) -> None:
        self.rounds = 0
        self.bets: FloatArray = np.full(bets, -np.inf)

    def play(self, log_factors: Sequence[float] | FloatArray) -> None:
        """One round: the logarithm of the factor of each bet."""
        self.rounds += 1
        before, after = 1 + math.log(self.rounds), 1 + math.log1p(self.rounds)
        placed = math.log(math.log1p(1 / self.rounds) / (before * after * len(self.bets)))
        self.bets = np.logaddexp(self.bets, placed) + log_factors

    @property
    def log(self) -> float:
        """The logarithm of the wealth."""
        unplaced = -math.log(1 + math.log1p(self.rounds))
        return float(np.logaddexp.reduce(np.append(self.bets, unplaced)))


def error_bets(level: float) -> FloatArray:
    """(bets,): fractions c of bets on losses x with mean at most `level`, with the factors 1 + c (x / level - 1).

    For errors with a probability of r times the level, c = (r - 1) level / (1 - level) grows fastest.
    """
    return np.unique(np.minimum(np.array(_RATIOS) * level / (1 - level), _BOLDEST))


def error_factors(bets: FloatArray, loss: float, level: float) -> FloatArray:
    """The logarithms of the factors of these bets for a loss of at least 0."""
    factors: FloatArray = np.log1p(bets * (loss / level - 1))
    return factors


def p_value_factors(p: float) -> FloatArray:
    """(bets,): logarithms of the factors e p^(e-1) and 1 + c (2p - 1) of bets on a p-value between 0 and 1, both tails."""
    tails = np.log([p, 1 - p])
    powers, slopes = np.array(_POWERS)[:, None], np.array([[*_SLOPES]]) * (2 * p - 1)
    return np.concatenate(
        [(np.log(powers) + (powers - 1) * tails).ravel(), np.log1p(slopes).ravel(), np.log1p(-slopes).ravel()]
    )


P_VALUE_BETS = 2 * len(_POWERS) + 2 * len(_SLOPES)
