"""What people look at: figures and tables."""

from sooner.report.figures import speed_accuracy as speed_accuracy
