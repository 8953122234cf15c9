"""Fill README.md and docs/ with the numbers of the records in results/, so that no measured number is typed by hand.

python benchmarks/results.py             writes the pages
python benchmarks/results.py --figures   also draws docs/figures from the records, and frames of the data sets
python benchmarks/results.py --check     lists every difference, and ends with exit code 1 if there is one

A page holds numbers of records in two forms:

    <!-- made by benchmarks/results.py: NAME -->     a table, a list or printed text, made by the function of that name
    ...
    <!-- end -->

    9.1%<!-- results/sat_nmnist_h.json#/headline/5 -->     a number in a sentence, with its record and the keys in it
    4.8%<!-- results/pages.json#/pumps/error * 100 -->     the same, times a factor

The number keeps the decimals it is written with. A decimal number or a percentage that has neither form is listed too, unless
it stands in an example, in code, or is named in `NO_RESULT`.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from functools import cache
from pathlib import Path
from typing import Any

import data_pictures
import guarantee_parts
import page_parts
import result_figures
import result_lists
import result_tables
from sooner.data import mnist

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- made by benchmarks/results\.py: (\w+) -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
NUMBER = re.compile(
    r"(?P<number>-?\d[\d,]*(?:\.\d+)?)(?P<unit>[^\d<\n]{0,12})"
    r"<!-- (?P<path>results/[\w./-]+\.json)#(?P<keys>/[^>]*?)(?: \* (?P<factor>[\d.]+))? -->"
)
LOOSE = re.compile(r"(?<![\w.])\d+(?:\.\d+ ?%?| ?%)(?![\w.])")
"""Numbers that count as results, unless they match `NO_RESULT`."""
NO_RESULT = re.compile(
    r"at 10%, 5%, 2% and 1% error"
    r"|Python 3\.11|Kafka 2\.5|aeon 1\.6|tslearn 0\.10|95% confidence|==0\.1\.0|rho 0\.\d+|momentum 0\.\d+"
    # Targets, settings and definitions.
    r"|at (?:most )?\d+ ?%|max_error=0\.\d+|\*\*NGA-LSEL\*\*|5% error on 100 series"
    r"|0\.8 P\(error\) \+ 0\.2 x|0\.8 for an error and 0\.2 for|alpha = 0\.5 where|and 0\.8 for the threshold after"
    r"|85% of chance|99% confidence"
    r"|0\.02 means 2%|validation set; 0\.2"
)


def main() -> None:
    wrong = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        made = filled(text)
        if "--check" in sys.argv:
            wrong += [*differences(name, text, made), *untied(text, name)]
        elif made != text:
            path.write_text(made, encoding="utf-8")
            print(f"written: {name}")
    if "--figures" in sys.argv:
        draw(read_records())
    if wrong:
        sys.exit("\n".join([*wrong, "Run `python benchmarks/results.py`, or tie the number to its record."]))


@cache
def read_records() -> dict[str, Any]:
    """Every record by its path, as pages name it."""
    paths = sorted((ROOT / "results").glob("*.json"))
    return {f"results/{path.name}": json.loads(path.read_text(encoding="utf-8")) for path in paths}


def filled(text: str) -> str:
    """The page with every block and every tied number as the records have it."""

    def number(found: re.Match[str]) -> str:
        value = value_at(read_records(), found["path"], found["keys"]) * float(found["factor"] or 1)
        decimals = len(found["number"].partition(".")[2])
        return f"{value:,.{decimals}f}{found[0][len(found['number']) :]}"

    return NUMBER.sub(number, BLOCK.sub(lambda found: f"{found[1]}{block(found[2])}{found[3]}", text))


@cache
def block(name: str) -> str:
    return BLOCKS[name](read_records())


def value_at(records: Mapping[str, Any], path: str, keys: str) -> float:
    """The value of a record under keys joined by slashes; indices of lists count from 0.

    >>> value_at({"results/a.json": {"rows": [{"error": 4.5}]}}, "results/a.json", "/rows/0/error")
    4.5
    """
    found = records[path]
    for key in keys.strip("/").split("/"):
        found = found[int(key)] if isinstance(found, list) else found[key]
    return float(found)


def differences(name: str, text: str, made: str) -> Iterator[str]:
    """One line for each line of a page that the records contradict."""
    lines = unified_diff(text.splitlines(), made.splitlines(), lineterm="", n=0)
    for line in lines:
        if line[:1] in "-+" and line[:3] not in ("---", "+++"):
            yield f"{name}: {'the page has' if line[0] == '-' else 'the records say'}: {line[1:].strip()}"


def untied(text: str, name: str = "") -> Iterator[str]:
    """Decimal numbers and percentages of the prose that name no record.

    >>> list(untied("An error of 4.8% here, and 3.2%<!-- results/a.json#/b --> there.", "page.md"))
    ['page.md:1: 4.8% names no record']
    """
    blank = BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text)
    blank = re.sub(r"^```.*?^```", lambda found: "\n" * found[0].count("\n"), blank, flags=re.DOTALL | re.MULTILINE)
    blank = NUMBER.sub("", blank)
    for pattern in (r"`[^`]*`", r"\]\([^)]*\)", r"<!--.*?-->"):
        blank = re.sub(pattern, "", blank)
    blank = NO_RESULT.sub("", blank)
    for number, line in enumerate(blank.splitlines(), start=1):
        if not line.startswith("    "):
            yield from (f"{name}:{number}: {found} names no record" for found in LOOSE.findall(line))


def experiments(records: Mapping[str, Any]) -> dict[str, Any]:
    """The records of `sooner reproduce`."""
    return {record["name"]: record for record in records.values() if "headline" in record}


def draw(records: Mapping[str, Any]) -> None:
    """Curves from the records; trajectories, which need scores, from the folders that `sooner reproduce` left, if there."""
    for record in experiments(records).values():
        drawn = ROOT / "results" / record["name"] / "trajectories.png"
        if not record["name"].startswith("trajectories"):
            result_figures.draw_curves(record)
            result_figures.draw_training(record)
        elif drawn.exists():
            shutil.copyfile(drawn, result_figures.FIGURES / f"{record['name']}.png")
    guarantee_parts.draw(records)
    data_pictures.draw(mnist.load().test)


BLOCKS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "tables": lambda records: "\n".join(map(result_tables.section, experiments(records).values())).rstrip(),
    "throughout": lambda records: result_lists.throughout(experiments(records)),
    "orders": lambda records: result_lists.overview(experiments(records)),
    "beaten": lambda records: result_lists.lower(experiments(records)),
    "levels": lambda records: result_lists.levels(experiments(records)),
    "stale": lambda records: result_lists.stale(experiments(records)),
    "outdated": lambda records: result_lists.outdated(experiments(records)),
    "remarks": lambda records: result_lists.remarks(experiments(records)),
    "unrun": lambda records: result_lists.unrun(experiments(records)),
    **page_parts.BLOCKS,
    **guarantee_parts.BLOCKS,
}


if __name__ == "__main__":
    main()
