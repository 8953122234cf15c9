"""Any classifier: one of scikit-learn is fitted to prefixes of the series, and the sequential test runs on what it says.

A clone is fitted at each of up to 20 checkpoints in time and calibrated out of fold; its probabilities become scores. Beside it
the classifier that `sooner` would have taken. ItalyPowerDemand: a day of electricity, 24 hours; is it winter or summer? The
set comes inside aeon (the extra `sooner[archives]`).
"""

import time

from sklearn.ensemble import ExtraTreesClassifier
from sklearn.naive_bayes import GaussianNB

from sooner import EarlyClassifier
from sooner.data import archives

train, test = archives.cases("ItalyPowerDemand")
candidates = {
    "naive Bayes": GaussianNB(),
    "20 trees": ExtraTreesClassifier(n_estimators=20, random_state=0),
    "auto": "auto",
}
print(f"balanced error in percent on {len(test.labels):,} other days, at a mean time of 4, 8, 12 and 16 hours")
for name, model in candidates.items():
    start = time.perf_counter()
    clf = EarlyClassifier(model).fit(train.cases, train.labels)
    seconds = time.perf_counter() - start
    errors = 100 * clf.speed_accuracy(test.cases, test.labels).error_at([4, 8, 12, 16])
    print(f"{name:>12} ({clf.model_name_})", *(f"{error:6.1f}" for error in errors), f"  fitted in {seconds:.1f} s")
