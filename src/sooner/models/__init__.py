"""Models: observations in, scores out."""

from sooner.models.backbones import ResNet50 as ResNet50
from sooner.models.backbones import backbone_from_file as backbone_from_file
from sooner.models.base import LiveStep as LiveStep
from sooner.models.base import Model as Model
from sooner.models.build import build_model as build_model
from sooner.models.earliest import Earliest as Earliest
from sooner.models.encoders import Dense as Dense
from sooner.models.encoders import Encoder as Encoder
from sooner.models.encoders import ResidualNetwork as ResidualNetwork
from sooner.models.encoders import encode_to_file as encode_to_file
from sooner.models.encoders import encoder_named as encoder_named
from sooner.models.encoders import features_from_file as features_from_file
from sooner.models.frames import FrameClassifier as FrameClassifier
from sooner.models.pooling import Pooling as Pooling
from sooner.models.prefix import PrefixScorer as PrefixScorer
from sooner.models.recurrent import Recurrent as Recurrent
from sooner.models.rocket import Rocket as Rocket
