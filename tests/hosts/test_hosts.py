"""Hosts that give less than cupel wants, each made for real in namespaces of its own or behind a
filter. A run there is refused, by the name of the layer and with the remedy, and leaves nothing; with
--allow-missing it runs with what there is, and its record says for ever what was missing. Two layers
are never optional, and without them there is no run."""

import dataclasses
import errno
import json
import pathlib
import subprocess

import cupel as lib
import leftovers
import pytest

pytestmark = pytest.mark.split(2)

LESSER = lib.BUILD / "tests/hosts/lesser"
LIMITERS = "memory,cpu,pids"
OPTIONAL = f"user,net,ipc,uts,cgroup,landlock,seccomp,{LIMITERS},disk"
ALL_IDS = 4294967295
NONE = "nothing"  # a layer that is not missing

# Control groups are mounted below here; mountinfo names each mount.
GROUP_MOUNTS = r"sed -nE 's,^[^-]* (/sys/fs/cgroup[^ ]*) .*,\1,p' /proc/self/mountinfo"
GROUPS_READ_ONLY = f"for m in $({GROUP_MOUNTS}); do mount -o remount,bind,ro $m; done"
PROC_MASKED = "mount --bind /dev/null /proc/keys; mount -t tmpfs -o ro none /proc/fs"
NO_LOOP = """mount -t tmpfs none /mnt
for d in null zero full random urandom; do touch /mnt/$d; mount --bind /dev/$d /mnt/$d; done
mount --rbind /mnt /dev"""


@dataclasses.dataclass
class Host:
    """`shell` is done as root in a mount namespace of its own, `deny` are system calls that fail there.
    `root` and `user` say which layers such a caller misses; `remedy` is a word of what to do."""

    root: str
    user: str
    remedy: str
    shell: str = ":"
    deny: dict = dataclasses.field(default_factory=dict)
    ids: int = 0  # in a user namespace that has so many ids; 0: in the host's
    caps: str = ""  # that root does not have


def limited(namespace, layer):
    """In a user namespace of its own, whose root can mount no ext4: the limits are set without
    touching the machine."""
    return Host(
        f"{layer},disk",
        layer,
        f"user.max_{namespace}_namespaces",
        f"echo 0 >/proc/sys/user/max_{namespace}_namespaces",
        ids=ALL_IDS,
    )


HOSTS = {
    "groups-read-only": Host(LIMITERS, LIMITERS, "--privileged", GROUPS_READ_ONLY),
    "groups-absent": Host(LIMITERS, LIMITERS, "mount -t cgroup2", "umount -R -l /sys/fs/cgroup"),
    "groups-covered": Host(
        LIMITERS, LIMITERS, "mount -t cgroup2", "mount -t tmpfs none /sys/fs/cgroup"
    ),
    "user-namespaces-none": limited("user", "user"),
    "user-namespaces-filtered": Host(
        "user,cgroup", "user", "unprivileged_userns_clone", deny={"unshare": errno.EPERM}
    ),
    "net-namespaces-none": limited("net", "net"),
    "ipc-namespaces-none": limited("ipc", "ipc"),
    "uts-namespaces-none": limited("uts", "uts"),
    "cgroup-namespaces-none": limited("cgroup", "cgroup"),
    "mount-namespaces-none": limited("mnt", "mount"),
    "pid-namespaces-none": limited("pid", "pid"),
    "proc-masked": Host(NONE, "mount", "unmask=ALL", PROC_MASKED),
    "proc-sys-read-only": Host(
        NONE,
        "mount",
        "unmask=ALL",
        "mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys",
    ),
    "proc-absent": Host("mount", "mount", "mount -t proc", "mount -t tmpfs none /proc"),
    "loop-absent": Host("disk", NONE, "modprobe loop", NO_LOOP),
    "mkfs-absent": Host("disk", NONE, "e2fsprogs", "mount -t tmpfs none /usr/sbin"),
    "landlock-unknown": Host(
        "landlock", "landlock", "5.13", deny={"landlock_create_ruleset": errno.ENOSYS}
    ),
    "landlock-off": Host(
        "landlock", "landlock", "lsm=", deny={"landlock_create_ruleset": errno.EOPNOTSUPP}
    ),
    "seccomp-refused": Host(
        "seccomp", "seccomp", "CONFIG_SECCOMP_FILTER", deny={"seccomp": errno.EINVAL}
    ),
    "clone3-unknown": Host("pid", "pid", "clone3", deny={"clone3": errno.ENOSYS}),
    "mount-setattr-unknown": Host("mount", "mount", "5.12", deny={"mount_setattr": errno.ENOSYS}),
    "mounts-filtered": Host("disk,mount", "mount", "--privileged", deny={"fsopen": errno.EPERM}),
    "root-without-power": Host("disk,mount", NONE, "CAP_SYS_ADMIN", caps="sys_admin"),
    "rootless-container": Host(
        f"disk,{LIMITERS}",
        f"{LIMITERS},mount",
        "--privileged",
        f"{GROUPS_READ_ONLY}\n{PROC_MASKED}\n{NO_LOOP}",
        ids=ALL_IDS,
    ),
}


