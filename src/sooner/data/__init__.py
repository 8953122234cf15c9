"""Where series come from."""

from sooner.data import read as read
from sooner.data.sets import archives as archives
from sooner.data.sets import digits as digits
from sooner.data.sets import mnist as mnist
from sooner.data.sets import video as video
from sooner.data.sets.nmnist import Nmnist as Nmnist
from sooner.data.standardizer import Standardizer as Standardizer
from sooner.data.synthetic import AR1 as AR1
from sooner.data.synthetic import Gaussian as Gaussian
from sooner.data.synthetic import HiddenOnset as HiddenOnset
from sooner.data.synthetic import Process as Process
from sooner.data.synthetic import Sample as Sample
from sooner.data.tables.reading import observation_parts as observation_parts
from sooner.data.tables.reading import read_observations as read_observations
from sooner.data.tables.reading import read_table as read_table
from sooner.data.tables.reading import table_parts as table_parts
from sooner.series import Series as Series
from sooner.series.columns import Columns as Columns
