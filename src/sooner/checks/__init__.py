"""The laws that every rule and every model obeys, ready for one of your own.

    from sooner.checks import check_model, check_rule
    check_rule(MyRule(3.0))          # silent, or LawBroken: which law, on what evidence
    check_model(MyModel(...))

Subclasses of `Rule` and `Model` anywhere in the program are found by `rules()` and `models()`, through their `examples`.
"""

from sooner.checks.models import MODEL_LAWS as MODEL_LAWS
from sooner.checks.models import check_model as check_model
from sooner.checks.models import check_model_law as check_model_law
from sooner.checks.models import models as models
from sooner.checks.rules import RULE_LAWS as RULE_LAWS
from sooner.checks.rules import check_rule as check_rule
from sooner.checks.rules import check_rule_law as check_rule_law
from sooner.checks.rules import rules as rules
