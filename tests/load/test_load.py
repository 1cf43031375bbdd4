"""The short form of the load; `make soak` is the long one."""

import pathlib
import subprocess

import pytest

import cupel as lib
import services

SOAK = pathlib.Path(__file__).parent / "soak"
SERVICE = SOAK.with_name("service")
RUNS = 60 if lib.SLOW == 1 else 20


@pytest.mark.limit_s(900 * lib.SLOW)  # a run that hangs is named after 300 s
@pytest.mark.parametrize("who", ["root", "both"])
def test_mixed_runs_at_once(callers, who):
    """Every verdict is right, and nothing is left on the host."""
    callers("user" if who == "both" else "root")
    done = subprocess.run(
        [SOAK, "--runs", str(RUNS), "--jobs", "8", "--as", who],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.limit_s(900 * lib.SLOW)
def test_many_clients_of_one_service(callers):
    """A thousand runs of fifty clients: each ends once, and the service does not grow."""
    callers("root")
    if not services.SERVE.exists():
        pytest.skip("service: cupel was built without libmicrohttpd or libsystemd")
    done = subprocess.run([SERVICE, "--runs", "1000", "--clients", "50", "--rounds", "5"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
