"""Export of a classifier as an ONNX graph that reads one live observation, for devices without Python.

The graph is the fold of `sooner.stream` for any number of streams: standardise, `model.step`, add the prior, compare with the
threshold. The threshold is an input, so it can still be changed.

============ ======== ==================== ============================================================================
input        type     shape                meaning
============ ======== ==================== ============================================================================
observation  double   (streams, channels)  as measured; NaN if missing, for a classifier that masks missing values
time         int64    (streams,)           number of observations that were read before
state_0, ... various  (streams, ...)       states of the model, and of a rule that has a state
threshold    double   () or (K, K)         absent for a rule without a threshold
============ ======== ==================== ============================================================================

============ ======== ==================== ============================================================================
output       type     shape                meaning
============ ======== ==================== ============================================================================
scores       float    (streams, K)         log-likelihoods up to a shared term, priors included
statistic    double   (streams,)           compared with the threshold: margin, log-odds, posterior, halting or time
fired        bool     (streams,)           whether the rule stops now
label        int64    (streams,)           index of the leading class in `classes`
next_time    int64    (streams,)           the next input `time`; next_state_0, ... likewise
============ ======== ==================== ============================================================================

The metadata entry `sooner` is a JSON text: the names of classes and channels, shape and type of an observation, the rule, its
threshold, and name, shape, type and initial value of every state. Infinity is the text "inf". The graph does not check that
values are finite; `OnnxStream` does.
"""

import copy
import json
import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from sooner.errors import InvalidArgument, LawBroken, UnknownName
from sooner.estimator.onnx.stream import FORMAT, KEY, OnnxStep, onnx_package, threshold_of
from sooner.models import Earliest, Recurrent, Rocket
from sooner.rules import FixedTime, GiveUp, NotBefore, Patience, Rule, ThresholdRule
from sooner.rules.base import leader
from sooner.rules.described import description, rule_described
from sooner.scores import margin
from sooner.storage import write_whole
from sooner.stream.fold import Fold

if TYPE_CHECKING:
    from sooner.estimator.classifier import EarlyClassifier

Precision: TypeAlias = Literal["float64", "float32"]

_NOISE = (
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
    "_check_is_size will be removed",
    "# The axis name: streams will not be used",
    "The tensor attributes .* were assigned during export",
)
"""Warnings of torch about its own exporter."""
_TRIAL_TIMES = 32
"""Number of observations for which an exported graph must agree with the classifier before it is written."""


def export_step(
    classifier: "EarlyClassifier", path: str | PathLike[str], *, observations: Precision = "float64"
) -> None:
    """Write an `.onnx` file whose graph reads one observation of each live series; `OnnxStream` and devices run it.

    Before the file is written, the graph is compared with the classifier on 32 random observations of 2 streams. Scores agree to
    about six digits, so a series whose statistic equals the threshold may be decided at another time.

    Args:
        classifier: fitted, with any model except "prefix".
        path: output file.
        observations: type of the observations. Each type is standardised in its own precision.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(classifier)
    if observations not in ("float64", "float32"):
        raise UnknownName("observations", observations, ("float64", "float32"))
    graph = LiveGraph(_fold_of(classifier))
    data = _serialized(graph, _about(classifier, graph, observations))
    _refuse_other_scores(OnnxStep(data), classifier, graph.fold)
    write_whole(Path(path), data)


class LiveGraph(nn.Module):
    """The exported function: the fold of one observation of each stream, with tensors only."""

    def __init__(self, fold: Fold) -> None:
        super().__init__()
        self.fold, self.model = fold, fold.model
        threshold = threshold_of(fold.rule)
        self.threshold = None if threshold is None else torch.tensor(threshold, dtype=torch.float64)
        rule_state = () if self.threshold is not None else (fold.rule.init(1),)
        self.initial = (*fold.model.init(1), *rule_state)

    def init(self, streams: int) -> tuple[Tensor, ...]:
        """The states of new series, without empty states such as the windows of order 0."""
        return tuple(state.expand(streams, *state.shape[1:]).contiguous() for state in self.initial if state.numel())

    def forward(
        self, observation: Tensor, time: Tensor, state: tuple[Tensor, ...], threshold: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Scores, statistic, fired, label, the next time and the next states."""
        before, model_states = self._with_empty(state, observation.shape[0]), len(self.model.init(1))
        prepare, offset = self.fold.prepare, self.fold.offset
        x = observation if prepare is None else prepare(observation)
        after, scores, halting = self.model.step(before[:model_states], x)
        scores = scores if offset is None else scores + offset.to(scores)
        if isinstance(self.fold.rule, ThresholdRule) and threshold is not None:
            outputs = rule_outputs(self.fold.rule, scores, time + 1, threshold, halting)
        else:
            rule_state, fired, label = self.fold.rule.step_with(before[-1], scores, halting)
            after, outputs = (*after, rule_state), (margin(scores).double(), fired, label)
        states = (state for state, initial in zip(after, self.initial, strict=True) if initial.numel())
        return scores, *outputs, time + 1, *states

    def _with_empty(self, state: tuple[Tensor, ...], streams: int) -> tuple[Tensor, ...]:
        given = iter(state)
        return tuple(
            next(given) if initial.numel() else torch.zeros(streams, *initial.shape[1:], dtype=initial.dtype)
            for initial in self.initial
        )


