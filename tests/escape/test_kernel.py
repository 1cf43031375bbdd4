"""Powers and code paths of the kernel that no analysis needs. The control is root outside the
box: `ok`, or at least an answer to the (harmless, wrong) arguments rather than a refusal of the
call."""

import os
import platform
import re

import pytest

import cupel as lib

X86 = platform.machine() == "x86_64"
ANSWERED = "answered"  # by the kernel, in whatever way; this depends on its configuration

# act: (inside, outside)
REFUSED = {
    "io_uring": ("EPERM", "ok"),
    **{
        f"unshare={ns}": ("EPERM", "ok")
        for ns in ("user", "mount", "pid", "net", "ipc", "uts", "cgroup", "time")
    },
    **{
        f"clone={ns}": ("EPERM", "ok")
        for ns in ("user", "mount", "pid", "net", "ipc", "uts", "cgroup")
    },
    **{f"clone3={ns}": ("ENOSYS", "ok") for ns in ("user", "pid", "net")},
    "setns=/proc/self/ns/net": ("EPERM", "ok"),
    "mount": ("EPERM", ANSWERED),
    "mount-bind": ("EPERM", "ENOENT"),
    "remount": ("EPERM", "ENOENT"),
    "umount": ("EPERM", "ENOENT"),
    "pivot_root": ("EPERM", "ENOENT"),
    "chroot=/": ("EPERM", "ok"),
    "fsopen": ("EPERM", "ok"),
    "fsconfig": ("EPERM", ANSWERED),
    "fsmount": ("EPERM", "EBADF"),
    "fspick": ("EPERM", ANSWERED),
    "open_tree": ("EPERM", "ok"),
    "move_mount": ("EPERM", "ENOENT"),
    "mount_setattr": ("EPERM", "ENOENT"),
    "bpf": ("EPERM", "ok"),
    "keyctl": ("EPERM", "ok"),
    "add_key": ("EPERM", "ok"),
    "request_key": ("EPERM", "ENOKEY"),
    "userfaultfd": ("EPERM", "ok"),
    "perf": ("EPERM", "ok"),
    "ptrace-child": ("EPERM", "ok"),
    "vm-read-self": ("EPERM", "ok"),
    "pidfd_getfd": ("EPERM", "ok"),
    "kcmp": ("EPERM", "ok"),
    "settimeofday": ("EPERM", "EINVAL"),
    "clock_settime": ("EPERM", "EINVAL"),
    "adjtimex": ("EPERM", "ok"),
    "sched-fifo": ("EPERM", ANSWERED),
    "nice": ("EACCES", "ok"),
    "ioprio-rt": ("EPERM", "ok"),
    "open-by-handle=/": ("EPERM", ANSWERED),
    "name-to-handle=/": ("EPERM", ANSWERED),
    "fanotify": ("EPERM", "ok"),
    "memfd_secret": ("EPERM", ANSWERED),
    "sethostname": ("EPERM", "EINVAL"),
    "reboot": ("EPERM", "EINVAL"),
    "finit_module": ("EPERM", ANSWERED),
    "delete_module": ("EPERM", ANSWERED),
    "swapon": ("EPERM", ANSWERED),
    "acct": ("EPERM", ANSWERED),
    "syslog": ("EPERM", "ok"),
    "quotactl": ("EPERM", ANSWERED),
    "capset": ("EPERM", "ok"),
    "setuid-0": ("EINVAL", "ok"),
    "setgid-0": ("EINVAL", "ok"),
    "setgroups": ("EPERM", "ok"),
    "no-new-privs": ("1", "0"),
    "unknown-call": ("ENOSYS", "ENOSYS"),
    **(
        {
            "iopl": ("EPERM", ANSWERED),
            "modify_ldt": ("EPERM", "ok"),
            "x32": ("signal SYS", ANSWERED),
            "i386": ("signal SYS", ANSWERED),
        }
        if X86
        else {}
    ),
}

# Families and protocols beyond what analyses use: vsock, packet, alg, key, bluetooth, can, tipc,
# rds, xdp; netlink's kernel events and audit; SCTP, DCCP (by protocol and by type), MPTCP, UDP-Lite.
SOCKETS = {
    "socket=40,1": ("EAFNOSUPPORT", "ok"),
    "socket=17,3": ("EAFNOSUPPORT", "ok"),
    "socket=16,3/15": ("EAFNOSUPPORT", "ok"),
    "socket=16,3/9": ("EAFNOSUPPORT", ANSWERED),
    "socketpair=2,1": ("EAFNOSUPPORT", "EOPNOTSUPP"),
    "socketpair=40,1": ("EAFNOSUPPORT", "EOPNOTSUPP"),
    "socket=2,2/136": ("EPROTONOSUPPORT", ANSWERED),
    "socket=2,1/262": ("EPROTONOSUPPORT", ANSWERED),
    **{
        f"socket={family},{kind}": ("EAFNOSUPPORT", None)
        for family, kind in ((38, 5), (15, 3), (31, 3), (29, 3), (30, 5), (21, 5), (44, 3))
    },
    **{
        f"socket={family},{rest}": ("EPROTONOSUPPORT", None)
        for family in (2, 10)
        for rest in ("5/132", "6/33", "6", "3/255")
    },
    "socketpair=30,5": ("EAFNOSUPPORT", None),
}

