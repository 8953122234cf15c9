"""One live observation as an ONNX graph: what a device without Python needs to decide early.

The graph is the fold of `sooner.stream` for any number of streams: standardise, `model.step`, add the prior, compare with the
threshold. The threshold is an input, so that the dial still turns.

============ ======== ==================== ============================================================================
input        type     shape                meaning
============ ======== ==================== ============================================================================
observation  double   (streams, channels)  as it was measured; NaN where it is missing, if the classifier masks that
time         int64    (streams,)           how many observations were read before
state_0, ... various  (streams, ...)       what the model remembers, and a rule other than a threshold
threshold    double   () or (K, K)         the dial; not there for a rule without one
============ ======== ==================== ============================================================================

============ ======== ==================== ============================================================================
output       type     shape                meaning
============ ======== ==================== ============================================================================
scores       float    (streams, K)         log-likelihoods up to a shared term, priors included
statistic    double   (streams,)           compared with the threshold: margin, log-odds, posterior, halting or time
fired        bool     (streams,)           whether the rule stops now
label        int64    (streams,)           the class that it would name, a place in `classes`
next_time    int64    (streams,)           to be given as `time` next; the other states alike
============ ======== ==================== ============================================================================

Under the key `sooner` the metadata hold a JSON text: the names of classes and channels, shape and type of an observation, the
rule, its threshold, and name, shape, type and initial value of every state. JSON has no infinity: there it is a text, "inf".
The graph does not look for values that are not finite; `OnnxStream` does.
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
from sooner.estimator.onnx.stream import FORMAT, KEY, OnnxStep, dial_of, onnx_package
from sooner.models import Earliest, Recurrent, Rocket
from sooner.rules import FixedTime, NotBefore, Patience, Rule, ThresholdRule
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
"""What torch warns itself of while it exports."""
_TRIED = 32
"""Observations that an exported graph must read like the classifier before it is written."""


def export_step(
    classifier: "EarlyClassifier", path: str | PathLike[str], *, observations: Precision = "float64"
) -> None:
    """Write one `.onnx` file whose graph takes one observation of each live series in; `OnnxStream` and devices run it.

    The graph is first tried beside the classifier on 32 random observations of 2 streams. A file that is there already is
    replaced in one move. Scores agree to about six digits, so only a series that meets the threshold to the last digit can be
    decided at another time, such as the held-out series that the threshold was taken from.

    Args:
        classifier: fitted, with any model but "prefix".
        path: where to.
        observations: the type they arrive in. A classifier standardises each type in its own precision: the same type gives
            the same numbers.
    """
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(classifier)
    if observations not in ("float64", "float32"):
        raise UnknownName("observations", observations, ("float64", "float32"))
    graph = LiveGraph(_fold_of(classifier))
    data = _serialized(graph, _about(classifier, graph, observations))
    _try(OnnxStep(data), classifier, graph.fold)
    write_whole(Path(path), data)


class LiveGraph(nn.Module):
    """What is exported: one observation of each stream as a function of tensors alone.

    Args:
        fold: how observations become decisions.
    """

    def __init__(self, fold: Fold) -> None:
        super().__init__()
        self.fold, self.model = fold, fold.model
        dial = dial_of(fold.rule)
        self.threshold = None if dial is None else torch.tensor(dial, dtype=torch.float64)
        memory = () if self.threshold is not None else (fold.rule.init(1),)
        self.fresh = (*fold.model.init(1), *memory)

    def init(self, streams: int) -> tuple[Tensor, ...]:
        """The states of new series. One that holds no number, as the windows of order 0, is left out."""
        kept = (part for part in self.fresh if part.numel())
        return tuple(part.expand(streams, *part.shape[1:]).contiguous() for part in kept)

    def forward(
        self, observation: Tensor, time: Tensor, state: tuple[Tensor, ...], threshold: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Scores, statistic, fired, label, the next time and the next states."""
        before, remembered = self._with_empty(state, observation.shape[0]), len(self.model.init(1))
        prepare, offset = self.fold.prepare, self.fold.offset
        x = observation if prepare is None else prepare(observation)
        after, scores, halting = self.model.step(before[:remembered], x)
        scores = scores if offset is None else scores + offset.to(scores)
        if isinstance(self.fold.rule, ThresholdRule) and threshold is not None:
            said = compared(self.fold.rule, scores, time + 1, threshold, halting)
        else:
            memory, fired, label = self.fold.rule.step_with(before[-1], scores, halting)
            after, said = (*after, memory), (margin(scores).double(), fired, label)
        kept = (part for part, like in zip(after, self.fresh, strict=True) if like.numel())
        return scores, *said, time + 1, *kept

    def _with_empty(self, state: tuple[Tensor, ...], streams: int) -> tuple[Tensor, ...]:
        given = iter(state)
        return tuple(
            next(given) if part.numel() else torch.zeros(streams, *part.shape[1:], dtype=part.dtype)
            for part in self.fresh
        )


