import jaxtyping
import pytest
import torch
from hypothesis import settings

# Before anything imports the package.
jaxtyping.install_import_hook("sooner", "shapecheck.shapes_only")

pytest_plugins = ["crashes"]
collect_ignore = ["trapping"]  # no module of tests: whoever imports it has a CPU that traps
torch.set_num_threads(1)
settings.register_profile("sooner", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("sooner")


def pytest_collection_modifyitems(items):
    """Tests on a cluster come first: they wait most. Those that look at the small plan stay together: one carries it out."""
    for item in items:
        if "small" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("small_plan"))
    items.sort(key=lambda item: item.get_closest_marker("ray") is None)


@pytest.fixture(scope="session")
def bfloat16():
    """For tests that multiply in bfloat16 by themselves: where this CPU cannot, they are left out."""
    from sooner.bfloat16 import bfloat16_support

    if not bfloat16_support().works:
        pytest.skip(str(bfloat16_support()))
