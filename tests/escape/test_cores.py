"""Where the host hands crashes to a program, which runs as the host's root: no crash in a box starts
it. Only in a virtual machine, where the setting is ours."""

import json
import pathlib

import cupel as lib
import pytest

PATTERN = pathlib.Path("/proc/sys/kernel/core_pattern")
HANDLER = """#!/bin/sh
echo called >> "$1"
cat > /dev/null
"""
CRASH = ("sh", "-c", "kill -SEGV $$")

pytestmark = pytest.mark.vm


@pytest.fixture
def calls(cupel):
    """Where the handler notes that it was called."""
    before = PATTERN.read_text(encoding="utf-8")
    handler, called = cupel.base / "handler", cupel.base / "called"
    handler.write_text(HANDLER, encoding="utf-8")
    handler.chmod(0o755)
    called.write_text("", encoding="utf-8")
    PATTERN.write_text(f"|{handler} {called}", encoding="utf-8")
    yield called
    PATTERN.write_text(before, encoding="utf-8")


def test_no_crash_in_a_box_calls_the_handler(cupel, calls):
    cupel.call("prlimit", "--core=0:0", *CRASH)
    # The kernel does not wait for its end.
    assert lib.wait_until(lambda: calls.read_text(encoding="utf-8") == "called\n"), "the control: at a limit of 0 it is"
    result = cupel.run("--", *CRASH)
    assert result.cause == "signal" and result.receipt["rlimits"]["core"] == 1
    assert calls.read_text(encoding="utf-8") == "called\n"


def test_a_hard_limit_of_0_is_raised_or_refused(cupel, calls):
    """Root may raise it to 1; for others it is a fault of the host, with the remedy."""
    run_id = cupel.new_id()
    status, _, err = cupel.call(
        "prlimit", "--core=0:0", cupel.binary, "run", "-q", "--id", run_id, "--", *CRASH
    )
    verdict = json.loads((cupel.run_dir(run_id) / "verdict.json").read_text(encoding="utf-8"))
    if cupel.who == "root":
        receipt = json.loads((cupel.run_dir(run_id) / "receipt.json").read_text(encoding="utf-8"))
        assert (status, verdict["cause"]) == (139, "signal") and receipt["rlimits"]["core"] == 1
    else:
        assert (status, verdict["cause"]) == (125, "setup")
        assert "LimitCORE" in err and "ulimit -Hc" in err
    assert calls.read_text(encoding="utf-8") == ""
