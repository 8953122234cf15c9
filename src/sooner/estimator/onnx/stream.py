"""Exported graphs, run by ONNX Runtime and NumPy alone; see `sooner.estimator.onnx.export`."""

import json
from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sooner.errors import InvalidArgument, UnknownName
from sooner.estimator.dial import rule_for
from sooner.extras import optional
from sooner.inputs import as_whole
from sooner.rules import MSPRT, Rule, ThresholdRule
from sooner.rules.base import NO_CLASS
from sooner.rules.described import rule_described
from sooner.stream.fold import AtEnd, Decision
from sooner.types import BoolArray, FloatArray, IntArray

KEY, FORMAT = "sooner", 1
"""The metadata key of a graph's description, and the version of its format."""
_REMEDY = "`export_step` writes one."


class OnnxResult(NamedTuple):
    """The result of one observation of each stream: scores, the outputs of the rule, and the next state."""

    scores: npt.NDArray[np.float32]
    statistic: FloatArray
    fired: BoolArray
    label: IntArray
    state: tuple[npt.NDArray[Any], ...]


class OnnxStep:
    """An exported graph, from a file or its bytes, for any number of streams; `about` is its description."""

    def __init__(self, source: str | PathLike[str] | bytes) -> None:
        runtime = onnx_package("onnxruntime")
        if not isinstance(source, bytes) and not Path(source).is_file():
            raise InvalidArgument("path", "an .onnx file", f"{source}, which is not there", _REMEDY)
        options = runtime.SessionOptions()
        # One observation is too little work for several threads.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        try:
            self._session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            self.about: Mapping[str, Any] = json.loads(self._session.get_modelmeta().custom_metadata_map[KEY])
        except Exception:  # ONNX Runtime raises unrelated exceptions for unreadable files
            name = "bytes" if isinstance(source, bytes) else source
            raise InvalidArgument("path", "an .onnx file of sooner", f"{name}, which is none", _REMEDY) from None
        if self.about["format"] > FORMAT:
            got, remedy = f"version {self.about['format']}", "Update sooner to read it."
            raise InvalidArgument("path", f"an .onnx file of version {FORMAT} of its format", got, remedy)
        self._inputs = [entry["input"] for entry in self.about["state"]]
        threshold = self.about["threshold"]
        self._threshold = None if threshold is None else np.array(threshold, np.float64)

    def init(self, streams: int) -> tuple[npt.NDArray[Any], ...]:
        """The state of new series: the number of observations that were read, and the states of model and rule."""
        return tuple(
            np.array(np.broadcast_to(np.array(entry["initial"], entry["type"]), (streams, *entry["shape"])))
            for entry in self.about["state"]
        )

    def step(
        self, state: tuple[npt.NDArray[Any], ...], observation: npt.ArrayLike, threshold: Any = None
    ) -> OnnxResult:
        """Read one observation of each stream, (streams, channels) as measured; the default threshold is that of the export."""
        inputs = dict(zip(self._inputs, state, strict=True))
        inputs["observation"] = np.asarray(observation, self.about["observation"]["type"])
        if self._threshold is not None:
            value = self._threshold if threshold is None else np.array(threshold, np.float64)
            inputs["threshold"] = np.broadcast_to(value, self._threshold.shape)
        scores, statistic, fired, label, *after = self._session.run(None, inputs)
        return OnnxResult(scores, statistic, fired, label, tuple(after))


