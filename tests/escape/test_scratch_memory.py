"""A working directory in memory: the one disk limit that the kernel keeps for an ordinary user. Exact, and nothing hides from it."""

import json
import subprocess

import pytest

import cupel as lib
from test_resources import FILL_HIDDEN, HIDDEN, MIB, run_until_counted

MEMORY = ("--scratch", "memory", "--memory", "512M", "--file-size", "1G")
IN_FLIGHT = """
import socket
ends = socket.socketpair()
fd = fill(".", MANY)
socket.send_fds(ends[0], [b"x"], [fd])
os.close(fd)
wait()
"""
WAYS = {**HIDDEN, "a descriptor in flight": IN_FLIGHT}
DIRECTORIES = ["code", "data", "docs", "home", "out", "tmp"]


def events(result):
    lines = (result.run_dir / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def python(cupel, *options, script):
    return cupel.run(*options, "--", "python3", "-c", script)


@pytest.mark.parametrize("way", WAYS)
def test_hidden_bytes_count(cupel, way):
    script = (FILL_HIDDEN + WAYS[way]).replace("MANY", "40")
    result = python(cupel, *MEMORY, "--disk", "24M", "--time", f"{100 * lib.SLOW}s", script=script)
    assert "OSError: [Errno 28] No space left on device" in result.stderr
    assert result.status == 1
    assert result.verdict["evidence"]["disk_mechanism"] == "memory"
    assert result.verdict["usage"]["disk_peak_bytes"] <= 24 * MIB


@pytest.mark.parametrize("way", WAYS)
def test_hidden_bytes_below_the_limit_are_the_control(cupel, way):
    """And they are seen where they are."""
    script = (FILL_HIDDEN + WAYS[way]).replace("MANY", "20")
    result = run_until_counted(cupel, 20 * MIB, *MEMORY, "--disk", "64M", "--", "python3", "-c", script)
    assert result.cause == "cancelled", result.stderr
    assert 20 * MIB <= result.verdict["usage"]["disk_peak_bytes"] < 21 * MIB


def test_what_the_watched_limit_cannot_count(callers):
    """The other control: the same act, on an ordinary user's disk."""
    script = (FILL_HIDDEN + IN_FLIGHT).replace("MANY", "40")
    options = ("--disk", "24M", "--file-size", "1G", "--time", f"{2 * lib.SLOW}s")
    result = python(callers("user"), *options, script=script)
    assert result.verdict["evidence"]["disk_mechanism"] == "watched"
    assert result.cause in ("deadline", "disk")  # seen only if a look falls into the writing
    assert "No space left" not in result.stderr


FILL = """
import os
written = files = 0
try:
    for i in range(10**6):
        os.close(os.open(f"out/{i}", os.O_CREAT | os.O_WRONLY))
        files += 1
except OSError as error:
    print(files, error.strerror)
for i in range(files):
    os.unlink(f"out/{i}")
fd = os.open("out/big", os.O_CREAT | os.O_WRONLY)
try:
    while True:
        written += os.write(fd, b"x" * 999983)
except OSError as error:
    print(written, error.strerror, flush=True)
os._exit(3)
"""


def test_the_limit_is_exact(cupel):
    """To the byte and to the file; those that cupel makes count. The receipt has the kernel's own word."""
    result = python(cupel, *MEMORY, "--disk", "24M", "--inodes", "500", script=FILL)
    own = 1 + len(DIRECTORIES)
    assert result.stdout.splitlines() == [
        f"{500 - own} No space left on device",
        f"{24 * MIB} No space left on device",
    ]
    assert (result.cause, result.status) == ("disk", 3)
    assert result.verdict["evidence"]["disk_full"] is True
    assert "--memory" in result.verdict["completion_notes"]
    receipt = json.loads((result.run_dir / "receipt.json").read_text(encoding="utf-8"))
    assert receipt["disk"] == {
        "mechanism": "memory",
        "hard": True,
        "limit_bytes": 24 * MIB,
        "limit_inodes": 500,
        "kernel_bytes": 24 * MIB,
        "kernel_inodes": 500 - own,
    }


def test_a_limit_that_is_no_whole_page(cupel):
    """Never more than was asked for."""
    result = python(cupel, *MEMORY, "--disk", f"{24 * MIB + 4095}B", script=FILL)
    assert result.stdout.splitlines()[-1] == f"{24 * MIB} No space left on device"


def test_outputs_and_the_kept_copy(cupel):
    """The keeper collects when the box is gone; what is shown in the directory is not collected with it."""
    (cupel.dir / "shown").write_text("of the host\n", encoding="utf-8")
    cupel.own(cupel.dir / "shown")
    script = "ls; echo made > out/made; cat data/shown; ln -s /etc/passwd out/link"
    result = cupel.run(
        "--scratch", "memory", "--keep", "always", "--data", cupel.dir / "shown",
        "--out", "out/*", "--out", "data/*", "--", "sh", "-c", script,
    )
    assert result.cause == "ok", result.stderr
    assert result.stdout.splitlines() == [*DIRECTORIES, "of the host"]
    assert (result.run_dir / "outputs/out/made").read_text(encoding="utf-8") == "made\n"
    assert not (result.run_dir / "outputs/data").exists()
    assert not (result.run_dir / "outputs/out/link").exists()
    assert sorted(path.name for path in (result.run_dir / "work").iterdir()) == DIRECTORIES
    assert not list((result.run_dir / "work/data").iterdir())


def test_it_is_gone_before_the_end_is_said(cupel):
    """Nothing of it has a name on the host, and its last descriptor is closed before the verdict."""
    process, run_id = cupel.start(
        "--scratch", "memory", "--", "sh", "-c",
        "head -c 8M /dev/zero > out/big; echo up; read x < /dev/null; sleep 1",
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"up\n"
        assert not cupel.work_dir(run_id).exists()
        process.communicate(timeout=lib.RUN_LIMIT_S)
    result = lib.Result(process.returncode, "", "", cupel.run_dir(run_id))
    names = [event["event"] for event in events(result)]
    removed = next(event for event in events(result) if event["event"] == "removed")
    assert names.index("collected") < names.index("removed") < names.index("verdict")
    assert removed["data"]["bytes"] == 8 * MIB and removed["data"]["remained"] == 0
    assert not cupel.work_dir(run_id).exists()


def test_its_files_are_memory(cupel):
    """More files than memory: the verdict says what they were."""
    result = python(
        cupel, "--scratch", "memory", "--memory", "64M", "--disk", "1G", script=FILL_HIDDEN + 'fill("out/x", 200)'
    )
    assert (result.cause, result.status) == ("oom", 137)
    notes = result.verdict["completion_notes"]
    assert "its working directory, /tmp and /dev/shm" in notes and "--scratch disk" in notes


def test_no_program_of_the_box_can_change_it(cupel):
    """Neither its size nor its flags, also with a user namespace of one's own."""
    result = cupel.run(
        "--scratch", "memory", "--disk", "24M", "--", "sh", "-c",
        'mount -o remount,size=1G "$PWD"; unshare -Urm mount -o remount,size=1G "$PWD"; df -B1 --output=size . | tail -1',
    )
    assert int(result.stdout) == 24 * MIB


def test_a_checkpoint_is_on_the_disk_all_the_same(cupel):
    command = ("--scratch", "memory", "--disk", "24M", "--checkpoint", "saved", "--", "sh", "-c")
    script = "cat saved/n; echo 1 >> saved/n; test $(wc -l < saved/n) = 2"
    first = cupel.run(*command, script)
    assert (first.cause, first.stdout) == ("exit", "")
    second = cupel.run(*command, script)
    assert (second.cause, second.stdout) == ("ok", "1\n")


def test_a_checkpoint_of_an_ordinary_user_is_watched(callers):
    user = callers("user")
    result = user.run(
        "--scratch", "memory", "--disk", "24M", "--checkpoint", "saved", "--time", f"{100 * lib.SLOW}s",
        "--", "sh", "-c", "head -c 40M /dev/zero > saved/big; sleep 1000",
    )
    assert (result.cause, result.status) == ("disk", 128 + 25)


def test_a_full_directory_ends_nobody_who_has_a_checkpoint(callers):
    """Only what the keeper alone limits is a reason to end a run."""
    result = callers("user").run(
        "--scratch", "memory", "--disk", "24M", "--checkpoint", "saved", "--file-size", "1G",
        "--", "sh", "-c", "head -c 40M /dev/zero > out/big; sleep 1; rm out/big; echo on",
    )
    assert (result.cause, result.stdout) == ("ok", "on\n")
    assert "No space left on device" in result.stderr
