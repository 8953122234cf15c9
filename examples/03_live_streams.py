"""Live streams: many series at once, a threshold that is changed while they run, and a restart.

The BasicMotions data set has recordings of a smartwatch (6 channels, 100 observations) during standing, walking, running and
badminton. It is included in aeon (the extra `sooner[archives]`).
"""

from sooner import EarlyClassifier
from sooner.data import archives
from sooner.rules import MSPRT

(X, y), (X_test, y_test) = archives.cases("BasicMotions")
clf = EarlyClassifier().fit(X, y)
clf.threshold = 6.0  # cautious
watches = {f"watch-{number}": case for number, case in enumerate(X_test)}
truth = dict(zip(watches, y_test, strict=True))

fleet = clf.stream(keyed=True, deadline=80)
print(f"{len(watches)} watches, {fleet.bytes_per_stream:,} bytes for each, at any time")
decisions = {}


def observe(time: int) -> None:
    """The next observation of every watch that is still undecided."""
    arrived = {name: case[:, time - 1] for name, case in watches.items() if name not in decisions}
    decisions.update(fleet.update(arrived))


for time in range(1, 11):
    observe(time)
print(f"after 10 observations: {fleet!r}")

fleet.rule = MSPRT(2.0)  # faster; takes effect with the next observation
for time in range(11, 21):
    observe(time)
print(f"after 20, less cautious: {fleet!r}")

kept = fleet.snapshot()  # bytes for a file or a database: safetensors, no pickle
del fleet
fleet = clf.stream(keyed=True, deadline=80)
fleet.rule = MSPRT(2.0)
fleet.restore(kept)
print(f"restored from {len(kept):,} bytes: {len(fleet)} open, {len(fleet.decided)} decided")

time = 20
while len(fleet):
    time += 1
    observe(time)
right = sum(decisions[name].label == truth[name] for name in watches)
print(f"all decided by observation {time}: {right} of {len(watches)} rightly")
for name in list(decisions)[:3]:
    print(f"  {name} ({truth[name]}): {decisions[name]}")
