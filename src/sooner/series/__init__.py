"""`Series`, the record of observations that all other modules use, and the functions that read users' data into it."""

from sooner.series.arrays import Missing as Missing
from sooner.series.arrays import Names as Names
from sooner.series.arrays import with_mask as with_mask
from sooner.series.record import Series as Series
