"""Live series: one (`Stream`) or many by key (`Fleet`), decided the moment the rule fires.

Streaming adds no mathematics: it folds `model.step` and `rule.step`, and the decisions are those of the batch. `LiveSeries` adds
what services and pipes need: runs, silence, deadlines in seconds, and numbered decisions.
"""

from sooner.stream.arrivals import Arrival as Arrival
from sooner.stream.arrivals import Rejection as Rejection
from sooner.stream.batch import ArrivalBatch as ArrivalBatch
from sooner.stream.carried import CarriedSeries as CarriedSeries
from sooner.stream.decisions import decisions_of as decisions_of
from sooner.stream.events import Event as Event
from sooner.stream.events import Outcome as Outcome
from sooner.stream.fleet import Fleet as Fleet
from sooner.stream.fold import AtEnd as AtEnd
from sooner.stream.fold import Decision as Decision
from sooner.stream.live import LiveSeries as LiveSeries
from sooner.stream.settings import LiveSettings as LiveSettings
from sooner.stream.settings import Rearm as Rearm
from sooner.stream.single import Stream as Stream
