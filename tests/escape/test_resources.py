"""Resources: every way to use more than the budget ends in the box, and the keeper says which
it was."""

import json
import os
import subprocess

import pytest

import cupel as lib

MIB = 1024 * 1024
LIMIT = 64 * MIB


def probe(cupel, *words):
    """Options, then acts, divided by "--"."""
    at = words.index("--")
    return cupel.probed(*words[at + 1 :], options=words[:at])


def assert_oom(result):
    assert (result.cause, result.status) == ("oom", 137)
    assert result.verdict["evidence"]["oom_kills"] > 0
    assert result.verdict["evidence"]["memory_peak_bytes"] <= LIMIT


MEMORY = ["use-heap=200", "use-memfd=200", "use-sysv=200"]


@pytest.mark.parametrize("act", MEMORY)
def test_memory_beyond_the_limit_ends_the_box(cupel, act):
    _, result = probe(cupel, "--memory", "64M", "--", act)
    assert_oom(result)


@pytest.mark.parametrize("act", [act.replace("200", "30") for act in MEMORY])
def test_memory_below_the_limit_does_not(cupel, act):
    """The control."""
    answers, result = probe(cupel, "--memory", "64M", "--", act)
    assert (answers[act], result.cause) == ("ok", "ok")


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/var/tmp"])
def test_memory_in_files_counts(cupel, place):
    """A tmpfs is memory: full at the limit at the latest, and with what the process itself has,
    dead before."""
    act = f"use-file={place}/big,200"
    answers, result = probe(cupel, "--memory", "64M", "--", act)
    if result.cause == "ok":
        assert answers[act].startswith("ENOSPC after")
        assert result.verdict["usage"]["memory_peak_bytes"] <= LIMIT
    else:
        assert_oom(result)


def test_memory_in_two_file_systems_counts_together(cupel):
    """Each may hold as much as the limit, but not both."""
    _, result = probe(
        cupel, "--memory", "64M", "--", "use-file=/tmp/a,40", "use-file=/dev/shm/b,40"
    )
    assert_oom(result)


@pytest.mark.skipif(
    lib.SLOW > 1, reason="disk: the files of this virtual machine are memory themselves"
)
def test_the_page_cache_of_its_files_does_not_kill(cupel):
    """Writing three times its memory to its working directory is ordinary work."""
    answers, result = probe(
        cupel, "--memory", "64M", "--disk", "512M", "--", "use-file=big,200", "read=big"
    )
    assert answers == {"use-file=big,200": "ok", "read=big": "ok"}
    assert (result.cause, result.verdict["evidence"]["oom_kills"]) == ("ok", 0)


def test_memory_of_the_kernel_is_bounded(cupel):
    """Pipes full of data are the kernel's memory; rlimits see none of it."""
    _, result = probe(cupel, "--memory", "64M", "--open-files", "8192", "--", "use-pipes=200")
    assert result.cause in ("ok", "oom")
    assert result.verdict["usage"]["memory_peak_bytes"] <= LIMIT


def test_a_box_out_of_memory_dies_as_a_whole(cupel):
    """Its parent, which used nothing and would go on for minutes, is gone as well. On v1 it is
    the keeper that ends it, a moment after the kernel ended the first."""
    result = cupel.run(
        "--memory",
        "64M",
        "--data",
        f"{cupel.probe}:probe",
        "--",
        "/bin/sh",
        "-c",
        "sleep 600 & data/probe -x use-heap=200; echo survived; sleep 600",
    )
    assert_oom(result)
    if lib.cgroup_mounts()[1]:
        assert "survived" not in result.stdout


def test_nobody_is_immune_to_the_oom_killer(cupel):
    """oom_score_adj is set before the analysis and cannot be lowered by it (-1000 would exempt
    it)."""
    result = cupel.run(
        "--", "/bin/sh", "-c", "cat /proc/self/oom_score_adj; echo -1000 >/proc/self/oom_score_adj"
    )
    assert int(result.stdout) > 0
    assert "Read-only file system" in result.stderr


def test_a_neighbour_is_not_harmed(cupel):
    """While one run dies of memory over and over, another one at its side does its work."""
    neighbour, run_id = cupel.start(
        "--memory",
        "128M",
        "--",
        "/bin/sh",
        "-c",
        f"echo up; {lib.WAITS}; echo done",
        stdout=subprocess.PIPE,
    )
    assert neighbour.stdout.readline() == b"up\n"
    for _ in range(2):
        assert_oom(probe(cupel, "--memory", "64M", "--", "use-heap=200")[1])
    cupel.let_go(run_id)
    out, _ = neighbour.communicate(timeout=lib.RUN_LIMIT_S)
    assert (out, neighbour.returncode) == (b"done\n", 0)
    assert lib.Result(0, "", "", cupel.run_dir(run_id)).cause == "ok"


