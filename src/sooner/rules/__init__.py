"""Stopping rules: frozen values that turn scores into decisions.

`RULES` has them by name, and `FITTERS` what fits other rules for a cost.
"""

from collections.abc import Mapping

from sooner.errors import UnknownName
from sooner.rules import bounds as bounds
from sooner.rules.base import Rule as Rule
from sooner.rules.base import Step as Step
from sooner.rules.base import ThresholdRule as ThresholdRule
from sooner.rules.base import leader as leader
from sooner.rules.cost import DecisionCost as DecisionCost
from sooner.rules.fitted import FITTED_RULES as FITTED_RULES
from sooner.rules.fitted import FITTERS as FITTERS
from sooner.rules.fitted import BackwardInduction as BackwardInduction
from sooner.rules.fitted import EconomyGamma as EconomyGamma
from sooner.rules.fitted import FittedRule as FittedRule
from sooner.rules.fitted import MoriStoppingRule as MoriStoppingRule
from sooner.rules.fitted import RuleFitter as RuleFitter
from sooner.rules.fitted import Taper as Taper
from sooner.rules.fitted import TaperingThreshold as TaperingThreshold
from sooner.rules.fitted import Teaser as Teaser
from sooner.rules.giving_up import GiveUp as GiveUp
from sooner.rules.halting import Halting as Halting
from sooner.rules.msprt import MSPRT as MSPRT
from sooner.rules.msprt import LogOdds as LogOdds
from sooner.rules.msprt import ProbabilityThreshold as ProbabilityThreshold
from sooner.rules.single_label import SingleLabel as SingleLabel
from sooner.rules.timed import FixedTime as FixedTime
from sooner.rules.timed import NotBefore as NotBefore
from sooner.rules.timed import Patience as Patience

RULES: Mapping[str, type[Rule]] = {
    "msprt": MSPRT,
    "log_odds": LogOdds,
    "fixed_time": FixedTime,
    "probability_threshold": ProbabilityThreshold,
    "halting": Halting,
    "patience": Patience,
    "single_label": SingleLabel,
    "not_before": NotBefore,
    "give_up": GiveUp,
}


def rule_named(name: str) -> type[Rule]:
    """The class of rules with that name.

    >>> rule_named("msprt")
    <class 'sooner.rules.msprt.MSPRT'>
    """
    if not isinstance(name, str) or name not in RULES:
        raise UnknownName("rule", name, RULES)
    return RULES[name]
