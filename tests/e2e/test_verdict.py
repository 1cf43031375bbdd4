"""Every cause an analysis can end with, and the evidence for it."""

import json
import os
import platform
import resource
import signal
import subprocess

import pytest

import cupel as lib

GRAB = "import sys; data = bytearray(int(sys.argv[1]) << 20); print(len(data))"


def assert_oom(result):
    assert (result.status, result.cause) == (137, "oom"), result.stderr
    verdict = result.verdict
    assert verdict["evidence"]["oom_kills"] >= 1 and verdict["signal"] == 9
    return verdict


def test_oom(cupel):
    verdict = assert_oom(cupel.run("--memory", "64M", "--", "python3", "-c", GRAB, "500"))
    assert verdict["evidence"]["memory_limit_bytes"] == 64 << 20
    assert verdict["evidence"]["memory_peak_bytes"] <= 64 << 20
    assert (
        "64 MiB" in verdict["completion_notes"].replace(".0", "")
        and "--memory" in verdict["completion_notes"]
    )


def test_enough_memory_is_the_control(cupel):
    result = cupel.run("--memory", "700M", "--", "python3", "-c", GRAB, "300")
    assert (result.status, result.stdout) == (0, f"{300 << 20}\n")
    assert result.verdict["usage"]["memory_peak_bytes"] > 300 << 20


@pytest.mark.parametrize("place", ["/dev/shm", "/tmp"])
def test_files_in_memory_count_as_memory(cupel, place):
    assert_oom(
        cupel.run(
            "--memory", "64M", "--", "dd", "if=/dev/zero", f"of={place}/x", "bs=1M", "count=200"
        )
    )


def test_the_whole_box_dies_for_one_of_its_processes(cupel):
    result = cupel.run(
        "--memory", "64M", "--", "sh", "-c", f"python3 -c '{GRAB}' 500 & wait; sleep 1000"
    )
    assert_oom(result)


def test_exit_137_alone_is_no_oom(cupel):
    killed = cupel.run("--", "sh", "-c", "kill -9 $$")
    assert (killed.status, killed.cause) == (137, "signal")
    assert "no OOM kill" in killed.verdict["completion_notes"]
    said = cupel.run("--", "sh", "-c", "exit 137")
    assert (said.status, said.cause, said.verdict["signal"]) == (137, "exit", None)


def test_deadline(cupel):
    result = cupel.run("--time", "1s", "--", "sleep", "1000")
    assert (result.status, result.cause) == (124, "deadline")
    assert result.verdict["evidence"]["killed_by_force"] is False
    assert "--time" in result.verdict["completion_notes"]
    assert result.verdict["usage"]["wall_usec"] >= 1000000


def test_deadline_gives_time_to_end_in_order(cupel):
    result = cupel.run(
        "--time",
        "3s",  # until then the trap has to be set
        "--grace",
        "60s",
        "--",
        "sh",
        "-c",
        "trap 'echo saved > out/state; echo bye; exit 3' TERM; sleep 1000 & wait",
    )
    assert (result.status, result.cause, result.stdout) == (124, "deadline", "bye\n")
    assert result.verdict["evidence"]["killed_by_force"] is False
    assert [f["path"] for f in result.outputs["files"]] == ["out/state"]


def test_who_ignores_the_deadline_is_killed(cupel):
    result = cupel.run(
        "--time",
        "3s",  # until then it has to be deaf
        "--grace",
        "500ms",
        "--",
        "sh",
        "-c",
        "trap '' TERM; (trap '' TERM INT HUP; setsid sleep 1000) & sleep 1000; sleep 1000",
    )
    assert (result.status, result.cause) == (124, "deadline")
    assert result.verdict["evidence"]["killed_by_force"] is True


def test_a_stopped_analysis_hears_the_deadline(cupel):
    result = cupel.run("--time", "1s", "--grace", "60s", "--", "sh", "-c", "kill -STOP $$")
    assert (result.status, result.cause) == (124, "deadline")
    assert result.verdict["evidence"]["killed_by_force"] is False


@pytest.mark.parametrize("options, name", [((), "USR1"), (("--warn-signal", "INT"), "INT")])
def test_the_warning_comes_before_the_deadline(cupel, options, name):
    result = cupel.run(
        "--time",
        "30m",
        "--warn",
        "1797s",  # in three seconds, when the trap is set
        *options,
        "--",
        "sh",
        "-c",
        f"trap 'echo warned; exit 0' {name}; echo up; sleep 1000 & wait",
    )
    assert (result.status, result.cause, result.stdout) == (0, "ok", "up\nwarned\n")
    number = getattr(signal, f"SIG{name}")
    assert [e["data"]["signal"] for e in result.events if e["event"] == "warned"] == [number]


