"""The scikit-learn interface: `EarlyClassifier`, its files, its ONNX export and its scorers."""

from sooner.estimator.classifier import EarlyClassifier as EarlyClassifier
from sooner.estimator.file import load as load
from sooner.estimator.onnx.export import export_step as export_step
from sooner.estimator.onnx.stream import OnnxStream as OnnxStream
from sooner.estimator.scorers import ErrorAt as ErrorAt
from sooner.estimator.scorers import LeastAverageCost as LeastAverageCost
