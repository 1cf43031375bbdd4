"""Drives the real binary for tests: a private home, a configuration and control groups of its
own, as root or as an ordinary user, and nothing left behind.

    box = Cupel("user")
    result = box.run("--memory", "64M", "--", "/bin/true")
    assert result.verdict["cause"] == "ok"
    box.close()
"""

import contextlib
import dataclasses
import itertools
import json
import os
import pathlib
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("CUPEL_BUILD", TESTS.parent / "build"))
BINARY = pathlib.Path(os.environ.get("CUPEL", BUILD / "cupel"))
PROBE = BUILD / "tests/escape/probe"

# Nobody's on any sane host: not in /etc/passwd, below the range that runs of root are given.
USER_ID = 12345
# An emulated processor is ten times slower.
SLOW = 10 if os.environ.get("CUPEL_TEST_VM") == "1" else 1
RUN_LIMIT_S = 120 * SLOW
SANITIZED = b"__asan_init" in BINARY.read_bytes() if BINARY.exists() else False
# A small program of its own starts cupel: the peak of a process is never below that of the one it
# was forked from, and pytest is large.
_MEASURE = """
import json, resource, subprocess, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
done = subprocess.run(sys.argv[2:], capture_output=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, done.stdout.decode(), done.stderr.decode(), used.ru_maxrss]))
"""

# What an analysis says to wait until Cupel.let_go().
WAITS = "until test -e go; do sleep 0.05; done"

_V1_CONTROLLERS = {"memory", "cpu", "cpuacct", "pids", "blkio"}
# Acts of the probe that change what their paths name, and those that are only for a box.
_CHANGES = {
    "create",
    "truncate",
    "unlink",
    "rename",
    "link",
    "mkdir",
    "mknod",
    "mknod-block",
    "chmod",
    "chown",
    "chown-root",
    "touch",
    "setxattr",
    "write",
    "append",
}
_NEVER_OUTSIDE = {
    "fork-bomb",
    "use-processes",
    "use-threads",
    "use-heap",
    "use-log",
    "use-sysv",
    "use-pipes",
    "daemon",
    "stopped",
    "stubborn",
}
_ONLY_WITHOUT_PATH = {"umount", "mount-bind", "remount"}
_numbers = itertools.count(1)
_reserved_ports = []  # sockets, open as long as this process lives


def cgroup_mounts():
    """Where control groups are made here: the v2 tree if it limits memory, otherwise the v1
    trees."""
    v1, v2 = [], None
    for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        place, _, kind = line.partition(" - ")
        mount, fstype, options = place.split()[4], kind.split()[0], kind.split()[2].split(",")
        if fstype == "cgroup2":
            v2 = pathlib.Path(mount)
        elif fstype == "cgroup" and _V1_CONTROLLERS & set(options):
            v1.append(pathlib.Path(mount))
    if v2 and "memory" in (v2 / "cgroup.controllers").read_text(encoding="utf-8").split():
        return [], v2
    return v1, None


