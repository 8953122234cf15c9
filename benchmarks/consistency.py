"""Consistency, seen: learned scores approach the exact ones as the training set grows, and so does the sequential test.

Each row trains the paper's integrator on series of a process whose scores are known, and compares both on 4,000 fresh series:
`score_error` is the root mean square of learned minus exact scores (both centred over classes), relative to that of the exact
ones; `area` is the relative area between the speed-accuracy curves of the learned and the exact test. Both are means over seeds
of initial weights and batches. Each training takes at least 1,500 steps and 60 passes, the learning rate falling to zero.
Finished rows are kept in the record, so that a run that was cut goes on where it was.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from measure import finish
from sooner.data import AR1, Gaussian
from sooner.evaluate import sat_curve
from sooner.models import build_model
from sooner.series import Series
from sooner.train import train
from sooner.train.settings import Settings, changed, to_dict

RECORD = Path(__file__).parents[1] / "results" / "consistency.json"
TIME, FRESH, THREADS, SEEDS = 20, 4000, 2, (0, 1, 2)
PROCESSES = {"gaussian": Gaussian.equidistant(3, 0.8), "ar1": AR1((-0.5, 0.0, 0.5))}
ROWS = [
    *(("gaussian", 0, series) for series in (1000, 4000, 16000)),
    *(("ar1", 1, series) for series in (1000, 4000, 16000)),
    ("ar1", 0, 16000),
    ("ar1", 3, 16000),
]
SETTINGS = changed(
    Settings(),
    {
        "model.hidden": 32,
        # With tanh the scores of rare large observations saturate, whatever the number of series: most of the error then stays.
        "model.activation": "b2bsqrt",
        "loss.weights.lsel": 1.0,
        "optimizer.lr": 2e-2,
        "optimizer.weight_decay": 0.0,
        "optimizer.schedule": "cosine",
        "training.batch_size": 250,
        "training.device": "cpu",
    },
)


def run(name: str, order: int, series: int, settings: Settings = SETTINGS) -> dict[str, float]:
    """Train on that many series, and compare with the exact scores on fresh ones."""
    process = PROCESSES[name]
    steps = max(1500, 60 * series // settings.training.batch_size)
    # One validation, at the end: the last weights are judged, not those of a lucky moment.
    settings = changed(settings, {"training.iterations": steps, "training.validate_every": steps})
    training = Series.from_arrays(*_single(process.sample(series, TIME, seed=1)))
    validation = Series.from_arrays(*_single(process.sample(2000, TIME, seed=2)))
    torch.manual_seed(settings.training.seed)
    features = (training.observations.shape[2],)
    model = build_model(changed(settings, {"model.order": order}).model, features, process.classes)
    start = time.perf_counter()
    train(model, training, validation, settings)
    seconds = time.perf_counter() - start
    observations, labels = process.sample(FRESH, TIME, seed=3)
    with torch.no_grad():
        learned = model.scores(observations.float()).double()
    return {**compare(learned, process.scores(observations), labels), "steps": steps, "seconds": round(seconds, 1)}


def compare(learned: torch.Tensor, exact: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    centred = [scores - scores.mean(dim=2, keepdim=True) for scores in (learned, exact)]
    error = (centred[0] - centred[1]).square().mean().sqrt() / centred[1].square().mean().sqrt()
    times = np.linspace(1, TIME, 400)
    ours, theirs = (sat_curve(scores, labels).error_at(times) for scores in (learned, exact))
    return {"score_error": round(float(error), 4), "area": round(float(np.abs(ours - theirs).sum() / theirs.sum()), 4)}


def _single(sample: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return sample[0].float(), sample[1]


def main() -> None:
    torch.set_num_threads(THREADS)
    record = {"command": "python benchmarks/consistency.py", "settings": to_dict(SETTINGS), "rows": {}}
    if RECORD.exists() and "--again" not in sys.argv:
        record = json.loads(RECORD.read_text())
    print(f"{'process':10s} {'order':>5s} {'series':>7s} {'score error':>12s} {'area':>7s}")
    for name, order, series in ROWS:
        key = f"{name}, order {order}, {series} series"
        if key not in record["rows"]:
            runs = [run(name, order, series, changed(SETTINGS, {"training.seed": seed})) for seed in SEEDS]
            means = {key: round(sum(each[key] for each in runs) / len(runs), 4) for key in runs[0]}
            record["rows"][key] = {**means, "seeds": runs}
            RECORD.parent.mkdir(exist_ok=True)
            RECORD.write_text(json.dumps(record, indent=1) + "\n")
        row = record["rows"][key]
        print(f"{name:10s} {order:5d} {series:7d} {row['score_error']:12.4f} {row['area']:7.4f}", flush=True)
    rows = record["rows"]
    finish(
        gaussian_area=rows["gaussian, order 0, 16000 series"]["area"],
        ar1_area=rows["ar1, order 1, 16000 series"]["area"],
        gaussian_gain=rows["gaussian, order 0, 1000 series"]["score_error"]
        / rows["gaussian, order 0, 16000 series"]["score_error"],
        ar1_gain=rows["ar1, order 1, 1000 series"]["score_error"] / rows["ar1, order 1, 16000 series"]["score_error"],
    )


if __name__ == "__main__":
    main()
