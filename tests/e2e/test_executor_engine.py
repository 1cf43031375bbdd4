"""Runs that Docker or Podman carries out: the same verdicts as here, by the engine's and the kernel's
own evidence, whoever dies in the middle, and nothing left."""

import json
import os
import shutil
import signal
import subprocess

import pytest

import cupel as lib
from engine_runs import LACKS, QUIET, engine, far, job_of, wait_for_text  # noqa: F401  (fixtures)

pytestmark = pytest.mark.test_all

GRAB = "data = bytearray(500 << 20); print(len(data))"


# How it ends


@pytest.mark.also_in_vm
def test_success_with_outputs_and_a_receipt(far, engine):
    script = "echo hello; echo oops >&2; echo 1,2 > $CUPEL_OUT_DIR/table.csv; env"
    result = far.run("--memory", "200M", "--cpus", "0.5", "--pids", "50", "--", "sh", "-c", script)
    assert (result.status, result.cause) == (0, "ok"), result.stderr
    assert result.stdout.startswith("hello\n") and result.log("stderr.log") == b"oops\n"
    assert [f["path"] for f in result.outputs["files"]] == ["out/table.csv"]
    names = {line.partition("=")[0] for line in result.stdout.splitlines()[1:]}
    here = far.run("-x", "local", "--", "env")
    assert names - {"PWD"} == {line.partition("=")[0] for line in here.stdout.splitlines()}
    executor = result.verdict["executor"]
    assert (executor["kind"], executor["state"]) == ("engine", "ended")
    assert executor["engine"].startswith(engine.kind)
    seen = result.receipt["evidence"]["receipt"]["seen"]
    assert seen["group"]["memory_max"] == 200 << 20 and seen["group"]["swap_max"] == 0
    assert seen["group"]["pids_max"] == 50
    assert seen["group"]["quota_usec"] * 2 == seen["group"]["period_usec"]
    assert seen["init"]["seccomp_filters"] == 2 and seen["init"]["capabilities"] == 0
    assert seen["init"]["uid"] >= 1 << 30
    assert [k for k, own in seen["own_namespaces"].items() if not own] == LACKS[engine.kind][1:]
    assert seen["landlock_abi"] > 0
    assert result.verdict["missing_layers"] == ",".join(LACKS[engine.kind])
    assert result.verdict["usage"]["memory_peak_bytes"] > 0


@pytest.mark.also_in_vm
def test_exit_status_and_signal_are_told_apart(far):
    said = far.run("--", "sh", "-c", "exit 137")
    assert (said.status, said.cause, said.verdict["signal"]) == (137, "exit", None)
    killed = far.run("--", "sh", "-c", "kill -9 $$")
    assert (killed.status, killed.cause, killed.verdict["signal"]) == (137, "signal", 9)
    plain = far.run("--", "sh", "-c", "exit 3")
    assert (plain.status, plain.cause) == (3, "exit")


def test_a_program_that_is_not_there(far):
    result = far.run("--", "no-such-program")
    assert result.status == 127 and result.verdict["evidence"]["exec_errno"] == 2
    assert far.run("--", "/etc/passwd").status == 126


@pytest.mark.also_in_vm
def test_oom_by_the_kernel_s_own_count(far):
    result = far.run("--memory", "64M", "--", "python3", "-c", GRAB)
    assert (result.status, result.cause) == (137, "oom"), result.stderr
    assert result.verdict["evidence"]["oom_kills"] >= 1
    control = far.run("--memory", "700M", "--", "python3", "-c", GRAB)
    assert (control.status, control.cause) == (0, "ok"), control.stderr


@pytest.mark.also_in_vm
def test_the_whole_container_ends_for_one_of_its_processes(far):
    result = far.run("--memory", "64M", "--", "sh", "-c", f"python3 -c '{GRAB}'; sleep 1000")
    assert (result.status, result.cause) == (137, "oom"), result.stderr


def test_files_in_memory_count_as_memory(far):
    for place in ("/tmp/x", "/dev/shm/x", "/var/tmp/x"):
        result = far.run("--memory", "64M", "--", "dd", "if=/dev/zero", f"of={place}", "bs=1M", "count=200")
        assert result.cause == "oom", (place, result.stderr)


def test_the_deadline_asks_first_and_then_kills(far):
    polite = "trap 'echo asked; exit 0' TERM; while :; do sleep 0.1; done"
    result = far.run("--time", "5s", "--", "sh", "-c", polite)  # a shell on a busy host has set its trap by then
    assert (result.status, result.cause, result.stdout) == (124, "deadline", "asked\n"), result.stderr
    deaf = "trap '' TERM; echo on; while :; do sleep 0.1; done"
    result = far.run("--time", "5s", "--grace", "1s", "--", "sh", "-c", deaf)
    assert (result.status, result.cause) == (124, "deadline"), result.stderr
    assert result.verdict["evidence"]["killed_by_force"]


