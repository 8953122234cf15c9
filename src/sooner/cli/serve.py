"""`sooner serve`."""
