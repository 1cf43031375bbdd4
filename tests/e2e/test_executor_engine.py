"""Runs that Docker or Podman carries out: the same verdicts as here, by the engine's and the kernel's
own evidence, whoever dies in the middle, and nothing left."""

import json
import os
import shutil
import signal
import subprocess

import cupel as lib
import engines
import pytest

GRAB = "data = bytearray(500 << 20); print(len(data))"
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
# Docker gives all but a namespace of users; Podman with groups of version 1 none of groups either.
LACKS = {"docker": ["user"], "podman": ["user"] if engines.IS_VERSION_2 else ["user", "cgroup"]}


@pytest.fixture(scope="module", params=engines.KINDS)
def engine(request):
    if os.geteuid() != 0:
        pytest.skip("root: engines are started by the tests")
    if missing := engines.Engine.missing(request.param):
        pytest.skip(f"engines: there is no {missing}")
    made = engines.Engine(request.param)
    yield made
    made.close()


@pytest.fixture
def far(root, engine):
    """Root, whose runs are the engine's unless they say otherwise."""
    engine.up()
    lacks = ", ".join(LACKS[engine.kind])
    root.configure(
        f"executors: {{there: {{kind: engine, socket: {engine.socket}, "
        f"allow_missing: [{lacks}], patience: 60s}}}}\ndefaults: {{executor: there}}\n"
    )
    yield root
    if engine.process:
        assert lib.wait_until(lambda: not engine.containers()), engine.containers()
        assert lib.wait_until(lambda: not engine.groups()), engine.groups()
    jobs = root.home / "jobs"
    assert lib.wait_until(lambda: not (jobs.exists() and list(jobs.iterdir()))), list(jobs.iterdir())


def job_of(engine):
    """The only container."""
    names = engine.containers()
    assert len(names) == 1, names
    return names[0].lstrip("/")


def wait_for_text(path, text):
    assert lib.wait_until(lambda: path.exists() and text in path.read_text(errors="replace")), path


# How it ends


@pytest.mark.version2
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


@pytest.mark.version2
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


@pytest.mark.version2
def test_oom_by_the_kernel_s_own_count(far):
    result = far.run("--memory", "64M", "--", "python3", "-c", GRAB)
    assert (result.status, result.cause) == (137, "oom"), result.stderr
    assert result.verdict["evidence"]["oom_kills"] >= 1
    control = far.run("--memory", "700M", "--", "python3", "-c", GRAB)
    assert (control.status, control.cause) == (0, "ok"), control.stderr


@pytest.mark.version2
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


@pytest.mark.version2
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


def test_a_log_that_can_t_be_kept_is_told(far, engine):
    """Pid 1 gets a limit of the size of files here, by its own user; in the control one that suffices."""
    script = "echo on >&2; while ! test -e out/go; do sleep 0.1; done; head -c 300000 /dev/zero; exit 3"
    for limit, kept in ((200000, 200000), (400000, 300000)):
        process, run_id = far.start("--", "sh", "-c", script, **QUIET)
        wait_for_text(far.run_dir(run_id) / "stderr.log", "on\n")
        pid = engine.ask("GET", f"/containers/{job_of(engine)}/json")[1]["State"]["Pid"]
        owner = os.stat(far.work_dir(run_id))
        subprocess.run(["prlimit", f"--pid={pid}", f"--fsize={limit}"], check=True,
                       user=owner.st_uid, group=owner.st_gid, extra_groups=[])
        (far.work_dir(run_id) / "out/go").touch()
        process.wait(timeout=60)
        verdict = json.loads((far.run_dir(run_id) / "verdict.json").read_text())
        assert (verdict["cause"], verdict["exit_code"]) == ("exit", 3), verdict
        assert (far.run_dir(run_id) / "stdout.log").stat().st_size == kept
        told = "log could not be written to the end: File too large" in verdict["completion_notes"]
        assert told == (kept < 300000), verdict
        assert verdict["executor"]["evidence"]["init"].get("log-failed") == (27 if told else None)
        assert lib.wait_until(lambda: not engine.containers())


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


@pytest.mark.version2
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


# Images


@pytest.fixture
def tree(far):
    """A small system of one static program."""
    place = far.base / "tree"
    for folder in ("usr/bin", "etc", "var/tmp", "home/someone", "tmp", "dev"):
        (place / folder).mkdir(parents=True)
    shutil.copy("/bin/busybox", place / "usr/bin/busybox")
    for tool in ("sh", "cat", "ls", "touch", "test"):
        (place / "usr/bin" / tool).symlink_to("busybox")
    (place / "bin").symlink_to("usr/bin")
    (place / "etc/passwd").write_text("intruder:x:0:0::/:/bin/sh\n")
    (place / "etc/os-release").write_text("NAME=Tiny\n")
    entry = far.base / "runtimes.d/tiny.yaml"
    entry.parent.mkdir(exist_ok=True)
    entry.write_text(f"name: tiny\nkind: rootfs\nroot: {place}\n")
    yield place
    shutil.rmtree(place)
    entry.unlink()


