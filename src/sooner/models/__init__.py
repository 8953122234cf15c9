"""Models: observations in, scores out."""

from sooner.models.base import LiveStep as LiveStep
from sooner.models.base import Model as Model
from sooner.models.recurrent import Recurrent as Recurrent