def test_cpu_time(cupel):
    result = cupel.run("--cpu-time", "1s", "--", "sh", "-c", "while :; do :; done")
    assert (result.status, result.cause) == (128 + signal.SIGXCPU, "cpu")
    assert result.verdict["usage"]["cpu_usec"] >= 1000000
    assert "--cpu-time" in result.verdict["completion_notes"]


def test_sleeping_costs_no_cpu_time(cupel):
    assert cupel.run("--cpu-time", "500ms", "--", "sleep", "1").cause == "ok"


FILL = (
    "i=0; while [ $i -lt 12 ]; do dd if=/dev/zero of=out/$i bs=1M count=4 2>&1 || exit 9;"
    "i=$((i+1)); done"
)


def test_disk_full_is_seen_in_the_box(root):
    result = root.run("--disk", "24M", "--", "sh", "-c", FILL)
    assert (result.status, result.cause) == (9, "disk")
    assert "No space left on device" in result.stdout
    assert (
        result.verdict["evidence"]["disk_full"] is True
        and result.receipt["disk"]["mechanism"] == "image"
    )
    assert "--disk" in result.verdict["completion_notes"]


def test_inodes_run_out_in_the_box(root):
    result = root.run(
        "--disk",
        "16M",
        "--inodes",
        "100",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 200 ]; do touch out/$i || exit 9;" "i=$((i+1)); done",
    )
    assert result.cause == "disk" and "No space left" in result.stderr


def test_the_number_of_files_is_exact(root):
    """mkfs rounds up; nobody gets more than the limit. The directories that cupel makes count."""
    script = """
import errno, itertools, os
try:
    for i in itertools.count():
        open(f"out/{i}", "w").close()
except OSError as error:
    assert error.errno == errno.ENOSPC
print(sum(len(dirs) + len(files) for _, dirs, files in os.walk(".")))
"""
    for limit in (100, 301, 5000):
        result = root.run("--disk", "64M", "--inodes", str(limit), "--", "python3", "-c", script)
        assert result.stdout.split() == [str(limit)], result.stderr
        made = limit - result.receipt["disk"]["kernel_inodes"]
        assert 0 < made < 10, result.receipt["disk"]


def test_disk_of_a_user_is_watched(user):
    result = user.run("--disk", "24M", "--", "sh", "-c", FILL + "; sleep 1000")
    assert (result.status, result.cause) == (128 + signal.SIGXFSZ, "disk")
    assert result.verdict["evidence"]["disk_mechanism"] == "watched"


def test_one_file_that_fills_the_disk(cupel):
    """The kernel ends its writer at once, as a rule before the keeper has looked at the disk."""
    write = "os.write(file, bytes(1 << 20)); " * 64
    script = f"import os; file = os.open('out/x', os.O_WRONLY | os.O_CREAT); {write}"
    result = cupel.run("--disk", "16M", "--", "python3", "-c", script)
    assert (result.cause, result.verdict["evidence"]["disk_full"]) == ("disk", True)
    assert "--disk" in result.verdict["completion_notes"]


def test_enough_disk_is_the_control(cupel):
    assert cupel.run("--disk", "80M", "--", "sh", "-c", FILL).cause == "ok"


def test_file_size(cupel):
    result = cupel.run(
        "--file-size", "1M", "--", "dd", "if=/dev/zero", "of=out/x", "bs=1M", "count=3"
    )
    assert (result.status, result.cause) == (128 + signal.SIGXFSZ, "signal")
    assert "--file-size" in result.verdict["completion_notes"]


def test_pids(cupel):
    result = cupel.run(
        "--pids",
        "8",
        "--",
        "python3",
        "-c",
        "import os\nfor i in range(50):\n"
        "    if os.fork() == 0:\n        import time; time.sleep(1000)",
    )
    assert (result.status, result.cause) == (1, "pids"), result.stderr
    assert (
        result.verdict["evidence"]["pids_limit_hits"] >= 1
        and "--pids" in result.verdict["completion_notes"]
    )
    assert result.verdict["usage"]["pids_peak"] <= 8


def test_a_refused_fork_that_does_no_harm_is_only_reported(cupel):
    result = cupel.run(
        "--pids",
        "6",
        "--",
        "python3",
        "-c",
        "import os, time\ntry:\n    for i in range(50):\n"
        "        if os.fork() == 0:\n            time.sleep(1000)\nexcept BlockingIOError:\n    print('refused')",
    )
    assert (result.status, result.cause, result.stdout) == (0, "ok", "refused\n")
    assert "refused" in result.verdict["completion_notes"]


