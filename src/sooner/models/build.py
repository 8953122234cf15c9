"""Models from settings."""

from torch import nn

from sooner.errors import InvalidArgument
from sooner.models.base import Model
from sooner.models.earliest import Earliest
from sooner.models.image.convolutions import stage_widths
from sooner.models.image.encoders import encoder_named
from sooner.models.image.frames import FrameClassifier
from sooner.models.image.pooling import Pooling
from sooner.models.recurrent.model import Recurrent
from sooner.models.settings import ModelSettings
from sooner.types import ArrayLike

BATCH_NORMS = {"torch": (1e-5, 0.1), "keras": (1e-3, 0.01)}
"""eps, and momentum as in PyTorch: the share of the newest batch in the running statistics."""


def build_model(
    settings: ModelSettings, features: tuple[int, ...], classes: int, *, log_prior: ArrayLike | None = None
) -> Model:
    """An untrained model from the settings of the `model` table.

    EARLIEST uses the settings hidden, penalty and epsilon; pooling uses stem, width, reader and moments; frames uses encoder,
    width, moments and formula. LSTM-s and LSTM-m are recurrent models with full memory and their own losses. `batch_norm`
    applies to all layers, including the encoder. `log_prior` has the log frequencies of the training set, for the prior
    "corrected".

    >>> build_model(ModelSettings(order=3, hidden=8), (2,), 5).order
    3
    """
    if settings.prior == "corrected" and log_prior is None:
        remedy = 'Give the log frequencies of the training set, or set model.prior to "kept".'
        raise InvalidArgument("log_prior", 'given where model.prior is "corrected"', "None", remedy)
    model = _model(settings, features, classes, log_prior if settings.prior == "corrected" else None)
    eps, momentum = BATCH_NORMS[settings.batch_norm]
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.eps, module.momentum = eps, momentum
    return model


def _model(settings: ModelSettings, features: tuple[int, ...], classes: int, prior: ArrayLike | None) -> Model:
    if settings.name == "earliest":
        hidden, penalty, epsilon = settings.hidden, settings.penalty, settings.epsilon
        return Earliest(features, classes, hidden=hidden, penalty=penalty, epsilon=epsilon, log_prior=prior)
    if settings.name == "pooling":
        return Pooling(
            features,
            classes,
            stem=settings.stem,
            widths=stage_widths(settings.width, settings.reader),
            reader=settings.reader,
            moments=settings.moments,
            log_prior=prior,
        )
    encoder = None if settings.encoder == "none" else encoder_named(settings.encoder, features, width=settings.width)
    if settings.name == "frames":
        reader = encoder or encoder_named("identity", features)
        return FrameClassifier(reader, classes, formula=settings.formula, moments=settings.moments, log_prior=prior)
    return Recurrent(
        features,
        classes,
        hidden=settings.hidden,
        order=None if settings.order == "full" else settings.order,
        cell=settings.cell,
        activation=settings.activation,
        formula=settings.formula,
        log_prior=prior,
        encoder=encoder,
    )