def test_processes_beyond_the_limit_are_refused(cupel):
    answers, result = probe(cupel, "--pids", "20", "--", "use-processes=100", "use-threads=100")
    assert answers == {"use-processes=100": "EAGAIN", "use-threads=100": "EAGAIN"}
    assert result.cause == "ok"
    assert result.verdict["evidence"]["pids_limit_hits"] >= 2
    assert result.verdict["usage"]["pids_peak"] <= 20


def test_processes_below_the_limit_are_not(cupel):
    answers, result = probe(cupel, "--pids", "200", "--", "use-processes=100", "use-threads=100")
    assert answers == {"use-processes=100": "ok", "use-threads=100": "ok"}
    assert result.verdict["evidence"]["pids_limit_hits"] == 0


def test_a_failure_for_want_of_processes_says_so(cupel):
    result = cupel.run(
        "--pids",
        "10",
        "--",
        "/usr/bin/python3",
        "-c",
        """
import os, signal
for _ in range(50):
    if os.fork() == 0:
        signal.pause()
""",
    )
    assert result.cause == "pids"


def test_descriptors_beyond_the_limit_are_refused(cupel):
    acts = ["use-descriptors=300", "use-descriptors=200"]
    answers, _ = probe(cupel, "--open-files", "256", "--", *acts)
    assert answers == {acts[0]: "EMFILE", acts[1]: "ok"}


# An ordinary user's working directory is watched, root's is a file system of its size.


def test_disk_beyond_the_limit(cupel):
    acts = [f"use-file=f{i},12" for i in range(3)]
    result = cupel.run(
        "--disk",
        "24M",
        "--data",
        f"{cupel.probe}:probe",
        "--",
        "/bin/sh",
        "-c",
        f"data/probe {' '.join(acts)}; sleep {60 * lib.SLOW}; exit 1"
        if cupel.uid
        else f"data/probe {' '.join(acts)}; exit 1",
    )
    assert result.cause == "disk"
    if cupel.uid:
        assert result.status == 128 + 25
    else:
        assert lib.answers(result.stdout)[acts[2]].startswith("ENOSPC after")
        assert result.status == 1


def test_disk_in_files_without_names(cupel):
    """Files that were unlinked, or never had a name."""
    act = "use-unlinked=.,64"
    answers, result = probe(cupel, "--disk", "24M", "--", act)
    if cupel.uid:
        assert result.cause == "disk"
    else:
        assert answers[act].startswith("ENOSPC after")


