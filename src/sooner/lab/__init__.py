"""Experiments, tuning and statistics."""