# An emulated machine repeats what its control groups of version 2 make different.
CHOSEN = [name for name in HOSTS if lib.SLOW == 1 or name.startswith(("groups", "rootless"))]


ALL_LAYERS = ["mount", "pid", *OPTIONAL.split(",")]
# One for each way in which a layer can be lacking.
DOCTORED = [
    "groups-read-only",
    "user-namespaces-none",
    "net-namespaces-none",
    "proc-masked",
    "proc-absent",
    "landlock-off",
    "seccomp-refused",
    "clone3-unknown",
    "loop-absent",
    "rootless-container",
]


class Lesser:
    """One host with one caller on it."""

    def __init__(self, host, who, caller):
        self.host, self.caller = host, caller
        missing = getattr(host, who)
        self.missing = [] if missing == NONE else missing.split(",")
        # An ordinary user gets every other namespace only within one of his own.
        self.fatal = [
            layer
            for layer in self.missing
            if layer in ("mount", "pid") or (layer == "user" and who == "user")
        ]

    def _command(self):
        command = [LESSER, "-u", self.host.ids] if self.host.ids else []
        # A mount namespace whose mounts are its own affair.
        command += ["unshare", "--mount", "sh", "-ec", f'{self.host.shell}\ncd "$0"; exec "$@"']
        command += [self.caller.dir]
        if self.caller.uid:
            ids = (f"--reuid={self.caller.uid}", f"--regid={self.caller.uid}")
            command += ["setpriv", *ids, "--clear-groups"]
        elif self.host.caps:
            command += ["setpriv", f"--bounding-set=-{self.host.caps}"]
        if self.host.deny:
            command += [LESSER, *(f"-d{name}={number}" for name, number in self.host.deny.items())]
        return command

    def _join(self):
        if self.caller._join:  # pylint: disable=protected-access
            self.caller._join.write_text("0")  # pylint: disable=protected-access

    def call(self, *args):
        done = subprocess.run(
            [str(word) for word in [*self._command(), self.caller.binary, *args]],
            env=self.caller.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=lib.RUN_LIMIT_S,
            preexec_fn=self._join,
            check=False,
        )
        if done.returncode == 77:
            pytest.skip(done.stderr.strip())
        return done

    def run(self, *args):
        run_id = self.caller.new_id()
        done = self.call("run", "-q", "--id", run_id, *args)
        return lib.Result(done.returncode, done.stdout, done.stderr, self.caller.run_dir(run_id))


@pytest.fixture
def lesser(callers, request, who):
    callers(who)  # skips where there is none
    if not LESSER.exists():
        pytest.skip("lesser: not built")
    caller = lib.Cupel(who)
    yield Lesser(HOSTS[request.param], who, caller)
    leftovers.assert_nothing_left(caller)
    caller.close()


