"""Experiments: a plan from a TOML file, its stages with their cache, and a record of what came out."""

from sooner.experiment.plan import Contender as Contender
from sooner.experiment.plan import Plan as Plan
from sooner.experiment.plan import find_plan as find_plan
from sooner.experiment.plan import names as names
from sooner.experiment.plan import read_plan as read_plan
from sooner.experiment.result import Result as Result
from sooner.experiment.result import result_of as result_of
from sooner.experiment.run import Work as Work
from sooner.experiment.run import run as run
from sooner.experiment.workers import run_together as run_together
