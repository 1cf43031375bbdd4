"""The oci executor with real runtimes: crun, runc, runsc. The box is theirs, all else is the
keeper's: verdicts are those of cupel's own box, which is the control, and nothing is left."""

import importlib.util
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess

import pytest

import cupel as lib
import leftovers
from crashes import Crash

pytestmark = pytest.mark.test_all

NAMES = ["crun", "runc", "runsc"]
# gVisor needs more of both than cupel's own box does: its own memory and threads count.
ROOMY = ("--memory", "300M")


def _config():
    lines = ["executors:"]
    for name in NAMES:
        program = shutil.which(name, path="/usr/sbin:/usr/bin")
        if program:
            extra = ", flags: [--platform=ptrace], allow_missing: [landlock, user]"
            lines.append(
                f"  {name}: {{kind: oci, program: {program}{extra if name == 'runsc' else ''}}}"
            )
            lines.append(f"  strict-{name}: {{kind: oci, program: {program}}}")
    return "\n".join(lines) + "\n"


def _trees(caller):
    return [path for path in pathlib.Path("/sys/fs/cgroup").glob(f"*/{caller.name}")]


@pytest.fixture(scope="module")
def made(callers):
    callers("root")  # skips where there is none
    caller = lib.Cupel("root", _config())
    yield caller
    for tree in _trees(caller):
        lib._remove_group(tree)
    caller.close()


@pytest.fixture
def caller(made):
    yield made
    leftovers.assert_nothing_left(made)
    assert not list((made.home / "bundles").glob("*")) if made.home.exists() else True
    groups = [str(p) for top in _trees(made) for p in (top / "cupel").glob("*") if p.is_dir()]
    assert not groups, groups


@pytest.fixture(params=NAMES)
def name(request):
    if not shutil.which(request.param, path="/usr/sbin:/usr/bin"):
        pytest.skip(f"{request.param}: not installed")
    return request.param


def run(caller, name, *words, **options):
    return caller.run("-x", name, *ROOMY, *words, **options)


def test_a_success(caller, name):
    script = "echo said; echo warned >&2; mkdir -p out; echo made > out/x; cat data/given"
    given = caller.dir / "given"
    given.write_text("shown\n", encoding="utf-8")
    result = run(caller, name, "--data", f"{given}:given", "--", "sh", "-c", script)
    assert result.cause == "ok", result.stderr
    assert result.log() == b"said\nshown\n" and result.log("stderr.log") == b"warned\n"
    assert [f["path"] for f in result.outputs["files"]] == ["out/x"]
    assert (result.run_dir / "outputs/out/x").read_text() == "made\n"
    executor = result.verdict["executor"]
    assert executor["name"] == name and executor["kind"] == "oci"
    assert executor["engine"].startswith(name)
    assert result.receipt["executor"] == executor
    assert json.loads((result.run_dir / "analysis.json").read_text())["executor"] == name


def test_the_receipt(caller, name):
    result = run(caller, name, "--", "true")
    receipt = result.receipt
    assert set(receipt["capabilities"].values()) == {"0"}
    assert receipt["no_new_privs"] is True and receipt["seccomp"]["mode"] == 2
    assert receipt["oom_score_adj"] == 500
    if name == "runsc":
        assert receipt["executor"]["kernel"] == "gVisor"
        assert receipt["missing_layers"] == result.verdict["missing_layers"] == "landlock,user"
        return
    assert receipt["missing_layers"] == ""
    assert receipt["landlock"]["proven_by_refused_write"]
    assert all(ns["own"] for ns in receipt["namespaces"].values())
    # Nothing but where it was made differs from the receipt of cupel's own box.
    own = caller.run(*ROOMY, "--", "true").receipt
    for key in ("capabilities", "seccomp", "landlock", "rlimits", "cpus_visible", "no_new_privs"):
        assert receipt[key] == own[key]
    assert receipt["user"]["uid_inside"] == own["user"]["uid_inside"] == 1000
    assert receipt["budget"]["mechanism"] == own["budget"]["mechanism"]


ENDINGS = {
    "exit": (("--", "sh", "-c", "exit 7"), "exit"),
    "137 is only an exit": (("--", "sh", "-c", "exit 137"), "exit"),
    "signal": (("--", "sh", "-c", "kill -SEGV $$"), "signal"),
    "not found": (("--", "nonesuch"), "exit"),
    "no program": (("--", "/etc/passwd"), "exit"),
    "oom": (("--", "python3", "-c", "x = b'a' * (1 << 30)"), "oom"),
    "deadline": (("--time", "1s", "--grace", "1s", "--", "sleep", "100"), "deadline"),
    "cpu": (("--cpu-time", "1s", "--", "sh", "-c", "while :; do :; done"), "cpu"),
    "disk": (
        ("--disk", "16M", "--", "sh", "-c", "head -c 64M /dev/zero > out/big"),
        "disk",
    ),
    "a log without end": (("--log", "1M", "--", "head", "-c", "20M", "/dev/zero"), "ok"),
}


