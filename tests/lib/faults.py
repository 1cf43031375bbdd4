"""The build that fails where CUPEL_FAULT says (src/base/fault.h), and what must hold after any
such failure of one run."""

import dataclasses
import hashlib
import json
import os
import pathlib
import subprocess

import cupel as lib
import leftovers
from crashes import Crash, children, kill

BINARY = pathlib.Path(os.environ.get("CUPEL_FAULTS", lib.BUILD / "faults/src/cli/cupel"))
TRACE_MAX = 256 * 1024
FAILURES_MAX = 5
# Its outputs, its log and its kept directory are known to the byte. One output is in the store
# already, the other is looked into and new.
SCRIPT = "echo out; echo err >&2; echo x > out/x; printf 'run,n\\n%s,1\\n' $CUPEL_RUN_ID > out/new.csv"
SHA256_OF_X = hashlib.sha256(b"x\n").hexdigest()
EVENTS_OF_OK = ["accepted", "started", "ended", "collected", "kept", "removed", "verdict"]


def work(disk="16M", scratch="disk"):
    """A run; a disk of a size that was never asked for has its template made first."""
    place = ("--scratch", scratch) if scratch != "disk" else ()
    limits = ("--memory", "64M", "--disk", disk)
    return (*limits, *place, "--keep", "always", "--", "sh", "-c", SCRIPT)


def phases():
    """All there are, of which a run reaches those of its way."""
    out = subprocess.run(
        [BINARY], env={"CUPEL_FAULT": "phases"}, check=True, capture_output=True, text=True
    )
    return sorted(out.stdout.split())


@dataclasses.dataclass
class Trace:
    """What a run reached and did, in order."""

    phases: list
    operations: list

    @classmethod
    def read(cls, path):
        text = path.read_bytes()[:TRACE_MAX].rstrip(b"\0").decode(errors="replace")
        lines = [line.split(" ", 1) for line in text.splitlines()]
        reached = [what for kind, what in lines if kind == "phase"]
        done = [(kind, what) for kind, what in lines if kind != "phase"]
        return cls(list(dict.fromkeys(reached)), done)


def snapshot(top):
    """Every name below, with what it holds."""
    found = {}
    for path in sorted(top.rglob("*")):
        if path.name == "ro-crate-metadata.json":
            continue  # made of the rest, in its own time
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path.relative_to(top))] = (status.st_mode, status.st_mtime_ns, content)
    return found


def memory():
    """Hundreds of records: on a disk their syncs would take most of the time, and prove nothing."""
    place = pathlib.Path("/dev/shm")
    usable = place.is_dir() and not os.statvfs(place).f_flag & os.ST_NOEXEC
    return place if usable else None


