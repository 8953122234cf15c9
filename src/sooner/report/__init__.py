"""What people look at: figures, tables, and one page to turn the threshold on."""

from sooner.report.comparison.contents import Comparison as Comparison
from sooner.report.comparison.contents import Line as Line
from sooner.report.comparison.contents import Table as Table
from sooner.report.comparison.contents import Trajectories as Trajectories
from sooner.report.comparison.page import write_comparison as write_comparison
from sooner.report.evaluation import Evaluation as Evaluation
from sooner.report.figures import speed_accuracy as speed_accuracy
from sooner.report.page import Report as Report
from sooner.report.page import report_page as report_page
from sooner.report.page import write_report as write_report
