"""Costs that change after training: a threshold is a dial, and a fitted rule has to be fitted again.

Run it with `python examples/09_costs_that_change.py`.
"""

import numpy as np

from sooner.data import Gaussian
from sooner.evaluate import choose_rule
from sooner.rules import FITTERS, MSPRT, DecisionCost, Rule
from sooner.scores import Scored

# Exact scores of two classes, for 20 observations at most: held-out series to choose on, and new ones to pay for.
process = Gaussian.equidistant(classes=2, distance=0.8)


def scored(series: int, seed: int) -> Scored:
    """Series with exact scores and labels."""
    x, labels = process.sample(series, 20, seed=seed)
    return Scored.of(process.scores(x), labels)


def mean_cost(rule: Rule, cost: DecisionCost) -> float:
    """What the decisions of a rule cost on the new series."""
    times = rule.decide(new.scores).times
    return float(cost.paid(new)[np.arange(len(new)), times - 1].mean())


held_out, new = scored(1000, seed=0), scored(2000, seed=1)
print("cost of one observation, if an error costs 1:   MSPRT   taper fitted for 0.01   taper fitted again")
old = FITTERS["taper"].fit(held_out, DecisionCost(1.0, 0.01))
for waiting in (0.002, 0.01, 0.05):
    cost = DecisionCost(1.0, waiting)
    dial = choose_rule(MSPRT, held_out.scores, held_out.truths, cost_of_waiting=waiting)
    again = FITTERS["taper"].fit(held_out, cost)
    print(
        f"{waiting:>45}   {mean_cost(dial, cost):.4f}   {mean_cost(old, cost):>21.4f}   {mean_cost(again, cost):>18.4f}"
    )

# Costs as people have them: a matrix [true, decided], and a delay that is free until observation 5 and then grows.
matrix = [[0.0, 1.0], [20.0, 0.0]]
rule = choose_rule(
    MSPRT,
    held_out.scores,
    held_out.truths,
    cost_of_waiting=lambda t: 0.1 * np.maximum(t - 5, 0),
    cost_matrix=matrix,
)
print(f"Missing class 1 costs 20, and the first five observations are free: {rule}")
