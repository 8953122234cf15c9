"""Exported graphs at work: NumPy and ONNX Runtime decide, as a device would; see `sooner.estimator.onnx.export`."""

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
"""Where a graph says in its metadata what it is, and the version of how it says so."""
_REMEDY = "`export_step` writes one."


class OnnxResult(NamedTuple):
    """What one observation of each stream did: scores, what the rule says, and the state from now on."""

    scores: npt.NDArray[np.float32]
    statistic: FloatArray
    fired: BoolArray
    label: IntArray
    state: tuple[npt.NDArray[Any], ...]


class OnnxStep:
    """An exported graph for any number of streams, and what it says about itself (`about`).

    Args:
        source: a file that `export_step` wrote, or its bytes.
    """

    def __init__(self, source: str | PathLike[str] | bytes) -> None:
        runtime = onnx_package("onnxruntime")
        if not isinstance(source, bytes) and not Path(source).is_file():
            raise InvalidArgument("path", "an .onnx file", f"{source}, which is not there", _REMEDY)
        options = runtime.SessionOptions()
        # One observation is too little work to be shared among threads.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        try:
            self._session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            self.about: Mapping[str, Any] = json.loads(self._session.get_modelmeta().custom_metadata_map[KEY])
        except Exception:  # nothing smaller is common to what ONNX Runtime raises for a file that it cannot read
            name = "bytes" if isinstance(source, bytes) else source
            raise InvalidArgument("path", "an .onnx file of sooner", f"{name}, which is none", _REMEDY) from None
        if self.about["format"] > FORMAT:
            got, remedy = f"version {self.about['format']}", "Update sooner to read it."
            raise InvalidArgument("path", f"an .onnx file of version {FORMAT} of its format", got, remedy)
        self._inputs = [part["input"] for part in self.about["state"]]
        dial = self.about["threshold"]
        self._dial = None if dial is None else np.array(dial, np.float64)

    def init(self, streams: int) -> tuple[npt.NDArray[Any], ...]:
        """The state of new series: how many observations they have read, and what is remembered of these."""
        return tuple(
            np.array(np.broadcast_to(np.array(part["initial"], part["type"]), (streams, *part["shape"])))
            for part in self.about["state"]
        )

    def step(
        self, state: tuple[npt.NDArray[Any], ...], observation: npt.ArrayLike, threshold: Any = None
    ) -> OnnxResult:
        """Take one observation of each stream in.

        Args:
            state: of `init`, or of the last moment.
            observation: (streams, channels), as they were measured.
            threshold: the dial; by default as it stood when the graph was exported.
        """
        read = dict(zip(self._inputs, state, strict=True))
        read["observation"] = np.asarray(observation, self.about["observation"]["type"])
        if self._dial is not None:
            dial = (
                self._dial if threshold is None else np.broadcast_to(np.array(threshold, np.float64), self._dial.shape)
            )
            read["threshold"] = dial
        scores, statistic, fired, label, *after = self._session.run(None, read)
        return OnnxResult(scores, statistic, fired, label, tuple(after))


class OnnxStream:
    """One live series, decided by an exported graph as `EarlyClassifier.stream` decides it.

    Args:
        path: a file that `export_step` wrote.
        threshold: the dial; by default as it stood when the graph was exported. It may be changed at any time.
        deadline: by that observation a decision is made, whatever the rule says.
        at_end: where the rule has not fired by then, "force" names the leader and "abstain" no class.
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
        """A new series begins; the dial stays."""
        self._state = self.graph.init(1)
        self.scores: FloatArray | None = None
        self.decision: Decision | None = None

    def update(self, observation: npt.ArrayLike) -> Decision | None:
        """Take the next observation in: the decision if the rule fires now or the deadline has come, and else None."""
        if self.decision is not None:
            got, remedy = f"one after {self.decision}", "Call restart() for the next series."
            raise InvalidArgument("observation", "of a series that is still open", got, remedy)
        moment = self.graph.step(self._state, self._admitted(observation), self.threshold)
        time = int(moment.state[0][0])
        if not np.isfinite(moment.scores).all():
            got, remedy = f"{moment.scores[0].tolist()} at time {time}", "Look for an overflow in what was given."
            raise InvalidArgument("scores", "finite", got, remedy)
        self._state, self.scores = moment.state, moment.scores[0].astype(np.float64)
        if moment.fired[0]:
            label = int(moment.label[0])
            self.decision = Decision(None if label == NO_CLASS else self.classes[label], time, True)
        elif self.deadline is not None and time >= self.deadline:
            self.finish()
        return self.decision

    def finish(self) -> Decision:
        """The series has ended: its decision, by force where the rule has not fired."""
        if self.decision is None:
            if self.scores is None:
                remedy = "Without an observation there is nothing to decide."
                raise InvalidArgument("stream", "one with observations to be finished", "none", remedy)
            name = self.classes[int(self.scores.argmax())] if self.at_end == "force" else None
            self.decision = Decision(name, int(self._state[0][0]), False)
        return self.decision

    @property
    def rule(self) -> Rule:
        """What decides; `threshold` changes it."""
        return self._rule

    @property
    def threshold(self) -> Any:
        """The dial: a number, a K x K matrix, or None for a rule without one; it counts from the next observation on."""
        return dial_of(self._rule)

    @threshold.setter
    def threshold(self, value: Any) -> None:
        rule = rule_for(value, self._rule, MSPRT, len(self.classes), halts=True)
        # A graph that compares one number cannot take a matrix; one with a matrix fills it with a number.
        if type(rule) is not type(self._rule) or np.ndim(dial_of(rule)) > np.ndim(self.graph.about["threshold"]):
            remedy = "Export the classifier again with that rule."
            raise InvalidArgument("threshold", f"one for the exported {self._rule!r}", repr(value), remedy)
        self._rule = rule

    def _admitted(self, observation: npt.ArrayLike) -> npt.NDArray[Any]:
        about = self.graph.about["observation"]
        x, shape = np.asarray(observation, about["type"]), tuple(about["shape"])
        x = x[None] if x.ndim == 0 else x  # a number is an observation of one channel
        if x.shape != shape:
            remedy = "That is what the model reads."
            raise InvalidArgument("observation", f"of shape {shape}", f"shape {x.shape}", remedy)
        stray = np.argwhere(np.isinf(x) if about["missing"] == "mask" else ~np.isfinite(x))
        if len(stray):
            got = f"{float(x[tuple(stray[0])])} at {', '.join(map(str, stray[0]))} (counted from 0)"
            remedy = "Leave it out, or use a model that was fitted with missing values."
            raise InvalidArgument("observation", "finite", got, remedy)
        return x[None]


def dial_of(rule: Rule) -> Any:
    """The threshold of a rule that has one."""
    return rule.cutoff if isinstance(rule, ThresholdRule) else None


def onnx_package(package: str) -> Any:
    """A package of the extra `onnx`, or the sentence that says how to get it."""
    with optional("export", f"made and run with {package}"):
        return import_module(package)


def _with_numbers(value: Any) -> Any:
    """A rule's description, with infinity where JSON has a text."""
    if isinstance(value, Mapping):
        return {name: _with_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_with_numbers(part) for part in value]
    return float(value) if isinstance(value, str) else value
