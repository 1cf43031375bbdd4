"""What a review of the whole once found wrong, one test a finding, so that it stays right. What can
be shown without the command line is in tests/unit and tests/kernel."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import termios

import pytest

import cupel as lib
import leftovers

SLEEP = ("sh", "-c", "echo up; exec sleep 1000")


def verdict_of(caller, run_id, home=None):
    path = (home or caller.home) / "runs" / run_id / "verdict.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


@contextlib.contextmanager
def going_on(process):
    """Ends with the test, even one that fails."""
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def write(caller, path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    for one in (path, path.parent):
        caller.own(one)
    return path


# The host's disk fills while a run writes.

WRITER = """
import os, sys, time
block = bytes(range(256)) * 4096
with open("out/result", "wb") as f:
    for _ in range(16):
        f.write(block)
    f.flush()
    for _ in range(3 if sys.argv[1] == "seen" else 0):
        try:
            os.fsync(f.fileno())
        except OSError:
            pass
if sys.argv[1] == "unseen":
    os.sync()
with open("out/result", "rb") as f:
    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    state = "intact" if f.read() == block * 16 else "lost"
with open("writing", "w") as f:
    f.write(state)
os.rename("writing", "written")
while not os.path.exists("data/share/go"):
    time.sleep(0.02)
"""
SMALL_DISK = """
mkfs.ext4 -q -m 0 -O ^has_journal "$1" && mount -o loop "$1" "$2" && echo ready && exec sleep 1000
"""


class SmallDisk:
    """A home on a disk of 48 MiB, in a mount namespace of its own."""

    def __init__(self, caller):
        self.caller = caller
        image = caller.base / "disk.img"
        caller.home.mkdir()
        image.touch()
        os.truncate(image, 48 << 20)
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", SMALL_DISK, "sh", image, caller.home],
            stdout=subprocess.PIPE,
        )
        assert self.holder.stdout.readline() == b"ready\n"
        self.root = pathlib.Path(f"/proc/{self.holder.pid}/root")
        self.home = self.root / str(caller.home).lstrip("/")

    def command(self, *words):
        return ("nsenter", "-t", self.holder.pid, "-m", "--", *words)

    def fill(self, all_but):
        space = os.statvfs(self.home)
        with open(self.home / "filler", "wb") as f:
            f.write(bytes(space.f_bavail * space.f_frsize - all_but))
            f.flush()
            os.fsync(f.fileno())

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


@pytest.fixture
def small_disk(fresh):
    disk = SmallDisk(fresh)
    yield disk
    disk.close()


@pytest.mark.parametrize("error", ["unseen", "seen"])
def test_an_output_that_the_disk_lost_is_never_a_good_one(fresh, small_disk, error):
    """There is room again when outputs are collected, and pages that were lost read as zeros. That
    the analysis has asked for the error, and ignored it, changes nothing."""
    share = fresh.base / "share"
    share.mkdir()
    run = (fresh.binary, "run", "--quiet", "--memory", "128M", "--disk", "64M")
    assert fresh.call(*small_disk.command(*run, "--", "true"))[0] == 0, "the template is made"
    small_disk.fill(all_but=6 << 20)
    run_id = fresh.new_id()
    words = small_disk.command(
        *run, "--id", run_id, "--data", share, "--", "python3", "-c", WRITER, error
    )
    with going_on(fresh.popen(*words, stdout=subprocess.DEVNULL)) as process:
        written = small_disk.root / f"tmp/scidex-analysis-{run_id}/written"
        assert lib.wait_until(lambda: written.exists() or process.poll() is not None)
        assert written.read_text(encoding="utf-8") == "lost"
        (small_disk.home / "filler").unlink()
        (share / "go").touch()
        status = process.wait(lib.RUN_LIMIT_S)
    verdict = verdict_of(fresh, run_id, small_disk.home)
    outputs = json.loads(
        (small_disk.home / "runs" / run_id / "outputs.json").read_text(encoding="utf-8")
    )
    assert (status, verdict["cause"], verdict["exit_status"], verdict["exit_code"]) == (
        1,
        "disk",
        1,
        0,
    )
    assert "lost" in verdict["completion_notes"] and outputs["files"] == []
    assert outputs["refused"] == [{"path": "out/result", "reason": "the disk lost it"}]
    assert not (small_disk.home / "runs" / run_id / "outputs").exists()


# A sweep removes what runs of its own home made, and nothing else.


def forge_claim(caller, run_id):
    """What a keeper leaves that dies as soon as it has taken the id."""
    run_dir = caller.run_dir(run_id)
    run_dir.mkdir(parents=True)
    entry = caller.home / "active" / run_id
    entry.parent.mkdir(exist_ok=True)
    entry.write_text(f"{caller.work_dir(run_id)}\n{caller.parent}\n", encoding="utf-8")
    for path in (caller.home, caller.home / "runs", run_dir, entry.parent, entry):
        caller.own(path)
    return run_dir


def sweep(caller):
    status, out, err = caller.call(caller.binary, "gc", "--json")
    assert status == 0, err
    return json.loads(out)["lost"]


def test_a_directory_that_the_dead_run_did_not_make_stays(cupel):
    run_id = cupel.new_id()
    foreign = cupel.work_dir(run_id)
    foreign.mkdir()
    try:
        cupel.own(foreign)
        (foreign / "precious").write_text("x", encoding="utf-8")
        forge_claim(cupel, run_id)
        assert sweep(cupel) == 1 and verdict_of(cupel, run_id)["cause"] == "lost"
        assert (foreign / "precious").read_text(encoding="utf-8") == "x"
    finally:
        shutil.rmtree(foreign)


def test_a_run_of_another_home_with_the_same_id_lives_on(cupel):
    run_id = cupel.new_id()
    other = cupel.base / "other"
    share = cupel.base / f"share-{run_id}"
    share.mkdir()
    script = "echo up; until test -e data/share/go; do sleep 0.05; done; echo x > out/x"
    process, _ = cupel.start(
        "--data",
        f"{share}:share",
        "--",
        "sh",
        "-c",
        script,
        id=run_id,
        env={"CUPEL_HOME": str(other)},
        stdout=subprocess.PIPE,
    )
    with going_on(process):
        assert process.stdout.readline() == b"up\n"
        forge_claim(cupel, run_id)
        assert sweep(cupel) == 1
        (share / "go").touch()
        assert process.wait(lib.RUN_LIMIT_S) == 1
    # The sign to go was put into an input.
    assert verdict_of(cupel, run_id, other)["cause"] == "input-changed"
    assert (other / "runs" / run_id / "partial/out/x").read_text(encoding="utf-8") == "x\n"
    assert not cupel.work_dir(run_id).exists()


def test_outputs_that_no_verdict_vouches_for_are_set_aside(cupel):
    run_dir = forge_claim(cupel, cupel.new_id())
    (run_dir / "outputs").mkdir()
    cupel.own(run_dir / "outputs")
    (run_dir / "outputs/result").write_text("x", encoding="utf-8")
    assert sweep(cupel) == 1 and not (run_dir / "outputs").exists()
    assert (run_dir / "partial/result").read_text(encoding="utf-8") == "x"


# The caller's own limits, signals, environment and readers.


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
    assert (status, verdict_of(cupel, run_id)["cause"]) == (0, "ok"), err


def test_sigterm_while_nobody_reads(cupel):
    process, run_id = cupel.start(
        "--", "sh", "-c", "yes | head -c 4000000; sleep 1000", stdout=subprocess.PIPE
    )

    def unread():
        return struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4)))[0]

    with going_on(process):
        assert lib.wait_until(lambda: unread() == fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ))
        process.terminate()
        assert process.wait(lib.RUN_LIMIT_S) == 143
    assert verdict_of(cupel, run_id)["cause"] == "cancelled"


@pytest.mark.parametrize("name", ["HUP", "INT"])
def test_a_signal_that_the_caller_ignores_does_not_cancel(cupel, name):
    """As under nohup, and as a shell starts background jobs."""
    run_id = cupel.new_id()
    words = (
        "sh",
        "-c",
        f"trap '' {name}; exec \"$@\"",
        "sh",
        cupel.binary,
        "run",
        "-q",
        "--id",
        run_id,
        "--",
        "sh",
        "-c",
        "echo up; sleep 1; echo end",
    )
    with going_on(cupel.popen(*words, stdout=subprocess.PIPE)) as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.stdout.read() == b"end\n"
        assert process.wait(60) == 0
    assert verdict_of(cupel, run_id)["cause"] == "ok"


def test_the_callers_limit_on_files_is_an_error_of_set_up(root):
    """No sized file system can be made; the keeper lives to say so."""
    run_id = root.new_id()
    status, _, err = root.call(
        "prlimit", "--fsize=65536", root.binary, "run", "-q", "--id", run_id, "--", "true"
    )
    verdict = verdict_of(root, run_id)
    assert (status, verdict["cause"]) == (125, "setup")
    assert "File too large" in err and "File too large" in verdict["completion_notes"]
    assert sweep(root) == 0


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
    verdict = verdict_of(user, run_id)
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


# A project's cupel.yaml came with the project.


def in_project(caller, text):
    """A run in a project with that file (None: without one), beside a directory that is not its."""
    outside = caller.base / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text("secret", encoding="utf-8")
    project = caller.base / "project"
    project.mkdir(exist_ok=True)
    if text is not None:
        write(caller, project / "cupel.yaml", text)
    if not (project / "link").is_symlink():
        (project / "link").symlink_to("../outside")
    return caller.call(
        caller.binary,
        "run",
        "-q",
        "--",
        "sh",
        "-c",
        "cat data/secret; echo; echo $LATER; pwd",
        cwd=project,
        env={"LATER": "word"},
    )


@pytest.fixture
def mine(who, callers):
    """A caller with configuration files and directories of its own."""
    callers(who)
    caller = lib.Cupel(who)
    yield caller
    leftovers.assert_nothing_left(caller)
    caller.close()


@pytest.mark.parametrize(
    "text, word",
    [
        ("project: {data: ../outside}\n", "outside the project"),
        ("project: {data: link}\n", "outside the project"),
        ("project: {docs: link}\n", "outside the project"),
        ("defaults: {env_pass: [LATER]}\n", "env_pass"),
        ("work: {root: /var/tmp}\n", "work"),
    ],
)
def test_what_a_project_may_not_say(mine, text, word):
    status, out, err = in_project(mine, text)
    assert status in (2, 125) and word in err and "cupel.yaml" in err, err
    assert "secret" not in out


def test_a_link_named_data_does_not_lead_out_of_the_project(mine):
    project = mine.base / "project"
    project.mkdir()
    (project / "data").symlink_to("../outside")
    status, out, err = in_project(mine, "")
    assert status in (2, 125) and "outside the project" in err and "secret" not in out


def test_the_same_in_the_users_own_file(mine):
    elsewhere = mine.base / "elsewhere"
    elsewhere.mkdir()
    mine.own(elsewhere)
    write(
        mine,
        mine.dir / ".config/cupel/cupel.yaml",
        f"project: {{root: {mine.base}/project, data: {mine.base}/outside}}\n"
        f"defaults: {{env_pass: [LATER]}}\nwork: {{root: {elsewhere}}}\n",
    )
    status, out, err = in_project(mine, None)
    assert status == 0, err
    secret, later, directory = out.splitlines()
    assert (secret, later) == ("secret", "word") and directory.startswith(f"{elsewhere}/")


@pytest.mark.parametrize("which", ["project", "named"])
def test_a_configuration_that_another_group_may_write(mine, which):
    project = write(mine, mine.dir / "cupel.yaml", "")
    path = project if which == "project" else mine.config
    os.chown(path, -1, 54321)
    path.chmod(0o664)
    status, _, err = mine.call(mine.binary, "run", "-q", "--", "true")
    assert status in (2, 125) and str(path) in err and "chmod go-w" in err
    path.chmod(0o644)
    assert mine.call(mine.binary, "run", "-q", "--", "true")[0] == 0


# The rest.

WITHOUT_USER_NAMESPACES = """
import ctypes, os, sys
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x20000
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0:
        sys.exit(77)
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    with open("/proc/sys/user/max_user_namespaces", "w") as f:
        f.write("0")
    os.execv(sys.argv[1], sys.argv[1:])
