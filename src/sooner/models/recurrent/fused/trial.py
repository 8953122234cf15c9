"""The program of the child process: the compiled kernel, in training and live, compared with PyTorch's operations in float64."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

DISAGREES = 3
"""Exit code for wrong results; 0 is success, and 1 is Python's own for an exception."""
_TOLERANCE = 1e-4  # of the norm; rounding costs about 1e-6


def main(file: str) -> int:
    """Compare values, gradients and live scores, and return the exit code."""
    import torch
    from torch import Tensor

    from sooner.models.recurrent import model as recurrent_model
    from sooner.models.recurrent.activations import ACTIVATIONS
    from sooner.models.recurrent.fused.library import Library
    from sooner.models.recurrent.fused.windows import fused_windows
    from sooner.models.recurrent.kernel import Workspace, lstm_windows

    torch.set_num_threads(1)
    torch.manual_seed(0)  # for the weights of models
    library, generator = Library(file), torch.Generator().manual_seed(0)

    def results(tensors: list[Tensor], positions: int, activation: str) -> list[Tensor]:
        """Hidden states and gradients, from the compiled kernel in float32 and from PyTorch's in float64."""
        projected, recurrent, *peepholes = leaves = [tensor.clone().requires_grad_() for tensor in tensors]
        diagonal = peepholes[0] if peepholes else None
        options: dict[str, Any] = {
            "positions": positions,
            "activation": ACTIVATIONS[activation],
            "workspace": Workspace(),
        }
        if projected.dtype == torch.float32:
            torch.set_num_threads(2)
            hidden = fused_windows(library, projected, recurrent, diagonal, **options)
        else:
            by_gate = (
                projected.unflatten(2, (4, -1)).permute(2, 1, 0, 3),
                recurrent.unflatten(1, (4, -1)).transpose(0, 1),
            )
            hidden = lstm_windows(*by_gate, diagonal, **options).unflatten(1, (-1, len(projected))).transpose(1, 2)
        value = hidden.detach().double().clone()
        weights = torch.linspace(-1, 1, hidden.numel(), dtype=hidden.dtype).view(hidden.shape)
        gradients = torch.autograd.grad((hidden * weights).sum(), leaves)
        torch.set_num_threads(1)
        return [value, *(gradient.double() for gradient in gradients)]

    def agree(right: list[Tensor], tried: list[Tensor]) -> bool:
        """Whether the results are the same up to rounding; False for NaN."""
        pairs = zip(right, tried, strict=True)
        return all(float((one - other).norm()) <= _TOLERANCE * (float(one.norm()) + 1e-3) for one, other in pairs)

    def live(model: recurrent_model.Recurrent, x: Tensor) -> list[Tensor]:
        """The scores after each observation, and the last state."""
        state, scores = model.init(x.shape[1]), []
        for observation in x:
            state, newest, _ = model.step(state, observation)
            scores.append(newest)
        return [tensor.double() for tensor in (*scores, *state)]

    # Sizes with whole vectors, with remainders and with both, several blocks and one, and saturated gates.
    for series, time, positions, hidden, scale in ((3, 6, 4, 5, 1.0), (9, 40, 9, 128, 1.0), (2, 9, 3, 33, 60.0)):
        for activation in ACTIVATIONS:
            for peepholes in ([(3, hidden)], []):
                shapes = [(series, time, 4 * hidden), (hidden, 4 * hidden), *peepholes]
                tensors = [torch.randn(shape, generator=generator) * hidden**-0.5 for shape in shapes]
                tensors[0] *= hidden**0.5 * scale
                right = results([tensor.double() for tensor in tensors], positions, activation)
                if not agree(right, results(tensors, positions, activation)):
                    return DISAGREES
    # Young series and old ones, alone and in two shares.
    for order, activation, formula in (
        (0, "tanh", "m_tandem"),
        (2, "b2bsqrt", "m_tandem"),
        (3, "tanh", "m_tandem_oblivion"),
        (None, "tanh", "m_tandem"),
    ):
        for series, prior in ((1, None), (33, [-1.0, -2.0, -0.5])):
            settings: dict[str, Any] = {
                "hidden": 33,
                "order": order,
                "activation": activation,
                "formula": formula,
                "log_prior": prior,
            }
            model = recurrent_model.Recurrent((7,), 3, **settings).eval()
            x = torch.randn(6, series, 7, generator=generator)
            torch.set_num_threads(2)
            setattr(recurrent_model, "fused_for", lambda *_: library)  # noqa: B010
            tried = live(model, x)
            setattr(recurrent_model, "fused_for", lambda *_: None)  # noqa: B010
            if not agree(live(model.double(), x.double()), tried):
                return DISAGREES
    return 0


if __name__ == "__main__":
    with suppress(ImportError):  # Windows has neither the module nor core dumps
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.append(str(Path(__file__).parents[4]))  # at the end: nothing of it must come before the standard library
    sys.exit(main(sys.argv[1]))
