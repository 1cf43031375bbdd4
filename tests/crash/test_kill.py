"""SIGKILL of each process of a run at many instants from its start on."""

import collections
import json
import random
import shutil
import signal
import subprocess
import time

import pytest

import cupel as lib
import leftovers
from crashes import children, kill

# A box is up after some 30 ms here, with the sanitizers after 100; on a loaded machine it is measured.
KILLS = 30 if lib.SLOW == 1 else 8
SPAN_S = 0.06 * lib.SLOW * (3 if lib.SANITIZED else 1)


def instants(crash):
    """Evenly spread, each a little beside its place; the seed is in the name of a failing test. Half of
    them at least are behind the start of a run, however slow that is here and now."""
    chance = random.Random(20)
    span_s = max(SPAN_S, 2 * beginning_s(crash))
    return [span_s * (number + chance.random()) / KILLS for number in range(KILLS)]


def beginning_s(crash):
    began = time.monotonic()
    process, run_id = start(crash, 1)
    with process:
        assert lib.wait_until(lambda: b'"started"' in events(crash, run_id))
        taken_s = time.monotonic() - began
        process.kill()
    crash.box_is_gone()
    return taken_s


def spin(seconds):
    """Exactly: a sleep would be longer than what it is to hit."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def start(crash, number, *options):
    """Every third makes the template of its working directory first, a phase of its own."""
    disk = f"{16 + number if number % 3 == 0 else 16}M"
    return crash.caller.start(
        "--memory",
        "64M",
        "--disk",
        disk,
        "--grace",
        "1s",
        *options,
        "--",
        "sh",
        "-c",
        "echo up > out/up; sleep 1000",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def test_kill_of_cupel_run(crash):
    """The keeper notices, ends the box and records it: nobody has to recover anything."""
    seen = collections.Counter()
    for number, instant in enumerate(instants(crash)):
        process, run_id = start(crash, number)
        with process:
            spin(instant)
            process.kill()
        crash.box_is_gone()
        verdict = crash.verdict(run_id)
        assert verdict is None or verdict["cause"] == "cancelled", (instant, verdict)
        seen[verdict and verdict["cause"]] += 1
        assert crash.assert_recovered(run_id) == verdict
    assert seen["cancelled"] > KILLS / 3, seen


def test_kill_of_the_keeper(crash):
    """The box dies with it, and whoever comes next, here `cupel run` itself, records it as lost."""
    seen = collections.Counter()
    for number, instant in enumerate(instants(crash)):
        process, run_id = start(crash, number)
        with process:
            keeper = crash.keeper_of(process)
            spin(instant)
            kill(keeper)
            _, err = process.communicate(timeout=60 * lib.SLOW)
        verdict = crash.assert_recovered(run_id)
        if verdict is None:
            assert process.returncode == 125 and b"nothing was started" in err, (instant, err)
        else:
            assert (verdict["cause"], process.returncode) == ("lost", 137), (instant, err)
        seen[verdict and verdict["cause"]] += 1
    assert seen["lost"] > KILLS / 3, seen


def test_kill_of_the_keeper_of_a_directory_in_memory(crash):
    """Nothing of it had a name: it is gone with the box, and no sweep has to look for it."""
    process, run_id = start(crash, 1, "--scratch", "memory")
    with process:
        assert lib.wait_until(lambda: b'"started"' in events(crash, run_id))
        keeper = crash.keeper_of(process)
        assert not crash.caller.work_dir(run_id).exists()
        kill(keeper)
        process.communicate(timeout=60 * lib.SLOW)
    crash.box_is_gone()
    assert not crash.caller.work_dir(run_id).exists()
    assert crash.assert_recovered(run_id)["cause"] == "lost"


def test_kill_of_both(crash):
    """As when the host's memory runs out: nobody is left who could say anything."""
    for number, instant in enumerate(instants(crash)):
        process, run_id = start(crash, number)
        with process:
            keeper = crash.keeper_of(process)
            spin(instant)
            for pid in (process.pid, keeper) if number % 2 else (keeper, process.pid):
                kill(pid)
        crash.box_is_gone()
        verdict = crash.assert_recovered(run_id)
        assert (
            verdict is None
            or verdict["cause"] == "lost"
            or (verdict["cause"] == "cancelled" and number % 2)
        ), (instant, verdict)


