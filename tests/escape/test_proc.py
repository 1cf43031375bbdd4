"""procfs, sysfs, cgroupfs: the box's own, read-only, masked; its pid 1 is a closed book."""

import os

import cupel as lib
import pytest

MASKED_FILES = [
    "kcore",
    "keys",
    "key-users",
    "kmsg",
    "kallsyms",
    "timer_list",
    "vmallocinfo",
    "slabinfo",
    "modules",
    "config.gz",
    "cmdline",
    "swaps",
    "partitions",
    "diskstats",
    "kpagecount",
    "kpageflags",
    "mtrr",
    # Counters and tables of the whole host: when and how often its devices interrupt, its memory and its locks.
    "interrupts",
    "softirqs",
    "schedstat",
    "locks",
    "buddyinfo",
    "pagetypeinfo",
    "zoneinfo",
    "iomem",
    "ioports",
    "dma",
    "misc",
    "consoles",
    "crypto",
    "execdomains",
    "mdstat",
]
MASKED_DIRS = ["acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi", "sysvipc", "tty"]
# What programs and libraries read of the host.
SHOWN_FILES = [
    "cgroups",
    "cpuinfo",
    "devices",
    "filesystems",
    "loadavg",
    "meminfo",
    "stat",
    "uptime",
    "version",
    "vmstat",
]

CLOSED = {
    # Writes that would change the host, or this process's standing in it.
    "write=/proc/sys/kernel/core_pattern": "EACCES",
    "write=/proc/sys/kernel/hostname": "EACCES",
    "write=/proc/sys/vm/drop_caches": "EACCES",
    "write=/proc/sys/user/max_user_namespaces": "EACCES",
    "write=/proc/self/oom_score_adj": "EROFS",
    "write=/proc/self/mem": "EROFS",
    "write=/proc/self/uid_map": "EROFS",
    "write=/proc/self/setgroups": "EROFS",
    "write=/proc/self/timerslack_ns": "EROFS",
    "write=/proc/self/attr/current": "EROFS",
    "create=/proc/x": "ENOENT",
    # Pid 1: what it was called with, what it holds, where it came from.
    "read=/proc/1/environ": "EACCES",
    "read=/proc/1/maps": "EACCES",
    "read=/proc/1/mem": "EACCES",
    "read=/proc/1/auxv": "EACCES",
    "write=/proc/1/mem": "EACCES",
    "readlink=/proc/1/exe": "EACCES",
    "readlink=/proc/1/cwd": "EACCES",
    "readlink=/proc/1/root": "EACCES",
    "readlink=/proc/1/ns/net": "EACCES",
    "open-path=/proc/1/exe": "EACCES",
    "open-path=/proc/1/root": "EACCES",
    "chdir=/proc/1/cwd": "EACCES",
    "list=/proc/1/fd": "EACCES",
    "list=/proc/1/map_files": "EACCES",
    "list=/proc/1/task/1/fd": "EACCES",
    # Neither sysfs nor cgroupfs.
    "list=/sys": "[devices]",
    "list=/sys/fs/cgroup": "ENOENT",
    "list=/sys/kernel": "ENOENT",
    "list=/proc/sys/fs/binfmt_misc": "[]",
    "list=/proc/..": None,
}


@pytest.mark.parametrize("act", [act for act in CLOSED if CLOSED[act]])
def test_inside(inside, act):
    answer = inside(CLOSED)[act]
    if answer == "ENOENT" and act.startswith("write="):
        pytest.skip("this kernel has no such file")
    if act == "write=/proc/self/attr/current" and answer in ("ENOENT", "EACCES"):
        return
    assert answer == CLOSED[act]


def test_the_same_writes_succeed_outside(callers):
    """The control: this process's own files there, which the box's own process cannot write
    here."""
    root = callers("root")
    result = root.call(
        "/bin/sh",
        "-c",
        "for f in oom_score_adj mem; do : >>/proc/self/$f && echo $f; done;"
        "readlink /proc/self/exe; tr '\\0' '\\n' </proc/$$/environ",
    )
    assert result[1].splitlines()[:2] == ["oom_score_adj", "mem"]
    assert f"CUPEL_HOME={root.home}" in result[1]
    assert os.access("/proc/sys/kernel/core_pattern", os.W_OK)


@pytest.mark.parametrize("name", MASKED_FILES)
def test_masked_file_is_empty_or_not_there(inside, name):
    acts = [f"read=/proc/{name}" for name in MASKED_FILES]
    assert inside(acts)[f"read=/proc/{name}"] in ("empty", "ENOENT")