def rule_outputs(
    rule: ThresholdRule, scores: Tensor, time: Tensor, threshold: Tensor, halting: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`rule.step_with` with the threshold as a tensor: the statistic, whether it reaches the threshold, and the class named."""
    # `FixedTime` is the only rule that reads the time.
    statistic = time.double() if isinstance(rule, FixedTime) else rule.statistic_with(scores, halting).double()
    if threshold.ndim == 0:
        return statistic, statistic >= threshold, leader(scores)
    ahead = (scores[:, None, :] - scores[:, :, None]).double()  # [l, k] is s_k - s_l
    wins = ((ahead >= threshold) | torch.eye(scores.shape[1], dtype=torch.bool)).all(dim=1)
    fired = wins.any(dim=1)
    return statistic, fired, torch.where(fired, wins.to(torch.int32).argmax(dim=1), leader(scores))


def _fold_of(classifier: "EarlyClassifier") -> Fold:
    """The fold of the classifier, with a copy of its model on the CPU."""
    if not isinstance(classifier.model_, Rocket | Recurrent | Earliest):
        remedy = 'Other classifiers have no graph. Models "rocket", "recurrent" and "earliest" can be exported.'
        name = type(classifier.model_).__name__
        raise InvalidArgument("model", "one that is made of tensors to be exported", name, remedy)
    _refuse_unknown(classifier.rule_)
    model = copy.deepcopy(classifier.model_).cpu().eval()
    offset = torch.as_tensor(classifier._offset())
    classes = tuple(classifier.classes_.tolist())
    return Fold(model, classifier.rule_, classes, classifier._prepared(), offset, None, "force")


def _refuse_unknown(rule: Rule) -> None:
    rule_described(description(rule))  # refuses a rule of the user's own
    inner = rule
    while isinstance(inner, Patience | NotBefore | GiveUp):
        inner = inner.rule
    if inner is not rule and np.ndim(threshold_of(inner)):
        remedy = "Ties between its classes are tried one after the other, which a graph cannot do inside another rule."
        raise InvalidArgument("rule", "patience without a matrix of thresholds", repr(rule), remedy)


def _about(classifier: "EarlyClassifier", graph: LiveGraph, observations: Precision) -> dict[str, Any]:
    """The description of the graph, for its metadata."""
    unsupported = [name for name in graph.fold.classes if not isinstance(name, str | int | float)]
    if unsupported:
        remedy = "Turn the labels into text or numbers before `fit`."
        raise InvalidArgument(
            "classes", "texts or numbers to be exported", f"a {type(unsupported[0]).__name__}", remedy
        )
    # Mask channels are computed inside the graph.
    shape = classifier.standardizer_.mean.shape if classifier.missing == "mask" else graph.model.features
    states, columns = {f"state_{index}": state for index, state in enumerate(graph.init(1))}, classifier.columns_
    about = {
        "format": FORMAT,
        "version": version("sooner"),
        "model": classifier.model_name_,
        "classes": list(graph.fold.classes),
        "channels": None if columns is None or columns.channels is None else list(columns.channels),
        "observation": {"shape": list(shape), "type": observations, "missing": classifier.missing},
        "rule": description(graph.fold.rule),
        "threshold": None if graph.threshold is None else graph.threshold.tolist(),
        "state": [
            {
                "input": name,
                "output": f"next_{name}",
                "shape": list(state.shape[1:]),
                "type": str(state.dtype).removeprefix("torch."),
                "initial": state.unique().item() if len(state.unique()) == 1 else state[0].tolist(),
            }
            for name, state in {"time": torch.zeros(1, dtype=torch.int64), **states}.items()
        ],
    }
    plain: dict[str, Any] = _without_infinity(about)
    return plain


def _without_infinity(value: Any) -> Any:
    """The value with the text "inf" for infinity, which C's `strtod` and Python's `float` read."""
    if isinstance(value, Mapping):
        return {name: _without_infinity(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_without_infinity(entry) for entry in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _serialized(graph: LiveGraph, about: Mapping[str, Any]) -> bytes:
    """The bytes of the ONNX model."""
    onnx_package("onnx")
    streams, states, names = torch.export.Dim("streams"), graph.init(3), [entry["input"] for entry in about["state"]]
    threshold = () if graph.threshold is None else (graph.threshold,)
    x = torch.zeros(3, *about["observation"]["shape"], dtype=getattr(torch, about["observation"]["type"]))
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            graph.eval(),
            (x, torch.zeros(3, dtype=torch.int64), states, *threshold),
            dynamo=True,
            verbose=False,
            dynamic_shapes=(
                {0: streams},
                {0: streams},
                tuple({0: streams} for _ in states),
                *(None for _ in threshold),
            ),
            input_names=["observation", *names, *("threshold" for _ in threshold)],
            output_names=["scores", "statistic", "fired", "label", *(f"next_{name}" for name in names)],
            custom_translation_table=_translations(),
        )
    assert program is not None
    proto = program.model_proto
    _refuse_fixed(proto, graph)
    # The paths of the exporting code are most of the file, and private.
    inner = proto.graph
    for entry in (proto, inner, *inner.node, *inner.input, *inner.output, *inner.value_info):
        entry.ClearField("metadata_props")
    proto.metadata_props.add(key=KEY, value=json.dumps(about, allow_nan=False))
    proto.producer_name, proto.producer_version = "sooner", about["version"]
    data: bytes = proto.SerializeToString()
    return data


def _refuse_fixed(proto: Any, graph: LiveGraph) -> None:
    """Refuse a constant number of streams, which a model gets by `len(tensor)` instead of `tensor.shape`."""
    for entry in proto.graph.input:
        axes = entry.type.tensor_type.shape.dim
        if entry.name != "threshold" and not axes[0].dim_param:
            evidence = f"{entry.name} takes {axes[0].dim_value}"
            raise LawBroken(type(graph.model).__name__, "an exported graph takes any number of streams", evidence)


def _translations() -> dict[Any, Any]:
    """Operations that ONNX lacks, or that its runtime computes less exactly than torch."""
    opset = onnx_package("onnxscript").opset18
    return {
        # It differs only for negative zero, which does not matter here.
        torch.ops.prims.signbit.default: lambda x: opset.Less(x, opset.CastLike(0.0, x)),
        # The runtime's own sigmoid differs from torch's by 1e-7, which becomes 2e-5 in the scores after 60 steps of an LSTM.
        # With this one it is 2e-6, in 5% more time.
        torch.ops.aten.sigmoid.default: lambda x: opset.Reciprocal(
            opset.Add(opset.Exp(opset.Neg(x)), opset.CastLike(1.0, x))
        ),
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the messages of torch about its own exporter."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for message in _NOISE:
                warnings.filterwarnings("ignore", message)
            yield
    finally:
        logger.setLevel(before)


@torch.inference_mode()
def _refuse_other_scores(exported: OnnxStep, classifier: "EarlyClassifier", fold: Fold) -> None:
    """Refuse a graph whose scores differ from those of the classifier."""
    standard, about = classifier.standardizer_, exported.about["observation"]
    random, before, state = np.random.default_rng(0), fold.fresh(2), exported.init(2)
    for time in range(1, _TRIAL_TIMES + 1):
        x = random.normal(size=(2, *about["shape"]))
        x = (x * standard.scale + standard.mean if x.shape[1:] == standard.mean.shape else x).astype(about["type"])
        live, result = fold.observe(before, fold.read(list(x), torch.device("cpu"))), exported.step(state, x)
        before, state, scores = live.after, result.state, live.scores.numpy()
        if not np.allclose(result.scores, scores, rtol=1e-4, atol=1e-4):
            evidence = f"the scores are {np.abs(result.scores - scores).max():g} apart at time {time}"
            raise LawBroken(type(fold.model).__name__, "an exported graph equals its classifier", evidence)
