"""The home of the records is full, or read-only. A private mount namespace holds a small one."""

import json
import pathlib
import subprocess

import pytest

import cupel as lib
import leftovers

pytestmark = pytest.mark.not_in_vm

READY = 'mount -t tmpfs -o mode=711,{} tmpfs "$0" && echo ready && exec sleep 100000'


class SmallHome:
    """A caller whose home is a file system of its own, which nobody else sees."""

    def __init__(self, options, config="disk: {mechanism: watched}\n"):
        self.caller = lib.Cupel("root", config)
        self.caller.home.mkdir()
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", READY.format(options), str(self.caller.home)],
            stdout=subprocess.PIPE,
        )
        assert self.holder.stdout.readline() == b"ready\n"
        self.home = pathlib.Path(f"/proc/{self.holder.pid}/root{self.caller.home}")

    def call(self, *words):
        return self.caller.call("nsenter", "-t", self.holder.pid, "-m", "--", *words)

    def run(self, run_id, *words):
        return self.call(
            self.caller.binary, "run", "--quiet", "--memory", "64M", "--id", run_id, *words
        )

    def remount(self, options):
        # What enters the run into the ledger may hold files open for a moment.
        words = ("mount", "-o", f"remount,{options}", self.caller.home)
        assert lib.wait_until(lambda: self.call(*words)[0] == 0)

    def assert_recovered(self, run_id):
        """With room again: the run is recorded, whole, once; or it never was."""
        lib.wait_until(lambda: not leftovers.processes(self.caller))  # one may deliver to the ledger
        leftovers_now = leftovers.processes(self.caller) + self.caller.groups()
        assert leftovers_now == [] and not self.caller.work_dir(run_id).exists()
        status, out, err = self.call(self.caller.binary, "gc", "--json")
        assert status == 0, err
        assert json.loads(self.call(self.caller.binary, "gc", "--json")[1])["lost"] == 0
        assert (
            list((self.home / "active").iterdir()) == []
            if (self.home / "active").exists()
            else True
        )
        run_dir = self.home / "runs" / run_id
        if not run_dir.exists():
            return None
        leftovers.assert_chain(run_dir)
        return json.loads((run_dir / "verdict.json").read_text(encoding="utf-8"))

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()
        self.caller.close()


@pytest.fixture
def small(callers):
    callers("root")
    made = []

    def make(options, **more):
        made.append(SmallHome(options, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def assert_honest(status, err, verdict):
    """A good end is said only if it was recorded, and a bad one is explained."""
    if status == 0:
        assert verdict and verdict["cause"] == "ok"
    else:
        assert status in (125, 137) and "cupel: " in err, (status, err)
        assert verdict is None or verdict["cause"] in ("lost", "setup"), verdict


WORK = ("sh", "-c", "echo out; echo err >&2; echo x > out/x; sleep 0.1")


@pytest.mark.parametrize("pages", range(1, 22, 1 if lib.SLOW == 1 else 4))
def test_full_at_every_write(small, pages):
    """Each file that is not empty takes a page, so that the run fails at one after the other."""
    place = small(f"size={4 * pages}k")
    run_id = place.caller.new_id()
    status, _, err = place.run(run_id, "--", *WORK)
    place.remount("size=16m")
    assert_honest(status, err, place.assert_recovered(run_id))


@pytest.mark.parametrize("files", range(2, 24, 1 if lib.SLOW == 1 else 4))
def test_no_inode_for_every_file(small, files):
    place = small(f"size=16m,nr_inodes={files}")
    run_id = place.caller.new_id()
    status, _, err = place.run(run_id, "--", *WORK)
    place.remount("size=16m,nr_inodes=1000")
    assert_honest(status, err, place.assert_recovered(run_id))


def test_full_by_the_analysis_log(small):
    """A log that cannot be written is no reason to end the analysis, but it is said."""
    place = small("size=1m")
    run_id = place.caller.new_id()
    status, _, err = place.run(run_id, "--log", "8M", "--", "sh", "-c", "yes | head -c 4000000")
    place.remount("size=16m")
    verdict = place.assert_recovered(run_id)
    assert_honest(status, err, verdict)
    if verdict["cause"] == "ok":
        assert "log" in verdict["completion_notes"]


def test_full_by_the_outputs(small):
    place = small("size=1m")
    run_id = place.caller.new_id()
    status, _, err = place.run(run_id, "--", "sh", "-c", "head -c 4000000 /dev/urandom > out/big")
    place.remount("size=16m")
    verdict = place.assert_recovered(run_id)
    assert_honest(status, err, verdict)
    assert status != 0 and not (place.home / "runs" / run_id / "outputs/out/big").exists()


@pytest.mark.parametrize("size", [60, 100, 140, 200])
def test_full_with_an_image_as_the_working_directory(small, size):
    """The image lies in the home too: it is made, or the run is refused, but nothing is left."""
    place = small(f"size={size}k", config="")
    run_id = place.caller.new_id()
    status, _, err = place.run(run_id, "--disk", "16M", "--", *WORK)
    place.remount("size=16m")
    assert_honest(status, err, place.assert_recovered(run_id))
    assert (
        list((place.home / "tmp").iterdir()) == [] and list((place.home / "cache").glob(".*")) == []
    )


def test_read_only_from_the_start(small):
    place = small("size=1m,ro")
    run_id = place.caller.new_id()
    status, _, err = place.run(run_id, "--", "true")
    assert status == 125 and "Read-only file system" in err and str(place.caller.home) in err


def test_read_only_later(small):
    place = small("size=1m")
    first = place.caller.new_id()
    assert place.run(first, "--", "true")[0] == 0
    place.remount("ro")
    second = place.caller.new_id()
    status, _, err = place.run(second, "--", "true")
    assert status == 125 and "Read-only file system" in err
    assert json.loads(place.call(place.caller.binary, "list", "--json")[1])[0]["id"] == first
    place.remount("rw")
    assert place.assert_recovered(second) is None
    assert place.run(second, "--", "true")[0] == 0, "what never was may still be"


def test_full_while_it_runs(small):
    place = small("size=1m")
    run_id = place.caller.new_id()
    with place.caller.popen(
        "nsenter",
        "-t",
        place.holder.pid,
        "-m",
        "--",
        place.caller.binary,
        "run",
        "--quiet",
        "--id",
        run_id,
        "--",
        "sh",
        "-c",
        "echo up; sleep 1000",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"up\n"
        place.call("sh", "-c", f"head -c 2000000 /dev/zero > {place.caller.home}/filler")
        process.terminate()
        _, err = process.communicate(timeout=60 * lib.SLOW)
        assert process.returncode in (125, 143), err
    place.call("rm", "-f", f"{place.caller.home}/filler")
    assert place.assert_recovered(run_id)["cause"] in ("lost", "cancelled")
