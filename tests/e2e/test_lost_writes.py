"""The host's disk fills while a run writes: an output that the disk lost is never a good one."""

import json
import os
import pathlib
import subprocess

import pytest

import cupel as lib

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
    with lib.going_on(fresh.popen(*words, stdout=subprocess.DEVNULL)) as process:
        written = small_disk.root / str(fresh.work_dir(run_id)).lstrip("/") / "written"
        assert lib.wait_until(lambda: written.exists() or process.poll() is not None)
        assert written.read_text(encoding="utf-8") == "lost"
        (small_disk.home / "filler").unlink()
        (share / "go").touch()
        status = process.wait(lib.RUN_LIMIT_S)
    verdict = lib.verdict_of(fresh, run_id, small_disk.home)
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
