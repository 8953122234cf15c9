"""Training: a model, series and settings in; the model with its best weights and a record out."""

from sooner.train.examples import Drawn as Drawn
from sooner.train.examples import Examples as Examples
from sooner.train.examples import Source as Source
from sooner.train.learner import Validation as Validation
from sooner.train.loop import train as train
from sooner.train.record import TrainingRecord as TrainingRecord
