"""A service with simulated sensors: real digits, of which each observation reveals four more pixels, 200 of them at a time.

`make live` runs it: it fits a small model at the first start, starts `sooner serve` with it, and sends until Ctrl-C. The page at
the address that it prints shows the decisions as they are made.
"""

import argparse
import http.client
import itertools
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from sooner import EarlyClassifier
from sooner.data import digits
from sooner.errors import NotCertified


def model_in(folder: Path) -> Path:
    """The model, fitted if it is not there: an error of at most 20% is promised with 95% confidence."""
    file = folder / "digits.sooner"
    if not file.exists():
        print("Fitting a model of 1,079 digits, which takes some ten seconds ...", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        train, validation, _ = digits.load()
        clf = EarlyClassifier(random_state=0).fit(train)
        try:
            clf.choose_threshold(validation, max_error=0.2, confidence=0.95, risk="error")
        except NotCertified:
            clf.choose_threshold(validation, max_error=0.2)
        clf.save(file)
    return file


class Sensors:
    """Digits that are revealed at the same time, each with an ID of its own; a new one begins where one is over."""

    def __init__(self, count: int) -> None:
        _, _, test = digits.load()
        self.x, self.labels = test.observations.numpy(), test.labels.tolist()
        self.numbers, self.random = itertools.count(1), np.random.default_rng(0)
        # They begin at different times.
        self.running = [[*self.new(), -int(self.random.integers(self.x.shape[1]))] for _ in range(count)]
        self.truths: dict[str, int] = {}

    def new(self) -> tuple[str, int]:
        """The ID and the row of the next digit."""
        return f"digit-{next(self.numbers):05d}", int(self.random.integers(len(self.x)))

    def lines(self) -> str:
        """The next observation of each."""
        lines = []
        for sensor in self.running:
            name, row, time_ = sensor
            if time_ >= 0:
                last = time_ == self.x.shape[1] - 1
                lines.append(json.dumps({"series": name, "x": self.x[row, time_].tolist(), "end": last}))
                self.truths[name] = self.labels[row]
            sensor[2] = time_ + 1
            if sensor[2] == self.x.shape[1]:
                sensor[:] = [*self.new(), -int(self.random.integers(4))]
        return "\n".join(lines)


def send(port: int, sensors: Sensors, rate: float) -> None:
    """Send observations, and the true labels of decisions some seconds later."""
    connection, last = http.client.HTTPConnection("127.0.0.1", port), 0

    def call(method: str, path: str, body: str | None = None) -> dict[str, object]:
        connection.request(method, path, body, {"content-type": "application/json"})
        return json.loads(connection.getresponse().read())

    due = time.monotonic()
    for turn in itertools.count():
        call("POST", "/v1/observations", sensors.lines())
        if turn % 20 == 19:
            decisions = call("GET", f"/v1/decisions?after={last}&limit=10000")["decisions"]
            known = [each for each in decisions if each["series"] in sensors.truths]
            labels = [{"series": each["series"], "label": sensors.truths.pop(each["series"])} for each in known]
            last = decisions[-1]["id"] if decisions else last
            call("POST", "/v1/labels", json.dumps(labels))
        due += 1 / rate
        time.sleep(max(0.0, due - time.monotonic()))


def main() -> None:
    """Start the service, and send."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/live"), help="for the model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--sensors", type=int, default=200, help="digits at a time")
    parser.add_argument("--rate", type=float, default=2.0, help="observations a second of each")
    given, others = parser.parse_known_args()
    words = ["serve", str(model_in(given.folder)), "--port", str(given.port), "--idle", "30s", *others]
    service = subprocess.Popen([sys.executable, "-m", "sooner", *words], stderr=subprocess.PIPE, text=True)
    try:
        for said in service.stderr or ():
            print(said, end="", flush=True)
            if found := re.search(r"Listening on \S+?:(\d+) ", said):
                send(int(found[1]), Sensors(given.sensors), given.rate)
    except (KeyboardInterrupt, OSError):
        pass
    finally:
        service.terminate()
        print(service.communicate()[1] or "", end="")


if __name__ == "__main__":
    main()