@pytest.mark.also_in_vm
def test_too_many_processes(far):
    script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep %d & done; wait"
    result = far.run("--pids", "10", "--", "sh", "-c", script % 60)  # the first must not be over when the last is started
    assert result.cause == "pids" and result.verdict["evidence"]["pids_limit_hits"] >= 1
    assert far.run("--pids", "20", "--", "sh", "-c", script % 2).cause == "ok"


def test_a_full_disk(far):
    script = "head -c 50000000 /dev/zero > big"
    result = far.run("--disk", "20M", "--", "sh", "-c", script)
    assert result.cause == "disk", result.stderr
    assert far.run("--disk", "100M", "--", "sh", "-c", script).cause == "ok"


def test_what_is_still_running_ends_with_the_analysis(far):
    script = "setsid sleep 1000 & echo started; exit 0"
    result = far.run("--", "sh", "-c", script)
    assert (result.status, result.cause) == (0, "ok"), result.stderr


def test_a_missing_output_has_the_same_words_as_here(far):
    analysis = far.dir / "analysis.yaml"
    analysis.write_text(json.dumps({"command": ["true"], "outputs": [{"path": "out/a.csv", "required": True}]}))
    there, here = far.run(analysis), far.run("-x", "local", analysis)
    assert there.cause == here.cause == "output-missing", there.stderr
    notes = [r.verdict["completion_notes"].partition(" It ran without")[0] for r in (there, here)]
    assert notes[0] == notes[1] and "out/a.csv" in notes[0]
    analysis.unlink()


def test_what_it_prints_is_there_at_once_and_capped(far):
    process, run_id = far.start("--", "sh", "-c", "echo early; read line < /run/cupel/gate; sleep 1000", **QUIET)
    wait_for_text(far.run_dir(run_id) / "stdout.log", "early\n")
    assert far.call(far.binary, "cancel", run_id)[0] == 0
    process.wait(timeout=60)
    flood = far.run("--log", "1M", "--", "sh", "-c", "head -c 30000000 /dev/zero; echo done > out/x")
    assert flood.cause == "ok"
    assert (1 << 20) <= len(flood.log()) < (1 << 20) + 200
    assert flood.verdict["usage"]["log_dropped_bytes"] == 30000000 - (1 << 20)


def test_limits_of_the_analysis_are_not_those_of_its_log(far):
    """Pid 1, which keeps the log, is not the analysis."""
    script = (
        "import os, resource\nprint('x' * 3000000)\n"
        "print(resource.getrlimit(resource.RLIMIT_FSIZE), resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "files = []\ntry:\n    while True: files.append(os.open('/dev/null', os.O_RDONLY))\n"
        "except OSError as e: print(e.errno, len(files) < 32)\n[os.close(f) for f in files]\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "try:\n    open('out/x', 'wb', 0).write(bytes(102400)); os.truncate('out/x', 102401)\n"
        "except OSError as e: print(e.errno)\n"
    )
    result = far.run("--file-size", "100K", "--open-files", "32", "--", "python3", "-c", script)
    lines = result.stdout.splitlines()
    assert lines[1:] == ["(102400, 102400) (32, 32)", "24 True", "27"], (lines[1:], result.stderr)
    assert lines[0] == "x" * 3000000 and result.verdict["usage"]["log_dropped_bytes"] == 0
    assert result.cause == "ok" and "could not be written" not in result.verdict["completion_notes"]


def test_cancel_while_it_runs(far):
    script = "trap 'echo asked; exit 9' TERM; echo on; while :; do sleep 0.1; done"
    process, run_id = far.start("--", "sh", "-c", script, **QUIET)
    wait_for_text(far.run_dir(run_id) / "stdout.log", "on\n")
    assert far.call(far.binary, "cancel", run_id)[0] == 0
    process.wait(timeout=60)
    verdict = json.loads((far.run_dir(run_id) / "verdict.json").read_text())
    assert verdict["cause"] == "cancelled"
    assert (far.run_dir(run_id) / "stdout.log").read_text() == "on\nasked\n"


def test_a_signal_of_warning_reaches_the_analysis(far):
    script = "trap 'echo warned; exit 0' USR1; while :; do sleep 0.1; done"
    analysis = far.dir / "warned.yaml"
    analysis.write_text(json.dumps({"command": ["sh", "-c", script], "warn_signal": "USR1",
                                    "limits": {"time": "35s", "warn": "30s"}}))  # after 5 s: its trap is set by then
    result = far.run(analysis)
    assert (result.cause, result.stdout) == ("ok", "warned\n"), result.stderr
    analysis.unlink()


