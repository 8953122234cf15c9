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

    from sooner.models.recurrent.fused.library import Library

    torch.set_num_threads(1)
    torch.manual_seed(0)  # for the weights of models
    library, generator = Library(file), torch.Generator().manual_seed(0)
    return 0 if windows_agree(library, generator) and live_agrees(library, generator) else DISAGREES


def windows_agree(library: Any, generator: Any) -> bool:
    """Whether training has the right hidden states and gradients.

    The sizes have whole vectors, remainders and both, several blocks and one, and saturated gates.
    """
    import torch

    from sooner.models.recurrent.activations import ACTIVATIONS

    for series, time, positions, hidden, scale in ((3, 6, 4, 5, 1.0), (9, 40, 9, 128, 1.0), (2, 9, 3, 33, 60.0)):
        for activation in ACTIVATIONS.values():
            for peepholes in ([(3, hidden)], []):
                shapes = [(series, time, 4 * hidden), (hidden, 4 * hidden), *peepholes]
                tensors = [torch.randn(shape, generator=generator) * hidden**-0.5 for shape in shapes]
                tensors[0] *= hidden**0.5 * scale
                right = _window_results(library, [tensor.double() for tensor in tensors], positions, activation)
                if not _agree(right, _window_results(library, tensors, positions, activation)):
                    return False
    return True


def live_agrees(library: Any, generator: Any) -> bool:
    """Whether live series have the right scores: young and old ones, alone and in two shares."""
    import torch

    from sooner.models.recurrent import model as recurrent_model

    formulas = ((0, "m_tandem"), (2, "m_tandem"), (3, "m_tandem_oblivion"), (None, "m_tandem"))
    for order, formula in formulas:
        for series, prior in ((1, None), (33, [-1.0, -2.0, -0.5])):
            activation = "b2bsqrt" if order == 2 else "tanh"
            options: dict[str, Any] = {"hidden": 33, "order": order, "activation": activation}
            model = recurrent_model.Recurrent((7,), 3, **options, formula=formula, log_prior=prior).eval()
            x = torch.randn(6, series, 7, generator=generator)
            torch.set_num_threads(2)
            setattr(recurrent_model, "fused_for", lambda *_: library)  # noqa: B010
            tried = _live_results(model, x)
            setattr(recurrent_model, "fused_for", lambda *_: None)  # noqa: B010
            if not _agree(_live_results(model.double(), x.double()), tried):
                return False
    return True


def _window_results(library: Any, tensors: list[Any], positions: int, activation: Any) -> list[Any]:
    """Hidden states and gradients, from the compiled kernel in float32 and from PyTorch's in float64."""
    import torch

    from sooner.models.recurrent.fused.windows import fused_windows
    from sooner.models.recurrent.kernel import Workspace, lstm_windows

    projected, recurrent, *peepholes = leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    diagonal = peepholes[0] if peepholes else None
    options: dict[str, Any] = {"positions": positions, "activation": activation, "workspace": Workspace()}
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


def _live_results(model: Any, x: Any) -> list[Any]:
    """The scores after each observation, and the last state."""
    state, scores = model.init(x.shape[1]), []
    for observation in x:
        state, newest, _ = model.step(state, observation)
        scores.append(newest)
    return [tensor.double() for tensor in (*scores, *state)]


def _agree(right: list[Any], tried: list[Any]) -> bool:
    """Whether the results are the same up to rounding; False for NaN."""
    pairs = zip(right, tried, strict=True)
    return all(float((one - other).norm()) <= _TOLERANCE * (float(one.norm()) + 1e-3) for one, other in pairs)


if __name__ == "__main__":
    with suppress(ImportError):  # Windows has neither the module nor core dumps
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.append(str(Path(__file__).parents[4]))  # at the end: nothing of it must come before the standard library
    sys.exit(main(sys.argv[1]))