class Faulty(Crash):
    """A caller with the fault build."""

    def __init__(self, who):
        super().__init__(lib.Cupel(who, binary=BINARY, place=memory()))
        # What the first run makes for all, the home and a template, is there.
        self.plain()

    def plain(self):
        result = self.caller.run(*work())
        assert result.cause == "ok", result.stderr
        return result

    def trace(self, *command, disk="16M", scratch="disk"):
        """What a plain run does, or any command of cupel."""
        path = self.caller.base / "trace"
        command = command or ("run", "--quiet", "--id", self.caller.new_id(), *work(disk, scratch))
        _, _, err = self.caller.call(
            self.caller.binary, *command, env={"CUPEL_FAULT": f"trace:{path}"}
        )
        assert err == "err\n" or not err, err
        traced = Trace.read(path)
        path.unlink()
        return traced

    def run(self, fault, disk="16M", scratch="disk"):
        return self.caller.run(*work(disk, scratch), env={"CUPEL_FAULT": fault})

    def start(self, fault, disk="16M"):
        return self.caller.start(
            *work(disk),
            env={"CUPEL_FAULT": fault},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def lose(self):
        """A run that both its keeper and `cupel run` died of, after its outputs were collected."""
        process, run_id = self.start("pause:outputs-listed")
        with process:
            keeper = self.stopped(process)
            assert keeper
            process.kill()
            kill(keeper)
        self.box_is_gone()
        return run_id

    def stopped(self, process):
        """The process of the run that pauses, or None if the run came to its end instead."""
        found = []

        def look():
            found[:] = [pid for pid in (process.pid, *children(process.pid)) if is_stopped(pid)]
            return found or process.poll() is not None

        assert lib.wait_until(look)
        return found[0] if found else None

    def check(self, run_id, status, err):
        """The invariants; returns the verdict, None if the run never came to be."""
        self.box_is_gone()
        self.recover()
        leftovers.assert_nothing_left(self.caller)
        run_dir = self.caller.run_dir(run_id)
        before = snapshot(run_dir)
        assert self.gc() == {"lost": 0, "cleared": 0, "alive": 0, "failed": 0, "error": None}
        assert snapshot(run_dir) == before, "a second recovery changed something"
        self._check_store()
        verdict = self.verdict(run_id)
        if verdict is None:
            assert status == 125 or status < 0, (status, err)
            again = self.caller.run(*work(), id=run_id)
            assert again.cause == "ok", "what never was may still be"
        else:
            self._check_record(run_dir, verdict)
            again = self.caller.run("--", "true", id=run_id)
            assert again.status == 2 and "used before" in again.stderr, again
            assert snapshot(run_dir) == before, "the same id again changed something"
        self._check_honest(verdict, status, err)
        return verdict

    def _check_store(self):
        """Every object is whole, read-only, and under the name of its bytes."""
        top = self.caller.home / "store/sha256"
        for path in top.rglob("*") if top.exists() else ():
            if path.is_dir():
                continue
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            assert path.parent.name + path.name == digest, path
            assert path.stat().st_mode & 0o222 == 0, path

    def _check_honest(self, verdict, status, err):
        """What `cupel run` said is what the record says."""
        if status < 0:
            return  # it could say nothing
        if status == 125 and "write 'verdict.json'" in err:
            return  # it is there or not, but nobody can be sure that it stays
        assert (status == 0) == bool(verdict and verdict["cause"] == "ok"), (status, err, verdict)
        if status == 125:
            assert "cupel: " in err and len(err) > 30, err
        elif verdict and verdict["cause"] != "ok":
            assert status == verdict["exit_status"], (status, verdict)

    def _check_record(self, run_dir, verdict):
        assert verdict["id"] == run_dir.name and verdict["completion_notes"]
        events = leftovers.assert_chain(run_dir, may_be_torn=verdict["cause"] == "lost")
        assert events[-1] == ("lost" if verdict["cause"] == "lost" else "verdict"), events
        for path in run_dir.glob("*.json"):
            json.loads(path.read_bytes())
        if (run_dir / "usage.jsonl").exists():
            for line in (run_dir / "usage.jsonl").read_text(encoding="utf-8").splitlines():
                json.loads(line)
        files = {path.name for path in run_dir.iterdir()}
        assert not any(name.startswith(".") for name in files), files
        assert "outputs" not in files or "outputs.json" in files, files
        assert "partial" not in files or verdict["cause"] != "ok", files
        if (run_dir / "work/out/x").exists():
            assert (run_dir / "work/out/x").read_bytes() in (b"x\n", b"")  # as far as it came
        if verdict["cause"] == "ok":
            self._check_ok(run_dir, verdict, events)

    def _check_ok(self, run_dir, verdict, events):
        """Everything it vouches for is there."""
        said = [name.replace("keep-failed", "kept") for name in events]
        assert [name for name in said if name in EVENTS_OF_OK] == EVENTS_OF_OK, events
        assert (run_dir / "work/out/x").exists() == ("kept" in events), events
        outputs = json.loads((run_dir / "outputs.json").read_bytes())
        listed = [(file["path"], file["size"], file["sha256"]) for file in outputs["files"]]
        new = f"run,n\n{run_dir.name},1\n".encode()
        assert listed == [("out/new.csv", len(new), hashlib.sha256(new).hexdigest()),
                          ("out/x", 2, SHA256_OF_X)], listed
        assert (run_dir / "outputs/out/x").read_bytes() == b"x\n"
        assert (run_dir / "outputs/out/new.csv").read_bytes() == new
        check = outputs["files"][0]["check"]
        assert check["state"] == "ok" or "store" in check["note"] or "check" in check["note"], check
        for file in outputs["files"]:
            shelf = self.caller.home / "store/sha256" / file["sha256"][:2] / file["sha256"][2:]
            copy = run_dir / "outputs" / file["path"]
            assert not file["stored"] or shelf.samefile(copy), file
        for name in ("analysis.json", "plan.json", "receipt.json"):
            assert (run_dir / name).exists(), name
        logs = [(run_dir / f"{name}.log").read_bytes() for name in ("stdout", "stderr")]
        assert logs == [b"out\n", b"err\n"] or "log" in verdict["completion_notes"], logs

    def close(self):
        self.caller.close()


def is_stopped(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"


class Failures:
    """Every case is tried, and all that failed are shown."""

    def __init__(self):
        self.found = []
        self.count = 0

    def case(self, name, check, *args):
        if len(self.found) == FAILURES_MAX:
            self.assert_none()  # what one left is in the way of the others
        self.count += 1
        try:
            return check(*args)
        except (AssertionError, OSError, ValueError) as error:
            self.found.append(f"{name}: {type(error).__name__}: {error}")
            return None

    def assert_none(self):
        assert self.count and not self.found, "\n\n".join(self.found)
