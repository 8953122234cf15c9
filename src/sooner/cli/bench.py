"""`sooner bench`."""

import time
from typing import Annotated

import numpy as np
import torch
from typer import Option

from sooner.cli.options import ModelFile
from sooner.cli.screen import Screen
from sooner.estimator import EarlyClassifier, load
from sooner.rules import MSPRT


def bench(
    model: ModelFile,
    streams: Annotated[int, Option(min=1, help="Number of live series in the second row.")] = 1000,
    threads: Annotated[int, Option(min=1, help="Number of threads.")] = 1,
    *,
    screen: Screen,
) -> None:
    """Measure the time and memory per live observation on this machine.

    The observations are noise, and the threshold is infinite, so that no series is decided. The cost does not depend on the
    observed values or on the number of earlier observations, as the last column shows.

    Example: `sooner bench pumps.sooner`
    """
    clf = load(model)
    torch.set_num_threads(threads)
    rows = []
    with screen.status("measuring"):
        for count in (1, streams):
            early, late = _seconds(clf, count)
            rows.append({"streams": count, "microseconds": 1e6 * early / count, "late_over_early": late / early})
    size = clf.stream(keyed=True).bytes_per_stream
    screen.table(
        f"One live observation of {model.name} ({clf.model_name_}), {threads} thread(s)",
        ["live series", "microseconds each", "observations 301-400 over 1-100"],
        [(f"{row['streams']:,}", f"{row['microseconds']:.1f}", f"{row['late_over_early']:.2f}") for row in rows],
    )
    screen.result(f"Memory: {size:,} bytes for each live series; it does not grow.")
    screen.json({"rows": rows, "bytes_per_stream": size, "threads": threads})


def _seconds(clf: EarlyClassifier, streams: int) -> tuple[float, float]:
    """The mean seconds of an update over observations 1 to 100, and over 301 to 400."""
    mean, scale = clf.standardizer_.mean, clf.standardizer_.scale
    clf.stream(keyed=True).update({0: mean})  # the first call is slow
    fleet = clf.stream(keyed=True)
    fleet.rule = MSPRT(float("inf"))
    observations = dict(enumerate(np.random.default_rng(0).normal(mean, scale, (streams, mean.shape[0]))))
    seconds = []
    for _ in range(400):
        start = time.perf_counter()
        fleet.update(observations)
        seconds.append(time.perf_counter() - start)
    return float(np.mean(seconds[:100])), float(np.mean(seconds[300:]))