def on(*names):
    return pytest.mark.parametrize("lesser", names or CHOSEN, indirect=True)


def assert_refused(result, layer, remedy=None):
    """Before anything ran; the message is also in the record, if there is one already."""
    assert (result.status, result.stdout) == (125, ""), result.stderr
    assert f"{layer}: " in result.stderr or f"{layer}," in result.stderr, result.stderr
    assert remedy is None or remedy in result.stderr, result.stderr
    if result.verdict:
        assert (result.cause, result.verdict["started"]) == ("setup", None)
        assert result.verdict["completion_notes"] in result.stderr
    assert result.receipt is None


@on()
def test_what_is_missing_is_named_with_what_to_do(lesser):
    """One layer after the other, as a person would go on, to the last one or to the one that can't be
    done without."""
    allowed = []
    while True:
        result = lesser.run(*(["--allow-missing", ",".join(allowed)] if allowed else []), "--", "true")
        left = [layer for layer in lesser.missing if layer not in allowed]
        if not left:
            assert (result.status, result.cause) == (0, "ok"), result.stderr
            return
        named = [layer for layer in left if f"{layer}: " in result.stderr]
        assert named, result.stderr
        assert_refused(result, named[0])
        assert "Remedy" in result.stderr or "boot" in result.stderr
        if named[0] in lesser.fatal:
            assert lesser.host.remedy in result.stderr and "--allow-missing" not in result.stderr
            return
        # What it proposes is taken at its word.
        proposed = result.stderr.rpartition("--allow-missing ")[2].strip().rstrip(".")
        assert set(proposed.split(",")) <= set(lesser.missing), result.stderr
        assert not set(allowed) & set(proposed.split(",")), result.stderr
        allowed += proposed.split(",")


@on()
def test_the_remedy(lesser):
    """Of the layer that the host is there for; a user namespace's own lack of disks is another."""
    others = [layer for layer in lesser.missing if layer == "disk" and len(lesser.missing) > 1]
    result = lesser.run(*(["--allow-missing", ",".join(others)] if others else []), "--", "true")
    if not lesser.missing:
        assert (result.status, result.verdict["missing_layers"]) == (0, "")
        return
    assert_refused(result, [layer for layer in lesser.missing if layer not in others][0])
    assert lesser.host.remedy in result.stderr


@on()
def test_allowed_it_runs_with_what_there_is_and_says_so(lesser):
    result = lesser.run("--allow-missing", OPTIONAL, "--", "sh", "-c", "echo ran >out/x; cat out/x")
    if lesser.fatal:
        assert_refused(result, lesser.fatal[-1])
        assert "--allow-missing" not in result.stderr
        return
    assert (result.status, result.stdout, result.cause) == (0, "ran\n", "ok"), result.stderr
    missing = sorted(lesser.missing)
    assert sorted(filter(None, result.verdict["missing_layers"].split(","))) == missing
    assert sorted(filter(None, result.receipt["missing_layers"].split(","))) == missing
    notes = result.verdict["completion_notes"]
    assert all(layer in notes.partition("without these layers")[2] for layer in missing), notes
    # For ever: also from a host that gives everything.
    caller = lesser.caller
    status, out, err = caller.call(caller.binary, "show", "--json", result.run_dir.name)
    assert status == 0, err
    assert json.loads(out)["missing_layers"] == result.verdict["missing_layers"]


@on("groups-read-only", "groups-absent")
def test_one_allowed_limiter_does_not_excuse_the_others(lesser):
    result = lesser.run("--allow-missing", "memory", "--", "true")
    assert_refused(result, "cpu,pids")
    assert "--allow-missing cpu,pids" in result.stderr


@on("groups-absent")
def test_without_limiters_the_deadline_still_ends_everything(lesser):
    """A box that no group holds together: its pid namespace does."""
    result = lesser.run(
        *("--allow-missing", LIMITERS, "--time", f"{lib.SLOW}s", "--grace", "100ms"),
        *("--", "sh", "-c", "trap '' TERM; for i in 1 2 3; do setsid sleep 600 & done; sleep 600"),
    )
    assert (result.status, result.cause) == (124, "deadline"), result.stderr
    # Whoever delivers to the ledger ends by itself, long before what slept in the box would.
    assert lib.wait_until(lambda: leftovers.processes(lesser.caller) == [])


