"""Whatever is killed, and whenever: each run is recorded once, and nothing of it is left."""

import pytest

import faults
import leftovers
from crashes import Crash


@pytest.fixture
def crash(callers, who):
    caller = callers(who)
    caller.configure()
    yield Crash(caller)
    leftovers.assert_nothing_left(caller)


@pytest.fixture
def crash_root(callers):
    caller = callers("root")
    caller.configure()
    yield Crash(caller)
    leftovers.assert_nothing_left(caller)


@pytest.fixture(scope="session")
def faulty_callers(callers):
    """As `callers`, with the build that fails on request."""
    made = {}

    def get(who):
        callers(who)  # skips where there can be none
        if not faults.BINARY.exists():
            pytest.skip(f"faults: {faults.BINARY} was not built (meson -Dfaults=true)")
        if who not in made:
            made[who] = faults.Faulty(who)
        return made[who]

    yield get
    for one in made.values():
        one.close()


@pytest.fixture
def faulty(faulty_callers, who):
    return faulty_callers(who)


@pytest.fixture
def faulty_root(faulty_callers):
    return faulty_callers("root")
