"""Where series come from."""

from sooner.data import digits as digits
from sooner.data import mnist as mnist
from sooner.data.nmnist import Nmnist as Nmnist
from sooner.data.series import Series as Series
from sooner.data.series import Standardizer as Standardizer
from sooner.data.synthetic import AR1 as AR1
from sooner.data.synthetic import Gaussian as Gaussian
from sooner.data.synthetic import HiddenOnset as HiddenOnset
from sooner.data.synthetic import Process as Process
from sooner.data.synthetic import Sample as Sample
