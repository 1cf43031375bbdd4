"""Fixtures of every layer that drives the real binary; the work is in lib/cupel.py."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "lib"))

import cupel as lib  # noqa: E402  pylint: disable=wrong-import-position

pytest_plugins = ["choose"]

# Whoever starts the tests in the background has these ignored; what they start would inherit that, and honour it.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _usual)

# Told to end, the tests still end the servers that they have started.
signal.signal(signal.SIGTERM, signal.default_int_handler)

# None takes a tenth of it, but for those that are marked with a limit of their own.
TEST_LIMIT_S = 300 if lib.SLOW == 1 else 900


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """A test that hangs fails, and the others go on. Again and again, since what it leaves may wait too."""

    mark = item.get_closest_marker("limit_s")
    limit_s = mark.args[0] if mark else TEST_LIMIT_S

    def fail(*_):
        raise TimeoutError(f"{item.name} is still running after {limit_s} s")

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, limit_s, 30)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def _user_namespaces():
    """Why an ordinary user can have no box here; None if he can."""

    def become():
        os.setgroups([])
        os.setresgid(lib.USER_ID, lib.USER_ID, lib.USER_ID)
        os.setresuid(lib.USER_ID, lib.USER_ID, lib.USER_ID)

    tried = subprocess.run(
        ["unshare", "--user", "--map-root-user", "true"],
        preexec_fn=become,
        capture_output=True,
        text=True,
        check=False,
    )
    return None if tried.returncode == 0 else tried.stderr.strip()


@pytest.fixture(scope="session")
def callers():
    """One caller of each kind for the whole session, made when first asked for."""
    made = {}

    def get(who):
        if os.geteuid() != 0:
            pytest.skip("root: the tests make groups and become other users")
        if who == "user" and (why := _user_namespaces()):
            pytest.skip(f"userns: {why}")
        if who not in made:
            made[who] = lib.Cupel(who)
        return made[who]

    yield get
    for caller in made.values():
        caller.close()


@pytest.fixture(params=["root", "user"])
def who(request):
    return request.param


@pytest.fixture
def cupel(callers, who):
    """The caller; whatever the test ran, no group of it may be left."""
    caller = callers(who)
    caller.configure()
    yield caller
    shutil.rmtree(caller.base / "runtimes.d", ignore_errors=True)
    shutil.rmtree(caller.dir / "data", ignore_errors=True)  # a project's: every later test would be shown it
    for entry in (caller.dir / ".config/cupel/runtimes.d").glob("*"):
        entry.unlink()
    assert lib.wait_until(lambda: not caller.groups()), caller.groups()
