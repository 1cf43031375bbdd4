"""Several commands find the same dead run: one records it, and the others wait for that."""

import fcntl
import os
import subprocess
import threading

import pytest

import cupel as lib
from crashes import kill

pytestmark = pytest.mark.not_in_vm


def waits_for_a_lock(pid):
    """`-> POSIX ADVISORY WRITE PID ...` in /proc/locks."""
    with open("/proc/locks", encoding="ascii") as locks:
        return any("->" in line and str(pid) in line.split() for line in locks)


@pytest.fixture
def contested(crash):
    """A run whose entry we lock in the very moment its keeper dies, as another command could."""
    process, run_id = crash.caller.start(
        "--memory",
        "64M",
        "--disk",
        "16M",
        "--",
        "sh",
        "-c",
        "echo up; sleep 1000",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"up\n"
    fd = os.open(crash.caller.home / "active" / run_id, os.O_RDWR)
    taking = threading.Thread(target=fcntl.lockf, args=(fd, fcntl.LOCK_EX))
    taking.start()
    assert lib.wait_until(lambda: waits_for_a_lock(os.getpid()))
    kill(crash.keeper_of(process))
    taking.join()
    with process:
        yield process, run_id, fd


def test_cupel_run_waits_for_the_command_that_recovers(crash, contested):
    """Its exit status is 137, and the verdict is there when it returns."""
    process, run_id, fd = contested
    lib.wait_until(lambda: waits_for_a_lock(process.pid) or process.poll() is not None)
    # If it had the lock before us there was nobody to wait for; what it leaves is the same.
    os.close(fd)
    _, err = process.communicate(timeout=60 * lib.SLOW)
    assert (process.returncode, crash.verdict(run_id)["cause"]) == (137, "lost"), err
    assert crash.assert_recovered(run_id)["cause"] == "lost"
