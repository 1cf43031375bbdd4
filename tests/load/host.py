"""The state of the host around a load: what is there, and whose it is."""

import os
import pathlib
import time

import cupel as lib
import leftovers

_KERNEL = ("Slab", "SReclaimable", "SUnreclaim", "KernelStack", "PageTables", "Percpu")
_OBJECTS = ("net_namespace", "pid_namespace", "user_namespace", "mnt_cache", "task_struct")


def _lines(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []  # gone meanwhile


def _processes():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for line in _lines(f"/proc/{pid}/stat"):
            yield f"{pid} {line.partition('(')[2].rpartition(')')[0]}"


def _groups():
    """In every hierarchy, whether cupel uses it or not."""
    for line in _lines("/proc/self/mountinfo"):
        place, _, kind = line.partition(" - ")
        if kind.startswith("cgroup"):
            for folder, names, _ in os.walk(place.split()[4]):
                yield from (os.path.join(folder, name) for name in names)


def _mounts():
    """Of every mount namespace that a process is in."""
    seen = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            space = os.readlink(f"/proc/{pid}/ns/mnt")
        except OSError:
            continue  # gone meanwhile
        if space not in seen:
            seen.add(space)
            yield from (f"{space} {line}" for line in _lines(f"/proc/{pid}/mountinfo"))


def _loops():
    for device in pathlib.Path("/sys/block").glob("loop*"):
        for backing in _lines(device / "loop/backing_file"):
            yield f"{device.name} {backing}"


def _files():
    return (f"/tmp/{name}" for name in os.listdir("/tmp"))


_KINDS = {
    "processes": _processes,
    "control groups": _groups,
    "mounts": _mounts,
    "loop devices": _loops,
    "files in /tmp": _files,
}


def kernel_numbers():
    """The kernel's own memory in KiB, and some of its objects. It frees much of it later."""
    numbers = {}
    for line in _lines("/proc/meminfo"):
        name, value = line.split(":")
        if name in _KERNEL:
            numbers[f"{name} KiB"] = int(value.split()[0])
    for line in _lines("/proc/slabinfo"):
        words = line.split()
        if words[0] in _OBJECTS:
            numbers[words[0]] = int(words[1])
    for line in _lines("/proc/cgroups"):
        words = line.split()
        if words[0] == "memory":
            numbers["memory groups, dying too"] = int(words[2])
    return numbers


class Baseline:
    """The host before; afterwards what is new, and of it what is ours. Others may be at work here,
    so that new things without a mark of ours are only counted."""

    def __init__(self, callers):
        self.callers = callers
        self.marks = [f"scidex-analysis-t{os.getpid()}-"]
        self.marks += [mark for one in callers for mark in (one.name, str(one.base))]
        self.before = self._look()
        self.kernel = kernel_numbers()
        self.fds = self._fds()
        self.adopted = 0

    @staticmethod
    def _look():
        return {name: set(look()) for name, look in _KINDS.items()}

    @staticmethod
    def _fds():
        return {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in _open_fds()}

    def reap(self):
        """The orphans of runs that were killed are ours to reap (see `adopt_orphans`). True when
        no child is left, alive or dead."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                self.adopted += 1
        except ChildProcessError:
            return True
        return False

    def _ours(self):
        """What our runs left. A process alone has no mark in its name: its program, group or
        environment tells."""
        found = [left for caller in self.callers for left in leftovers.leftovers(caller)]
        for name, things in self._look().items():
            new = things - self.before[name]
            found += [f"{name}: {one}" for one in new if any(mark in one for mark in self.marks)]
        return found

    def faults(self):
        """Everything that is left, after the kernel had time to free it."""
        end = time.monotonic() + 30 * lib.SLOW
        while True:
            reaped = self.reap()
            found = self._ours()
            if (reaped and not found) or time.monotonic() > end:
                break
            time.sleep(0.1)
        if not reaped:
            found.append("a child of the driver is still alive")
        if self._fds() != self.fds:
            found.append(f"descriptors of the driver: {self._fds()}, before {self.fds}")
        return found

    def table(self):
        """Rows of: what, before, after, new of others. And of the kernel: what, before, after."""
        now = self._look()
        things = [
            (name, len(before), len(now[name]), len(now[name] - before))
            for name, before in self.before.items()
        ]
        kernel = kernel_numbers()
        return things, [(name, self.kernel[name], kernel.get(name, 0)) for name in self.kernel]


def _open_fds():
    """Without the one that is open for the listing."""
    names = os.listdir("/proc/self/fd")
    return [name for name in names if os.path.lexists(f"/proc/self/fd/{name}")]
