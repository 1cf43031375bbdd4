"""Many acts in one box: each is a test of its own, but they share a run and a control."""

import pytest


@pytest.fixture(scope="session")
def _runs():
    return {}


@pytest.fixture
def inside(cupel, _runs):
    """inside(ACTS) -> answers of the probe as the analysis. ACTS must always be the same object."""

    def get(acts):
        key = (cupel.who, tuple(acts))
        if key not in _runs:
            answers, result = cupel.probed(*acts)
            assert result.cause == "ok", result.stderr
            _runs[key] = answers
        return _runs[key]

    return get


@pytest.fixture
def outside(callers, _runs):
    """outside(ACTS) -> the same without a box, as root, who could do anything."""

    def get(acts):
        key = ("outside", tuple(acts))
        if key not in _runs:
            _runs[key] = callers("root").outside(*acts)
        return _runs[key]

    return get
