"""NMNIST-H made on the fly: the time of a batch of 500 x 20 x 28 x 28, against a forward pass of the small residual encoder.

Images are noise: the masks cost the same. Two threads, medians in one run.
"""

import torch

from measure import finish, seconds
from sooner.data import Nmnist
from sooner.models import ResidualNetwork

SERIES, THREADS = 500, 2


def main() -> None:
    torch.set_num_threads(THREADS)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (SERIES, 28, 28), generator=generator).to(torch.uint8)
    split = Nmnist(images, torch.arange(SERIES) % 10, kind="nmnist-h")
    indices = torch.arange(SERIES)
    make = seconds(lambda: split.batch(indices, dtype="float32"), repeats=9)
    frames = split.batch(indices, dtype="float32").observations.flatten(0, 1)
    encoder = ResidualNetwork.small((28, 28)).eval()

    def encode() -> None:
        with torch.no_grad():
            for part in frames.split(1000):
                encoder(part)

    forward = seconds(encode, repeats=3)
    print(f"a batch is made in {1e3 * make:.1f} ms and read by the encoder in {forward:.2f} s ({THREADS} threads)")
    finish(forward_over_batch=forward / make)


if __name__ == "__main__":
    main()
