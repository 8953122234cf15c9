"""Where series come from."""

from sooner.data.synthetic import AR1 as AR1
from sooner.data.synthetic import Gaussian as Gaussian
from sooner.data.synthetic import HiddenOnset as HiddenOnset
from sooner.data.synthetic import Process as Process
from sooner.data.synthetic import Sample as Sample
