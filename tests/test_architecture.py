"""The map for the next person names files that exist, and the ways through them are short."""

import re
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PAGE = (HOME / "docs" / "architecture.md").read_text(encoding="utf-8")


def stops(heading):
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (\d+) \| `([^`]+)` \|", section, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("heading", "most"),
    [("From a CSV row to the first training step", 12), ("From a live observation to its decision", 8)],
)
def test_a_way_has_few_stops_and_each_has_its_file(heading, most):
    found = stops(heading)
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    assert 1 < len(found) <= most
    assert all((HOME / "src" / "sooner" / file).is_file() for _, file in found)


def test_every_file_that_is_named_exists():
    named = set(re.findall(r"`((?:\w+/)+\w+\.(?:py|md))`", PAGE))
    assert len(named) > 20
    missing = [name for name in named if not any((root / name).exists() for root in (HOME, HOME / "src" / "sooner"))]
    assert missing == []


def test_every_room_is_on_the_map():
    table = PAGE.split("## Rooms\n")[1].split("\n## ")[0]
    rooms = {path.stem for path in (HOME / "src" / "sooner").iterdir() if not path.name.startswith(("_", "."))} - {
        "py.typed",
        "py",
    }
    assert {room for room in rooms if f"`{room}`" not in table} == set()
