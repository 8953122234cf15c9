"""Where series come from."""

from sooner.data import archives as archives
from sooner.data import digits as digits
from sooner.data import files as files
from sooner.data import mnist as mnist
from sooner.data import video as video
from sooner.data.columns import Columns as Columns
from sooner.data.nmnist import Nmnist as Nmnist
from sooner.data.series import Series as Series
from sooner.data.standardizer import Standardizer as Standardizer
from sooner.data.synthetic import AR1 as AR1
from sooner.data.synthetic import Gaussian as Gaussian
from sooner.data.synthetic import HiddenOnset as HiddenOnset
from sooner.data.synthetic import Process as Process
from sooner.data.synthetic import Sample as Sample
from sooner.data.tables import Table as Table
from sooner.data.tables import Unlabelled as Unlabelled
from sooner.data.tables import observation_parts as observation_parts
from sooner.data.tables import read_observations as read_observations
from sooner.data.tables import read_table as read_table
from sooner.data.tables import table_parts as table_parts
