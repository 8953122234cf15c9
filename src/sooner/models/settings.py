"""Settings of a model: the table `[model]` of a settings file."""

from dataclasses import dataclass
from typing import Literal

from sooner.fields import check_choice, check_number, check_whole
from sooner.models.image.encoders import ENCODERS


@dataclass(frozen=True)
class ModelSettings:
    """Settings of the model.

    Args:
        name: "recurrent", "earliest", "pooling" or "frames".
        hidden: hidden size.
        order: N, the number of earlier observations in a window, or "full" for full memory.
        cell: "peephole", "lstm" or "gru".
        activation: "tanh" or "b2bsqrt".
        formula: "m_tandem" or "m_tandem_oblivion".
        prior: "kept" leaves the training set's prior in the scores, "corrected" subtracts its logarithm.
        encoder: "none", or the encoder of single observations: "dense", "convolution", "convolution_of_levels"
            (for 8-bit pixels), "tokens" (for sparse 8-bit frames), "resnet_small" or "resnet110".
        width: number of features of the encoder, or channels of the last stage of "pooling".
        penalty: cost of waiting of "earliest".
        epsilon: exploration of "earliest" in training: "annealed" from 1 to 0, or a number in 0..1.
        stem: how "pooling" turns a frame into a feature map: "embedding", "convolution" or "pixels".
        reader: how the classifier of "pooling" halves height and width: "strided", or "pooled", which takes longer.
        moments: number of times of each series that "pooling" and "frames" read in a training step.
        batch_norm: "torch" (eps 1e-5, momentum 0.1), or "keras" (eps 1e-3, momentum 0.01), as in the paper.
    """

    name: str = "recurrent"
    hidden: int = 64
    order: int | Literal["full"] = "full"
    cell: str = "peephole"
    activation: str = "tanh"
    formula: str = "m_tandem"
    prior: str = "kept"
    encoder: str = "none"
    width: int = 128
    penalty: float = 0.01
    epsilon: float | Literal["annealed"] = "annealed"
    stem: str = "embedding"
    reader: str = "strided"
    moments: int = 4
    batch_norm: str = "torch"

    def __post_init__(self) -> None:
        check_choice(self, "model.name", ("recurrent", "earliest", "pooling", "frames"))
        check_whole(self, "model.hidden", 1, "It is the size of the model's state.")
        check_whole(self, "model.order", 0, "It is the number of earlier observations a window holds.", word="full")
        check_choice(self, "model.cell", ("peephole", "lstm", "gru"))
        check_choice(self, "model.activation", ("tanh", "b2bsqrt"))
        check_choice(self, "model.formula", ("m_tandem", "m_tandem_oblivion"))
        check_choice(self, "model.prior", ("kept", "corrected"))
        check_choice(self, "model.encoder", ("none", *(name for name in ENCODERS if name != "identity")))
        check_whole(self, "model.width", 1, "It is the number of features of an encoded observation.")
        check_number(self, "model.penalty", "It is the price of waiting.")
        check_number(self, "model.epsilon", "It is the share of exploration.", high=1.0, word="annealed")
        check_choice(self, "model.stem", ("embedding", "convolution", "pixels"))
        check_choice(self, "model.reader", ("strided", "pooled"))
        check_whole(self, "model.moments", 1, "It counts times of a series.")
        check_choice(self, "model.batch_norm", ("torch", "keras"))
