"""Who is compared: how each starts a payload in a box, and what it enforces. All see the same files: the host's /usr."""

import contextlib
import dataclasses
import json
import pathlib
import shutil
import subprocess

# The same limits for all who have limits: cupel's own defaults.
MEMORY = 2 << 30
CPUS = 1
PIDS = 512
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}


@dataclasses.dataclass
class Peer:
    """`command(payload)` is what bench/launch is given for it."""

    name: str
    enforces: str
    command: "callable"
    version: list = None


def cgroup2_beside_v1():
    """Where cgroup v2 is mounted without controllers, beside v1: there crun refuses to run while it can see it. None elsewhere."""
    v1, v2 = False, None
    for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        place, _, kind = line.partition(" - ")
        if kind.split()[0] == "cgroup2":
            v2 = place.split()[4]
        v1 = v1 or (kind.split()[0] == "cgroup" and "memory" in kind.split()[2].split(","))
    return v2 if v1 else None


def bundle_configuration(payload):
    mounts = [
        {
            "destination": "/proc",
            "type": "proc",
            "source": "proc",
            "options": ["nosuid", "noexec", "nodev"],
        },
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "mode=755", "size=64k"],
        },
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]},
        {
            "destination": "/usr",
            "type": "bind",
            "source": "/usr",
            "options": ["rbind", "ro", "nosuid", "nodev"],
        },
    ]
    return {
        "ociVersion": "1.0.2",
        "hostname": "bench",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": payload,
            "cwd": "/",
            "env": ["PATH=/usr/bin:/bin"],
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "mounts": mounts,
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
            "resources": {
                "memory": {"limit": MEMORY},
                "pids": {"limit": PIDS},
                "cpu": {"quota": CPUS * 100000, "period": 100000},
            },
        },
    }


class Oci:
    """crun or runc, run on a bundle of which there is one for each payload."""

    def __init__(self, program, work, prefix, hidden=None):
        self.program, self.work, self.prefix, self.hidden = program, work, prefix, hidden

    def bundle(self, payload):
        path = self.work / ("bundle-" + pathlib.Path(payload[0]).name)
        if not path.exists():
            (path / "rootfs").mkdir(parents=True)
            for name in ("proc", "dev", "tmp", "usr"):
                (path / "rootfs" / name).mkdir()
            for name, target in LINKS.items():
                (path / "rootfs" / name).symlink_to(target)
            (path / "config.json").write_text(
                json.dumps(bundle_configuration(payload)), encoding="utf-8"
            )
        return path

    def command(self, payload):
        """{} is the number of the job: a container needs a name of its own."""
        hide = [f"hide={self.hidden}"] if self.hidden else []
        return [
            *hide,
            self.program,
            "--root",
            str(self.work / self.program),
            "run",
            "--bundle",
            str(self.bundle(payload)),
            f"{self.prefix}-{self.program}-{{}}",
        ]


def bubblewrap(payload):
    links = [word for name, target in LINKS.items() for word in ("--symlink", target, f"/{name}")]
    return [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        "/usr",
        "/usr",
        *links,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
        *payload,
    ]


def everyone(cupel, nothing, work, prefix):
    """In the order of the tables. `work` is a directory for what they keep; `prefix` begins the names of their groups."""
    hidden = cgroup2_beside_v1()
    limits = "namespaces, binds, capabilities, limits of memory, cpu, processes; no seccomp filter, no disk limit, no record"
    return [
        Peer("floor", "nothing; a program of one system call", lambda _: [nothing]),
        Peer("spawn", "nothing", lambda payload: payload),
        Peer(
            "unshare",
            "namespaces",
            lambda payload: ["unshare", "-Urmpinuf", *payload],
            ["unshare", "--version"],
        ),
        Peer(
            "bubblewrap",
            "namespaces, binds; no limits, no seccomp filter, no record",
            bubblewrap,
            ["bwrap", "--version"],
        ),
        Peer("crun", limits, Oci("crun", work, prefix, hidden).command, ["crun", "--version"]),
        Peer("runc", limits, Oci("runc", work, prefix).command, ["runc", "--version"]),
        Peer(
            "cupel run",
            "namespaces, binds, uid of its own, capabilities, seccomp, Landlock, limits of memory, cpu, processes, time, "
            "disk, log; receipt, durable record, verdict, cleanup",
            lambda payload: [cupel, "run", "-q", "--", *payload],
            [cupel, "version"],
        ),
    ]


def version(peer):
    """The first line it says of itself, without where it is."""
    if not peer.version:
        return None
    done = subprocess.run(peer.version, capture_output=True, text=True, check=False)
    words = (done.stdout.splitlines() or [""])[0].split()
    return next((word for word in words if word[0].isdigit()), None)


def program(peer):
    """The program that must be installed for it."""
    words = peer.command(["/bin/true"])
    return shutil.which(words[1] if words[0].startswith("hide=") else words[0])


def remove_groups(prefix):
    """cupel keeps the parent of its groups, and an OCI runtime that was stopped half-way leaves its own. These names are ours."""
    for tree in (pathlib.Path("/sys/fs/cgroup"), *pathlib.Path("/sys/fs/cgroup").iterdir()):
        for path in tree.glob(f"{prefix}-*") if tree.is_dir() else ():
            with contextlib.suppress(OSError):
                path.rmdir()
