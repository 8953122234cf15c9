"""The exceptions and warnings of sooner: a message names the argument, the expected and the given value, and a remedy."""

import difflib
import errno
import math
from collections.abc import Iterable, Sequence
from typing import Any


class SoonerError(Exception):
    """The base class of all errors that sooner raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Python's own would call the constructor with `args`, the sentence alone.
        return _unpickled, (type(self), self.args, self.__dict__)


def _unpickled(cls: type[SoonerError], args: tuple[object, ...], attributes: dict[str, Any]) -> SoonerError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(attributes)
    return error


def short_reason(error: BaseException) -> str:
    """The message of an error in one line of at most 160 characters; its type if there is no message."""
    message = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return message if len(message) <= 160 else f"{message[:157]}..."


class InvalidArgument(SoonerError, ValueError):
    """An argument has a value that the function cannot use.

    >>> raise InvalidArgument("threshold", "at least 0", -1.0, "Below zero a class could win while another one leads.")
    Traceback (most recent call last):
    sooner.errors.InvalidArgument: `threshold` must be at least 0, got -1.0. Below zero a class could win while another one leads.
    """

    def __init__(self, argument: str, expected: str, got: object, remedy: str) -> None:
        sentence = f"`{argument}` must be {expected}, got {got}. {remedy}"
        # One line that a terminal can print, although it may quote any content of files and arrays.
        lines = sentence.encode(errors="backslashreplace").decode().splitlines()
        super().__init__(lines[0] if len(lines) == 1 else " ".join(line.strip() for line in lines))
        self.argument = argument

    def about(self, argument: str) -> "InvalidArgument":
        """The same error with the name of another argument.

        >>> str(InvalidArgument("time", "at least 1", 0, "Times count from 1.").about("threshold"))
        '`threshold` must be at least 1, got 0. Times count from 1.'
        """
        self.args = (str(self).replace(f"`{self.argument}`", f"`{argument}`", 1),)
        self.argument = argument
        return self


class UnknownName(InvalidArgument):
    """A name is unknown; the message suggests the closest known one."""

    def __init__(self, argument: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        nearest = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.4)
        remedy = f"Did you mean {nearest[0]!r}?" if nearest else "No close match."
        super().__init__(argument, f"one of {', '.join(map(repr, names))}", repr(name), remedy)


def refuse_unknown(argument: str, name: object, known: Iterable[str]) -> None:
    """Raise `UnknownName` unless the name is among the known ones."""
    if name not in (names := tuple(known)):
        raise UnknownName(argument, name, names)


class UnreadableFile(InvalidArgument):
    """A file is damaged, or of another type than its name says."""

    def __init__(self, path: str, expected: str, got: str) -> None:
        super().__init__(path, expected, got, "Check the program that wrote this file.")
        self.reason = got


class UnreachableTarget(SoonerError, ValueError):
    """No threshold reaches the target; the message gives the nearest value."""

    def __init__(self, target: str, asked: float, best: float, remedy: str) -> None:
        super().__init__(
            f"No threshold reaches `{target}` of {asked:g} on these data: the nearest is {best:g}. {remedy}"
        )
        self.best = best


class NotCertified(SoonerError, ValueError):
    """No threshold can be certified for what was asked; the message says what these series allow, and what more would.

    >>> str(NotCertified("error at most 5%", 40, 0.0721, 59, seen=0.0)).partition(": ")[2]
    'with these 40 series the least level is 7.3%, and about 59 such series are needed.'
    """

    def __init__(
        self,
        asked: str,
        series: int,
        least_level: float | None,
        needed: int | None,
        *,
        seen: float,
        subject: str = "threshold",
        where: str = "at their ends",
    ) -> None:
        least = f"these {series:,} series allow no level below 100%"
        if least_level is not None:
            # Rounded up, so that what is said can be had.
            least = f"with these {series:,} series the least level is {math.ceil(1000 * least_level - 1e-6) / 10:g}%"
        more = f"more series will not help, as {where} the share of errors is {seen:.2%} already"
        if needed is not None:
            more = f"about {needed:,} such series are needed"
        super().__init__(f'No {subject} can be certified for "{asked}": {least}, and {more}.')
        self.least_level, self.needed = least_level, needed


class PromiseDropped(UserWarning):
    """A file holds a promise that does not fit its model, rule or priors; the model is read without it."""

    def __init__(self) -> None:
        self.finding = "The promise in this file does not fit its model, rule or priors, so it was dropped."
        super().__init__(
            f"{self.finding} Certify the threshold again with `choose_threshold(X, y, max_error=0.05, confidence=0.95)`."
        )


class NearChance(UserWarning):
    """A rule is little better than guessing, or there are too few series to show that it is.

    >>> NearChance("MSPRT(threshold=0.0)", 0.667, 0.71, 0.667, 300).finding.partition(": ")[2]
    'its balanced error on 300 unseen series is 66.7% (with 99% confidence at most 71.0%), and guessing has 66.7%.'
    """

    def __init__(self, rule: str, error: float, at_most: float, chance: float, series: int) -> None:
        self.finding = (
            f"{rule} is near chance: its balanced error on {series:,} unseen series is {error:.1%} (with 99% confidence at "
            f"most {at_most:.1%}), and guessing has {chance:.1%}."
        )
        super().__init__(
            f"{self.finding} `print(clf.menu())` shows what other thresholds reach. If none is better: more series, or other "
            "channels."
        )


class FullSets(UserWarning):
    """Too few calibration series for a coverage: no label can be excluded.

    >>> print(FullSets(0.99, 60, 99))
    Every label set is full: a coverage of 99% needs at least 99 calibration series (or groups, where groups are known), got 60.
    """

    def __init__(self, coverage: float, series: int, needed: int) -> None:
        super().__init__(
            f"Every label set is full: a coverage of {100 * coverage:.6g}% needs at least {needed:,} calibration series (or "
            f"groups, where groups are known), got {series:,}."
        )


class LawBroken(SoonerError, AssertionError):
    """An object violates a law of `sooner.checks`."""

    def __init__(self, subject: object, law: str, evidence: str) -> None:
        super().__init__(f"{subject!r} breaks the law {law!r}: {evidence}")
        self.law = law


class TrainingDiverged(SoonerError, ArithmeticError):
    """The loss is not finite."""

    def __init__(self, step: int, terms: dict[str, float], series: list[int], *, stage: str, lr: float) -> None:
        values = ", ".join(f"{name} = {value:g}" for name, value in terms.items())
        shown = ", ".join(map(str, series[:5])) + (f" and {len(series) - 5} more" if len(series) > 5 else "")
        super().__init__(
            f"The loss at step {step} is not finite ({values}) on {stage} series {shown}. Try a learning rate below {lr:g}, "
            "gradient clipping, or another loss: LSIF, LSIFwC and BARR overflow by definition."
        )
        self.step = step
        self.series = series


class JournalFailed(SoonerError, OSError):
    """The journal of live series cannot be written.

    Attributes:
        full: whether there is no space left; then nothing was changed, and the same can be tried again.

    >>> print(JournalFailed("live/", "No space left on device", full=True))
    The journal in live/ cannot be written: No space left on device. Nothing was taken. Make room, and send it again.
    """

    def __init__(self, folder: str, reason: str, *, full: bool, final: bool = False) -> None:
        remedy = "Nothing was taken. Make room, and send it again."
        if final:
            remedy = "Start the program again: it goes on from what is on the disk."
        elif not full:
            remedy = "Nothing was taken. Check the disk and the rights of the folder."
        super().__init__(f"The journal in {folder} cannot be written: {reason.rstrip('.')}. {remedy}")
        self.full = full
        self.errno = errno.ENOSPC if full else errno.EIO


class NoTrialFinished(SoonerError, RuntimeError):
    """Every trial was pruned or diverged."""

    def __init__(self, study: str, trials: int) -> None:
        super().__init__(
            f"None of the {trials} trial(s) of study {study!r} came to its end. Search lower learning rates, add gradient "
            'clipping, or prune less (pruner="none").'
        )


class WorkersLost(SoonerError, RuntimeError):
    """Workers of a cluster died repeatedly."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(
            f"{what} was given up: its workers died again and again. Look for a lack of memory on their machines. {remedy}"
        )


