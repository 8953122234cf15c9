"""Training: a model, series and settings in; the model with its best weights and a record out."""

from sooner.train.learner import Validation as Validation
from sooner.train.loop import train as train
from sooner.train.record import TrainingRecord as TrainingRecord
from sooner.train.sources import Drawn as Drawn
from sooner.train.sources import Source as Source