@pytest.mark.parametrize("what", ENDINGS)
def test_the_same_verdict_as_in_cupels_own_box(caller, name, what):
    words, cause = ENDINGS[what]
    there = run(caller, name, *words)
    here = caller.run(*ROOMY, *words)
    assert here.cause == cause, here.stderr
    assert there.cause == cause, (there.verdict, there.stderr)
    for key in ("exit_code", "signal", "exit_status"):
        assert there.verdict.get(key) == here.verdict.get(key), key
    if what == "a log without end":
        assert len(there.log()) == len(here.log()) <= 2 << 20


def test_a_required_output_that_is_missing(caller, name):
    path = caller.dir / "required.yaml"
    path.write_text(f"command: touch out/y\nexecutor: {name}\noutputs: [{{path: out/x, required: true}}]\n")
    result = caller.run(*ROOMY, path)
    assert (result.status, result.cause) == (1, "output-missing")
    assert result.verdict["executor"]["name"] == name


def test_a_checkpoint(caller, name):
    script = "n=$(cat saved/n || echo 0); echo $n; echo $((n + 1)) > saved/n; [ $n = 1 ] || exit 85"
    words = ("--checkpoint", "saved", "--checkpoint-exit-code", "85", "--", "sh", "-c", script)
    first, second = run(caller, name, *words), run(caller, name, *words)
    assert (first.cause, first.log()) == ("checkpointed", b"0\n")
    assert (second.cause, second.log()) == ("ok", b"1\n")


@pytest.mark.parametrize("packed", [False, True])
def test_a_root_of_its_own(caller, name, packed):
    busybox = pathlib.Path("/bin/busybox")
    if not busybox.exists() or not shutil.which("mksquashfs"):
        pytest.skip("rootfs: busybox or mksquashfs is missing")
    tree = caller.base / f"tree-{name}-{packed}"
    (tree / "bin").mkdir(parents=True)
    shutil.copy(busybox, tree / "bin/busybox")
    (tree / "bin/sh").symlink_to("busybox")
    root = tree
    if packed:
        root = tree.with_suffix(".squashfs")
        subprocess.run(["mksquashfs", tree, root, "-quiet", "-no-progress"], check=True, stdout=subprocess.DEVNULL)
    entry = caller.base / "runtimes.d" / "tiny.yaml"
    entry.parent.mkdir(exist_ok=True)
    entry.write_text(f"name: tiny\nkind: rootfs\nroot: {root}\n", encoding="utf-8")
    script = "busybox ls /bin; busybox touch /bin/x; busybox echo made > out/x"
    result = run(caller, name, "-r", "tiny", "--", "sh", "-c", script)
    assert result.cause == "ok", result.stderr
    assert result.log().split() == [b"busybox", b"sh"] and b"/bin/x" in result.log("stderr.log")
    assert (result.run_dir / "outputs/out/x").read_text() == "made\n"
    assert not (tree / "bin/x").exists()


FORKS = "import os, time\nfor _ in range(2000):\n\tif os.fork() == 0: time.sleep(100)\n"


def test_too_many_processes(caller, name):
    if name == "runsc":  # the refusal is the test of this
        result = caller.run("-x", name, *ROOMY, "--pids", "64", "--", "true")
        assert result.status == 2 and "--pids 512" in result.stderr and result.verdict is None
        return
    result = run(caller, name, "--pids", "64", "--", "python3", "-c", FORKS)
    assert result.cause == "pids", result.verdict
    assert caller.run(*ROOMY, "--pids", "64", "--", "python3", "-c", FORKS).cause == "pids"


def test_a_layer_it_lacks_is_refused(caller):
    if not shutil.which("runsc"):
        pytest.skip("runsc: not installed")
    result = caller.run("-x", "strict-runsc", *ROOMY, "--", "true")
    assert result.status == 2 and result.verdict is None
    assert "user, landlock" in result.stderr and "allow_missing" in result.stderr
    allowed = caller.run(
        "-x", "strict-runsc", *ROOMY, "--allow-missing", "landlock,user", "--", "true"
    )
    assert allowed.cause == "ok" and allowed.verdict["missing_layers"] == "landlock,user"