# What it may touch


def test_scripts_and_inputs_are_shown_and_closed(far):
    data = far.dir / "input, with: marks"
    data.mkdir()
    (data / "a b").write_text("content\n")
    script = far.dir / "script.py"
    script.write_text(
        "import os, sys\nprint(open('data/d/a b').read(), end='')\n"
        "for path in ('data/d/new', 'code/new', 'data/new'):\n"
        "    try:\n        open(path, 'w')\n        print('open', path)\n"
        "    except OSError as e:\n        print(e.errno in (13, 30))\n"
        "open('out/x', 'w').write('y')\n"
    )
    result = far.run("--data", f"{data}:d", script)
    assert result.stdout == "content\nTrue\nTrue\nTrue\n", result.stderr
    assert result.cause == "ok" and [f["path"] for f in result.outputs["files"]] == ["out/x"]
    shutil.rmtree(data)
    script.unlink()


INSIDE = """\
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, act):
    try:
        act()
        print(name, "done")
    except OSError as e:
        print(name, e.errno)
def call(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), "")
def put(path):
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
tried("own", lambda: open("out/own", "w"))
tried("tmp", lambda: open("/tmp/x", "w"))
tried("shadow", lambda: open("/etc/shadow"))
tried("home", lambda: os.listdir(HOME))
tried("root", lambda: open("/x", "w"))
tried("run", lambda: open("/run/x", "w"))
tried("status", lambda: put("/run/cupel/status"))
tried("stdout", lambda: put("/run/cupel/stdout"))
tried("truncate", lambda: os.truncate("/run/cupel/status", 0))
tried("chmod", lambda: os.chmod("/run/cupel/status", 0o666))
tried("chmod-out", lambda: os.chmod("/run/cupel/stdout", 0o666))
tried("init", lambda: os.listdir("/proc/1/fd"))
tried("init-mem", lambda: open("/proc/1/mem"))
tried("sysctl", lambda: open("/proc/sys/kernel/hostname", "w"))
tried("cgroup", lambda: os.mkdir("/sys/fs/cgroup/memory/x" if os.path.isdir("/sys/fs/cgroup/memory") else "/sys/fs/cgroup/x"))
tried("unshare", lambda: call(272, 0x10000000))
tried("mount", lambda: call(165, b"none", b"/tmp", b"tmpfs", 0, 0))
tried("ptrace", lambda: call(101, 16, 1, 0, 0))
tried("bpf", lambda: call(321, 0, 0, 0))
tried("uring", lambda: call(425, 1, 0))
tried("packet", lambda: socket.socket(17, 3, 0))
tried("vsock", lambda: socket.socket(40, 1, 0))
tried("inet", lambda: socket.socket())
tried("away", lambda: socket.create_connection(("192.0.2.1", 80), 2))
tried("clone", lambda: call(56, 0x10000000 | 17, 0, 0, 0, 0))
tried("clone3", lambda: call(435, 0, 0))
tried("kill-init", lambda: os.kill(1, 9))
print("processes", sorted(int(p) for p in os.listdir("/proc") if p.isdigit())[0:3] == [1, os.getpid()])
print("caps", [l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")])
print("links", sorted(os.listdir("/sys/class/net")))
"""


@pytest.mark.also_in_vm
def test_containment(far):
    """Each act that is refused, beside those that must still work."""
    result = far.run("--", "python3", "-c", f"HOME = {str(far.home)!r}\n" + INSIDE)
    lines = result.stdout.splitlines()
    answers = dict(line.split(" ", 1) for line in lines)
    assert result.cause == "ok", result.stderr
    works = {"own": "done", "tmp": "done", "inet": "done", "kill-init": "done"}
    closed = {"shadow": "2", "home": "2", "root": "13", "run": "13", "status": "13", "stdout": "13",
              "truncate": "13", "chmod": "1", "chmod-out": "1",
              "init": "13", "init-mem": "13", "sysctl": "13", "cgroup": "13", "unshare": "1", "mount": "1",
              "ptrace": "1", "bpf": "1", "uring": "1", "packet": "97", "vsock": "97", "away": "101",
              "clone": "1", "clone3": "38"}
    told = {"processes": "True", "caps": "['0000000000000000']", "links": "['lo']"}
    expected = {**works, **closed, **told}
    different = {k: (answers.get(k), v) for k, v in expected.items() if answers.get(k) != v}
    # A read-only file system says so before Landlock is asked.
    assert {k: v for k, v in different.items() if v[0] != "30"} == {}, lines
    # The control: the same program by the same interpreter without a box.
    _, out, err = far.call("/usr/bin/python3", "-c", "open('/etc/shadow'); import os; os.listdir('/proc/1/fd')")
    assert (out, err) == ("", "")