def maps_ids(path):
    """Does the kernel take id-mapped mounts of the file system at `path`? tmpfs since Linux 6.3; no overlay, no network."""
    tool = subprocess.run(["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True)
    kernel = tuple(int(part) for part in platform.release().split(".")[:2])
    kind = tool.stdout.strip()
    return kind in ("ext2/ext3", "xfs", "btrfs") or (kind == "tmpfs" and kernel >= (6, 3))


def memory_limit_kb(plain):
    """AddressSanitizer's own books count too."""
    return (1 << 20) if SANITIZED else plain


def wait_until(condition, limit_s=max(120, 30 * SLOW)):
    """Waits for something no descriptor tells of. True as soon as it holds, False if it never
    did: a disk that others fill lets a run wait half a minute for its record."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def free_port():
    """A TCP port of the loopback that no other test gets while this process lives. The reservation is an abstract socket, which belongs to
    the network namespace as ports do. The port is below those that the kernel gives to outgoing connections."""
    first, end = 10000, 32768
    ephemeral = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split()[0])
    if ephemeral > first:
        end = min(end, ephemeral)
    start = os.getpid() * 97 % (end - first)
    for port in [*range(first + start, end), *range(first, first + start)]:
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0cupel-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
            continue
        _reserved_ports.append(reservation)
        return port
    raise RuntimeError("no TCP port is free")


def _remove_group(path):
    for child in sorted(path.iterdir()) if path.is_dir() else []:
        if child.is_dir():
            _remove_group(child)

    def gone():
        try:
            path.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return False  # a member is being reaped
        return True

    assert wait_until(gone), f"{path} still has members"


@dataclasses.dataclass
class Result:
    """What a `cupel run` left. `verdict` and the like are None if there is no such record."""

    status: int
    stdout: str
    stderr: str
    run_dir: pathlib.Path

    def _json(self, name):
        try:
            return json.loads((self.run_dir / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    @property
    def verdict(self):
        return self._json("verdict.json")

    @property
    def outputs(self):
        return self._json("outputs.json")

    @property
    def receipt(self):
        return self._json("receipt.json")

    @property
    def events(self):
        lines = (self.run_dir / "events.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def log(self, name="stdout.log"):
        return (self.run_dir / name).read_bytes()

    @property
    def cause(self):
        """With everything there is to read when it is not the expected one."""
        if self.verdict is None:
            return f"no verdict: status {self.status}: {self.stderr}"
        return self.verdict["cause"]


def _make_group(path):
    """The kernel may be short of what a group needs for a moment after many were removed."""
    for left in (4, 3, 2, 1, 0):
        try:
            path.mkdir(parents=True, exist_ok=True)
            return
        except TimeoutError:
            raise  # the test's own limit
        except OSError as error:
            print(f"{path}: {error}", file=sys.stderr)
            if not left:
                raise
            time.sleep(1)


class Cupel:
    """One caller of cupel: `root` or `user`."""

    def __init__(self, who="root", config="", binary=BINARY, place=None, own_work=False):
        """`own_work`: working directories are below `base`, not in /tmp. A working directory is named by the id of its run alone, so a
        test that chooses an id needs this: another process may run the same test."""
        assert os.geteuid() == 0, "needs root, to make groups and to become somebody else"
        self.who = who
        self.uid = 0 if who == "root" else USER_ID
        # The binary is copied: a user may not reach the build, and it is to be his own.
        prefix = f"cupel-test-{os.getpid()}-{next(_numbers)}-"
        self.base = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        # Process ids come again: what an earlier test left must not have the same name.
        self.name = self.base.name
        self.base.chmod(0o755)
        self.home = self.base / "home"
        self.dir = self.base / "cwd"
        self.config = self.base / "cupel.yaml"
        self.binary = self.base / "cupel"
        self.probe = self.base / "probe"
        self.dir.mkdir()
        self.own_work = own_work
        self.work_root = self.base / "work" if own_work else pathlib.Path("/tmp")
        if own_work:
            self.work_root.mkdir(mode=0o711)
            self.own(self.work_root)
        for source, copy in ((binary, self.binary), (PROBE, self.probe)):
            if source.exists():
                shutil.copy(source, copy)
                copy.chmod(0o755)
        self.trees, self._join = [], None
        self._delegate()
        self.parent = f"{self.name}/cupel"
        self.configure(config)
        for path in (self.base, self.dir, self.binary, self.probe):
            if path.exists():
                self.own(path)

    def configure(self, text=""):
        """The host's configuration for this caller: the groups, `text`, and the place of its own for working directories."""
        self.settings = text
        work = f"\nwork: {{root: '{self.work_root}'}}\n" if self.own_work else ""  # last: tests know the lines of `text`
        self.config.write_text(f"cgroup: {{parent: {self.parent}}}\n{text}{work}", encoding="utf-8")
        self.own(self.config)

    def own(self, path):
        os.chown(path, self.uid, self.uid, follow_symlinks=False)
        return path

    def _delegate(self):
        """Groups of our own, as an administrator would give them to a user."""
        v1, v2 = cgroup_mounts()
        for tree in [v2] if v2 else v1:
            top = tree / self.name
            for name in ("shell", "cupel"):
                _make_group(top / name)
            self.trees.append(top)
        if v2:
            for at in (v2, v2 / self.name):
                (at / "cgroup.subtree_control").write_text("+memory +cpu +pids")
            self._join = v2 / self.name / "shell/cgroup.procs"
        for top in self.trees:
            for folder, _, files in os.walk(top):
                for path in [folder] + [os.path.join(folder, name) for name in files]:
                    os.chown(path, self.uid, self.uid)

    def _become(self):
        if self._join:
            self._join.write_text(str(os.getpid()), encoding="utf-8")
        if self.uid:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)

    def environ(self, extra=None):
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LANG": "C.UTF-8",
            "HOME": str(self.dir),
            "CUPEL_HOME": str(self.home),
            "CUPEL_CONFIG": str(self.config),
        }
        passed = ("CUPEL_FAULT", "ASAN_OPTIONS", "UBSAN_OPTIONS", "CUPEL_SANITIZER_REPORTS")
        for name in passed:
            if name in os.environ:
                env[name] = os.environ[name]
        return {**env, **(extra or {})}

    def popen(self, *command, env=None, **options):
        """Any program, as this caller would start it."""
        options.setdefault("cwd", self.dir)
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(
            [str(word) for word in command],
            env=self.environ(env),
            preexec_fn=self._become,
            **options,
        )

    def call(self, *command, env=None, limit_s=RUN_LIMIT_S, **options):
        """Any program to its end: (status, stdout, stderr) with what is not UTF-8 replaced."""
        with self.popen(
            *command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
        ) as process:
            try:
                out, err = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")

    def measured(self, cpu_s, *command, **options):
        """Any program within that much time of the processor: status, stdout, stderr, and its peak
        of resident memory in KiB."""
        python = ("/usr/bin/python3", "-I", "-c", _MEASURE, cpu_s)
        status, out, err = self.call(*python, *command, **options)
        assert status == 0, err
        return json.loads(out)

    def new_id(self):
        return f"t{os.getpid()}-{next(_numbers)}"

    def run_dir(self, run_id):
        return self.home / "runs" / run_id

    def work_dir(self, run_id):
        return self.work_root / f"scidex-analysis-{run_id}"

    def run(self, *args, id=None, **options):
        """`cupel run --quiet --id ID ARGS`, to its end."""
        run_id = id or self.new_id()
        status, out, err = self.call(
            self.binary, "run", "--quiet", "--id", run_id, *args, **options
        )
        return Result(status, out, err, self.run_dir(run_id))

    def start(self, *args, id=None, **options):
        """The same without waiting: (process, id)."""
        run_id = id or self.new_id()
        return self.popen(self.binary, "run", "--quiet", "--id", run_id, *args, **options), run_id

    def has_started(self, run_id):
        try:
            return b'"event":"started"' in (self.run_dir(run_id) / "events.jsonl").read_bytes()
        except FileNotFoundError:
            return False

    def let_go(self, run_id):
        """Ends the WAITS of a run. Not before its box is there: until then its directory may be mounted over."""
        receipt = self.run_dir(run_id) / "receipt.json"
        assert wait_until(lambda: self.has_started(run_id) and receipt.exists()), f"{run_id} does not start"
        go = pathlib.Path(json.loads(receipt.read_text(encoding="utf-8"))["cwd"], "go")
        go.touch()
        self.own(go)

    def probed(self, *args, options=(), **more):
        """The probe's acts as the analysis: {act: answer}, and the result."""
        result = self.run(
            "--data", f"{self.probe}:probe", *options, "--", "data/probe", *args, **more
        )
        return answers(result.stdout), result

    def outside(self, *args, **options):
        """The same acts by the same caller without a box: the control."""
        for act in args:
            self._check_harmless(act)
        _, out, _ = self.call(self.probe, *args, **options)
        return answers(out)

    def _check_harmless(self, act):
        """Outside nothing holds an act back: it may change only what is this caller's own."""
        name, _, words = act.partition("=")
        if name in _CHANGES:
            for path in words.split(","):
                assert path.startswith(f"{self.base}/"), f"{act} would change the host"
        assert name not in _NEVER_OUTSIDE, f"{act} is not for the host"
        assert name not in _ONLY_WITHOUT_PATH or not words, f"{act} is not for the host"
        assert name != "kill" or words.endswith(",0"), f"{act} would hit a process of the host"

    def groups(self):
        """What runs have left of groups: must be nothing."""
        return [
            str(path) for top in self.trees for path in (top / "cupel").iterdir() if path.is_dir()
        ]

    def close(self):
        try:
            for top in self.trees:
                _remove_group(top)
        finally:
            shutil.rmtree(self.base, ignore_errors=True)


def verdict_of(caller, run_id, home=None):
    """Of a run in the caller's home, or in another; None if there is none."""
    path = (home or caller.home) / "runs" / run_id / "verdict.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


@contextlib.contextmanager
def going_on(process):
    """A process that is killed at the end of the block if it still runs, even by a test that fails."""
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def answers(text):
    """`act answer` a line, as the probe prints them."""
    pairs = (line.split(" ", 1) for line in text.splitlines() if " " in line)
    return dict(pairs)
