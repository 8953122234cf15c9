"""The journal of live series: what was accepted is on disk before it is acknowledged.

A folder with append-only segments of entries (`segments`), snapshots of all series from time to time (`state`), and the decisions
(`decisions`). A restart reads the newest snapshot and repeats the entries after it (`entries`), which gives the same state and
the same event IDs.
"""

from sooner.stream.journal.folder import Journal as Journal