class SecondBackward(SoonerError, RuntimeError):
    """A second backward pass through a function that allows one."""

    def __init__(self) -> None:
        super().__init__(
            "One backward pass is allowed for each forward pass: it gives its memory back. Add the losses up first."
        )


class FetchFailed(SoonerError, RuntimeError):
    """Every source of a download failed; the message gives the reasons."""

    def __init__(self, what: str, reasons: Sequence[str], remedy: str) -> None:
        super().__init__(f"{what} could not be fetched: {'; '.join(reasons)}. {remedy}")
        self.reasons = tuple(reasons)


class VideosFailed(SoonerError, RuntimeError):
    """Some videos could not be read; the others are done."""

    def __init__(self, failed: Sequence[tuple[str, str]]) -> None:
        remedy = "Replace them and run it again: what is done is kept."
        super().__init__(f"{len(failed)} video(s) {_left_out(failed)} {remedy}")
        self.failed = tuple(failed)


class FilesFailed(SoonerError, RuntimeError):
    """Some files of a table could not be read; the others are done."""

    def __init__(self, failed: Sequence[tuple[str, str]], done: str) -> None:
        remedy = f"The others are done: {done}. Replace them and run it again."
        super().__init__(f"{len(failed)} file(s) {_left_out(failed)} {remedy}")
        self.failed = tuple(failed)


def _left_out(failed: Sequence[tuple[str, str]]) -> str:
    reasons = "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in failed)
    return f"could not be read and were left out ({reasons})."


class PrecisionChanged(UserWarning):
    """A training uses another precision than its settings ask for."""


class UnreachableCluster(SoonerError, ConnectionError):
    """There is no cluster at the address."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"No cluster answers at {address!r} ({reason.rstrip('.')}). Check the address and the firewall, and whether "
            "`ray status` there shows one."
        )
        self.address = address


class OtherVersion(SoonerError, RuntimeError):
    """The machines of a cluster have another version of a package than this machine."""

    def __init__(self, package: str, here: str, there: str) -> None:
        super().__init__(
            f"The cluster has {package} {there}, and this machine has {package} {here}. Install the same version on all of "
            "them."
        )
        self.here, self.there = here, there