def test_no_such_program(caller):
    caller.configure("executors:\n  none: {kind: oci, program: /nonesuch}\n")
    try:
        result = caller.run("-x", "none", "--", "true")
        assert result.status == 125 and "/nonesuch" in result.stderr and result.verdict is None
        caller.configure("executors:\n  none: {kind: oci, program: /bin/false}\n")
        result = caller.run("-x", "none", "--", "true")
        assert result.status == 125 and "OCI runtime" in result.stderr
    finally:
        caller.configure(_config())


def test_an_error_of_the_runtime_is_shown(caller, name):
    caller.configure(_config().replace(f"  {name}: {{kind: oci,", f"  {name}: {{kind: oci, flags: [--nonesuch],").replace(
        ", flags: [--platform=ptrace]", ""))
    try:
        result = run(caller, name, "--", "true")
    finally:
        caller.configure(_config())
    assert result.cause == "setup" and result.status == 125
    assert "create" in result.verdict["completion_notes"]


def wait_started(caller, run_id):
    events = caller.run_dir(run_id) / "events.jsonl"
    assert lib.wait_until(lambda: events.exists() and '"started"' in events.read_text())
    return [json.loads(line) for line in events.read_text().splitlines()]


TRAP = "trap 'echo heard; exit 0' TERM; echo ready; while :; do sleep 0.1; done"


