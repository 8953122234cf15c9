"""The scikit-learn face: `EarlyClassifier`, and files that hold one."""

from sooner.estimator.classifier import EarlyClassifier as EarlyClassifier
from sooner.estimator.file import load as load
