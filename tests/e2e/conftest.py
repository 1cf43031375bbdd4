"""The command line as people use it. After each test nothing may be left on the host."""

import functools

import cupel as lib
import ledgers
import leftovers
import pytest
import python_package


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
    caller = lib.Cupel("root", own_work=True)
    yield caller
    caller.close()


@pytest.fixture(scope="session")
def server():
    with ledgers.running() as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.test_all)])
def kept(request, callers):
    callers("root")  # skips where there is none
    made = ledgers.Kept(request.param, request.getfixturevalue("server") if request.param == "postgresql" else None)
    yield made
    made.close()


@pytest.fixture
def kept_sqlite(callers):
    callers("root")
    made = ledgers.Kept("sqlite", None)
    yield made
    made.close()


@pytest.fixture(scope="session")
def package():
    """The Python package, installed once."""
    with python_package.installed() as place:
        yield place


@pytest.fixture
def python(package):
    """Runs Python code by the installed package and the program alone."""
    return functools.partial(python_package.run, package)
