"""Encoders of images and other observations, and models of image series."""