def compared(
    rule: ThresholdRule, scores: Tensor, time: Tensor, threshold: Tensor, halting: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`rule.step_with` with the threshold as a tensor: the statistic, whether it reaches the threshold, and the class named."""
    # The only rule that looks at the time, not at the scores.
    statistic = time.double() if isinstance(rule, FixedTime) else rule.statistic_with(scores, halting).double()
    if threshold.ndim == 0:
        return statistic, statistic >= threshold, leader(scores)
    ahead = (scores[:, None, :] - scores[:, :, None]).double()  # [l, k] is s_k - s_l
    wins = ((ahead >= threshold) | torch.eye(scores.shape[1], dtype=torch.bool)).all(dim=1)
    fired = wins.any(dim=1)
    return statistic, fired, torch.where(fired, wins.to(torch.int32).argmax(dim=1), leader(scores))


def _fold_of(classifier: "EarlyClassifier") -> Fold:
    """How the classifier's live observations become decisions, with a copy of its model on the CPU."""
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
    rule_described(description(rule))  # a rule from elsewhere is refused
    inner = rule
    while isinstance(inner, Patience | NotBefore):
        inner = inner.rule
    if inner is not rule and np.ndim(dial_of(inner)):
        remedy = "Ties between its classes are tried one after the other, which a graph cannot do inside another rule."
        raise InvalidArgument("rule", "patience without a matrix of thresholds", repr(rule), remedy)


def _about(classifier: "EarlyClassifier", graph: LiveGraph, observations: Precision) -> dict[str, Any]:
    """All that a device has to know beside the graph."""
    strange = [name for name in graph.fold.classes if not isinstance(name, str | int | float)]
    if strange:
        remedy = "Turn the labels into text or numbers before `fit`."
        raise InvalidArgument("classes", "texts or numbers to be exported", f"a {type(strange[0]).__name__}", remedy)
    # A classifier that masks takes what was measured, without the mask channels that its model reads.
    shape = classifier.standardizer_.mean.shape if classifier.missing == "mask" else graph.model.features
    states, columns = {f"state_{index}": part for index, part in enumerate(graph.init(1))}, classifier.columns_
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
                "shape": list(part.shape[1:]),
                "type": str(part.dtype).removeprefix("torch."),
                "initial": part.unique().item() if len(part.unique()) == 1 else part[0].tolist(),
            }
            for name, part in {"time": torch.zeros(1, dtype=torch.int64), **states}.items()
        ],
    }
    plain: dict[str, Any] = _without_infinity(about)
    return plain


def _without_infinity(value: Any) -> Any:
    """The same with texts for infinity, which C's `strtod` and Python's `float` read."""
    if isinstance(value, Mapping):
        return {name: _without_infinity(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_infinity(part) for part in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _serialized(graph: LiveGraph, about: Mapping[str, Any]) -> bytes:
    """The bytes of the ONNX model."""
    onnx_package("onnx")
    streams, states, names = torch.export.Dim("streams"), graph.init(3), [part["input"] for part in about["state"]]
    dial = () if graph.threshold is None else (graph.threshold,)
    x = torch.zeros(3, *about["observation"]["shape"], dtype=getattr(torch, about["observation"]["type"]))
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            graph.eval(),
            (x, torch.zeros(3, dtype=torch.int64), states, *dial),
            dynamo=True,
            verbose=False,
            dynamic_shapes=({0: streams}, {0: streams}, tuple({0: streams} for _ in states), *(None for _ in dial)),
            input_names=["observation", *names, *("threshold" for _ in dial)],
            output_names=["scores", "statistic", "fired", "label", *(f"next_{name}" for name in names)],
            custom_translation_table=_translations(),
        )
    assert program is not None
    proto = program.model_proto
    _refuse_fixed(proto, graph)
    # Where the code lay that made the graph is nobody's business, and it is most of the file.
    for part in (
        proto,
        proto.graph,
        *proto.graph.node,
        *proto.graph.input,
        *proto.graph.output,
        *proto.graph.value_info,
    ):
        part.ClearField("metadata_props")
    proto.metadata_props.add(key=KEY, value=json.dumps(about, allow_nan=False))
    proto.producer_name, proto.producer_version = "sooner", about["version"]
    data: bytes = proto.SerializeToString()
    return data


def _refuse_fixed(proto: Any, graph: LiveGraph) -> None:
    """A model that asks for `len` of a tensor, not for its shape, makes a constant of the number of streams."""
    for part in proto.graph.input:
        axes = part.type.tensor_type.shape.dim
        if part.name != "threshold" and not axes[0].dim_param:
            evidence = f"{part.name} takes {axes[0].dim_value}"
            raise LawBroken(type(graph.model).__name__, "an exported graph takes any number of streams", evidence)


def _translations() -> dict[Any, Any]:
    """What ONNX has no word for, and what its runtime computes less exactly than torch does."""
    opset = onnx_package("onnxscript").opset18
    return {
        # Of all values only zero has a sign that comparison does not see, and here it never counts.
        torch.ops.prims.signbit.default: lambda x: opset.Less(x, opset.CastLike(0.0, x)),
        # The runtime's own sigmoid differs from torch's by 1e-7, of which 60 steps of an LSTM make 2e-5 in the scores. This
        # one agrees to the last digit but one: 2e-6, for 5 % more time.
        torch.ops.aten.sigmoid.default: lambda x: opset.Reciprocal(
            opset.Add(opset.Exp(opset.Neg(x)), opset.CastLike(1.0, x))
        ),
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says about itself while it exports."""
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
def _try(exported: OnnxStep, classifier: "EarlyClassifier", fold: Fold) -> None:
    """Refuse a graph that does not say what the classifier says."""
    standard, about = classifier.standardizer_, exported.about["observation"]
    random, before, state = np.random.default_rng(0), fold.fresh(2), exported.init(2)
    for time in range(1, _TRIED + 1):
        x = random.normal(size=(2, *about["shape"]))
        x = (x * standard.scale + standard.mean if x.shape[1:] == standard.mean.shape else x).astype(about["type"])
        live, moment = fold.observe(before, fold.read(list(x), torch.device("cpu"))), exported.step(state, x)
        before, state, scores = live.after, moment.state, live.scores.numpy()
        if not np.allclose(moment.scores, scores, rtol=1e-4, atol=1e-4):
            evidence = f"the scores are {np.abs(moment.scores - scores).max():g} apart at time {time}"
            raise LawBroken(type(fold.model).__name__, "an exported graph equals its classifier", evidence)
