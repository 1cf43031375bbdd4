"""What a run leaves in its directory, and the commands that look at it."""

import json
import os
import re
import signal
import subprocess

import pytest

import cupel as lib
import leftovers

FILES = {
    "analysis.json",
    "plan.json",
    "receipt.json",
    "events.jsonl",
    "stdout.log",
    "stderr.log",
    "usage.jsonl",
    "verdict.json",
    "outputs.json",
}


@pytest.fixture
def done(cupel):
    return cupel.run(
        "--name",
        "a name",
        "--quest",
        "q",
        "--label",
        "k=v",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; echo x > out/x; mkdir tmp/d; touch tmp/d/f; sleep 0.2; exit 5",
    )


def test_the_run_directory_is_complete(cupel, done):
    assert FILES <= {path.name for path in done.run_dir.iterdir()}
    assert done.run_dir.stat().st_mode & 0o077 == 0
    for name in FILES:
        if name.endswith(".json"):
            json.loads((done.run_dir / name).read_text())


def test_events_are_chained_and_tell_the_story(done):
    assert leftovers.assert_chain(done.run_dir) == [
        "accepted",
        "started",
        "ended",
        "collected",
        "removed",
        "verdict",
    ]


def test_a_changed_event_breaks_the_chain(done):
    """The check itself can fail."""
    path = done.run_dir / "events.jsonl"
    path.write_text(path.read_text().replace('"event":"started"', '"event":"Started"'))
    with pytest.raises(AssertionError, match="chain"):
        leftovers.assert_chain(done.run_dir)


def test_usage_is_sampled(cupel):
    result = cupel.run("--", "sleep", "1.3")
    samples = [json.loads(line) for line in result.log("usage.jsonl").splitlines()]
    assert len(samples) >= 2
    times = [sample["t_ms"] for sample in samples]
    assert times == sorted(times)
    for key in ("mem", "anon", "file", "cpu_usec", "pids", "io_read", "io_write", "disk"):
        assert all(isinstance(sample[key], int) for sample in samples), key
    # The last may be of a box that is ending.
    assert max(sample["mem"] for sample in samples) > 0
    assert max(sample["pids"] for sample in samples) >= 2


def test_the_working_directory_is_removed_and_that_is_recorded(cupel, done):
    removed = [event["data"] for event in done.events if event["event"] == "removed"]
    assert len(removed) == 1 and removed[0]["path"] == str(cupel.work_dir(done.run_dir.name))
    assert removed[0]["remained"] == 0 and removed[0]["error"] is None
    assert removed[0]["files"] >= 2 and removed[0]["bytes"] > 0
    assert not cupel.work_dir(done.run_dir.name).exists()


@pytest.mark.parametrize(
    "keep, command, kept",
    [
        ("never", "exit 1", False),
        ("failed", "exit 0", False),
        ("failed", "exit 1", True),
        ("always", "exit 0", True),
    ],
)
def test_keep(cupel, keep, command, kept):
    result = cupel.run(
        "--keep",
        keep,
        "--",
        "sh",
        "-c",
        f"echo x > tmp/note; ln -s /etc/passwd tmp/link; {command}",
    )
    work = result.run_dir / "work"
    assert work.exists() == kept
    assert not cupel.work_dir(result.run_dir.name).exists()
    events = [event["event"] for event in result.events]
    assert ("kept" in events) == kept and "removed" in events
    if kept:
        assert (work / "tmp/note").read_text() == "x\n"
        assert (work / "tmp/note").stat().st_uid == cupel.uid


def test_list(cupel, done):
    status, out, _ = cupel.call(cupel.binary, "list", "--json")
    runs = json.loads(out)
    assert status == 0 and [run["accepted"] for run in runs] == sorted((run["accepted"] for run in runs), reverse=True)
    mine = [run for run in runs if run["id"] == done.run_dir.name][0]
    assert (mine["state"], mine["cause"], mine["exit_status"], mine["name"]) == (
        "ended",
        "exit",
        5,
        "a name",
    )
    _, out, _ = cupel.call(cupel.binary, "list")
    assert re.search(
        rf"^{re.escape(done.run_dir.name)} +exit +20\S+Z .* a name$", out, re.MULTILINE
    )


def test_list_without_any_run(fresh):
    assert fresh.call(fresh.binary, "list", "--json")[:2] == (0, "[]\n")
    assert not fresh.home.exists(), "looking makes nothing"


