"""From decisions and scores to the numbers that people compare, and from a target to a rule."""

from sooner.evaluate.achieved import Achieved as Achieved
from sooner.evaluate.achieved import achieved as achieved
from sooner.evaluate.bands import Limits as Limits
from sooner.evaluate.bands import balanced_limits as balanced_limits
from sooner.evaluate.bands import exact_limits as exact_limits
from sooner.evaluate.choose import choose_rule as choose_rule
from sooner.evaluate.choose import greatest_threshold_for_time as greatest_threshold_for_time
from sooner.evaluate.choose import least_threshold_for_error as least_threshold_for_error
from sooner.evaluate.choose import settled as settled
from sooner.evaluate.choose import threshold_of_least_average_cost as threshold_of_least_average_cost
from sooner.evaluate.choose import threshold_of_least_cost as threshold_of_least_cost
from sooner.evaluate.curve import sat_curve as sat_curve
from sooner.evaluate.curve import stopping_curve as stopping_curve
from sooner.evaluate.metrics import ClassErrors as ClassErrors
from sooner.evaluate.metrics import HittingTimes as HittingTimes
from sooner.evaluate.metrics import OverSeeds as OverSeeds
from sooner.evaluate.metrics import average_cost as average_cost
from sooner.evaluate.metrics import balanced_error as balanced_error
from sooner.evaluate.metrics import class_errors as class_errors
from sooner.evaluate.metrics import earliness as earliness
from sooner.evaluate.metrics import harmonic_mean as harmonic_mean
from sooner.evaluate.metrics import hitting_times as hitting_times
from sooner.evaluate.metrics import mean_accuracy as mean_accuracy
from sooner.evaluate.metrics import mean_time as mean_time
from sooner.evaluate.metrics import over_seeds as over_seeds
