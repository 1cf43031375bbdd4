"""`cupel doctor`: what holds is proven, what does not is named with a remedy, and nothing of the proof
is left. Hosts that give less are in hosts/test_hosts.py, the judgement is in unit/test_doctor.c."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import time

import cupel as lib
import leftovers
import pytest

LAYERS = "user mount pid net ipc uts cgroup landlock seccomp memory cpu pids disk".split()
STATUSES = ["ok", "note", "unknown", "weak", "missing"]


@pytest.fixture
def private(callers, who):
    """A caller with working directories of its own: a doctor of another process makes some too."""
    callers(who)  # skips where there is none
    caller = lib.Cupel(who, own_work=True)
    yield caller
    leftovers.assert_nothing_left(caller)
    caller.close()


def doctor(caller, *before, env=None):
    """Its exit status, its answer and its findings by name."""
    status, out, err = caller.call(*before, caller.binary, "doctor", "--json", env=env)
    assert status in (0, 1, 2), err
    answer = json.loads(out)
    findings = {check["name"]: check for check in answer["checks"]}
    assert len(findings) == len(answer["checks"])
    worst = max((STATUSES.index(check["status"]) for check in answer["checks"]), default=0)
    assert status == {0: 0, 1: 0, 2: 2, 3: 1, 4: 1}[worst], answer
    assert answer["status"] == ("ok" if worst < 2 else STATUSES[worst])
    assert all(check["evidence"] for check in answer["checks"])
    return status, answer, findings


def in_mounts_of_its_own(caller, shell):
    """`shell` is done as root, in a mount namespace; then the doctor."""
    return doctor(caller, "unshare", "--mount", "sh", "-ec", f'{shell}\nexec "$@"', "sh")


def assert_weaker(finding, status, word):
    assert finding["status"] == status and word in finding["evidence"], finding
    assert finding["remedy"], finding


def test_each_layer_and_limiter_is_proven(private):
    _, answer, findings = doctor(private)
    for name in LAYERS + ["privileges", "crash", "time", "removal"]:
        # An ordinary user's disk is watched; that is as documented.
        watched = name == "disk" and private.uid
        assert findings[name]["status"] == ("note" if watched else "ok"), findings[name]
    assert (answer["runs"], answer["missing_layers"], answer["uid"]) == ("full", "", private.uid)
    assert re.search("ended as 'oom': [1-9][0-9]* killed", findings["memory"]["evidence"])
    assert "held back: for" in findings["cpu"]["evidence"]
    assert "EAGAIN" in findings["pids"]["evidence"]
    assert ("'disk'" if private.uid else "ENOSPC") in findings["disk"]["evidence"]
    assert "ECONNREFUSED" in findings["net"]["evidence"]
    assert findings["clock"]["status"] in ("ok", "note") and findings["uids"]["status"] in (
        "ok",
        "note",
    )
    # Nothing is left of it, and nothing of it is ever taken for a run.
    assert not [*private.work_root.iterdir()] and not (private.home / "doctor").exists()
    assert not list((private.home / "runs").glob("doctor-*"))
    assert not list((private.home / "undelivered").glob("doctor-*"))
    assert not [path for path in (private.home / "active").iterdir()]


def test_the_acts_succeed_without_a_box(user):
    """The control of the whole: outside, everything is reached."""
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        name = f"cupel-test-{os.getpid()}"
        abstract.bind("\0" + name)
        abstract.listen()
        acts = (tcp.getsockname()[1], name, "none", user.base)
        (user.dir / "tmp").mkdir(exist_ok=True)
        user.own(user.dir / "tmp")
        status, out, err = user.call(user.binary, "doctor", "--inside", "layers", *acts)
    assert status == 0, err
    said = dict(line.split("=") for line in out.split())
    reached = ("loopback", "tcp", "abstract", "home", "work", "urandom")
    assert {said[key] for key in reached} == {"0"}, said
    assert int(said["processes"]) > 2 and said["no_new_privs"] == "0"
    assert [key for key, value in said.items() if key.startswith("call.") and value != "1"]
    status, out, err = user.call(user.binary, "doctor", "--inside", "memory")
    assert (status, out) == (0, f"touched={96 << 20}\n"), err
    status, out, err = user.call(user.binary, "doctor", "--inside", "pids")
    assert (status, out) == (0, "made=64\n"), err


def checks(caller):
    with contextlib.closing(sqlite3.connect(caller.home / "cupel.db")) as db:
        return db.execute(
            "SELECT time, status, summary, detail FROM checks WHERE kind = 'doctor' ORDER BY time"
        ).fetchall()


def test_each_time_is_recorded(cupel):
    before = len(checks(cupel)) if (cupel.home / "health/doctor.json").exists() else 0
    _, answer, _ = doctor(cupel)
    last = json.loads((cupel.home / "health/doctor.json").read_text(encoding="utf-8"))
    assert (last["kind"], last["subject"], last["status"]) == ("doctor", "", answer["status"])
    assert last["summary"] == answer["summary"] and last["detail"] == answer
    rows = checks(cupel)
    assert len(rows) == before + 1
    assert rows[-1][:3] == (last["time"], last["status"], last["summary"])
    assert json.loads(rows[-1][3]) == answer
    status, _, err = cupel.call(cupel.binary, "ledger", "rebuild")
    assert status == 0 and checks(cupel) == rows, err


def test_a_damaged_record_holds_up_nobody(fresh):
    """Not the delivery of runs, nor the next record; and half a one is swept."""
    doctor(fresh)
    (fresh.home / "health/doctor.json").write_text("{ half", encoding="utf-8")
    (fresh.home / "health/.new-doctor.json-1").write_text("{ half", encoding="utf-8")
    assert fresh.run("--", "true").status == 0
    status, _, err = fresh.call(fresh.binary, "ledger", "check")
    assert status == 0, err
    assert [path.name for path in (fresh.home / "health").iterdir()] == ["doctor.json"]
    doctor(fresh)
    assert len(checks(fresh)) == 2


def test_a_ledger_that_is_down(fresh):
    """The finding waits in the home, and is entered with the next run."""
    fresh.configure("ledger: {url: 'postgresql://nobody@127.0.0.1:1/none'}\n")
    status, _, findings = doctor(fresh)
    assert status == 1
    assert_weaker(findings["ledger"], "missing", "127.0.0.1")
    assert findings["memory"]["status"] == "ok"
    kept = json.loads((fresh.home / "health/doctor.json").read_text(encoding="utf-8"))
    fresh.configure()
    assert fresh.run("--", "true").status == 0
    assert lib.wait_until(lambda: (fresh.home / "ledger.json").exists())
    status, _, err = fresh.call(fresh.binary, "ledger", "check")
    assert status == 0, err
    assert [row[0] for row in checks(fresh)] == [kept["time"]]


def test_words(root):
    status, out, err = root.call(root.binary, "doctor")
    assert status in (0, 1) and err == ""
    lines = out.splitlines()
    assert [line for line in lines if line.startswith("ok       memory ")]
    assert {"box", "limits", "host", "home", "extras"} <= set(lines)
    assert lines[-1].startswith("Runs get everything here that is promised of them.")
    assert "\033" not in out


def test_a_terminal_sees_how_far_it_is(root):
    command = ("script", "-qec", f"{root.binary} doctor", "/dev/null")
    status, out, _ = root.call(*command, env={"TERM": "xterm"})
    assert status in (0, 1) and "doctor: the limiters (" in out


STAGES = {
    "begun": 0,
    "layers": 1,
    "limiters": 3,
}


@pytest.mark.parametrize("stage", STAGES)
def test_killed_it_leaves_nothing_that_a_sweep_does_not_find(private, stage):
    trials = private.home / "doctor"

    def reached():
        runs = trials / "runs"
        return runs.exists() and len(list(runs.iterdir())) >= STAGES[stage]

    with private.popen(private.binary, "doctor", stdout=subprocess.DEVNULL) as process:
        assert lib.wait_until(lambda: reached() or process.poll() is not None)
        process.send_signal(signal.SIGKILL)

    # Keepers see the end of the doctor, and end their boxes first.
    def swept():
        status, _, err = private.call(private.binary, "gc", "--json")
        assert status == 0, err
        return not trials.exists()

    assert lib.wait_until(swept)
    assert not [*private.work_root.iterdir()]


def test_a_sweep_leaves_a_live_one_alone(root):
    with root.popen(root.binary, "doctor", "--json", stdout=subprocess.PIPE) as process:
        assert lib.wait_until(lambda: (root.home / "doctor/runs").exists())
        while process.poll() is None:
            status, _, err = root.call(root.binary, "gc")
            assert status == 0, err
        answer = json.loads(process.stdout.read())
    assert answer["runs"] == "full" and answer["status"] not in ("missing", "unknown"), answer


def test_two_at_once(root):
    two = [root.popen(root.binary, "doctor", "--json", stdout=subprocess.PIPE) for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=lib.RUN_LIMIT_S)[0]) for process in two]
    assert [answer["runs"] for answer in answers] == ["full", "full"]


def test_a_clock_that_was_set_back(root):
    (root.home / "health").mkdir(parents=True, exist_ok=True)
    future = time.time() + 86400
    os.utime(root.home / "health", (future, future))
    status, _, findings = doctor(root)
    assert status == 1
    assert_weaker(findings["clock"], "weak", "before the last record of health")


def test_a_home_in_memory_that_is_small(fresh):
    fresh.home.mkdir()
    _, _, findings = in_mounts_of_its_own(
        fresh, f"mount -t tmpfs -o mode=755,size=100m none {fresh.home}"
    )
    assert_weaker(findings["home"], "weak", "memory")
    assert_weaker(findings["free disk"], "weak", str(fresh.home))


def test_a_home_that_cannot_be_written(user):
    status, answer, findings = doctor(user, env={"CUPEL_HOME": "/proc/cupel"})
    assert (status, answer["runs"]) == (1, "none")
    assert_weaker(findings["home"], "missing", "/proc/cupel")
    assert "memory" not in findings or findings["memory"]["status"] == "unknown"


SETTINGS = {
    "/etc/subuid": ("somebody:1900000000:65536\n", "uids", "weak", "somebody"),
    # Not even tried: the host would stop.
    "/proc/sys/vm/panic_on_oom": ("2\n", "memory", "missing", "not tried"),
    "/proc/cmdline": ("quiet mitigations=off\n", "kernel settings", "weak", "mitigations"),
}


def test_settings_that_weaken_a_promise(root):
    if not pathlib.Path("/etc/subuid").exists():
        pytest.skip("newuidmap: there is no /etc/subuid")
    binds = []
    for number, (path, (text, *_)) in enumerate(SETTINGS.items()):
        shown = root.dir / f"setting-{number}"
        shown.write_text(text, encoding="utf-8")
        binds.append(f"mount --bind {shown} {path}")
    _, _, findings = in_mounts_of_its_own(root, "\n".join(binds))
    for path, (_, name, status, word) in SETTINGS.items():
        assert_weaker(findings[name], status, word)
        assert findings[name]["remedy_as_root"] == path.startswith("/proc/")


def test_usage(root):
    assert root.call(root.binary, "doctor", "me")[0] == 2
    assert root.call(root.binary, "doctor", "--inside", "nonsense")[0] == 2
