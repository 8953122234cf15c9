"""One training step of the paper's integrator: forward, multiplet + LSEL, backward, AdamW. Three shapes, one and two threads.

And one live observation of one series, with windows of 26 observations and with full memory, beside its own matrix products.

Two yardsticks. `gemm` is the time of the step's own matrix products and nothing else: the same sizes, contiguous float32, into
preallocated outputs. `plain` is the same cell and the same mathematics as one would write it at first: all windows as one batch,
their inputs projected anew in every window, autograd over eager steps, and losses on vectorised K x K matrices.
"""

import time

import torch
from torch import Tensor, nn

from measure import finish, peak_bytes
from sooner.losses import lsel, multiplet
from sooner.models import Recurrent
from sooner.models.recurrent.fused.build import fused_for
from sooner.rules import MSPRT
from sooner.scores import m_tandem

SHAPES = {
    "a": {"batch": 500, "time": 20, "order": 15, "channels": 128, "hidden": 128, "classes": 10},
    "b": {"batch": 100, "time": 100, "order": 25, "channels": 128, "hidden": 128, "classes": 10},
    "c": {"batch": 64, "time": 50, "order": 10, "channels": 2048, "hidden": 256, "classes": 101},
}
THREADS = (1, 2)
LIMIT = 20.0  # seconds of a shape


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
    """The median time of each, taken in turns so that a slow moment of the machine falls on all of them.

    On a busy machine there are fewer rounds: after the limit, none is begun but the third.
    """
    for function in functions.values():
        function()
    times, begun = {name: [] for name in functions}, time.perf_counter()
    for done in range(rounds):
        if done >= 3 and time.perf_counter() - begun > LIMIT:
            break
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: sorted(values)[len(values) // 2] for name, values in times.items()}


def measure(name: str, rounds: int, *, with_plain: bool) -> dict[str, float]:
    """The ratios of a shape; the plain way, which takes most of the time, only where it is wanted."""
    shape = SHAPES[name]
    torch.manual_seed(0)
    x = torch.randn(shape["batch"], shape["time"], shape["channels"])
    labels = torch.randint(shape["classes"], (shape["batch"],))
    counts = torch.full((shape["classes"],), 100.0)
    model = Recurrent((shape["channels"],), shape["classes"], hidden=shape["hidden"], order=shape["order"])
    ours = training_step(lambda data: model(data).logits, model, our_losses, x, labels, counts)
    functions = {"gemm": matrix_products(**shape), "ours": ours}
    if with_plain:
        plain = Plain(model)
        with torch.no_grad():
            torch.testing.assert_close(model(x).logits, plain(x), rtol=1e-3, atol=1e-4)
        functions["plain"] = training_step(plain, plain, matrix_losses, x, labels, counts)
    seconds = interleaved(functions, rounds=rounds)
    threads = torch.get_num_threads()
    print(f"{name.upper()}: {' '.join(f'{key}={value}' for key, value in shape.items())}, {threads} thread(s)")
    print(f"   matrix products alone {1e3 * seconds['gemm']:9.1f} ms")
    print(f"   ours                  {1e3 * seconds['ours']:9.1f} ms")
    ratios = {f"gemm_ratio_{name}_{threads}": seconds["ours"] / seconds["gemm"]}
    if with_plain:
        lean, fat = peak_bytes(ours) + kept_bytes(model), peak_bytes(functions["plain"])
        print(f"   plain                 {1e3 * seconds['plain']:9.1f} ms")
        print(f"   memory: ours {lean / 2**20:.0f} MiB, plain {fat / 2**20:.0f} MiB")
        ratios |= {f"speedup_{name}": seconds["plain"] / seconds["ours"], f"memory_ratio_{name}": lean / fat}
    return ratios


def kept_bytes(model: Recurrent) -> int:
    """The workspace outlives a step, so a step that finds it there does not allocate it: it counts all the same."""
    return sum(piece.numel() * piece.element_size() for piece in model.cell.workspace._idle)


def live_step(order: int | None, *, repeats: int = 400) -> tuple[float, float]:
    """Median seconds of one observation of one series through model and rule, and of its matrix products."""
    model = Recurrent((128,), 10, hidden=128, order=order).eval()
    rule, observation = MSPRT(1e9), torch.randn(1, 128)
    state, decided = model.init(1), rule.init(1)
    windows = order or 1
    sizes = ((1, 128, 512), (windows, 128, 512), (1 if order is None else 2, 128, 10))
    products = [(torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)) for m, k, n in sizes]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        start = time.perf_counter()
        state, scores, _ = model.step(state, observation)
        decided, _, _ = rule.step(decided, scores)
        middle = time.perf_counter()
        for left, right, out in products:
            torch.mm(left, right, out=out)
        end = time.perf_counter()
        times[0].append(middle - start)
        times[1].append(end - middle)
    return sorted(times[0])[repeats // 2], sorted(times[1])[repeats // 2]


def main() -> None:
    ratios: dict[str, float] = {}
    compiled = fused_for(torch.zeros(1), Recurrent((1,), 2, hidden=1, order=1).cell.activation) is not None
    print(f"float32, medians of steps taken in turns; compiled kernel: {'yes' if compiled else 'no'}")
    for threads in THREADS:
        torch.set_num_threads(threads)
        for name, rounds in (("a", 9), ("b", 5), ("c", 9)):
            ratios |= measure(name, rounds, with_plain=threads == THREADS[0])
        for key, order in (("25", 25), ("full", None)):
            ours, products = live_step(order)
            print(f"live, order {key}, {threads} thread(s): {1e3 * ours:.3f} ms, products {1e3 * products:.3f} ms")
            ratios |= {f"live_ms_{key}_{threads}": 1e3 * ours, f"live_ratio_{key}_{threads}": ours / products}
    finish(**ratios, compiled=compiled)


if __name__ == "__main__":
    main()
