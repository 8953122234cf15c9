"""The first decision: recognise a speaker after as few frames as possible.

In the JapaneseVowels data set nine speakers say the same two vowels; a recording has 7 to 29 frames with 12 channels. The data
set is included in aeon, which the extra `sooner[archives]` installs.
"""

from sooner import EarlyClassifier
from sooner.data import archives

(X, y), (X_test, y_test) = archives.cases("JapaneseVowels")  # lists of (channels, time), each of its own length
clf = EarlyClassifier().fit(X, y)
print(f"{len(X)} series fitted with {clf.model_name_!r}, {len(clf.classes_)} classes")

# The threshold is chosen on series that the model did not learn from; the test series are used only once, afterwards.
print("chosen for an error of at most 3%:", clf.choose_threshold(max_error=0.03))

decisions = clf.decide(X_test)  # .labels, .times, .crossed
frames = sum(case.shape[1] for case in X_test) / len(X_test)
print(f"on {len(decisions)} other series: balanced accuracy {clf.score(X_test, y_test):.3f}")
print(f"frames read: {decisions.times.mean():.2f} of {frames:.2f} on average")

print("\none series, live:")
live = clf.stream()
for time, frame in enumerate(X_test[1].T, start=1):
    decision = live.update(frame)  # None while the evidence does not suffice
    lead = "" if live.scores is None else f"  leader: speaker {clf.classes_[live.scores.argmax()]}"
    print(f"  frame {time}: {decision}{lead}")
    if decision is not None:
        break
