"""The scikit-learn face: `EarlyClassifier`, and files that hold one."""

from sooner.estimator.classifier import EarlyClassifier as EarlyClassifier
from sooner.estimator.device import OnnxStream as OnnxStream
from sooner.estimator.export import export_step as export_step
from sooner.estimator.file import load as load
