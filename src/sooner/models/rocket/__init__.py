"""The model for small data: running convolutions and a calibrated ridge classifier."""