@on("loop-absent")
def test_a_watched_directory_is_still_limited(lesser):
    result = lesser.run(
        *("--allow-missing", f"{LIMITERS},disk", "--disk", "4M", "--"),
        *("sh", "-c", "head -c 20000000 /dev/zero >out/x; sleep 600"),
    )
    assert result.cause == "disk", result.stderr


@on("landlock-unknown", "seccomp-refused", "net-namespaces-none")
def test_the_other_layers_hold(lesser):
    """What is allowed to be missing takes no other layer with it."""
    result = lesser.run(
        *("--allow-missing", OPTIONAL, "--"),
        *("sh", "-c", "cat /etc/shadow; echo x >/usr/x; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status"),
    )
    assert result.status == 0, result.stderr
    assert result.stdout.split() == ["CapEff:", "0" * 16, "NoNewPrivs:", "1"]
    own = {name for name, space in result.receipt["namespaces"].items() if space["own"]}
    expected = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} - set(lesser.missing)
    assert own == expected
    assert "landlock" in lesser.missing or result.receipt["landlock"]["abi"] > 0
    assert "seccomp" in lesser.missing or result.receipt["seccomp"]["mode"] == 2


@on(*(name for name in DOCTORED if name in CHOSEN))
def test_the_doctor_calls_nothing_ok_that_does_not_hold(lesser):
    done = lesser.call("doctor", "--json")
    answer = json.loads(done.stdout)
    found = {check["name"]: check for check in answer["checks"]}
    missing = [name for name in ALL_LAYERS if found[name]["status"] == "missing"]
    assert all(found[name]["remedy"] for name in missing), answer
    if lesser.fatal:
        assert (done.returncode, answer["runs"]) == (1, "none")
        assert set(missing) & set(lesser.fatal) and set(missing) <= set(lesser.missing), missing
        assert not [name for name in ALL_LAYERS if found[name]["status"] in ("ok", "weak")]
    else:
        assert sorted(missing) == sorted(lesser.missing), answer
        assert answer["runs"] == ("weaker" if missing else "full")
        assert sorted(filter(None, answer["missing_layers"].split(","))) == sorted(missing)
        assert not missing or f"--allow-missing {answer['missing_layers']}" in answer["summary"]
        assert not [name for name in ALL_LAYERS if found[name]["status"] == "unknown"], answer
    if lesser.missing:
        assert done.returncode == 1
        assert any(lesser.host.remedy in found[name]["remedy"] for name in missing), answer
    assert not (lesser.caller.home / "doctor").exists()
    kept = json.loads((lesser.caller.home / "health/doctor.json").read_text(encoding="utf-8"))
    assert kept["status"] == answer["status"]


def test_too_few_ids_for_a_user_of_its_own(callers):
    """Root of a rootless container as engines make it, with 65536 ids."""
    callers("root")
    caller = lib.Cupel("root")
    lesser = Lesser(Host("disk", NONE, "", ids=65536), "root", caller)
    result = lesser.run("--allow-missing", OPTIONAL, "--", "true")
    assert_refused(result, "user", "uids:")
    answer = json.loads(lesser.call("doctor", "--json").stdout)
    user = [check for check in answer["checks"] if check["name"] == "user"]
    assert [check["status"] for check in user] == ["missing"] and "uids:" in user[0]["remedy"]
    assert answer["runs"] == "none"
    leftovers.assert_nothing_left(caller)
    caller.close()


def test_the_machine_itself_is_untouched():
    """None of the above changed it: the limits that were set to 0 were those of a namespace."""
    limits = pathlib.Path("/proc/sys/user").glob("max_*_namespaces")
    assert all(path.read_text(encoding="utf-8").strip() != "0" for path in limits)
