"""What a run inherits from its caller: resource limits, cores and an empty environment."""

import json
import pathlib

import pytest

import cupel as lib


def piped_cores():
    return pathlib.Path("/proc/sys/kernel/core_pattern").read_bytes()[:1] in (b"|", b"@")


def test_the_core_limit_is_one(cupel):
    """At which the kernel starts no handler of crashes; at 0 it does."""
    result = cupel.run("--", "sh", "-c", "ulimit -Hc; kill -SEGV $$")
    assert result.cause == "signal" and result.receipt["rlimits"]["core"] == 1


def test_a_caller_that_allows_no_cores(cupel):
    if piped_cores():
        pytest.skip("this host has a handler of cores; see tests/escape/test_cores.py")
    run_id = cupel.new_id()
    status, _, err = cupel.call(
        "prlimit", "--core=0:0", cupel.binary, "run", "-q", "--id", run_id, "--", "true"
    )
    assert (status, lib.verdict_of(cupel, run_id)["cause"]) == (0, "ok"), err


def test_the_callers_limit_on_files_is_an_error_of_set_up(root):
    """No sized file system can be made; the keeper lives to say so."""
    run_id = root.new_id()
    status, _, err = root.call(
        "prlimit", "--fsize=65536", root.binary, "run", "-q", "--id", run_id, "--", "true"
    )
    verdict = lib.verdict_of(root, run_id)
    assert (status, verdict["cause"]) == (125, "setup")
    assert "File too large" in err and "File too large" in verdict["completion_notes"]
    status, out, err = root.call(root.binary, "gc", "--json")
    assert status == 0 and json.loads(out)["lost"] == 0, err


def test_a_log_beyond_the_callers_limit_on_files(user):
    run_id = user.new_id()
    status, _, _ = user.call(
        "prlimit",
        "--fsize=65536",
        user.binary,
        "run",
        "-q",
        "--id",
        run_id,
        "--",
        "sh",
        "-c",
        "yes | head -c 200000",
    )
    verdict = lib.verdict_of(user, run_id)
    assert (status, verdict["cause"]) == (0, "ok")
    # Not the log limit, which is far away.
    assert (
        "File too large" in verdict["completion_notes"]
        and "limit of" not in verdict["completion_notes"]
    )


EMPTY_ENVIRONMENT = """
cp -a /etc "$1/etc" && mkdir -p "$1/etc/cupel" && cp "$2" "$1/etc/cupel/cupel.yaml" &&
mount --bind "$1/etc" /etc &&
shift 2 && exec env -i "$@"
"""


def test_a_caller_without_environment_shows_nothing_of_its_arguments(fresh):
    """With no variable after them, nothing but their own length tells where the arguments end."""
    fresh.configure(f"home: {fresh.home}\n")
    script = "cat /proc/1/cmdline; cat /proc/1/environ; true # the-callers-secret"
    status, out, err = fresh.call(
        "unshare",
        "-m",
        "sh",
        "-c",
        EMPTY_ENVIRONMENT,
        "sh",
        fresh.base,
        fresh.config,
        fresh.binary,
        "run",
        "--quiet",
        "--id",
        fresh.new_id(),
        "--label",
        "k=the-callers-secret",
        "--",
        "sh",
        "-c",
        script,
        cwd="/",
    )
    assert status == 0, err
    assert out.strip("\0") == ""