@pytest.mark.parametrize("options", [("--output-size", "1M"), ("--output-count", "2")])
def test_outputs_above_their_cap(cupel, options):
    result = cupel.run(
        *options,
        "--",
        "sh",
        "-c",
        "for i in 1 2 3; do dd if=/dev/zero of=out/$i bs=1M count=1; done",
    )
    assert (result.status, result.cause) == (1, "output-cap")
    assert result.outputs["over_cap"] is True and result.verdict["exit_code"] == 0


def test_a_required_output_that_is_missing(cupel):
    path = cupel.dir / "required.yaml"
    path.write_text(
        "command: touch out/other\noutputs: [{path: out/wanted.csv, required: true}, out/other]\n"
    )
    result = cupel.run(path)
    assert (result.status, result.cause) == (1, "output-missing")
    assert (
        "out/wanted.csv" in result.verdict["completion_notes"]
        and result.outputs["missing"] == "out/wanted.csv"
    )


FOREIGN = (
    "import ctypes, mmap\ncode = mmap.mmap(-1, 4096, prot=7)\n"
    "code.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n"
    "print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())\n"
)


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="cpu: needs x86's second system call table"
)
def test_a_foreign_system_call_is_denied(cupel):
    control = subprocess.run(["/usr/bin/python3", "-c", FOREIGN], capture_output=True, check=False)
    if control.returncode:
        pytest.skip("ia32: this kernel has no second system call table")
    result = cupel.run("--", "python3", "-c", FOREIGN)
    assert (result.status, result.cause) == (128 + signal.SIGSYS, "denied")


def test_setup_that_fails_is_125_and_a_verdict(cupel):
    run_id = cupel.new_id()
    theirs = cupel.work_dir(run_id)
    theirs.mkdir()
    (theirs / "precious").write_text("x")
    os.chown(theirs, 65534, 65534)  # the caller's own would stay, and the run work beside it
    try:
        result = cupel.run("--", "true", id=run_id)
        assert (result.status, result.cause) == (125, "setup")
        assert str(theirs) in result.verdict["completion_notes"]
        assert result.verdict["started"] is None and not (result.run_dir / "stdout.log").exists()
        assert (theirs / "precious").read_text() == "x"
    finally:
        (theirs / "precious").unlink()
        theirs.rmdir()


def test_a_background_process_ends_with_the_analysis(cupel):
    """It also holds stdout open, which must not keep the run alive."""
    result = cupel.run(
        "--", "sh", "-c", "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000') & echo done"
    )
    assert (result.status, result.stdout, result.cause) == (0, "done\n", "ok")


def test_usage_is_counted(cupel):
    result = cupel.run(
        "--",
        "python3",
        "-c",
        "x = bytearray(50 << 20)\nfor i in range(3000000): pass\n"
        "open('out/f', 'wb').write(bytes(1 << 20))",
    )
    usage = result.verdict["usage"]
    assert (
        usage["memory_peak_bytes"] > 50 << 20 and usage["cpu_usec"] > 0 and usage["pids_peak"] >= 1
    )
    assert usage["wall_usec"] > 0 and usage["disk_peak_bytes"] >= 1 << 20


def limit_of_all(caller):
    names = ("memory.max", "memory.limit_in_bytes")
    return [
        int((top / "cupel" / name).read_text())
        for top in caller.trees
        for name in names
        if (top / "cupel" / name).exists()
    ]


