"""The short form of the load; `make soak` is the long one."""

import pathlib
import subprocess

import pytest

import cupel as lib

SOAK = pathlib.Path(__file__).parent / "soak"
RUNS = 60 if lib.SLOW == 1 else 20


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
