"""Killing the processes of a run, and what must hold afterwards."""

import json
import os
import pathlib
import signal

import cupel as lib
import leftovers


def children(pid):
    try:
        return [
            int(word)
            for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children")
            .read_text(encoding="utf-8")
            .split()
        ]
    except OSError:
        return []


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def is_dead(pid):
    """A zombie is its parent's."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


class Crash:
    """A caller whose processes are killed, and what must hold afterwards."""

    def __init__(self, caller):
        self.caller = caller

    def keeper_of(self, process):
        """Its pid as soon as it is there; None if the run was over before."""
        while process.poll() is None:
            found = children(process.pid)
            if found:
                return found[0]
        return None

    def init_of(self, process):
        """The box's init, as soon as it is cloned: a helper of the keeper has no namespace of its
        own, and may look like cupel until it is another program."""
        keeper = self.keeper_of(process)
        here = os.readlink("/proc/self/ns/pid")
        while keeper and process.poll() is None:
            for pid in children(keeper):
                try:
                    if os.readlink(f"/proc/{pid}/ns/pid") != here:
                        return pid
                except OSError:
                    continue
        return None

    def gc(self):
        status, out, err = self.caller.call(self.caller.binary, "gc", "--json")
        assert status == 0, err
        report = json.loads(out)
        assert report.pop("pruned_bytes") >= report.pop("pruned") == 0, "every run is still there"
        report.pop("checkpoints")
        removed = report.pop("removed")
        assert removed["groups"] == removed["mounts"] == removed["partial"] == 0, "swept already"
        return report

    def recover(self):
        """A keeper that was killed holds its lock as long as one of its threads is in the kernel, which
        may wait for a disk: till then its run is alive, and its first thread a zombie."""
        reports = []
        lib.wait_until(lambda: reports.append(self.gc()) or not reports[-1]["alive"])
        assert (reports[-1]["alive"], reports[-1]["failed"]) == (0, 0), reports[-1]
        return reports[-1]

    def kill_both(self, process):
        """First of all `cupel run` stands still: it would record the end of its keeper."""
        keeper = self.keeper_of(process)
        kill(process.pid, signal.SIGSTOP)
        kill(keeper)
        process.kill()

    def box_is_gone(self):
        """Without anybody's help: the kernel and the keeper see to it."""
        lib.wait_until(lambda: not leftovers.processes(self.caller))
        assert leftovers.processes(self.caller) == []

    def verdict(self, run_id):
        """None if the run never came to be."""
        run_dir = self.caller.run_dir(run_id)
        if not run_dir.exists():
            return None
        return json.loads((run_dir / "verdict.json").read_text(encoding="utf-8"))

    def contents(self):
        files = (path for path in self.caller.home.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}

    def assert_recovered(self, run_id):
        """The invariants after any crash. Recovering twice changes nothing."""
        self.box_is_gone()
        self.recover()
        leftovers.assert_nothing_left(self.caller)
        before = self.contents()
        assert self.gc() == {"lost": 0, "cleared": 0, "alive": 0, "failed": 0, "error": None}
        assert self.contents() == before
        verdict = self.verdict(run_id)
        if verdict is None:
            return None
        assert verdict["id"] == run_id and verdict["completion_notes"]
        events = leftovers.assert_chain(self.caller.run_dir(run_id))
        assert events[-1] == ("lost" if verdict["cause"] == "lost" else "verdict")
        again = self.caller.run("--", "true", id=run_id)
        assert again.status == 2 and "used before" in again.stderr
        assert self.verdict(run_id) == verdict
        return verdict
