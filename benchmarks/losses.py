"""LSEL in score form against the K x K form: forward and backward, time and bytes of tensors alive at once.

The K x K form is the vectorised one: all ratios lambda_kl of every series and time, log-sum-exp over rivals, the row of the
true class picked at the end. Both are float32, balanced over classes, two threads, in one run.
"""

import torch

from measure import finish, peak_bytes, seconds
from sooner.losses import lsel

B, T, K = 64, 50, 101
THREADS = 2


def matrix_lsel(scores: torch.Tensor, labels: torch.Tensor, class_counts: torch.Tensor) -> torch.Tensor:
    ratios = scores[..., :, None] - scores[..., None, :]
    terms = (-ratios).logsumexp(dim=-1)
    picked = terms.gather(2, labels[:, None, None].expand(-1, scores.shape[1], 1))[..., 0]
    weights = class_counts.sum() / (len(class_counts) * class_counts[labels])
    return (weights[:, None] * picked).mean()


def step(loss, scores: torch.Tensor, labels: torch.Tensor, counts: torch.Tensor):
    leaf = scores.clone().requires_grad_()

    def run() -> torch.Tensor:
        return torch.autograd.grad(loss(leaf, labels, class_counts=counts), leaf)[0]

    return run


def batch(classes: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(classes)
    scores = torch.randn(B, T, classes, generator=generator)
    labels = torch.randint(classes, (B,), generator=generator)
    return scores, labels, torch.randint(50, 150, (classes,), generator=generator).float()


def main() -> None:
    torch.set_num_threads(THREADS)
    data = batch(K)
    ours, theirs = step(lsel, *data), step(matrix_lsel, *data)
    torch.testing.assert_close(ours(), theirs(), rtol=1e-4, atol=1e-7)
    fast, slow = seconds(ours, repeats=101), seconds(theirs, repeats=5)
    lean, fat = peak_bytes(ours), peak_bytes(theirs)
    print(f"LSEL forward + backward, B={B} T={T} K={K}, float32, {THREADS} threads")
    print(f"  score form  {1e3 * fast:9.2f} ms  {lean / 2**20:8.1f} MiB")
    print(f"  K x K form  {1e3 * slow:9.2f} ms  {fat / 2**20:8.1f} MiB")

    print("score form as the number of classes grows")
    costs = {}
    for classes in (125, 250, 500, 1000):
        run = step(lsel, *batch(classes))
        costs[classes] = seconds(run, repeats=31), peak_bytes(run)
        print(f"  K={classes:5d}  {1e3 * costs[classes][0]:9.2f} ms  {costs[classes][1] / 2**20:8.1f} MiB")
    finish(
        speedup=slow / fast,
        memory_ratio=lean / fat,
        time_growth_per_class=costs[1000][0] / costs[125][0] / 8,
        memory_growth_per_class=costs[1000][1] / costs[125][1] / 8,
        threads=THREADS,
    )


if __name__ == "__main__":
    main()
