import pytest

from serving import serving
from sooner import EarlyClassifier
from waves import waves


@pytest.fixture(scope="session")
def clf():
    """A small model of two channels; tests that change it load it anew."""
    x, y = waves(60, 20, seed=1)
    return EarlyClassifier(random_state=0).fit(x, y)


@pytest.fixture(scope="session")
def model_file(clf, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "waves.sooner"
    clf.save(path)
    return path


@pytest.fixture(scope="module")
def service(clf):
    """A service that several tests of a module share; each uses series IDs of its own."""
    with serving(clf) as running:
        yield running