def test_kill_of_the_boxes_init(crash):
    """The verdict says so, and does not call it a memory limit."""
    seen = collections.Counter()
    for number, instant in enumerate(instants(crash)):
        process, run_id = start(crash, number)
        with process:
            init = crash.init_of(process)
            spin(instant)
            kill(init)
            process.communicate(timeout=60 * lib.SLOW)
        verdict = crash.assert_recovered(run_id)
        assert (verdict["cause"], process.returncode) in (("setup", 125), ("signal", 137)), (
            instant,
            verdict,
        )
        assert "init" in verdict["completion_notes"]
        seen[verdict["cause"]] += 1
    assert seen["signal"], seen


@pytest.mark.parametrize("victims", ["keeper", "both"])
def test_kill_near_the_end(crash, victims):
    """While outputs are collected and the verdict is written: it is there, whole, or lost."""
    seen = collections.Counter()
    for instant in instants(crash):
        process, run_id = crash.caller.start(
            "--memory",
            "64M",
            "--disk",
            "16M",
            "--",
            "sh",
            "-c",
            "head -c 3000000 /dev/zero > out/big",
            stderr=subprocess.DEVNULL,
        )
        with process:
            keeper = crash.keeper_of(process)
            spin(instant)
            kill(keeper)
            if victims == "both":
                process.kill()
        verdict = crash.assert_recovered(run_id)
        assert verdict is None or verdict["cause"] in ("ok", "lost"), (instant, verdict)
        seen[verdict and verdict["cause"]] += 1
        if verdict and verdict["cause"] == "ok":
            whole = json.loads((crash.caller.run_dir(run_id) / "outputs.json").read_text())
            assert [f["size"] for f in whole["files"]] == [3000000]
            assert (crash.caller.run_dir(run_id) / "outputs/out/big").stat().st_size == 3000000
    assert seen["lost"], seen


def test_kill_while_the_working_directory_is_formatted(crash_root):
    crash = crash_root
    for number in range(5):
        process, run_id = crash.caller.start(
            "--disk", f"{150 + number}M", "--", "true", stderr=subprocess.DEVNULL
        )
        with process:
            keeper = crash.keeper_of(process)
            while process.poll() is None and not any(is_mkfs(pid) for pid in children(keeper)):
                pass
            kill(keeper)
            process.kill()
        # A helper that lost its keeper ends by itself.
        verdict = crash.assert_recovered(run_id)
        assert verdict["cause"] in ("lost", "ok")


