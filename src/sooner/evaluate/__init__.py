"""Metrics of decisions, speed-accuracy curves, confidence intervals, and the choice of a threshold.

Shared arguments: `scores` (batch, time, classes); `labels` (batch,) in 0..K-1; `lengths` (batch,), everything beyond is padding;
`halting` (batch, time), the model's own halting probability, for rules that read it; `groups` (batch,), group IDs (for example
the patient), for intervals that hold for new groups; `confidence` of two-sided intervals.
"""

from sooner.evaluate.achieved import Achieved as Achieved
from sooner.evaluate.achieved import achieved as achieved
from sooner.evaluate.calibration import Reliability as Reliability
from sooner.evaluate.calibration import expected_calibration_error as expected_calibration_error
from sooner.evaluate.calibration import log_loss as log_loss
from sooner.evaluate.calibration import reliability as reliability
from sooner.evaluate.certify import certified_threshold as certified_threshold
from sooner.evaluate.certify import certify as certify
from sooner.evaluate.choose import choose_rule as choose_rule
from sooner.evaluate.choose import default_threshold as default_threshold
from sooner.evaluate.choose import greatest_threshold_for_time as greatest_threshold_for_time
from sooner.evaluate.choose import least_threshold_for_error as least_threshold_for_error
from sooner.evaluate.choose import midpoint_rule as midpoint_rule
from sooner.evaluate.choose import threshold_of_least_average_cost as threshold_of_least_average_cost
from sooner.evaluate.choose import threshold_of_least_cost as threshold_of_least_cost
from sooner.evaluate.curve import sat_curve as sat_curve
from sooner.evaluate.curve import stopping_curve as stopping_curve
from sooner.evaluate.giving_up import certified_giving_up as certified_giving_up
from sooner.evaluate.giving_up import certify_giving_up as certify_giving_up
from sooner.evaluate.group_intervals import group_limits as group_limits
from sooner.evaluate.group_intervals import group_mean_limits as group_mean_limits
from sooner.evaluate.intervals import Limits as Limits
from sooner.evaluate.intervals import balanced_limits as balanced_limits
from sooner.evaluate.intervals import exact_limits as exact_limits
from sooner.evaluate.label_sets import LabelSets as LabelSets
from sooner.evaluate.label_sets import coverage_limit as coverage_limit
from sooner.evaluate.label_sets import label_sets as label_sets
from sooner.evaluate.menu import Menu as Menu
from sooner.evaluate.menu import Offer as Offer
from sooner.evaluate.menu import menu_of as menu_of
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
from sooner.evaluate.posterior import PosteriorCalibration as PosteriorCalibration
from sooner.evaluate.posterior import fit_posterior as fit_posterior
from sooner.evaluate.promise import RISKS as RISKS
from sooner.evaluate.promise import Promise as Promise
from sooner.evaluate.watch import Alarm as Alarm
from sooner.evaluate.watch import Watch as Watch