def test_all_runs_together_have_a_cap(cupel):
    """One holds a part; the other grows and is killed below its own limit, as the larger of the two."""
    cupel.configure("aggregate: {memory: 96M, pids: 100}\n")
    hold = "import signal; data = bytearray(20 << 20); print(1, flush=True); signal.pause()"
    with cupel.popen(
        cupel.binary, "run", "--memory", "90M", "--", "python3", "-c", hold, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"1\n"
        result = cupel.run("--memory", "95M", "--", "python3", "-c", GRAB, "300")
        assert limit_of_all(cupel) == [96 << 20]
        holder.terminate()
    verdict = assert_oom(result)
    assert "aggregate" in verdict["completion_notes"]


def test_memory_beyond_what_all_runs_may_use_is_refused(cupel):
    cupel.configure("aggregate: {memory: 96M}\n")
    result = cupel.run("--memory", "700M", "--", "true")
    assert result.status == 2 and result.verdict is None
    assert "memory 700M (--memory)" in result.stderr and "at most 96M" in result.stderr
    # Nobody asked for the built-in value: it is lowered, and the record says so.
    result = cupel.run("--", "true")
    assert result.cause == "ok"
    assert result.verdict["evidence"]["memory_limit_bytes"] == 96 << 20
    assert cupel.run("--memory", "96M", "--", "true").cause == "ok"


def test_cpus_and_time_beyond_the_host_s_are_said(cupel):
    script = "nproc; echo $CUPEL_CPUS"
    run = [cupel.binary, "run", "--id", cupel.new_id(), "--cpus", "4096", "--time", "99999d"]
    status, out, err = cupel.call(*run, "--", "sh", "-c", script)
    cpus = str(len(os.sched_getaffinity(0)))
    assert (status, out.split()) == (0, [cpus, cpus]), err
    assert f"cpus 4096 (--cpus): this host has {cpus} for a run; {cpus} applies" in err
    assert "time 99999d (--time): longer than a year" in err
    plan = json.loads((cupel.run_dir(run[3]) / "plan.json").read_text())
    assert [warning.split()[0] for warning in plan["warnings"]] == ["cpus", "time"]
    analysis = json.loads((cupel.run_dir(run[3]) / "analysis.json").read_text())
    assert analysis["limits"]["cpus"]["value"] == cpus, analysis["limits"]
    status, _, err = cupel.call(cupel.binary, "run", "--cpus", cpus, "--time", "1d", "--", "true")
    assert status == 0 and "this host has" not in err and "a year" not in err


def test_a_limit_that_cannot_be_applied_is_refused(cupel):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    result = cupel.run("--open-files", "99999999999", "--", "true")
    assert result.status == 2 and result.verdict is None
    assert "open_files 99999999999 (--open-files)" in result.stderr
    assert f"at most {most}" in result.stderr
    result = cupel.run("--open-files", str(most), "--", "sh", "-c", "ulimit -n")
    assert result.stdout == f"{most}\n"


@pytest.fixture
def undelegated(callers):
    """A user to whom nobody gave control groups."""
    callers("user")
    caller = lib.Cupel("user")
    caller.config.write_text("cgroup: {parent: cupel-test-of-nobody}\n")
    yield caller
    caller.close()


def test_a_missing_layer_is_refused_by_name_with_its_remedy(undelegated):
    result = undelegated.run("--", "true")
    assert (result.status, result.cause) == (125, "setup")
    notes = result.verdict["completion_notes"]
    assert "memory" in notes and "Remedy" in notes
    assert result.verdict["started"] is None


def test_a_missing_layer_that_was_allowed_is_recorded(undelegated):
    result = undelegated.run("--allow-missing", "memory,cpu,pids", "--", "echo", "ran")
    assert (result.status, result.stdout) == (0, "ran\n"), result.stderr
    assert sorted(result.verdict["missing_layers"].split(",")) == ["cpu", "memory", "pids"]
    assert "memory" in result.verdict["completion_notes"] and "memory" in result.receipt["missing_layers"]


def test_one_allowed_layer_does_not_excuse_another(undelegated):
    result = undelegated.run("--allow-missing", "memory", "--", "true")
    assert (result.status, result.cause) == (125, "setup")


def test_a_layer_that_is_there_is_used_though_it_may_miss(cupel):
    result = cupel.run(
        "--allow-missing",
        "memory,cpu,pids,landlock,seccomp,disk",
        "--memory",
        "64M",
        "--",
        "python3",
        "-c",
        GRAB,
        "500",
    )
    assert_oom(result)
    assert result.verdict["missing_layers"] == "" and os.path.exists(
        result.run_dir / "receipt.json"
    )


def test_pids_beyond_what_the_kernel_counts_are_refused(cupel):
    result = cupel.run("--pids", "99999999999", "--", "true")
    assert result.status == 2 and result.verdict is None
    assert "pids 99999999999 (--pids)" in result.stderr and "at most 4194304" in result.stderr
    assert cupel.run("--pids", "4194304", "--", "true").cause == "ok"


def test_an_input_with_more_entries_than_are_looked_at_did_not_change(cupel):
    """Nothing was recorded that could differ: the record says so, and the run is a success."""
    folder = cupel.base / "many-entries"
    folder.mkdir()
    for i in range(20001):
        (folder / str(i)).touch()
    result = cupel.run("--data", folder, "--", "true")
    assert (result.status, result.cause) == (0, "ok")
    entry = json.loads((result.run_dir / "analysis.json").read_text(encoding="utf-8"))["inputs"][0]
    assert (entry["sha256"], entry["stat"]) == (None, None)


def test_an_input_with_a_directory_that_its_caller_may_not_read(cupel):
    """It is compared by what stat(2) says; what is in it is not known."""
    folder = cupel.base / "with-private"
    (folder / "private").mkdir(parents=True)
    (folder / "file").write_text("text", encoding="utf-8")
    (folder / "private").chmod(0o700)
    result = cupel.run("--data", folder, "--", "cat", "data/with-private/file")
    assert (result.status, result.cause, result.log()) == (0, "ok", b"text")
    entry = json.loads((result.run_dir / "analysis.json").read_text(encoding="utf-8"))["inputs"][0]
    assert entry["stat"] and (entry["sha256"] is None) == (cupel.who == "user")
