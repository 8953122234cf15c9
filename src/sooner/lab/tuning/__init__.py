"""Tuning: a space of settings in, the best of them out."""

from sooner.extras import optional

with optional("tuning", "done with Optuna"):
    import optuna as _optuna  # noqa: F401
    import sqlalchemy as _sqlalchemy  # noqa: F401

from sooner.lab.tuning.space import Grid as Grid
from sooner.lab.tuning.space import Range as Range
from sooner.lab.tuning.space import SearchSpace as SearchSpace
from sooner.lab.tuning.space import read_search as read_search
from sooner.lab.tuning.study import TrialRecord as TrialRecord
from sooner.lab.tuning.study import TuningRecord as TuningRecord
from sooner.lab.tuning.study import tune as tune
