"""The exact speed-accuracy curve against a sweep of 200 thresholds on K x K matrices.

The sweep is given its matrices for free (they are built once, outside of the clock) and is vectorised over series, times and
classes, one threshold after another, which is faster and far smaller than all thresholds at once.
"""

import time

import numpy as np
import torch

from measure import finish, seconds
from sooner.data import Gaussian
from sooner.evaluate import sat_curve

SERIES, TIME, CLASSES, THRESHOLDS = 10_000, 100, 10, 200
THREADS = 2


def sweep(ratios: torch.Tensor, labels: torch.Tensor, thresholds: np.ndarray) -> list[tuple[float, float]]:
    points = []
    final = ratios[:, -1].amin(dim=2).argmax(dim=1)
    for threshold in thresholds:
        wins = (ratios >= threshold).all(dim=3)  # (series, time, class); the diagonal holds infinity
        fires = wins.any(dim=2)
        crossed = fires.any(dim=1)
        when = torch.where(crossed, fires.to(torch.uint8).argmax(dim=1), TIME - 1)
        winner = wins[torch.arange(len(labels)), when].to(torch.uint8).argmax(dim=1)
        guess = torch.where(crossed, winner, final)
        recalls = [(guess[labels == k] == k).double().mean() for k in range(CLASSES)]
        points.append((float(when.double().mean() + 1), float(1 - torch.stack(recalls).mean())))
    return points


def main() -> None:
    torch.set_num_threads(THREADS)
    process = Gaussian.equidistant(CLASSES, 0.8)
    observations, labels = process.sample(SERIES, TIME, seed=0)
    scores = process.scores(observations).float()
    curve = sat_curve(scores, labels)
    fast = seconds(lambda: sat_curve(scores, labels), repeats=7)

    chosen = curve.thresholds[np.linspace(0, len(curve) - 2, THRESHOLDS).astype(int)]
    ratios = scores[..., :, None] - scores[..., None, :]
    ratios.diagonal(dim1=2, dim2=3).fill_(torch.inf)
    start = time.perf_counter()
    points = np.array(sweep(ratios, labels, chosen))
    slow = time.perf_counter() - start

    ours = np.searchsorted(curve.thresholds, chosen)
    np.testing.assert_allclose(points[:, 0], curve.mean_times[ours], rtol=1e-6)
    np.testing.assert_allclose(points[:, 1], curve.errors[ours], atol=1e-9)
    print(f"{SERIES} x {TIME} x {CLASSES} scores, float32, {THREADS} threads")
    print(f"  exact curve, {len(curve)} points   {fast:8.3f} s")
    print(f"  sweep of {THRESHOLDS} thresholds      {slow:8.3f} s")
    finish(speedup=slow / fast, points=len(curve), threads=THREADS)


if __name__ == "__main__":
    main()
