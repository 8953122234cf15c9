"""All doors. The shares keep 100,000 inputs within a few minutes: what takes longer comes less often."""

from fuzz import arrays, files, lines, models, tables, words

TARGETS = [*tables.TARGETS, *files.TARGETS, *lines.TARGETS, *words.TARGETS, *models.TARGETS, *arrays.TARGETS]
