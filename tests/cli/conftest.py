import pytest

from command import run, write_table


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A small model, the table it was trained on, and a new one; nobody writes to them."""
    folder = tmp_path_factory.mktemp("home")
    write_table(folder / "pumps.csv", 60, 1)
    write_table(folder / "new.csv", 60, 2)
    names = ["--series", "pump", "--time", "at", "--label", "state"]
    run("train", folder / "pumps.csv", *names, "--out", folder / "pumps.sooner", "--quiet")
    return folder
