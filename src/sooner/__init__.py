"""Names the class of a series as early as the evidence allows."""

from sooner import checks as checks
from sooner import data as data
from sooner import errors as errors
from sooner import evaluate as evaluate
from sooner import losses as losses
from sooner import models as models
from sooner import report as report
from sooner import rules as rules
from sooner import scores as scores
from sooner import settings as settings
from sooner import statistics as statistics
from sooner import stream as stream
from sooner import types as types
from sooner.estimator import EarlyClassifier as EarlyClassifier
from sooner.estimator import load as load