LOOK = "cat /etc/os-release; test -e /usr/bin/python3 && echo host; cat /etc/passwd; touch /usr/x || echo closed; ls /home"


def test_a_runtime_s_own_tree_becomes_an_image_once(far, engine, tree):
    before = engine.images()
    for _ in range(2):
        result = far.run("-r", "tiny", "--", "sh", "-c", LOOK)
        lines = result.stdout.splitlines()
        assert lines[0] == "NAME=Tiny" and "host" not in lines, result.stderr
        assert lines[-1] == "closed" and any(line.startswith("analysis:x:") for line in lines)
    made = set(engine.images()) - set(before)
    assert len(made) == 1
    (tree / "etc/os-release").write_text("NAME=Changed\n")
    result = far.run("-r", "tiny", "--allow-drift", "--", "cat", "/etc/os-release")
    assert result.stdout == "NAME=Changed\n", result.stderr
    assert len(set(engine.images()) - set(before)) == 2


def test_a_squashfs_file_too(far, engine, tree):
    file = far.base / "tiny.squashfs"
    subprocess.run(["mksquashfs", tree, file, "-quiet", "-no-progress"], check=True, stdout=subprocess.DEVNULL)
    entry = far.base / "runtimes.d/packed.yaml"
    entry.write_text(f"name: packed\nkind: rootfs\nroot: {file}\n")
    result = far.run("-r", "packed", "--", "cat", "/etc/os-release")
    assert result.stdout == "NAME=Tiny\n", result.stderr
    entry.unlink()
    file.unlink()


# Refusals, and who dies in the middle


def test_what_the_engine_lacks_must_be_allowed(root, engine):
    engine.up()
    root.configure(f"executors: {{there: {{kind: engine, socket: {engine.socket}}}}}\n")
    result = root.run("-x", "there", "--", "true")
    assert result.status == 2 and "can't give: user" in result.stderr and not result.run_dir.exists()
    checkpoint = root.run("-x", "there", "--allow-missing", "user", "--checkpoint", "ck", "--", "true")
    assert "checkpoint" in checkpoint.stderr and checkpoint.status == 2
    assert engine.containers() == []


# A filter that answers ENOSYS to one system call: LOAD number; IF it is that one; ALLOW or ERRNO.
WITHOUT = """\
import ctypes, os, struct, sys
words = [(0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (6, 0, 0, 0x50026), (6, 0, 0, 0x7fff0000)]
text = b"".join(struct.pack("HBBI", *w) for w in words)
class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
program = Program(len(words), text)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[2], sys.argv[2:])
"""
LANDLOCK_CREATE_RULESET, NOBODY_S = 444, 1000


def test_nothing_is_run_without_landlock(far, engine):
    """Whatever is allowed to be missing: it keeps what pid 1 notes from the analysis."""
    command = [far.binary, "run", "--allow-missing", "landlock", "--", "true"]
    status, _, err = far.call("/usr/bin/python3", "-c", WITHOUT, str(LANDLOCK_CREATE_RULESET), *command)
    assert status == 125 and "Landlock of ABI 1 is needed" in err, err
    assert engine.containers() == []
    status, _, err = far.call("/usr/bin/python3", "-c", WITHOUT, str(NOBODY_S), *command)
    assert status == 0, err


def test_notes_that_are_not_pid_1_s_alone_are_not_believed(far):
    """Were it ever possible to write to them: here by root."""
    script = "echo on; while ! test -e out/go; do sleep 0.1; done"
    for added, cause in (("x" * 5000 + "\nended 0\n", "lost"), ("\0", "lost"), ("", "ok")):
        process, run_id = far.start("--", "sh", "-c", script, **QUIET)
        wait_for_text(far.run_dir(run_id) / "stdout.log", "on\n")
        status = far.home / "jobs" / run_id / "status"
        assert status.stat().st_uid == 0 and status.stat().st_size < 200
        with open(status, "a", encoding="utf-8") as file:
            file.write(added)
        if cause == "ok":
            (far.work_dir(run_id) / "out/go").touch()
        process.wait(timeout=60)
        verdict = json.loads((far.run_dir(run_id) / "verdict.json").read_text())
        assert verdict["cause"] == cause, verdict
        assert ("somebody else wrote" in verdict["completion_notes"]) == (cause == "lost"), verdict


