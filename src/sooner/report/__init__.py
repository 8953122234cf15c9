"""What people look at: figures, tables, and one page to turn the threshold on."""

from sooner.report.evaluation import Evaluation as Evaluation
from sooner.report.figures import speed_accuracy as speed_accuracy
from sooner.report.page import Report as Report
from sooner.report.page import report_page as report_page
from sooner.report.page import write_report as write_report