@pytest.mark.parametrize("name", SHOWN_FILES)
def test_what_programs_need_is_shown(inside, name):
    acts = [f"read=/proc/{name}" for name in SHOWN_FILES]
    assert inside(acts)[f"read=/proc/{name}"] == "ok"


def test_interrupts_are_there_to_be_hidden(callers):
    """The control for the masks that tell of the host's devices."""
    acts = ["read=/proc/interrupts", "read=/proc/softirqs", "read=/proc/locks"]
    answers = callers("root").outside(*acts)
    assert answers[acts[0]] == answers[acts[1]] == "ok"


@pytest.mark.parametrize("name", MASKED_DIRS)
def test_masked_directory_is_empty_or_not_there(inside, name):
    acts = [f"list=/proc/{name}" for name in MASKED_DIRS]
    assert inside(acts)[f"list=/proc/{name}"] in ("[]", "ENOENT")


def test_something_is_behind_the_masks(callers):
    root = callers("root")
    acts = [f"read=/proc/{name}" for name in MASKED_FILES if name not in ("kmsg", "kcore")]
    assert "ok" in root.outside(*acts).values()
    acts = [f"list=/proc/{name}" for name in MASKED_DIRS]
    assert any(len(answer) > 2 for answer in root.outside(*acts).values() if answer[0] == "[")


def test_pid_1_says_nothing_of_the_caller(cupel):
    """Neither its arguments nor its environment, wherever procfs shows them."""
    script = (
        "cat /proc/1/cmdline /proc/1/environ /proc/1/comm /proc/1/stat /proc/1/status "
        "/proc/*/environ "
        "/proc/*/cmdline /proc/self/mountinfo 2>/dev/null; env; cat /proc/self/environ; exit 0"
    )
    result = cupel.run(
        "--label",
        "k=ARGUMENT-of-cupel",
        "--name",
        "ARGUMENT-of-cupel",
        "--",
        "/bin/sh",
        "-c",
        script,
        env={
            "SECRET": "ENVIRONMENT-of-cupel",
            "PGPASSWORD": "ENVIRONMENT-of-cupel",
            "LD_PRELOAD_": "ENVIRONMENT-of-cupel",
        },
    )
    assert result.cause == "ok"
    assert "cupel-init" in result.stdout  # it was read
    assert "CUPEL_RUN_ID" in result.stdout
    assert "ENVIRONMENT-of-cupel" not in result.stdout
    assert "ARGUMENT-of-cupel" not in result.stdout
    assert "CUPEL_CONFIG" not in result.stdout and "CUPEL_HOME" not in result.stdout


def test_the_environment_is_built_not_inherited(cupel):
    result = cupel.run(
        "--env",
        "GIVEN=1",
        "--",
        "/usr/bin/env",
        env={"SECRET": "x", "PYTHONPATH": "x", "LD_LIBRARY_PATH": "/tmp"},
    )
    names = {line.partition("=")[0] for line in result.stdout.splitlines()}
    assert "GIVEN" in names
    assert not names & {
        "SECRET",
        "PYTHONPATH",
        "LD_LIBRARY_PATH",
        "CUPEL_CONFIG",
        "CUPEL_HOME",
        "OLDPWD",
        "SSH_AUTH_SOCK",
        "DISPLAY",
    }


def test_its_cgroup_is_the_top_of_what_it_sees(cupel):
    """The names of our groups, with the run's id and the caller's, are not shown."""
    result = cupel.run(
        "--", "/bin/cat", "/proc/self/cgroup", "/proc/1/cgroup", "/proc/self/mountinfo"
    )
    assert cupel.name not in result.stdout.replace(str(cupel.base), "")
    assert "cgroup" not in [
        line.partition(" - ")[2].split(" ")[0]
        for line in result.stdout.splitlines()
        if " - " in line
    ]


def test_own_binary_is_not_reachable(cupel):
    """CVE-2019-5736: through /proc/1/exe, /proc/self/exe of a fresh child, or by its path."""
    acts = [
        "write=/proc/1/exe",
        "read=/proc/1/exe",
        "exec=/proc/1/exe",
        f"read={cupel.binary}",
        f"write={cupel.binary}",
    ]
    digest = cupel.binary.read_bytes()
    answers, result = cupel.probed(*acts)
    assert answers == {
        acts[0]: "EACCES",
        acts[1]: "EACCES",
        acts[2]: "EACCES",
        acts[3]: "ENOENT",
        acts[4]: "ENOENT",
    }
    assert result.cause == "ok"
    assert cupel.binary.read_bytes() == digest
    # What enters the run into the ledger is this program too, for a moment.
    control = {acts[3]: "ok", acts[4]: "ok"}
    assert lib.wait_until(lambda: cupel.outside(acts[3], acts[4]) == control)
