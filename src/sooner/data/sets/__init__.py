"""Named data sets."""
