"""Experiments: a plan from a TOML file, its stages with their cache, and a record of what came out."""

from sooner.extras import refuse_missing

refuse_missing("lab", "experiments", "run with Optuna, statsmodels, matplotlib and plotly")

from sooner.experiment.plan import Contender as Contender  # noqa: E402
from sooner.experiment.plan import Plan as Plan  # noqa: E402
from sooner.experiment.plan import find_plan as find_plan  # noqa: E402
from sooner.experiment.plan import names as names  # noqa: E402
from sooner.experiment.plan import read_plan as read_plan  # noqa: E402
from sooner.experiment.result import Result as Result  # noqa: E402
from sooner.experiment.result import result_of as result_of  # noqa: E402
from sooner.experiment.run import Work as Work  # noqa: E402
from sooner.experiment.run import run as run  # noqa: E402
from sooner.experiment.workers import run_together as run_together  # noqa: E402
