"""Ways to spoil bytes, and to write things that programs stumble over."""

import random
import re
from collections.abc import Callable, Sequence

WORDS = (
    *(
        "nan",
        "NaN",
        "NA",
        "-nan",
        "inf",
        "-inf",
        "Infinity",
        "1e999",
        "-1e999",
        "1e308",
        "1e-400",
        "9" * 30,
        "-" + "9" * 19,
    ),
    *(
        "0x10",
        "1_000",
        "",
        " ",
        '"',
        '""',
        '"a\nb"',
        "'",
        "\0",
        "null",
        "None",
        "true",
        "False",
        "-0",
        "+1",
        "1,5",
        "1;5",
    ),
    *(
        "\u0661\u0662",
        "2026-11-15",
        "2026-11-15T23:59:59Z",
        "2026-11-15 23:59:59.123456789",
        "99999-01-01",
        "1.",
        ".5",
        "-",
    ),
    *(
        "?",
        ":",
        "@data",
        "#",
        "\t",
        "\\",
        "%s",
        "\U0001d7d9",
        "\u2028",
        "\x85",
        "\ufeff",
        "caf\xe9",
        "1e5",
        "007",
        "1 000",
    ),
    *("a" * 5000, "[" * 3000, "{" * 3000, '{"a":' * 2000, "9" * 5000, "1e" + "9" * 400, "-9223372036854775808"),
    *("18446744073709551616", "series", "time", "label", "x", "end", "gap", "[]", "{}", "[[1]]", "0"),
)
LARGEST = 100_000
"""Bytes of an input; a larger one takes the time of many, and finds no more."""

_TOKENS = re.compile(rb"[\w.+-]+")

Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def spoiled(chance: random.Random, data: bytes, others: Sequence[bytes], mutations: Sequence[Mutation]) -> bytes:
    """`data` after some mutations, none of them once in ten times; `others` are valid, to be spliced in."""
    for _ in range(chance.choice((0, 1, 1, 1, 1, 1, 2, 2, 3, 5))):
        data = chance.choice(mutations)(chance, data, others)[:LARGEST]
    return data


def _span(chance: random.Random, data: bytes) -> tuple[int, int]:
    start = chance.randint(0, len(data))
    return start, min(len(data), start + chance.choice((1, 1, 2, 4, 8, 30, 200, len(data))))


def flipped(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """Some bits."""
    spoilt = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16)) if data else 0):
        spoilt[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(spoilt)


def truncated(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """The first bytes, or the last."""
    at = chance.randint(0, len(data))
    return data[:at] if chance.random() < 0.7 else data[at:]


def without(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """A hole."""
    start, stop = _span(chance, data)
    return data[:start] + data[stop:]


def doubled(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """A part twice, or many times."""
    start, stop = _span(chance, data)
    return data[:stop] + data[start:stop] * chance.choice((1, 1, 2, 50)) + data[stop:]


def spliced(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The beginning of this and the end of another, or a part of another within this."""
    other = chance.choice(others) if others else data
    start, stop = _span(chance, other)
    at = chance.randint(0, len(data))
    return data[:at] + other[start:] if chance.random() < 0.5 else data[:at] + other[start:stop] + data[at:]


def noisy(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """Any bytes within."""
    at = chance.randint(0, len(data))
    return data[:at] + chance.randbytes(chance.choice((1, 1, 2, 8, 100))) + data[at:]


def emptied(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """Nothing, or next to nothing."""
    return chance.choice((b"", b"\n", b"\0", b" ", b"\xef\xbb\xbf", b"\xff\xfe", b"\r\n\r\n", data[:1]))


def reworded(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """Other words for some of its words and numbers."""
    found = list(_TOKENS.finditer(data))
    for _ in range(chance.choice((1, 1, 2, 3)) if found else 0):
        token = chance.choice(found)
        # Positions shift after the first, and another place is as good.
        data = data[: token.start()] + chance.choice(WORDS).encode() + data[token.end() :]
    return data


def all_reworded(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """One word everywhere for another."""
    found = list(_TOKENS.finditer(data))
    return data.replace(chance.choice(found)[0], chance.choice(WORDS).encode()) if found else data


def reencoded(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """The same text as other programs write it."""
    text = data.decode(errors="replace")
    way = chance.choice(("utf-16", "utf-16-le", "utf-8-sig", "latin-1", "utf-32", "cp1252"))
    return text.encode(way, errors="replace")


def other_lines(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """Lines that end otherwise, some or all, or not at all."""
    end = chance.choice((b"\r\n", b"\r", b"\n\n", b"\n\r", b" \n", b",\n", b"\n ", b"\x0b", b"\n#"))
    return data.replace(b"\n", end, chance.choice((-1, 1, 2)))


def shuffled(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """Lines in another order, twice, or only the first."""
    lines = data.splitlines(keepends=True)
    way = chance.choice(("order", "swap", "twice", "head", "drop"))
    if way == "order":
        chance.shuffle(lines)
    elif way == "head":
        lines = lines[:1]
    elif lines:
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        if way == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        else:
            lines[at : at + 1] = [lines[at]] * 2 if way == "twice" else []
    return b"".join(lines)


def other_cells(chance: random.Random, data: bytes, _others: Sequence[bytes]) -> bytes:
    """Two columns swapped, one twice, one away; or another separator."""
    way, rows = chance.choice(("swap", "twice", "drop", "mark")), [line.split(b",") for line in data.split(b"\n")]
    width = len(rows[0])
    if way == "mark":
        return data.replace(b",", chance.choice((b";", b"\t", b", ", b" ,", b"|", b",,")))
    at, other = chance.randrange(width), chance.randrange(width)
    for row in rows:
        if len(row) == width and way == "swap":
            row[at], row[other] = row[other], row[at]
        elif len(row) == width:
            row[at : at + 1] = [row[at]] * 2 if way == "twice" else []
    return b"\n".join(b",".join(row) for row in rows)


BYTES: tuple[Mutation, ...] = (flipped, flipped, truncated, without, doubled, spliced, noisy, emptied)
TEXT: tuple[Mutation, ...] = (
    *(flipped, truncated, without, doubled, spliced, noisy, emptied, reencoded),
    *(reworded, reworded, reworded, reworded, all_reworded, all_reworded, other_lines, other_lines, shuffled, shuffled),
)
TABLES: tuple[Mutation, ...] = (*TEXT, other_cells, other_cells, other_cells)
