"""Builds the wheel, installs it into an empty environment outside of the tree, and runs it there (`make wheel-check`)."""

import pathlib
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).parents[1]
PROGRAM = "import sooner, torch; print(sooner.rules.MSPRT(1.0).decide(torch.eye(2)[None].double()))"


def run(*command: object, cwd: str) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], cwd=cwd, check=True)


with tempfile.TemporaryDirectory() as folder:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT, cwd=folder)
    venv.create(f"{folder}/venv", with_pip=True)
    (wheel,) = pathlib.Path(folder).glob("*.whl")
    python = f"{folder}/venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    run(python, "-c", PROGRAM, cwd=folder)
    run(f"{folder}/venv/bin/sooner", "demo", "--max-epochs", "2", "--out", "demo", cwd=folder)
    assert pathlib.Path(folder, "demo", "report.html").stat().st_size > 1e6
