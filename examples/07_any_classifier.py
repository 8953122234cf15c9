"""Any classifier: a scikit-learn classifier is fitted to prefixes of the series, and the sequential test runs on its output.

A clone is fitted at each of up to 20 evaluation times and calibrated out of fold; its probabilities become scores. The program
also fits the default model of `sooner` for comparison. In the ItalyPowerDemand data set the task is to tell winter from summer by
the electricity demand over 24 hours. It is included in aeon (the extra `sooner[archives]`).
"""

import time

from sklearn.ensemble import ExtraTreesClassifier
from sklearn.naive_bayes import GaussianNB

from sooner import EarlyClassifier
from sooner.data import archives

(X, y), (X_test, y_test) = archives.cases("ItalyPowerDemand")
candidates = {
    "naive Bayes": GaussianNB(),
    "20 trees": ExtraTreesClassifier(n_estimators=20, random_state=0),
    "auto": "auto",
}
print(f"balanced error in percent on {len(y_test):,} other days, at a mean time of 4, 8, 12 and 16 hours")
for name, model in candidates.items():
    start = time.perf_counter()
    clf = EarlyClassifier(model).fit(X, y)
    seconds = time.perf_counter() - start
    errors = 100 * clf.speed_accuracy(X_test, y_test).error_at([4, 8, 12, 16])
    print(f"{name:>12} ({clf.model_name_})", *(f"{error:6.1f}" for error in errors), f"  fitted in {seconds:.1f} s")