def wait_said(caller, run_id, what):
    log = caller.run_dir(run_id) / "stdout.log"
    assert lib.wait_until(lambda: log.exists() and what in log.read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancel(caller, name, number):
    process, run_id = caller.start("-x", name, *ROOMY, "--", "sh", "-c", TRAP)
    with process:
        wait_said(caller, run_id, "ready")
        process.send_signal(number)
        process.wait(60 * lib.SLOW)
    verdict = json.loads((caller.run_dir(run_id) / "verdict.json").read_text())
    assert verdict["cause"] == "cancelled"
    assert "heard" in (caller.run_dir(run_id) / "stdout.log").read_text()


def test_the_first_process_is_killed_from_outside(caller, name):
    process, run_id = caller.start("-x", name, *ROOMY, "--", "sleep", "1000")
    with process:
        pid = next(
            e["data"]["init_pid"] for e in wait_started(caller, run_id) if e["event"] == "started"
        )
        os.kill(pid, signal.SIGKILL)
        process.wait(60 * lib.SLOW)
    verdict = json.loads((caller.run_dir(run_id) / "verdict.json").read_text())
    assert verdict["cause"] == "signal", verdict


def bundle_has(caller, run_id, file):
    return (caller.home / "bundles" / run_id / file).exists()


MOMENTS = {
    "bundle": lambda c, i: bundle_has(c, i, "config.json"),
    "created": lambda c, i: bundle_has(c, i, "pid"),
    "started": lambda c, i: '"started"' in (c.run_dir(i) / "events.jsonl").read_text(),
    "running": lambda c, i: "ready" in (c.run_dir(i) / "stdout.log").read_text(),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_keeper_is_killed(caller, name, moment):
    def there():
        try:
            return MOMENTS[moment](caller, run_id)
        except FileNotFoundError:
            return False

    crash = Crash(caller)
    words = ("-x", name, *ROOMY, "--", "sh", "-c", TRAP)
    process, run_id = caller.start(*words)
    with process:
        while not there():
            assert process.poll() is None
        first = (caller.run_dir(run_id) / "events.jsonl").read_text().splitlines()[0]
        process.send_signal(signal.SIGSTOP)  # it would sweep
        os.kill(json.loads(first)["data"]["keeper_pid"], signal.SIGKILL)
        process.kill()
    if moment == "running":
        crash.box_is_gone()  # without anybody's help
    crash.recover()
    verdict = crash.verdict(run_id)
    assert verdict["cause"] == "lost"
    assert "bundle" in json.dumps(verdict), verdict


def test_cupel_run_is_killed(caller, name):
    process, run_id = caller.start("-x", name, *ROOMY, "--", "sh", "-c", TRAP)
    with process:
        wait_said(caller, run_id, "ready")
        process.kill()
    verdict = caller.run_dir(run_id) / "verdict.json"
    assert lib.wait_until(verdict.exists)
    assert json.loads(verdict.read_text())["cause"] == "cancelled"


def test_what_the_analysis_holds(caller, name):
    script = "ls -l /proc/self/fd | grep -c socket; cat /proc/net/dev | grep -c :; hostname; pwd"
    result = run(caller, name, "--", "sh", "-c", script)
    lines = result.log().decode().split()
    assert lines[0] == "0", "the socket to the keeper is init's alone"
    assert lines[1] == "1", "there is a loopback and nothing else"
    assert lines[2] == "cupel" and lines[3].startswith("/tmp/scidex-analysis-")


def _acts(module, table):
    path = lib.TESTS / "escape" / f"{module}.py"
    spec = importlib.util.spec_from_file_location(f"escape_{module}", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, table)


@pytest.mark.parametrize("name", ["crun", "runc"], indirect=True)  # gVisor's kernel has answers of its own
@pytest.mark.parametrize("module,table", [("test_kernel", "REFUSED"), ("test_files", "CLOSED")])
def test_it_holds_what_cupels_own_box_holds(caller, name, module, table):
    """Every act of the escape suite that its own tests compare with a control outside."""
    acts = list(_acts(module, table))
    own, result = caller.probed(*acts)
    assert result.cause == "ok", result.stderr
    there, result = caller.probed(*acts, options=("-x", name))
    assert result.cause == "ok", result.stderr
    assert own and there == own


GUEST = {
    "read=/etc/shadow": "ENOENT",
    "list=/root": "ENOENT",
    "list=/home": "[]",
    "create=/usr/x": ("EROFS", "EACCES", "EPERM"),
    "create=/x": ("EROFS", "EACCES", "EPERM"),
    "append=/etc/passwd": ("EROFS", "EACCES", "EPERM"),
    "mount": "EPERM",
    "unshare=user": "EPERM",
    "bpf": "EPERM",
    "io_uring": "EPERM",
    "ptrace-child": "EPERM",
    "create=out/x": "ok",
    "create=/tmp/x": "ok",
}


def test_inputs_are_data(caller, name):
    """No connection to a socket among them; what root alone may read is shown to this run; nothing of the kernel."""
    if not lib.maps_ids(caller.base):
        pytest.skip("idmap: the kernel takes no id-mapped mounts of this file system")
    place = caller.base / "served"
    (place / "closed").mkdir(parents=True)
    (place / "closed/file").write_text("private", encoding="utf-8")
    (place / "closed/file").chmod(0o600)
    (place / "closed").chmod(0o700)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place / "s"))
            server.listen(8)
            (place / "s").chmod(0o777)
            assert caller.outside(f"unix={place}/s") == {f"unix={place}/s": "ok"}
            acts = {"unix=data/served/s": "EACCES", "read=data/served/closed/file": "EACCES"}
            shown = ["--data", f"{caller.probe}:probe", "--data", place]
            private = ["--data", place / "closed"]
            if name == "runsc":  # refuses the connection itself, and reads files by a process of its own
                acts["unix=data/served/s"] = "EPERM"
                result = run(caller, name, *private, "--", "true")
                assert result.status == 2 and "can't show it to one run alone" in result.stderr
            else:
                acts["read=data/closed/file"] = "ok"
                shown += private
            result = run(caller, name, *shown, "--", "data/probe", *acts)
            assert lib.answers(result.stdout) == acts, result.stderr
            result = run(caller, name, "--data", "/proc:p", "--", "true")
            assert result.status == 2 and "of the kernel" in result.stderr
    finally:
        shutil.rmtree(place)


def test_what_gvisor_holds(caller):
    if not shutil.which("runsc"):
        pytest.skip("runsc: not installed")
    there, result = caller.probed(*GUEST, options=("-x", "runsc", *ROOMY))
    assert result.cause == "ok", result.stderr
    wrong = {
        act: there.get(act)
        for act, want in GUEST.items()
        if there.get(act) not in ([want] if isinstance(want, str) else want)
    }
    assert not wrong
    control = caller.outside("read=/etc/shadow", "list=/root", "unshare=user", "bpf", "io_uring")
    assert control["read=/etc/shadow"] != "ENOENT" and control["unshare=user"] == "ok"
    release = run(caller, "runsc", "--", "uname", "-r").log().decode().strip()
    assert release != os.uname().release, "the kernel is not the host's"


@pytest.mark.limit_s(900)
def test_conformance(caller, name):
    """The same test as for every other; a gVisor takes seconds for each run, and is put to what it does differently."""
    only = ["--only", "pids"] if name == "runsc" else []
    status, out, err = caller.call(caller.binary, "executor", "conformance", *only, "--json", name, limit_s=800)
    told = json.loads(out)
    assert (status, [case for case in told["cases"] if case["outcome"] == "failed"]) == (0, []), err
    assert told["passed"] >= (1 if only else 20)
