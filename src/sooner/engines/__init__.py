"""Engines, which distribute the work of other packages to several machines; they contain no mathematics."""