# Who dies in the middle


def keeper_pid(far, run_id):
    path = far.run_dir(run_id) / "events.jsonl"
    wait_for_text(path, '"started"')
    return json.loads(path.read_text().splitlines()[0])["data"]["keeper_pid"]


@pytest.mark.also_in_vm
def test_another_keeper_takes_over(far, engine):
    """Nothing is lost, and nothing runs twice."""
    script = "echo once >> out/count; echo on; while ! test -e out/go; do sleep 0.1; done; echo end; exit 5"
    process, run_id = far.start("--", "sh", "-c", script, **QUIET)
    wait_for_text(far.run_dir(run_id) / "stdout.log", "on\n")
    os.kill(keeper_pid(far, run_id), signal.SIGKILL)
    # Whoever waits for it sees to that.
    wait_for_text(far.run_dir(run_id) / "events.jsonl", '"taken-over"')
    (far.work_dir(run_id) / "out/go").touch()
    process.wait(timeout=60)
    verdict = far.run_dir(run_id) / "verdict.json"
    assert json.loads(verdict.read_text())["exit_code"] == 5
    assert (far.run_dir(run_id) / "stdout.log").read_text() == "on\nend\n"
    assert (far.run_dir(run_id) / "partial/out/count").read_text() == "once\n"


def test_one_that_ended_while_nobody_was_there_is_found(far, engine):
    script = "echo on; while ! test -e out/go; do sleep 0.1; done; echo end; echo x > out/x"
    process, run_id = far.start("--", "sh", "-c", script, **QUIET)
    wait_for_text(far.run_dir(run_id) / "stdout.log", "on\n")
    process.send_signal(signal.SIGSTOP)  # or it would see to another keeper
    os.kill(keeper_pid(far, run_id), signal.SIGKILL)
    process.kill()
    process.wait(timeout=60)
    job = job_of(engine)
    (far.work_dir(run_id) / "out/go").touch()
    assert lib.wait_until(lambda: engine.ask("GET", f"/containers/{job}/json")[1]["State"]["Status"] == "exited")
    assert far.call(far.binary, "ps")[0] == 0
    verdict = far.run_dir(run_id) / "verdict.json"
    assert lib.wait_until(verdict.exists)
    assert json.loads(verdict.read_text())["cause"] == "ok"
    assert (far.run_dir(run_id) / "stdout.log").read_text() == "on\nend\n"


def test_a_container_that_somebody_removes(far, engine):
    process, run_id = far.start("--", "sh", "-c", "echo on; sleep 1000", **QUIET)
    wait_for_text(far.run_dir(run_id) / "stdout.log", "on\n")
    assert engine.ask("DELETE", f"/containers/{job_of(engine)}?force=1", raw=True)[0] in (200, 204)
    process.wait(timeout=60)
    verdict = json.loads((far.run_dir(run_id) / "verdict.json").read_text())
    # Removing has two parts; in between one sees that it was killed.
    assert verdict["cause"] == "lost" or verdict["signal"] == 9, verdict


def test_a_container_that_somebody_kills(far, engine):
    process, run_id = far.start("--", "sh", "-c", "echo on; sleep 1000", **QUIET)
    wait_for_text(far.run_dir(run_id) / "stdout.log", "on\n")
    assert engine.ask("POST", f"/containers/{job_of(engine)}/kill?signal=KILL", raw=True)[0] == 204
    process.wait(timeout=60)
    verdict = json.loads((far.run_dir(run_id) / "verdict.json").read_text())
    assert (verdict["cause"], verdict["signal"], verdict["evidence"]["oom_kills"]) == ("signal", 9, 0)


def test_runs_at_once(far):
    started = [far.start("--", "sh", "-c", f"echo {i}; sleep 0.5; exit {i}", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
               for i in range(4)]
    for i, (process, run_id) in enumerate(started):
        out, _ = process.communicate(timeout=120)
        assert (process.returncode, out) == (i, f"{i}\n".encode()), run_id


@pytest.mark.limit_s(900)
def test_conformance(far):
    """The same test as for every other."""
    status, out, err = far.call(far.binary, "executor", "conformance", "there", "--json", limit_s=800)
    told = json.loads(out)
    assert (status, [case for case in told["cases"] if case["outcome"] == "failed"]) == (0, []), err
    assert {case["case"] for case in told["cases"] if case["outcome"] == "skipped"} == {"cancel-queued"}
