"""Processes: none is seen, signalled or traced, and none survives its run."""

import os
import pathlib
import subprocess

import pytest

import cupel as lib


def processes_named(name):
    """Host pids of processes that call themselves so."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text(encoding="utf-8", errors="replace").strip() == name:
                found.append(int(path.parent.name))
        except OSError:
            pass
    return found


def test_no_process_of_the_host_is_seen(cupel):
    """Only init, the analysis and its children; a host process of the same user is not there."""
    with cupel.popen("/bin/sleep", "600") as victim:
        try:
            acts = [
                f"kill={victim.pid},0",
                f"pidfd_open={victim.pid}",
                f"prlimit={victim.pid}",
                f"affinity={victim.pid}",
                f"getsid={victim.pid}",
                f"list=/proc/{victim.pid}",
            ]
            control = cupel.outside(*acts)
            assert [control[act] for act in acts[:5]] == ["ok"] * 5
            # The numbers are not even taken in the box: pids there begin at 1.
            expected = {**{act: "ESRCH" for act in acts[:5]}, acts[5]: "ENOENT"}
            assert cupel.probed(*expected)[0] == expected
        finally:
            victim.kill()
    result = cupel.run("--", "/bin/sh", "-c", "ls -d /proc/[0-9]*")
    assert len(result.stdout.split()) <= 3


INIT = {
    # Permitted, since it is the same user, and ignored by the kernel: pid 1 takes no signal it
    # does not handle.
    "kill=1,9": "ok",
    "kill=1,19": "ok",
    "kill=1,15": "ok",
    "ptrace=1": "EPERM",
    "vm-read=1": "EPERM",
    "pidfd_getfd=1": "EPERM",
    "getppid": "2",
}


@pytest.mark.parametrize("act", INIT)
def test_init_is_not_touched(inside, act):
    """And the run goes on to its end afterwards."""
    assert inside(INIT)[act] == INIT[act]


def test_a_daemon_does_not_survive(cupel):
    """Double-forked, in a session of its own, deaf to every signal, and holding standard output
    open."""
    name = f"left{os.getpid()}"[:15]
    answers, result = cupel.probed(f"daemon={name}")
    assert (answers[f"daemon={name}"], result.cause) == ("ok", "ok")
    assert processes_named(name) == []
    # The control: the same program without a box leaves one behind.
    outside = name[:-1] + "X"
    with cupel.popen(cupel.probe, f"daemon={outside}", stdout=subprocess.DEVNULL) as process:
        process.wait()
    assert lib.wait_until(lambda: processes_named(outside))
    for pid in processes_named(outside):
        os.kill(pid, 9)


def test_stopped_processes_and_zombies_do_not_survive(cupel):
    answers, result = cupel.probed("stopped=30")
    assert (answers["stopped=30"], result.cause) == ("ok", "ok")


def test_who_ignores_sigterm_is_killed_at_the_deadline(cupel):
    result = cupel.run(
        "--data",
        f"{cupel.probe}:probe",
        "--time",
        "3s",  # until then it has to be deaf
        "--grace",
        "200ms",
        "--",
        "data/probe",
        "-x",
        "stubborn",
    )
    assert (result.cause, result.status) == ("deadline", 124)
    assert result.verdict["evidence"]["killed_by_force"] is True


def test_a_fork_storm_while_dying_does_not_survive(cupel):
    """Children are made as fast as they are killed; the box must still come to its end."""
    result = cupel.run(
        "--data",
        f"{cupel.probe}:probe",
        "--pids",
        "60",
        "--time",
        "3s",
        "--grace",
        "100ms",
        "--",
        "data/probe",
        "-x",
        "fork-bomb",
    )
    assert result.cause in ("deadline", "pids")
    assert result.verdict["evidence"]["pids_limit_hits"] > 0
    # Other tests on this host may have one of that name for a moment.
    assert lib.wait_until(lambda: processes_named("probe") == [])


def test_a_stopped_analysis_still_ends(cupel):
    result = cupel.run("--time", "1s", "--grace", "100ms", "--", "/bin/sh", "-c", "kill -STOP $$")
    assert (result.cause, result.status) == ("deadline", 124)


def test_init_reaps_who_is_orphaned(cupel):
    """A storm of orphans leaves no zombies that would fill the process limit."""
    result = cupel.run(
        "--pids",
        "40",
        "--",
        "/usr/bin/python3",
        "-c",
        """
import os, time
def fork():
    for _ in range(3000):
        try:
            return os.fork()
        except BlockingIOError:
            time.sleep(0.01)  # init is to have its turn
    raise SystemExit("zombies")
for _ in range(300):
    if fork() == 0:
        if fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
print("done")
""",
    )
    assert (result.cause, result.stdout) == ("ok", "done\n")


@pytest.mark.parametrize(
    "raise_it, raised",
    [
        (("chrt", "-f", "1"), (1, 0)),
        (("chrt", "-r", "1"), (2, 0)),
        (("nice", "-n", "-5"), (0, -5)),
    ],
    ids=["fifo", "round-robin", "nice"],
)
def test_a_callers_raised_priority_is_not_inherited(callers, raise_it, raised):
    """A service may run above others. What it starts must not: weights of cpu mean nothing then."""
    caller = callers("root")
    caller.configure()
    ask = "import os; print((os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)))"
    python = ("/usr/bin/python3", "-c", ask)
    _, out, _ = caller.call(*raise_it, *python)
    assert out == f"{raised}\n", "the control: outside the box it is inherited"
    status, out, err = caller.call(
        *raise_it, caller.binary, "run", "--quiet", "--id", caller.new_id(), "--", *python
    )
    assert (status, out) == (0, "(0, 0)\n"), err