class OnnxStream:
    """One live series, decided by an exported graph as `EarlyClassifier.stream` decides it.

    Args:
        path: a file that `export_step` wrote.
        threshold: by default that of the export. It may be changed at any time.
        deadline: maximum number of observations per decision.
        at_end: if the rule has not fired by then, "force" names the leading class, and "abstain" gives None.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        threshold: Any = None,
        *,
        deadline: int | None = None,
        at_end: AtEnd = "force",
    ) -> None:
        if at_end not in ("force", "abstain"):
            raise UnknownName("at_end", at_end, ("force", "abstain"))
        remedy = "It counts observations from 1; None lets a series go on."
        self.deadline = None if deadline is None else as_whole(deadline, name="deadline", low=1, remedy=remedy)
        self.at_end = at_end
        self.graph = OnnxStep(path)
        self.classes: list[Any] = self.graph.about["classes"]
        self._rule = rule_described(_with_numbers(self.graph.about["rule"]))
        if threshold is not None:
            self.threshold = threshold
        self.restart()

    def restart(self) -> None:
        """Begin a new series; the threshold is kept."""
        self._state = self.graph.init(1)
        self.scores: FloatArray | None = None
        self.decision: Decision | None = None

    def update(self, observation: npt.ArrayLike) -> Decision | None:
        """Read the next observation; returns the decision if the rule fires or the deadline is reached, else None."""
        if self.decision is not None:
            got, remedy = f"one after {self.decision}", "Call restart() for the next series."
            raise InvalidArgument("observation", "of a series that is still open", got, remedy)
        result = self.graph.step(self._state, self._checked(observation), self.threshold)
        time = int(result.state[0][0])
        if not np.isfinite(result.scores).all():
            got, remedy = f"{result.scores[0].tolist()} at time {time}", "Look for an overflow in what was given."
            raise InvalidArgument("scores", "finite", got, remedy)
        self._state, self.scores = result.state, result.scores[0].astype(np.float64)
        if result.fired[0]:
            label = int(result.label[0])
            self.decision = Decision(None if label == NO_CLASS else self.classes[label], time, True)
        elif self.deadline is not None and time >= self.deadline:
            self.finish()
        return self.decision

    def finish(self) -> Decision:
        """End the series; returns its decision, which is forced if the rule has not fired."""
        if self.decision is None:
            if self.scores is None:
                remedy = "Without an observation there is nothing to decide."
                raise InvalidArgument("stream", "one with observations to be finished", "none", remedy)
            name = self.classes[int(self.scores.argmax())] if self.at_end == "force" else None
            self.decision = Decision(name, int(self._state[0][0]), False)
        return self.decision

    @property
    def rule(self) -> Rule:
        """The rule; `threshold` changes it."""
        return self._rule

    @property
    def threshold(self) -> Any:
        """A number, a K x K matrix, or None for a rule without a threshold; it applies from the next observation on."""
        return threshold_of(self._rule)

    @threshold.setter
    def threshold(self, value: Any) -> None:
        rule = rule_for(value, self._rule, MSPRT, len(self.classes), halts=True)
        # A graph with a single threshold cannot take a matrix; one with a matrix fills it with a number.
        if type(rule) is not type(self._rule) or np.ndim(threshold_of(rule)) > np.ndim(self.graph.about["threshold"]):
            remedy = "Export the classifier again with that rule."
            raise InvalidArgument("threshold", f"one for the exported {self._rule!r}", repr(value), remedy)
        self._rule = rule

    def _checked(self, observation: npt.ArrayLike) -> npt.NDArray[Any]:
        about = self.graph.about["observation"]
        x, shape = np.asarray(observation, about["type"]), tuple(about["shape"])
        x = x[None] if x.ndim == 0 else x  # a number is an observation with one channel
        if x.shape != shape:
            remedy = "That is what the model reads."
            raise InvalidArgument("observation", f"of shape {shape}", f"shape {x.shape}", remedy)
        bad = np.argwhere(np.isinf(x) if about["missing"] == "mask" else ~np.isfinite(x))
        if len(bad):
            got = f"{float(x[tuple(bad[0])])} at {', '.join(map(str, bad[0]))} (counted from 0)"
            remedy = "Leave it out, or use a model that was fitted with missing values."
            raise InvalidArgument("observation", "finite", got, remedy)
        return x[None]


def threshold_of(rule: Rule) -> Any:
    """The threshold of a rule that has one."""
    return rule.cutoff if isinstance(rule, ThresholdRule) else None


def onnx_package(package: str) -> Any:
    """A package of the extra `onnx`."""
    with optional("export", f"made and run with {package}"):
        return import_module(package)


def _with_numbers(value: Any) -> Any:
    """A rule's description with numbers instead of the text "inf"."""
    if isinstance(value, Mapping):
        return {name: _with_numbers(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_with_numbers(entry) for entry in value]
    return float(value) if isinstance(value, str) else value