# Ways to keep bytes on the disk where a walk of the directory does not find them. Each one ends in a wait, or says that it was refused.
FILL_HIDDEN = """
import ctypes, mmap, os, signal
MIB = 1 << 20

def fill(path, mib):
    fd = os.open(path, os.O_RDWR | (os.O_TMPFILE if path == "." else os.O_CREAT | os.O_EXCL), 0o700)
    for _ in range(mib):
        os.write(fd, b"x" * MIB)
    return fd

def wait():
    while True:
        signal.pause()
"""
HIDDEN = {
    "open": """
fd = fill(".", MANY)
wait()
""",
    "mapped": """
fd = fill(".", MANY)
m = ctypes.CDLL(None, use_errno=True)
m.mmap.restype = ctypes.c_void_p
m.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
assert m.mmap(None, MANY * MIB, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0) != ctypes.c_void_p(-1).value
os.close(fd)
wait()
""",
    "executed": """
writer = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o700)
with open("/bin/sleep", "rb") as f:
    os.write(writer, f.read())
for _ in range(MANY):
    os.write(writer, b"x" * MIB)
reader = os.open(f"/proc/self/fd/{writer}", os.O_RDONLY)
os.close(writer)
os.execve(reader, ["sleep", "1000"], os.environ)
""",
    "a thread's own descriptors": """
libc = ctypes.CDLL(None, use_errno=True)
CLONE = 0x100 | 0x200 | 0x800 | 0x10000  # VM, FS, SIGHAND, THREAD; not FILES
stack = ctypes.create_string_buffer(MIB)
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
fd = fill(".", MANY)
libc.clone.restype = ctypes.c_int
tid = libc.clone(ctypes.cast(libc.pause, FUNCTION), ctypes.c_void_p(ctypes.addressof(stack) + MIB - 64), CLONE, None)
if tid < 0:
    raise OSError(ctypes.get_errno(), "clone")
os.close(fd)
wait()
""",
    "open in a process without its first thread": """
import threading
fd = fill(".", MANY)
threading.Thread(target=signal.pause).start()
ctypes.CDLL(None).pthread_exit(None)
""",
    "mapped in a process without its first thread": """
import threading
fd = fill(".", MANY)
m = mmap.mmap(fd, MANY * MIB, mmap.MAP_SHARED, mmap.PROT_READ)
os.close(fd)
threading.Thread(target=signal.pause).start()
ctypes.CDLL(None).pthread_exit(None)
""",
    "an unreadable directory": """
os.makedirs("d/e")
os.chdir("d/e")
os.chmod("../../d", 0)
fill("f", MANY)
wait()
""",
    "an unsearchable directory": """
os.makedirs("d/e")
os.chdir("d/e")
os.chmod("../../d", 0o400)
fill("f", MANY)
wait()
""",
    "directories that move": """
os.makedirs("a/b/c/d/e/f/g")
os.makedirs("z")
fill("z/f", MANY)
for _ in range(4):
    if os.fork() == 0:
        while True:
            try:
                os.rename("a/b/c", "a/c")
                os.rename("a/c", "a/b/c")
            except FileNotFoundError:
                pass
while True:
    try:
        os.rename("z", "a/b/c/d/z")
        os.rename("a/b/c/d/z", "z")
    except FileNotFoundError:
        pass
""",
}


@pytest.mark.parametrize("way", HIDDEN)
def test_hidden_bytes_count(cupel, way):
    """Under its limit nothing happens, over it the run ends or the file system refuses."""
    if cupel.uid == 0 and way in ("an unreadable directory", "an unsearchable directory"):
        pytest.skip("as root the file system itself is limited")
    script = FILL_HIDDEN + HIDDEN[way]
    result = cupel.run(
        "--disk", "24M", "--file-size", "1G", "--time", f"{100 * lib.SLOW}s", "--", "python3", "-c", script.replace("MANY", "40")
    )
    if cupel.uid == 0:
        assert "No space left on device" in result.stderr
        return
    assert result.cause == "disk", result.stderr
    assert result.verdict["evidence"]["disk_mechanism"] == "watched"
    if "able directory" in way:
        why = result.verdict["evidence"]["disk_uncounted"]
        assert why == "1 unreadable directory"
        assert why in result.verdict["completion_notes"]


# Many hosts give an ordinary user no groups: then the box's processes are found by their namespace.
NO_GROUP = ("--allow-missing", "memory", "--allow-missing", "cpu", "--allow-missing", "pids")


@pytest.mark.parametrize("group", ["group", "no group"])
def test_a_process_that_nobody_may_look_into(callers, group):
    """It may hide anything, so it ends the run; a moment of it, as many programs have at their start, does not."""
    user = callers("user")
    options = ()
    if group == "no group":
        user.config.write_text("cgroup: {parent: cupel-test-nowhere}\n", encoding="utf-8")
        options = NO_GROUP
    script = FILL_HIDDEN + (
        "prctl = ctypes.CDLL(None).prctl\nassert prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE\n"
    )
    limits = (*options, "--disk", "24M", "--file-size", "1G", "--time", f"{100 * lib.SLOW}s")
    result = user.run(*limits, "--", "python3", "-c", script + "fd = fill('.', 40)\nwait()\n")
    assert bool(result.receipt["budget"]["values"]) == (group == "group")
    assert result.cause == "disk", result.stderr
    assert result.verdict["evidence"]["disk_uncounted"] == "1 process whose open files cannot be read"
    result = user.run(*limits, "--", "python3", "-c", script + "assert prctl(4, 1, 0, 0, 0) == 0\n")
    assert result.cause == "ok", result.verdict["completion_notes"]


