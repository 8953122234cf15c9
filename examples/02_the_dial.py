"""The threshold of one trained model, chosen by error, time or cost; other rules, deadlines, priors and abstaining.

The data are handwritten digits, of which each of 16 frames reveals four more pixels (`sooner.data.sets.digits`, no download). The
model is fitted once; everything else is decided from its scores.
"""

from sooner import EarlyClassifier
from sooner.data import digits
from sooner.rules import MSPRT, FixedTime, Patience, ProbabilityThreshold, bounds
from sooner.types import Decisions

train, validation, test = digits.load()
X_val, y_val = validation.observations.transpose(1, 2), validation.names(validation.labels)
clf = EarlyClassifier().fit(train.take(range(400)))
X, y = test.observations.transpose(1, 2), test.names(test.labels)


def show(what: str, decisions: Decisions) -> None:
    """Print the results on the test digits."""
    named = [label is not None for label in decisions.labels]
    wrong, forced = (decisions.labels != y)[named].mean(), (~decisions.crossed).mean()
    time = decisions.times.mean()
    print(f"  {what:48} error {wrong:5.1%}  mean time {time:5.2f}  forced {forced:5.1%}  named {sum(named)}")


print("by a target on other digits, after `fit` had set one of its own:")
show(f"{clf.threshold:.3f}, after fit", clf.decide(X))
for target in ({"max_error": 0.2}, {"max_mean_time": 6.0}, {"cost_of_waiting": 0.03}):
    clf.choose_threshold(X_val, y_val, **target)
    show(f"{clf.threshold:.3f}, for {target}", clf.decide(X))

print("by hand, once for all or for one call:")
clf.threshold = 3.0
show("3.0", clf.decide(X))
show("1.0", clf.decide(X, threshold=1.0))
show("a matrix: each class at most 10% wrong", clf.decide(X, threshold=bounds.for_class_errors(0.1, classes=10)))

print("other rules on the same scores:")
for rule in (ProbabilityThreshold(0.9), Patience(3, MSPRT(1.0)), FixedTime(8)):
    show(str(rule), clf.decide(X, threshold=rule))

print("a deadline, and what to do when it comes:")
show("by frame 10, the leader is named", clf.decide(X, deadline=10))
show("by frame 10, or abstain", clf.decide(X, deadline=10, at_end="abstain"))

print("priors of use, after training:")
for priors in ("equal", {name: 9 if name == 1 else 1 for name in clf.classes_.tolist()}):
    clf.set_params(priors=priors)
    what = "equal" if priors == "equal" else "every other digit is a 1"
    print(f"  {what:48} ones are named after {clf.decide(X).times[y == 1].mean():.2f} frames on average")
