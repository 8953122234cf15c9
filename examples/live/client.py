"""A client of `sooner serve` with nothing but Python's standard library: it loses and doubles nothing.

    python client.py http://127.0.0.1:8000 < observations.jsonl     # sends lines, and prints decisions as they come

The token of a service that needs one is read from SOONER_TOKEN.
"""

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator

TOKEN = os.environ.get("SOONER_TOKEN")


def open_url(url: str, body: bytes | None = None, **headers: str):
    """An answer; errors of the connection and refusals that ask for a retry are retried."""
    if TOKEN:
        headers["Authorization"] = f"Bearer {TOKEN}"
    request = urllib.request.Request(url, body, {name.replace("_", "-"): value for name, value in headers.items()})
    while True:
        try:
            return urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            if error.code not in (429, 503, 507):
                raise SystemExit(f"{error.code}: {json.load(error)['detail']}") from None
            time.sleep(float(error.headers.get("Retry-After", 1)))


def send(service: str, lines: Iterable[str], at_once: int = 500) -> None:
    """Send lines. Where a connection breaks, the service is asked how far each series came."""
    counts: dict[object, int] = {}
    batch: list[dict] = []
    for line in lines:
        batch.append(json.loads(line))
        if len(batch) >= at_once:
            send_batch(service, batch, counts)
            batch = []
    send_batch(service, batch, counts)


def send_batch(service: str, batch: list[dict], counts: dict[object, int]) -> None:
    """Send some observations; `counts` says how many of each series are acknowledged."""
    while batch:
        try:
            with open_url(f"{service}/v1/observations", "\n".join(map(json.dumps, batch)).encode()) as answer:
                for refused in json.load(answer)["rejected"]:
                    print(f"refused: {refused['reason']}", file=sys.stderr)
            for record in batch:
                counts[record["series"]] = counts.get(record["series"], 0) + 1
            return
        except (OSError, ValueError):  # was it taken? the service knows
            time.sleep(1)
            batch = [record for record in batch if not taken(service, record, counts)]


def taken(service: str, record: dict, counts: dict[object, int]) -> bool:
    """Whether an observation, the next one of its series, has arrived; it is counted then."""
    name = record["series"]
    with open_url(f"{service}/v1/series/{urllib.parse.quote(str(name), safe='')}") as answer:
        state = json.load(answer)
    arrived = state["state"] == "decided" or state["time"] > counts.get(name, 0)
    counts[name] = counts.get(name, 0) + arrived
    return arrived


def decisions(service: str, last: int = 0) -> Iterator[dict]:
    """Decisions from the event stream, which is opened again where it breaks; each ID comes once."""
    while True:
        try:
            headers = {"Accept": "text/event-stream", "Last_Event_ID": str(last)}
            with open_url(f"{service}/v1/decisions", **headers) as stream:
                for line in stream:
                    if line.startswith(b"data: "):
                        record = json.loads(line[6:])
                        if record.get("id", 0) > last:
                            last = record["id"]
                            yield record
        except OSError:
            time.sleep(1)


def main() -> None:
    """Send standard input, and print decisions."""
    service = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    threading.Thread(target=send, args=(service, sys.stdin), daemon=True).start()
    for record in decisions(service):
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
