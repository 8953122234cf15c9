"""One training step of the paper's integrator: forward, multiplet + LSEL, backward, AdamW. Three shapes, two threads, one run.

Two yardsticks. `gemm` is the time of the step's own matrix products and nothing else: the same sizes, contiguous float32, into
preallocated outputs. `plain` is the same cell and the same mathematics as one would write it at first: all windows as one batch,
their inputs projected anew in every window, autograd over eager steps, and losses on vectorised K x K matrices.
"""

import torch
from torch import Tensor, nn

from measure import finish, peak_bytes
from sooner.losses import lsel, multiplet
from sooner.models import Recurrent
from sooner.scores import m_tandem

SHAPES = {
    "a": {"batch": 500, "time": 20, "order": 15, "channels": 128, "hidden": 128, "classes": 10},
    "b": {"batch": 100, "time": 100, "order": 25, "channels": 128, "hidden": 128, "classes": 10},
    "c": {"batch": 64, "time": 50, "order": 10, "channels": 2048, "hidden": 256, "classes": 101},
}
THREADS = 2


class Plain(nn.Module):
    """The yardstick: the parameters of a `Recurrent`, used the plain way."""

    def __init__(self, model: Recurrent) -> None:
        super().__init__()
        self.model, self.positions = model, model.order + 1

    def forward(self, x: Tensor) -> Tensor:
        cell = self.model.cell
        batch, starts = len(x), x.shape[1] - self.positions + 1
        windows = x.unfold(1, self.positions, 1).permute(0, 1, 3, 2).reshape(batch * starts, self.positions, -1)
        p_i, p_f, p_o = cell.peepholes
        h = c = x.new_zeros(batch * starts, cell.hidden)
        shown = []
        for j in range(self.positions):
            sums = windows[:, j] @ cell.input.T + cell.bias.flatten() + h @ cell.recurrent.T
            i, f, g, o = sums.chunk(4, dim=1)
            i, f = torch.sigmoid(i + p_i * c), torch.sigmoid(f + p_f * c)
            c = f * c + i * torch.tanh(g)
            h = torch.sigmoid(o + p_o * c) * torch.tanh(c)
            shown.append(h)
        hidden = torch.stack(shown, dim=1).flatten(0, 1)
        logits = self.model.readout.linear(torch.tanh(self.model.readout.norm(hidden)))
        return logits.view(batch, starts, self.positions, -1)


def matrix_losses(logits: Tensor, scores: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
    """Multiplet and LSEL from K x K matrices of ratios."""

    def rows(values: Tensor) -> Tensor:
        terms = (values[..., None, :] - values[..., :, None]).logsumexp(dim=-1)
        index = labels.view(-1, *(1 for _ in values.shape[1:])).expand(*values.shape[:-1], 1)
        return terms.gather(-1, index)[..., 0]

    weights = counts.sum() / (len(counts) * counts[labels])
    return rows(logits).mean() + (weights[:, None] * rows(scores)).mean()


def our_losses(logits: Tensor, scores: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
    return multiplet(logits, labels) + lsel(scores, labels, class_counts=counts)


def training_step(forward, model: nn.Module, losses, x: Tensor, labels: Tensor, counts: Tensor):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def run() -> Tensor:
        logits = forward(x)
        loss = losses(logits, m_tandem(logits), labels, counts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return run


def matrix_products(*, batch: int, time: int, order: int, channels: int, hidden: int, classes: int):
    """Every matrix product of one step, each as `mm` of contiguous matrices into its own output."""
    rows, positions, gates = batch * (time - order), order + 1, 4 * hidden
    sizes = [(batch * time, channels, gates), (channels, batch * time, gates)]
    sizes += order * [(rows, hidden, gates), (rows, gates, hidden), (hidden, rows, gates)]
    reads = rows * positions
    sizes += [(reads, hidden, classes), (reads, classes, hidden), (hidden, reads, classes)]
    made = {
        size: (torch.randn(size[0], size[1]), torch.randn(size[1], size[2]), torch.empty(size[0], size[2]))
        for size in sizes
    }

    def run() -> None:
        for size in sizes:
            left, right, out = made[size]
            torch.mm(left, right, out=out)

    return run


def interleaved(functions: dict, *, rounds: int) -> dict[str, float]:
    """The median time of each, taken in turns so that a slow moment of the machine falls on all of them."""
    import time

    for function in functions.values():
        function()
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: sorted(values)[len(values) // 2] for name, values in times.items()}


def measure(name: str, rounds: int) -> dict[str, float]:
    shape = SHAPES[name]
    torch.manual_seed(0)
    x = torch.randn(shape["batch"], shape["time"], shape["channels"])
    labels = torch.randint(shape["classes"], (shape["batch"],))
    counts = torch.full((shape["classes"],), 100.0)
    model = Recurrent((shape["channels"],), shape["classes"], hidden=shape["hidden"], order=shape["order"])
    plain = Plain(model)
    with torch.no_grad():
        torch.testing.assert_close(model(x).logits, plain(x), rtol=1e-3, atol=1e-4)
    ours = training_step(lambda data: model(data).logits, model, our_losses, x, labels, counts)
    theirs = training_step(plain, plain, matrix_losses, x, labels, counts)
    seconds = interleaved({"gemm": matrix_products(**shape), "ours": ours, "plain": theirs}, rounds=rounds)
    lean, fat = peak_bytes(ours), peak_bytes(theirs)
    lean += kept_bytes(model)
    print(f"{name.upper()}: {' '.join(f'{key}={value}' for key, value in shape.items())}")
    print(f"   matrix products alone {1e3 * seconds['gemm']:9.1f} ms")
    print(f"   ours                  {1e3 * seconds['ours']:9.1f} ms  {lean / 2**20:9.0f} MiB")
    print(f"   plain                 {1e3 * seconds['plain']:9.1f} ms  {fat / 2**20:9.0f} MiB")
    return {
        f"gemm_ratio_{name}": seconds["ours"] / seconds["gemm"],
        f"speedup_{name}": seconds["plain"] / seconds["ours"],
        f"memory_ratio_{name}": lean / fat,
    }


def kept_bytes(model: Recurrent) -> int:
    """The workspace outlives a step, so a step that finds it there does not allocate it: it counts all the same."""
    return sum(piece.numel() * piece.element_size() for piece in model.cell.workspace._idle)


def main() -> None:
    torch.set_num_threads(THREADS)
    print(f"one training step, float32, {THREADS} threads; medians of steps taken in turns")
    ratios: dict[str, float] = {}
    for name, rounds in (("a", 9), ("b", 5), ("c", 9)):
        ratios |= measure(name, rounds)
    finish(**ratios, threads=THREADS)


if __name__ == "__main__":
    main()