os.read(ready[0], 1)
for name in ("uid_map", "gid_map"):
    with open(f"/proc/{child}/{name}", "w") as f:
        f.write("0 0 2000000000")
os.write(go[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_root_on_a_host_without_user_namespaces(root):
    """The uid is changed for good, and what needed root for the capabilities was done before."""

    def without(run_id, *options):
        return root.call(
            "/usr/bin/python3",
            "-c",
            WITHOUT_USER_NAMESPACES,
            root.binary,
            "run",
            "-q",
            "--id",
            run_id,
            "--allow-missing",
            "disk",
            *options,
            "--",
            "grep",
            "-E",
            "^(Uid|Cap|NoNewPrivs)",
            "/proc/self/status",
        )

    refused = root.new_id()
    status, _, err = without(refused)
    assert (status, verdict_of(root, refused)["cause"]) == (
        125,
        "setup",
    ) and "max_user_namespaces" in err
    run_id = root.new_id()
    status, out, err = without(run_id, "--allow-missing", "user")
    assert status == 0, err
    result = lib.Result(status, out, err, root.run_dir(run_id))
    assert "user" in result.receipt["missing_layers"] and "user" in result.verdict[
        "missing_layers"
    ].split(",")
    have = dict(line.split(":\t", 1) for line in out.splitlines())
    assert (
        have["Uid"].split() == [str(result.receipt["user"]["uid_host"])] * 4
        and have["Uid"].split()[0] != "0"
    )
    assert {value for name, value in have.items() if name.startswith("Cap")} == {"0" * 16}
    assert have["NoNewPrivs"] == "1"


@pytest.mark.parametrize(
    "name", ["with a blank", "a/" + "/".join(["long" * 25] * 6)], ids=["blank", "long"]
)
def test_a_place_for_working_directories(cupel, name):
    place = cupel.base / "places" / name
    place.mkdir(parents=True)
    cupel.own(place)
    cupel.configure(f"work: {{root: '{place}'}}\n")
    result = cupel.run("--", "sh", "-c", "pwd; echo x > out/x")
    assert (result.status, result.cause) == (0, "ok"), result.stderr
    assert (
        result.stdout
        == f"{place}/scidex-analysis-{result.run_dir.name}\n"
        == result.receipt["cwd"] + "\n"
    )
    assert list(place.iterdir()) == [] and [f["path"] for f in result.outputs["files"]] == ["out/x"]


def test_runs_of_two_homes_are_strangers(root):
    """Root's runs have uids to themselves on the whole host."""
    ids, homes, processes = [root.new_id(), root.new_id()], [root.home, root.base / "other"], []
    with contextlib.ExitStack() as stack:
        for run_id, home in zip(ids, homes):
            process, _ = root.start(
                "--", *SLEEP, id=run_id, env={"CUPEL_HOME": str(home)}, stdout=subprocess.PIPE
            )
            processes.append(stack.enter_context(going_on(process)))
            assert process.stdout.readline() == b"up\n"
        receipts = [
            json.loads((home / "runs" / run_id / "receipt.json").read_text(encoding="utf-8"))
            for run_id, home in zip(ids, homes)
        ]
        for process in processes:
            process.terminate()
            assert process.wait(60) == 143
    assert receipts[0]["user"]["uid_host"] != receipts[1]["user"]["uid_host"]


def test_a_sparse_output_stays_sparse(cupel):
    size = 64 << 20
    result = cupel.run(
        "--",
        "sh",
        "-c",
        f"truncate -s {size} out/zeros; (echo x; truncate -s {size} /dev/stdout; echo y)"
        " >> out/mixed; stat -c %b out/zeros out/mixed",
    )
    assert (result.status, result.cause) == (0, "ok"), result.stderr
    there = dict(zip(("out/zeros", "out/mixed"), map(int, result.stdout.split())))
    files = {f["path"]: f for f in result.outputs["files"]}
    assert files.keys() == there.keys() and files["out/zeros"]["size"] == size
    for path, file in files.items():
        copy = result.run_dir / "outputs" / path
        # A buffer of the copy may hold a little of both.
        assert (
            copy.stat().st_blocks <= there[path] + 2 * (1 << 20) // 512
            and copy.stat().st_size == file["size"]
        )
        assert hashlib.sha256(copy.read_bytes()).hexdigest() == file["sha256"]
    assert files["out/zeros"]["sha256"] == hashlib.sha256(bytes(size)).hexdigest()
    assert (result.run_dir / "outputs/out/zeros").stat().st_blocks == 0