def is_mkfs(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
            return comm.read().startswith("mkfs")
    except OSError:
        return False


def test_kill_of_a_recovery(crash_root):
    """`cupel gc` killed at any instant: the next one finishes it."""
    crash = crash_root
    for number in range(KILLS // 2):
        process, run_id = start(crash, 1)
        with process:
            assert lib.wait_until(lambda: b'"started"' in events(crash, run_id))
            kill(crash.keeper_of(process))
            process.kill()
        crash.box_is_gone()
        with crash.caller.popen(crash.caller.binary, "gc", stdout=subprocess.DEVNULL) as sweep:
            spin(number * 0.0008 * lib.SLOW)
            sweep.kill()
        assert crash.assert_recovered(run_id)["cause"] == "lost"


def events(crash, run_id):
    try:
        return (crash.caller.run_dir(run_id) / "events.jsonl").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_the_keeper_cancels(crash, number):
    process, run_id = start(crash, 1)
    with process:
        assert lib.wait_until(lambda: b'"started"' in events(crash, run_id))
        kill(crash.keeper_of(process), number)
        assert process.wait(60) == 128 + number
    verdict = crash.assert_recovered(run_id)
    assert verdict["cause"] == "cancelled" and "signal" in verdict["completion_notes"]


def test_a_box_that_ignores_everything_dies_with_cupel_run(crash):
    process, run_id = crash.caller.start(
        "--grace",
        "300ms",
        "--",
        "sh",
        "-c",
        "trap '' TERM INT HUP; (trap '' TERM; setsid sleep 1000) & echo up;"
        "while :; do sleep 1000; done",
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"up\n"
        process.kill()
    crash.box_is_gone()
    verdict = crash.assert_recovered(run_id)
    assert verdict["cause"] == "cancelled" and verdict["evidence"]["killed_by_force"] is True


def test_the_next_command_of_any_kind_recovers(crash):
    for command in (["run", "--quiet", "--", "true"], ["gc"]):
        process, run_id = start(crash, 1)
        with process:
            assert lib.wait_until(lambda: b'"started"' in events(crash, run_id))
            kill(crash.keeper_of(process))
            process.kill()
        crash.box_is_gone()
        shown = json.loads(crash.caller.call(crash.caller.binary, "show", "--json", run_id)[1])
        assert shown["state"] in ("lost?", "ended")
        assert crash.caller.call(crash.caller.binary, *command)[0] == 0
        assert crash.verdict(run_id)["cause"] == "lost", command
        leftovers.assert_nothing_left(crash.caller)


def test_the_same_id_at_once_runs_once(crash):
    for _ in range(6):
        run_id = crash.caller.new_id()
        started = [
            crash.caller.start(
                "--memory",
                "64M",
                "--disk",
                "16M",
                "--",
                "sh",
                "-c",
                "echo ran; sleep 0.1",
                id=run_id,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )[0]
            for _ in range(5)
        ]
        said = [process.communicate(timeout=60 * lib.SLOW) for process in started]
        assert sorted(process.returncode for process in started) == [0, 2, 2, 2, 2], said
        assert sorted(out for out, _ in said) == [b"", b"", b"", b"", b"ran\n"]
        assert all(b"in use" in err or b"used before" in err for out, err in said if not out)
        assert crash.assert_recovered(run_id)["cause"] == "ok"


def test_recovery_never_takes_a_live_run_for_a_dead_one(crash):
    """Many sweeps beside many starts."""
    caller = crash.caller
    sweeps = [
        caller.popen("sh", "-c", 'while :; do "$0" gc >/dev/null || exit 1; done', caller.binary)
        for _ in range(2)
    ]
    started = [
        caller.start(
            "--memory",
            "64M",
            "--disk",
            "16M",
            "--",
            "sh",
            "-c",
            "echo x > out/x",
            stderr=subprocess.PIPE,
        )
        for _ in range(25)
    ]
    try:
        for process, run_id in started:
            err = process.communicate(timeout=120 * lib.SLOW)[1]
            assert process.returncode == 0, (err, crash.verdict(run_id))
            assert crash.verdict(run_id)["cause"] == "ok"
    finally:
        for sweep in sweeps:
            assert sweep.poll() is None, "a sweep failed"
            sweep.kill()
            sweep.wait()
    assert crash.assert_recovered(started[0][1])["cause"] == "ok"


def test_a_removed_record_leaves_nothing_behind(crash):
    """A dead run whose directory somebody removed: its groups, mount and working directory go."""
    process, run_id = start(crash, 1)
    with process:
        assert lib.wait_until(lambda: b'"started"' in events(crash, run_id))
        crash.kill_both(process)
    crash.box_is_gone()
    assert leftovers.leftovers(crash.caller)
    shutil.rmtree(crash.caller.run_dir(run_id))
    assert crash.recover() == {"lost": 0, "cleared": 1, "alive": 0, "failed": 0, "error": None}
    leftovers.assert_nothing_left(crash.caller)
    assert crash.caller.run("--", "true", id=run_id).cause == "ok"


def test_after_a_power_cut(crash_root):
    """The entry of a run may be gone while its directory is there, and its last event torn."""
    crash = crash_root
    process, run_id = start(crash, 1)
    with process:
        assert lib.wait_until(lambda: b'"started"' in events(crash, run_id))
        crash.kill_both(process)
    crash.box_is_gone()
    home = crash.caller.home
    (home / "active" / run_id).unlink()
    (home / "boot").write_text("another boot")
    with open(crash.caller.run_dir(run_id) / "events.jsonl", "ab") as log:
        log.write(b'{"n":3,"time":"20')
    assert crash.gc()["lost"] == 1
    assert crash.verdict(run_id)["cause"] == "lost"
    lines = events(crash, run_id).splitlines()
    assert lines[-2] == b'{"n":3,"time":"20' and json.loads(lines[-1])["event"] == "lost"
    assert json.loads(lines[-1])["prev"] == leftovers.hashlib.sha256(lines[-2]).hexdigest()
    leftovers.assert_nothing_left(crash.caller)
