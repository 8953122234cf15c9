"""Models: observations in, scores out."""

from sooner.models.base import LiveStep as LiveStep
from sooner.models.base import Model as Model
from sooner.models.build import build_model as build_model
from sooner.models.earliest import Earliest as Earliest
from sooner.models.image.backbones import ResNet50 as ResNet50
from sooner.models.image.backbones import backbone_from_file as backbone_from_file
from sooner.models.image.encoders import Dense as Dense
from sooner.models.image.encoders import Encoder as Encoder
from sooner.models.image.encoders import ResidualNetwork as ResidualNetwork
from sooner.models.image.encoders import encoder_named as encoder_named
from sooner.models.image.features import encode_to_file as encode_to_file
from sooner.models.image.features import features_from_file as features_from_file
from sooner.models.image.frames import FrameClassifier as FrameClassifier
from sooner.models.image.pooling import Pooling as Pooling
from sooner.models.prefix import PrefixScorer as PrefixScorer
from sooner.models.recurrent.model import Recurrent as Recurrent
from sooner.models.rocket.model import Rocket as Rocket
