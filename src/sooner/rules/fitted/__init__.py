"""Rules that are fitted to held-out scores for a stated cost. `FITTERS` has the fitters by name."""

import math
from collections.abc import Mapping

from sooner.rules.fitted.backward import BackwardInduction as BackwardInduction
from sooner.rules.fitted.backward import ContinuationRule as ContinuationRule
from sooner.rules.fitted.base import FittedRule as FittedRule
from sooner.rules.fitted.base import RuleFitter as RuleFitter
from sooner.rules.fitted.economy import EconomyGamma as EconomyGamma
from sooner.rules.fitted.economy import IntervalTable as IntervalTable
from sooner.rules.fitted.mori import LinearRule as LinearRule
from sooner.rules.fitted.mori import MoriStoppingRule as MoriStoppingRule
from sooner.rules.fitted.taper import Taper as Taper
from sooner.rules.fitted.taper import TaperingThreshold as TaperingThreshold
from sooner.rules.fitted.teaser import SupportRule as SupportRule
from sooner.rules.fitted.teaser import Teaser as Teaser

FITTERS: Mapping[str, RuleFitter] = {
    "calimera": BackwardInduction("path"),
    "firmbound": BackwardInduction("value", trust=math.inf),
    "taper": TaperingThreshold(),
    "mori": MoriStoppingRule(),
    "economy": EconomyGamma(),
    "teaser": Teaser(),
}

FITTED_RULES: tuple[type[FittedRule], ...] = (ContinuationRule, Taper, LinearRule, IntervalTable, SupportRule)
"""What the fitters make."""
