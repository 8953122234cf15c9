"""How long the command line and the package take to start, beside PyTorch alone.

Each figure is the least of several fresh processes, taken in turn so that a busy machine is busy for all of them.
"""

import json
import subprocess
import sys
import time

ROUNDS = 7
PROGRAMS = {
    "help": ["-m", "sooner", "--help"],
    "torch": ["-c", "import torch"],
    "package": ["-c", "import sooner; sooner.rules"],
    "classifier": ["-c", "import sooner; sooner.EarlyClassifier"],
}


def seconds(words: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    taken: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(ROUNDS):
        for name, words in PROGRAMS.items():
            taken[name].append(seconds(words))
    least = {name: min(times) for name, times in taken.items()}
    for name, found in least.items():
        print(f"{name:>10}  {found:.2f} s")
    ratios = {
        "help_seconds": round(least["help"], 3),
        "import_over_torch": round(least["package"] / least["torch"], 3),
        "classifier_over_torch": round(least["classifier"] / least["torch"], 3),
    }
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
