"""Whatever is killed, and whenever: each run is recorded once, and nothing of it is left."""

import pytest

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
