"""Experiments: a plan from a TOML file, its stages with their cache, and a record of what came out."""

from sooner.extras import refuse_missing

refuse_missing("lab", "experiments", "run with Optuna, statsmodels, matplotlib and plotly")

from sooner.lab.experiments.plan import Contender as Contender  # noqa: E402
from sooner.lab.experiments.plan import Plan as Plan  # noqa: E402
from sooner.lab.experiments.plan_file import find_plan as find_plan  # noqa: E402
from sooner.lab.experiments.plan_file import names as names  # noqa: E402
from sooner.lab.experiments.plan_file import read_plan as read_plan  # noqa: E402
from sooner.lab.experiments.result import Result as Result  # noqa: E402
from sooner.lab.experiments.result import result_of as result_of  # noqa: E402
from sooner.lab.experiments.run import Work as Work  # noqa: E402
from sooner.lab.experiments.run import run as run  # noqa: E402
from sooner.lab.experiments.workers import run_together as run_together  # noqa: E402
