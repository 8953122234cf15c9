"""The program of the child process: products in bfloat16, forward and backward, compared with float32.

It imports nothing of sooner, because it is run by its path.
"""

import sys
from collections.abc import Callable
from contextlib import suppress

DISAGREES = 3
"""Exit code for wrong results in bfloat16; 0 is success, and 1 is Python's own for an exception."""
_TOLERANCE = 0.03  # of the norm; rounding to bfloat16 costs about 0.004


def main() -> int:
    """Try every product, and return the exit code."""
    import torch
    from torch.nn import functional

    # Sizes at which oneDNN uses its fastest kernels; tiny products do not reach the instructions in question.
    cases: list[tuple[Callable[..., torch.Tensor], tuple[int, ...], tuple[int, ...]]] = [
        (functional.linear, (256, 256), (256, 256)),
        (torch.matmul, (8, 128, 128), (8, 128, 128)),
        (functional.conv1d, (8, 64, 128), (64, 64, 3)),
        (functional.conv2d, (8, 32, 32, 32), (64, 32, 3, 3)),
    ]

    def results(
        product: Callable[..., torch.Tensor], shapes: tuple[tuple[int, ...], ...], mixed: bool
    ) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        leaves = [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
            out = product(*leaves)
        out.float().square().mean().backward()
        return [out.detach().float(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    for product, *shapes in cases:
        exact, mixed = (results(product, tuple(shapes), mixed) for mixed in (False, True))
        for right, tried in zip(exact, mixed, strict=True):
            if not float((tried - right).norm()) <= _TOLERANCE * float(right.norm()):  # true for NaN
                return DISAGREES
    return 0


if __name__ == "__main__":
    with suppress(ImportError):  # Windows has neither the module nor core dumps
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