def test_an_engine_is_asked_once_what_it_can_do(far, engine):
    """Podman runs other programs to say it."""
    with engines.Relay(engine) as relay:
        far.configure(
            f"executors: {{there: {{kind: engine, socket: {relay.socket}, "
            f"allow_missing: [{', '.join(LACKS[engine.kind])}]}}}}\ndefaults: {{executor: there}}\n"
        )
        file = far.dir / "three.yaml"
        needs = {"a": [], "b": ["a"], "c": ["b"]}  # with the engine in their words, or the other's results would be used again
        file.write_text(json.dumps({"steps": {k: {"command": ["echo", k, engine.kind], "needs": v} for k, v in needs.items()}}))
        status, _, err = far.call(far.binary, "run", file)
        assert status == 0, err
        asked = [line.split()[1].partition("/v1.41")[2] for line in relay.lines]
        assert asked.count("/info") == 1 and asked.count("/_ping") >= 3, asked
        assert "/version" not in asked and sum(path.endswith("/start") for path in asked) >= 3
        file.unlink()


def test_an_engine_that_takes_later_versions_only(far, engine):
    """Docker 29 takes nothing below 1.44."""
    with engines.Relay(engine, least="1.44") as relay:
        far.configure(
            f"executors: {{there: {{kind: engine, socket: {relay.socket}, "
            f"allow_missing: [{', '.join(LACKS[engine.kind])}]}}}}\ndefaults: {{executor: there}}\n"
        )
        result = far.run("--", "sh", "-c", "echo hello; exit 3")
        assert (result.cause, result.status, result.stdout) == ("exit", 3, "hello\n"), result.stderr
        asked = [line.split()[1] for line in relay.lines]
        assert any(path.startswith("/v1.44/containers/create") for path in asked), asked
        old = [path for path in asked if path.startswith("/v1.41/")]
        assert len(old) == asked.count("/version") < 6, "each process finds it out once"


def test_an_engine_that_is_down_is_named_and_nothing_starts(far, engine):
    engine.down()
    result = far.run("--", "true")
    assert result.status == 125 and str(engine.socket) in result.stderr, result.stderr
    assert not result.run_dir.exists()
    engine.up()
    assert far.run("--", "true").cause == "ok"


def test_an_engine_that_is_down_for_a_while(far, engine):
    script = "echo on; while ! test -e out/go; do sleep 0.1; done; echo end"
    process, run_id = far.start("--", "sh", "-c", script, **QUIET)
    wait_for_text(far.run_dir(run_id) / "stdout.log", "on\n")
    engine.down()
    wait_for_text(far.run_dir(run_id) / "events.jsonl", '"unreachable"')
    engine.up()
    wait_for_text(far.run_dir(run_id) / "events.jsonl", '"reached-again"')
    (far.work_dir(run_id) / "out/go").touch()
    process.wait(timeout=120)
    verdict = json.loads((far.run_dir(run_id) / "verdict.json").read_text())
    assert verdict["cause"] == "ok", verdict
    assert (far.run_dir(run_id) / "stdout.log").read_text() == "on\nend\n"


def keeper_pid(far, run_id):
    path = far.run_dir(run_id) / "events.jsonl"
    wait_for_text(path, '"started"')
    return json.loads(path.read_text().splitlines()[0])["data"]["keeper_pid"]


@pytest.mark.version2
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


def test_a_name_that_is_taken_is_left_alone(far, engine):
    """By a container of somebody else's; and one that is not what was asked for never starts."""
    before = far.run("--", "true")
    assert before.cause == "ok"  # there is an image now
    name = json.loads((before.run_dir / "executor.json").read_text())["job"]
    tag = name.split("-")[1]
    run_id = far.new_id()
    body = {"Image": engine.images()[0], "Cmd": ["/nothing"]}
    status, made = engine.ask("POST", f"/containers/create?name=cupel-{tag}-{run_id}", body)
    assert status == 201, made
    result = far.run("--", "true", id=run_id)
    assert result.status == 125 and "rename it" in result.stderr, result.stderr
    assert engine.ask("DELETE", f"/containers/{made['Id']}?force=1", raw=True)[0] in (200, 204)


def test_a_container_that_is_not_what_was_asked_for_never_starts(root):
    """A host may have Podman add mounts to every container. Without them the same run succeeds: the tests above."""
    if missing := engines.Engine.missing("podman"):
        pytest.skip(f"engines: there is no {missing}")
    mine = root.base / "added"
    mine.mkdir()
    engine = engines.Engine("podman", f'volumes = ["{mine}:/added:rw"]')
    try:
        root.configure(
            f"executors: {{there: {{kind: engine, socket: {engine.socket}, allow_missing: [user, cgroup]}}}}\n"
        )
        result = root.run("-x", "there", "--", "sh", "-c", "echo ran; touch /added/x")
        assert (result.status, result.cause, result.stdout) == (125, "setup", ""), result.stderr
        assert "not what was asked for: mount: /added" in result.stderr
        assert lib.wait_until(lambda: not engine.containers()) and not list(mine.iterdir())
    finally:
        engine.close()
        mine.rmdir()


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
