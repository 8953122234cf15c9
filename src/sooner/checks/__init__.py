"""The laws of all rules, fitters and models; try your own with `check_rule(MyRule(3.0))` and `check_model(MyModel(...))`.

They return nothing, or raise `LawBroken` with the law and the evidence. `rules()`, `fitters()` and `models()` yield the
`examples` of all subclasses of `Rule`, `RuleFitter` and `Model` in the program.
"""

from sooner.checks.fitters import FITTER_LAWS as FITTER_LAWS
from sooner.checks.fitters import check_fitter as check_fitter
from sooner.checks.fitters import check_fitter_law as check_fitter_law
from sooner.checks.fitters import fitters as fitters
from sooner.checks.models import MODEL_LAWS as MODEL_LAWS
from sooner.checks.models import check_model as check_model
from sooner.checks.models import check_model_law as check_model_law
from sooner.checks.models import models as models
from sooner.checks.rules import RULE_LAWS as RULE_LAWS
from sooner.checks.rules import check_rule as check_rule
from sooner.checks.rules import check_rule_law as check_rule_law
from sooner.checks.rules import rules as rules
