"""The first decision: who is speaking, after as few frames as it takes.

JapaneseVowels: nine speakers say the same two vowels; 12 numbers a frame, 7 to 29 frames. The set comes inside aeon, which
the extra `sooner[archives]` installs.
"""

from sooner import EarlyClassifier
from sooner.data import archives

train, test = archives.cases("JapaneseVowels")  # lists of (channels, time), each of its own length
clf = EarlyClassifier().fit(train.cases, train.labels)
print(f"{len(train.cases)} series fitted with {clf.model_name_!r}, {len(clf.classes_)} classes")

# The threshold is chosen on series that the model did not learn from; the test series are looked at once, afterwards.
print("chosen for an error of at most 3 %:", clf.choose_threshold(max_error=0.03))

decisions = clf.decide(test.cases)  # .labels, .times, .crossed
frames = sum(case.shape[1] for case in test.cases) / len(test.cases)
print(f"on {len(decisions)} other series: balanced accuracy {clf.score(test.cases, test.labels):.3f}")
print(f"frames read: {decisions.times.mean():.2f} of {frames:.2f} on average")

print("\none series, live:")
live = clf.stream()
for time, frame in enumerate(test.cases[1].T, start=1):
    decision = live.update(frame)  # None while the evidence does not suffice
    lead = "" if live.scores is None else f"  leader: speaker {clf.classes_[live.scores.argmax()]}"
    print(f"  frame {time}: {decision}{lead}")
    if decision is not None:
        break
