"""Tuning: a space of settings in, the best of them out."""

from sooner.extras import optional

with optional("tuning", "done with Optuna"):
    import optuna as _optuna  # noqa: F401
    import sqlalchemy as _sqlalchemy  # noqa: F401

from sooner.tune.space import Grid as Grid
from sooner.tune.space import Range as Range
from sooner.tune.space import SearchSpace as SearchSpace
from sooner.tune.space import read_search as read_search
from sooner.tune.study import TrialRecord as TrialRecord
from sooner.tune.study import TuningRecord as TuningRecord
from sooner.tune.study import tune as tune
