"""The command line as people use it. After each test nothing may be left on the host."""

import cupel as lib
import leftovers
import pytest


@pytest.fixture(autouse=True)
def nothing_left(request):
    callers = [
        request.getfixturevalue(name)
        for name in ("cupel", "root", "user", "fresh")
        if name in request.fixturenames
    ]
    yield
    for caller in callers:
        leftovers.assert_nothing_left(caller)


@pytest.fixture
def root(callers):
    caller = callers("root")
    caller.configure()
    return caller


@pytest.fixture
def user(callers):
    caller = callers("user")
    caller.configure()
    return caller


@pytest.fixture
def fresh(callers, request):
    """Root with a home nobody has used yet."""
    callers("root")  # skips where there is none
    caller = lib.Cupel("root")
    yield caller
    caller.close()