def run_until_counted(caller, count, *words):
    """A run that is cancelled when `count` bytes of it were counted, and then looked at twice more, unless it ended before."""
    process, run_id = caller.start(*words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    usage = caller.run_dir(run_id) / "usage.jsonl"

    def is_counted():
        text = usage.read_text(encoding="utf-8") if usage.exists() else ""
        seen = [json.loads(line)["disk"] for line in text.rpartition("\n")[0].splitlines()]
        return len(seen) > 2 and max(seen[:-2]) >= count

    with lib.going_on(process):
        assert lib.wait_until(lambda: process.poll() is not None or is_counted()), usage.read_text()
        if process.poll() is None:
            process.terminate()
        _, err = process.communicate(timeout=lib.RUN_LIMIT_S)
    return lib.Result(process.returncode, "", err.decode(errors="replace"), caller.run_dir(run_id))


@pytest.mark.parametrize("way", [way for way in HIDDEN if "directory" not in way])
def test_hidden_bytes_below_the_limit_are_the_control(cupel, way):
    script = FILL_HIDDEN + HIDDEN[way]
    result = run_until_counted(
        cupel, 20 * MIB, "--disk", "64M", "--", "python3", "-c", script.replace("MANY", "20")
    )
    assert result.cause == "cancelled", result.verdict["completion_notes"]


def test_a_directory_that_is_unreadable_for_a_moment(callers):
    """Many programs make one while they unpack or test: it ends nothing."""
    user = callers("user")
    script = (
        "i=0; while [ $i -lt 300 ]; do mkdir d; chmod 0 d; chmod 700 d; rmdir d; i=$((i+1)); done;"
        "mkdir left; chmod 0 left"
    )
    result = user.run("--disk", "24M", "--", "/bin/sh", "-c", script)
    assert result.cause == "ok", result.verdict["completion_notes"]


def test_files_beyond_the_limit(cupel):
    act = "use-inodes=out,5000"
    result = cupel.run(
        "--inodes",
        "500",
        "--data",
        f"{cupel.probe}:probe",
        "--",
        "/bin/sh",
        "-c",
        f"data/probe {act}; sleep {60 * lib.SLOW if cupel.uid else 0}; exit 1",
    )
    assert result.cause == "disk"
    if not cupel.uid:
        assert lib.answers(result.stdout)[act] == "ENOSPC"


def test_one_file_beyond_the_limit(cupel):
    acts = ["use-file=big,10", "sparse=hole,1048576", "use-file=small,2"]
    answers, _ = probe(cupel, "--file-size", "4M", "--", *acts)
    assert answers == {acts[0]: "signal XFSZ", acts[1]: "signal XFSZ", acts[2]: "ok"}


def test_a_sparse_file_costs_what_it_costs(cupel):
    """A terabyte of nothing fits, if a file may be that long."""
    answers, result = probe(
        cupel, "--file-size", "2T", "--disk", "24M", "--", "sparse=hole,1048576"
    )
    assert answers["sparse=hole,1048576"] == "ok"
    assert result.cause == "ok"
    assert result.verdict["usage"]["disk_peak_bytes"] < 24 * MIB


def test_a_flood_of_log_is_cut_and_the_run_goes_on(cupel):
    result = cupel.run(
        "--log",
        "1M",
        "--data",
        f"{cupel.probe}:probe",
        "--",
        "/bin/sh",
        "-c",
        "data/probe use-log=20 >&2; data/probe use-log=20; echo end >out/end",
    )
    assert result.cause == "ok"
    for name in ("stdout.log", "stderr.log"):
        assert MIB <= os.path.getsize(result.run_dir / name) <= MIB + 4096
    assert result.verdict["usage"]["log_dropped_bytes"] > 37 * MIB
    assert [file["path"] for file in result.outputs["files"]] == ["out/end"]


def test_the_cpus_seen_are_those_of_the_budget(cupel):
    result = cupel.run("--cpus", "1", "--", "/usr/bin/nproc")
    assert result.stdout.strip() == "1"


def test_limits_cannot_be_raised_from_inside(cupel):
    result = cupel.run(
        "--open-files",
        "256",
        "--file-size",
        "4M",
        "--",
        "/usr/bin/python3",
        "-c",
        """
import resource
for name in ("NOFILE", "FSIZE", "RTPRIO", "NICE", "MSGQUEUE"):
    number = getattr(resource, "RLIMIT_" + name)
    have = resource.getrlimit(number)[1]
    try:
        resource.setrlimit(number, (have, have + 1))
        print(name, "raised")
    except (ValueError, OSError) as error:
        print(name, have)
""",
    )
    assert result.stdout.splitlines() == [
        "NOFILE 256",
        f"FSIZE {4 * MIB}",
        "RTPRIO 0",
        "NICE 0",
        "MSGQUEUE 819200",
    ]
