"""What must hold around every run, however it ended: nothing of it is left on the host but its
record, and the record's chain of events is whole."""

import fcntl
import hashlib
import json
import os
import pathlib
import struct

import cupel as lib

ZEROS = "0" * 64
_FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length, pid
_stayed = set()  # what tests before have failed for


def _read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""  # gone meanwhile


def _work_name(caller):
    """What the names of this process's working directories begin with."""
    return "scidex-analysis-" if caller.own_work else f"scidex-analysis-t{os.getpid()}-"


def _is_ours(pid, caller):
    try:
        if os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)") == str(caller.binary):
            return True
    except OSError:
        return False  # a kernel thread, or gone
    return f"/{caller.name}/cupel/".encode() in _read(
        f"/proc/{pid}/cgroup"
    ) or f"CUPEL_WORK_DIR={caller.work_root}/{_work_name(caller)}".encode() in _read(
        f"/proc/{pid}/environ"
    )


def _dying(caller):
    """Of a process that ends the kernel takes the program first and the locks last, and a zombie may
    have a thread that still waits for a disk: till then its run counts as alive. Not for a test that
    has such a lock itself, since whoever closes the file lets go of it."""
    found = []
    for path in (caller.home / "active").glob("*"):
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            with open(path, "rb") as entry:
                kind, *_, pid = struct.unpack(_FLOCK, fcntl.fcntl(entry, fcntl.F_GETLK, asked))
        except OSError:
            continue  # gone meanwhile
        if kind != fcntl.F_UNLCK:
            found.append(f"process {pid} that holds {path}")
    return found


def processes(caller):
    """Keepers, inits and analyses of this caller that still live (a zombie is its parent's). Looks
    again if it finds none: a child that is born after /proc was listed is missed by the first look
    if its parent dies before that comes to it."""
    found = []
    for _ in range(2):
        for pid in [] if found else filter(str.isdigit, os.listdir("/proc")):
            state = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            if state and state[0] != b"Z" and _is_ours(pid, caller):
                found.append(f"process {pid} {_read(f'/proc/{pid}/comm').decode().strip()}")
    return found or _dying(caller)


def _mounts(caller):
    marks = (f"scidex-analysis-t{os.getpid()}-", str(caller.base))
    return [
        f"mount {line}"
        for line in _read("/proc/self/mountinfo").decode().splitlines()
        if any(mark in line for mark in marks)
    ]


def _loops(caller):
    backing = (path / "loop/backing_file" for path in pathlib.Path("/sys/block").glob("loop*"))
    return [
        f"loop {path.parent.parent.name}"
        for path in backing
        if str(caller.base).encode() in _read(path)
    ]


def _files(caller):
    """Working directories, and half-made things below the home: their names begin with a dot."""
    name = f"{_work_name(caller)}*"
    work = [path for pattern in (name, "." + name) for path in caller.work_root.glob(pattern)]
    inside = [
        path
        for pattern in ("tmp/*", "active/*", ".*", "cache/.*", "runs/*/.*")
        for path in caller.home.glob(pattern)
    ]
    return [f"file {path}" for path in [*work, *inside]]


def leftovers(caller):
    """Everything of this caller's runs on the host that is no record; must be nothing. One run of
    it at a time: what a running one has is not left over."""
    return (
        processes(caller)
        + [f"group {group}" for group in caller.groups()]
        + _mounts(caller)
        + _loops(caller)
        + _files(caller)
    )


def assert_nothing_left(caller):
    """The kernel frees a loop device and reaps a namespace in its own time, and whoever delivers to
    the ledger is nice to all others. What stayed once is not waited for again."""
    lib.wait_until(lambda: _stayed.issuperset(leftovers(caller)))
    _stayed.update(left := leftovers(caller))
    assert not left, left


def assert_chain(run_dir, may_be_torn=False):
    """Each line carries the sha256 of the one before, whatever that one holds. A line that a crash
    cut off has been closed, and is the event `torn`."""
    lines = (run_dir / "events.jsonl").read_bytes().split(b"\n")
    assert lines.pop() == b"", "the last line is torn"
    before = ZEROS
    events = []
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except ValueError:
            assert may_be_torn, line
            events.append("torn")
        else:
            assert event["n"] == number
            assert event["prev"] == before, f"the chain is broken before line {number}"
            events.append(event["event"])
        before = hashlib.sha256(line).hexdigest()
    return events
