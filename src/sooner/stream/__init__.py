"""Live series: one (`Stream`) or many by key (`Fleet`), decided the moment the rule fires.

Streaming adds no mathematics: it folds `model.step` and `rule.step`, and the decisions are those of the batch.
"""

from sooner.stream.fleet import Fleet as Fleet
from sooner.stream.fold import AtEnd as AtEnd
from sooner.stream.fold import Decision as Decision
from sooner.stream.lines import decisions_of as decisions_of
from sooner.stream.single import Stream as Stream