def test_show(cupel, done):
    status, out, _ = cupel.call(cupel.binary, "show", done.run_dir.name)
    assert status == 0 and "exit status 5" in out
    assert "runtime  base (by default: " in out
    for name in FILES:
        assert f"{done.run_dir}/{name}" in out
    _, out, _ = cupel.call(cupel.binary, "show", "--json", done.run_dir.name)
    shown = json.loads(out)
    assert (
        shown["directory"] == str(done.run_dir)
        and shown["labels"] == {"k": "v"}
        and shown["quest"] == "q"
    )
    status, _, err = cupel.call(cupel.binary, "show", "no-such-run")
    assert status == 2 and "no-such-run" in err


def test_a_running_one_is_shown_as_running(cupel):
    process, run_id = cupel.start("--", "sh", "-c", "echo up; sleep 1000", stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"up\n"
        assert (
            json.loads(cupel.call(cupel.binary, "show", "--json", run_id)[1])["state"] == "running"
        )
        assert cupel.call(cupel.binary, "logs", run_id)[1] == "up\n"
        process.terminate()
        process.wait(60)
    assert json.loads(cupel.call(cupel.binary, "show", "--json", run_id)[1])["state"] == "ended"


def test_logs(cupel, done):
    assert cupel.call(cupel.binary, "logs", done.run_dir.name) == (0, "out\n", "err\n")
    paths = json.loads(cupel.call(cupel.binary, "logs", "--json", done.run_dir.name)[1])
    assert paths == {"stdout": f"{done.run_dir}/stdout.log", "stderr": f"{done.run_dir}/stderr.log"}
    assert cupel.call(cupel.binary, "logs", "no-such-run")[0] == 2


def test_gc_finds_nothing_after_orderly_runs(cupel, done):
    status, out, _ = cupel.call(cupel.binary, "gc", "--json")
    assert status == 0 and json.loads(out) == {
        "lost": 0,
        "cleared": 0,
        "alive": 0,
        "checkpoints": {"kept": 0, "bytes": 0},
        "failed": 0,
        "pruned": 0,
        "pruned_bytes": 0,
        "removed": {
            "groups": 0, "mounts": 0, "partial": 0, "partial_bytes": 0, "checkpoints": 0,
            "checkpoint_bytes": 0, "temporary": 0, "keys": 0, "items": [],
        },
        "error": None,
    }
    assert "0 lost" in cupel.call(cupel.binary, "gc")[1]


def test_options_may_stand_behind_the_id(cupel, done):
    run_id = done.run_dir.name
    for command in ("show", "logs"):
        before, after = (cupel.call(cupel.binary, command, *words)
                         for words in (("--json", run_id), (run_id, "--json")))
        assert before == after and before[0] == 0 and json.loads(after[1])
    status, out, _ = cupel.call(cupel.binary, "diff", run_id, "--json", run_id)
    assert status == 0 and json.loads(out)["same"] is True
    status, out, err = cupel.call(cupel.binary, "rerun", run_id, "--verify", "--quiet")
    assert status == 2 and "nothing vouches" in err
    status, out, _ = cupel.call(cupel.binary, "run", "--quiet", "--", "echo", "--json")
    assert status == 0 and "--json" in out, "the words of an analysis stay its own"


@pytest.mark.parametrize("words", [("list", "--limit", "0"), ("verify", "--max-time", "5"), ("gc", "--older-than", "5"),
                                   ("top", "--interval", "0s")])
def test_a_value_that_cannot_be_names_its_option(cupel, words):
    status, _, err = cupel.call(cupel.binary, *words)
    assert status == 2 and words[1] in err


def listed(fresh, env):
    status, out, err = fresh.call(fresh.binary, "list", env=env)
    assert status == 0, err
    return [tuple(line.split()[:2]) for line in out.splitlines()[1:]]


def test_a_full_disk_is_named(fresh):
    small = fresh.dir / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        env = {"CUPEL_HOME": str(small / "home")}
        words = ("run", "--disk", "8M", "--id")
        assert fresh.call(fresh.binary, *words, "first", "--", "true", env=env)[0] == 0
        # Whoever delivers takes room there, and gives some back when it is done.
        assert lib.wait_until(lambda: not leftovers.processes(fresh))
        with pytest.raises(OSError), open(small / "fill", "wb", buffering=0) as file:
            while file.write(bytes(4096)) == 4096:
                pass
            file.write(b"more")
        status, _, err = fresh.call(fresh.binary, *words, "second", "--", "true", env=env)
        assert status == 125 and "No space left on device" in err and str(small) in err
        (small / "fill").unlink()
        assert listed(fresh, env) == [("first", "ok")], "nothing of a run that could not be recorded is left"
        assert not list((small / "home/active").iterdir()) and [p.name for p in (small / "home/runs").iterdir()] == ["first"]
        assert fresh.call(fresh.binary, *words, "second", "--", "true", env=env)[0] == 0, "its id is free"
        assert listed(fresh, env) == [("second", "ok"), ("first", "ok")]
    finally:
        assert lib.wait_until(lambda: subprocess.run(["umount", small], check=False).returncode == 0)


def test_what_nobody_measured_is_no_zero(fresh):
    process, run_id = fresh.start("--", "sleep", "1000")
    events = fresh.run_dir(run_id) / "events.jsonl"
    assert lib.wait_until(lambda: events.exists() and '"started"' in events.read_text(encoding="utf-8"))
    os.kill(json.loads(events.read_text(encoding="utf-8").splitlines()[0])["data"]["keeper_pid"], signal.SIGKILL)
    process.communicate(timeout=60)
    status, out, err = fresh.call(fresh.binary, "list")
    lost = [line.split() for line in out.splitlines()[1:]]
    assert status == 0 and [row[:2] for row in lost] == [[run_id, "lost"]], err
    assert lost[0][3:] == ["-"] * 3, "wall time, memory, and no name"


def test_version(cupel):
    status, out, _ = cupel.call(cupel.binary, "version")
    number = re.fullmatch(r"cupel (\d+\.\d+\.\d+)\n", out)[1]
    assert status == 0 and cupel.call(cupel.binary, "--version")[1] == out
    assert json.loads(cupel.call(cupel.binary, "version", "--json")[1]) == {"version": number}


COMMANDS = ["run", "plan", "submit", "wait", "cancel", "ps", "top", "list", "show", "logs", "diff", "rerun", "runtime", "config", "gc", "ledger", "export",
            "report", "audit", "completion",
            "version"]


def test_help(cupel):
    status, out, _ = cupel.call(cupel.binary, "--help")
    assert status == 0 and all(f"  {name} " in out for name in COMMANDS)
    assert max(map(len, out.splitlines())) <= 82, "it is for a terminal"
    for name in COMMANDS:
        status, out, err = cupel.call(cupel.binary, name, "--help")
        assert (status, err) == (0, "") and out.startswith(f"usage: cupel {name} ")
    status, _, err = cupel.call(cupel.binary)
    assert status == 2 and "usage: cupel" in err
    status, _, err = cupel.call(cupel.binary, "rnu")
    assert status == 2 and "did you mean 'run'?" in err


@pytest.mark.parametrize("shell, check", [("bash", ["bash", "-n"]), ("zsh", None), ("fish", None)])
def test_completion(root, shell, check):
    status, out, _ = root.call(root.binary, "completion", shell)
    assert status == 0 and all(name in out for name in COMMANDS) and "memory" in out
    if check:
        assert subprocess.run(check, input=out, text=True, check=False).returncode == 0
    assert root.call(root.binary, "completion", "csh")[0] == 2


def test_bash_completes(root):
    ask = (
        'source /dev/stdin; COMP_WORDS=(cupel run --mem); COMP_CWORD=2; _cupel; echo "${COMPREPLY[@]}";'
        'COMP_WORDS=(cupel pl); COMP_CWORD=1; _cupel; echo "${COMPREPLY[@]}"'
    )
    script = root.call(root.binary, "completion", "bash")[1]
    said = subprocess.run(
        ["bash", "-c", ask], input=script, text=True, capture_output=True, check=True
    )
    assert said.stdout == "--memory\nplan\n"


@pytest.mark.parametrize(
    "command", [["list"], ["show"], ["show", "a", "b"], ["gc", "x"], ["config", "--bad"], ["logs"]]
)
def test_usage_of_the_others(root, command):
    status, _, err = root.call(root.binary, *command)
    assert status == (0 if command == ["list"] else 2) and (
        status == 0 or err.startswith("cupel: ")
    )


def test_many_at_once_all_end_well(cupel):
    """Each sweeps at its start what dead runs left, and must not take a live one for dead."""
    started = [
        cupel.start("--memory", "64M", "--disk", "16M", "--", "sh", "-c", "echo x > out/x")
        for _ in range(24)
    ]
    assert [process.wait(120) for process, _ in started] == [0] * len(started)
    for _, run_id in started:
        assert leftovers.assert_chain(cupel.run_dir(run_id))[-1] == "verdict"


def test_an_answer_that_could_not_be_written_is_an_error(cupel, done):
    for words in (["list"], ["show", "--json", done.run_dir.name], ["version"], ["--help"], ["config"]):
        with open("/dev/full", "wb") as full, cupel.popen(cupel.binary, *words, stdout=full,
                                                          stderr=subprocess.PIPE) as process:
            assert process.wait(60) == 125 and b"No space left on device" in process.stderr.read()
        assert cupel.call(cupel.binary, *words)[0] == 0