# What analyses do need.
GRANTED = [
    "socket=1,1",
    "socket=2,1",
    "socket=2,2/17",
    "socket=10,1/6",
    "socket=16,3/0",
    "socketpair=1,1",
    "own-loopback",
]

ALL = {**REFUSED, **SOCKETS}


@pytest.mark.parametrize("act", ALL)
def test_is_refused_inside_and_answered_outside(inside, outside, act):
    expected, control = ALL[act]
    assert inside(ALL)[act] == expected
    if outside(ALL)[act] == expected == "EAFNOSUPPORT":
        return  # this kernel has no such family: there is nothing to compare with
    if control == ANSWERED:
        assert outside(ALL)[act] != expected
    elif control:
        assert outside(ALL)[act] == control


@pytest.mark.parametrize("act", GRANTED)
def test_is_granted(inside, act):
    assert inside(GRANTED)[act] == "ok"


@pytest.mark.skipif(not X86, reason="x86: only there are other call tables")
@pytest.mark.parametrize("act", ["i386", "x32"])
def test_another_call_table_ends_the_analysis_as_denied(cupel, act):
    _, result = cupel.probed("-x", act)
    assert result.cause == "denied"
    assert (result.verdict["signal"], result.status) == (31, 128 + 31)


def test_no_capability_in_any_set(cupel):
    result = cupel.run("--", "/bin/cat", "/proc/self/status")
    status = dict(re.findall(r"^(\w+):[ \t]*(.*)$", result.stdout, re.MULTILINE))
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert status["Uid"].split() == ["1000"] * 4
    assert status["Gid"].split() == ["1000"] * 4
    assert status["Groups"].split() == []


def test_a_setuid_program_gains_nothing(cupel, callers):
    """`id` owned by root with its set-id bits, as an input and outside."""
    program = cupel.base / "id-setuid"
    program.write_bytes(open("/usr/bin/id", "rb").read())
    program.chmod(0o6755)
    mounted = cupel.call("findmnt", "-no", "OPTIONS", "-T", program)[1]
    try:
        result = cupel.run("--data", f"{program}:id", "--", "data/id", "-u")
        assert (result.cause, result.stdout.strip()) == ("ok", "1000")
        if "nosuid" not in mounted:
            assert callers("user").call(program, "-u")[1].strip() == "0"
    finally:
        program.unlink()


def test_a_setuid_bit_made_inside_is_not_collected(cupel):
    result = cupel.run("--", "/bin/sh", "-c", "cp /usr/bin/id out/ && chmod 6755 out/id")
    assert result.cause == "ok"
    assert (result.run_dir / "outputs/out/id").stat().st_mode & 0o7777 & ~0o555 == 0


def test_a_crash_leaves_no_core(cupel):
    answers, result = cupel.probed("crash", "crash-at-zero", "core-limit", "list=.")
    assert answers["crash"] == "signal SEGV"  # and not "signal SEGV core"
    assert answers["crash-at-zero"] == "signal SEGV"
    assert answers["core-limit"] == "1 1"
    assert "core" not in answers["list=."]
    assert result.cause == "ok"


@pytest.mark.vm
@pytest.mark.skipif(
    os.environ.get("CUPEL_TEST_VM") != "1", reason="vm: changes a setting of the kernel"
)
@pytest.mark.parametrize("act", ["crash", "crash-at-zero"])
def test_a_crash_does_not_run_the_hosts_core_handler(cupel, callers, act):
    """The kernel asks no limit before it runs a handler as root, but for that of exactly one
    byte."""
    pattern = "/proc/sys/kernel/core_pattern"
    trace = cupel.base / "core-handler-ran"
    handler = cupel.base / "handler"
    handler.write_text(f"#!/bin/sh\ncat >/dev/null\n: >>{trace}\n", encoding="utf-8")
    handler.chmod(0o755)
    with open(pattern, encoding="utf-8") as file:
        before = file.read()
    with open(pattern, "w", encoding="utf-8") as file:
        file.write(f"|{handler} %p")
    try:
        answers, _ = cupel.probed(act)
        assert answers[act] == "signal SEGV"
        assert not trace.exists()
        assert callers("root").outside(act)[act] == "signal SEGV core"
        assert lib.wait_until(trace.exists)
    finally:
        with open(pattern, "w", encoding="utf-8") as file:
            file.write(before)
        trace.unlink(missing_ok=True)


MASKS = [
    "umount=/proc/keys",
    "umount=/proc",
    "umount=/tmp",
    "remount=/usr",
    "remount=/proc",
    "mount-bind=/tmp,/usr/bin",
]


@pytest.mark.parametrize("act", MASKS)
def test_mounts_of_the_box_stay(inside, act):
    assert inside(MASKS)[act] == "EPERM"
