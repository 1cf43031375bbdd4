"""What is asked of Docker or Podman: images, what the engine lacks, versions, one that is down, and names that are taken."""

import json
import os
import shutil
import subprocess

import pytest

import cupel as lib
import engines
from engine_runs import LACKS, QUIET, engine, far, job_of, wait_for_text  # noqa: F401  (fixtures)

pytestmark = pytest.mark.test_all


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


# Refusals


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
