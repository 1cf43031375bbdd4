"""Runs as they go on and as they stand: ps, top, logs -f, list by kind and page, diff."""

import hashlib
import json
import os
import pty
import re
import select
import signal
import subprocess

import pytest

import cupel as lib


def ask(caller, *words, status=0):
    got, out, err = caller.call(caller.binary, *words)
    assert got == status, err
    return out


def ask_json(caller, command, *words, status=0):
    return json.loads(ask(caller, command, "--json", *words, status=status))


class Going:
    """A run that goes on until it is told to end."""

    def __init__(self, caller, *options, script="echo up; read line < go; echo down"):
        self.caller = caller
        self.process, self.id = caller.start(
            *options, "--", "sh", "-c", f"mkfifo go; {script}", stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"up\n"

    def end(self):
        with open(self.caller.work_dir(self.id) / "go", "w", encoding="utf-8") as go:
            go.write("\n")
        self.process.communicate(timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.communicate(timeout=60)


# ps and top.

def test_ps_shows_what_goes_on_and_nothing_else(cupel):
    assert cupel.run("--", "true").status == 0
    assert not ask_json(cupel, "ps")
    with Going(cupel, "--quest", "q", "--name", "n", "--memory", "64M",
               script="echo up; sleep 0.2; read line < go") as going:
        keeper = int(re.search(r'"keeper_pid":(\d+)',
                               (cupel.run_dir(going.id) / "events.jsonl").read_text())[1])
        (run,) = ask_json(cupel, "ps")
        assert (run["id"], run["phase"], run["quest"], run["name"], run["runtime"]) == (
            going.id, "running", "q", "n", "base")
        assert run["memory_limit_bytes"] == 64 << 20 and run["keeper_pid"] == keeper
        assert run["elapsed_ms"] >= 0 and run["started"] >= run["accepted"]
        head, line = ask(cupel, "ps").splitlines()
        assert head.split()[:3] == ["RUN", "PHASE", "TIME"] and line.startswith(going.id)
        assert "64.0 MiB" in line
        going.end()
    assert not ask_json(cupel, "ps") and len(ask(cupel, "ps").splitlines()) == 1


def samples(caller, run_id):
    """Those that are whole."""
    path = caller.run_dir(run_id) / "usage.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def test_ps_has_the_last_sample(cupel):
    with Going(cupel, script="echo up; sleep 1; echo more; read line < go") as going:
        assert going.process.stdout.readline() == b"more\n"
        # One that was taken before the shell was there is no longer the last.
        assert lib.wait_until(lambda: (found := samples(cupel, going.id)) and found[-1]["pids"] >= 2)
        before = len(samples(cupel, going.id))
        (run,) = ask_json(cupel, "ps")
        # The last then; more may have come since.
        assert run["memory_bytes"] in [one["mem"] for one in samples(cupel, going.id)[before - 1:]]
        assert run["pids"] >= 2 and run["cpus"] >= 0
        going.end()


def test_top_prints_once_where_there_is_no_terminal(cupel):
    with Going(cupel) as first, Going(cupel) as second:
        lines = ask(cupel, "top").splitlines()
        assert lines[0].startswith("2 runs  memory ") and len(lines) == 4
        assert [line.split()[0] for line in ask(cupel, "top", "--sort", "id").splitlines()[2:]] == (
            sorted([first.id, second.id]))
        out = ask(cupel, "top", "--json", "-n", "2", "--interval", "50ms").splitlines()
        assert len(out) == 2 and all(len(json.loads(line)) == 2 for line in out)
        by_time = [run["elapsed_ms"] for run in json.loads(
            ask(cupel, "top", "--json", "--sort", "time"))]
        assert by_time == sorted(by_time, reverse=True)
        first.end()
        second.end()
    assert cupel.call(cupel.binary, "top", "--sort", "colour")[0] == 2


def read_until(fd, text, limit_s=lib.RUN_LIMIT_S):
    seen = b""
    while text not in seen:
        assert select.select([fd], [], [], limit_s)[0], seen
        seen += os.read(fd, 65536)
    return seen


@pytest.mark.parametrize("end", ["q", signal.SIGTERM, signal.SIGINT])
def test_top_takes_the_terminal_and_gives_it_back(cupel, end):
    ours, theirs = pty.openpty()
    with Going(cupel) as going:
        process = cupel.popen(cupel.binary, "top", stdin=theirs, stdout=theirs, stderr=theirs,
                              env={"TERM": "xterm"})
        seen = read_until(ours, b"q quit")
        assert b"\033[?1049h" in seen and going.id.encode() in seen
        os.write(ours, b"m")
        read_until(ours, b"sorted by memory")
        if end == "q":
            os.write(ours, b"q")
        else:
            process.send_signal(end)
        read_until(ours, b"\033[?1049l")
        assert process.wait(lib.RUN_LIMIT_S) == 0
        going.end()
    os.close(ours)
    os.close(theirs)


# logs -f.

def test_logs_follow_a_run_to_its_end(cupel):
    with Going(cupel, script="echo up; read line < go; echo down; echo bad >&2; exit 3") as going:
        with cupel.popen(cupel.binary, "logs", "-f", going.id, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE) as logs:
            assert logs.stdout.readline() == b"up\n"
            assert logs.poll() is None
            going.end()
            out, err = logs.communicate(timeout=60)
            assert (out, err, logs.returncode) == (b"down\n", b"bad\n", 0)
    assert ask(cupel, "logs", "--follow", going.id) == "up\ndown\n", "of one that has ended"


def test_logs_follow_a_run_whose_keeper_is_killed(cupel):
    with Going(cupel) as going:
        (run,) = ask_json(cupel, "ps")
        with cupel.popen(cupel.binary, "logs", "-f", going.id, stdout=subprocess.PIPE) as logs:
            assert logs.stdout.readline() == b"up\n"
            os.kill(run["keeper_pid"], signal.SIGKILL)
            assert logs.communicate(timeout=60)[0] == b"" and logs.returncode == 0
        going.process.communicate(timeout=60)
    assert ask_json(cupel, "show", going.id)["cause"] == "lost"


# list.

@pytest.fixture
def several(fresh):
    fresh.run("--quest", "a", "--", "true", id="r1")
    fresh.run("--quest", "b", "--", "sh", "-c", "exit 3", id="r2")
    fresh.run("--quest", "a", "--", "sh", "-c", "kill -9 $$", id="r3")
    fresh.run("--quest", "a", "--", "no-such-program", id="r4")
    return fresh


def ids(caller, *words):
    return [run["id"] for run in ask_json(caller, "list", *words)]


@pytest.mark.parametrize("words, wanted", [
    ([], "r4 r3 r2 r1"),
    (["--reverse"], "r1 r2 r3 r4"),
    (["--cause", "ok"], "r1"),
    (["--cause", "exit,signal"], "r4 r3 r2"),
    (["--cause", "ok", "--cause", "signal"], "r3 r1"),
    (["--quest", "a"], "r4 r3 r1"),
    (["--quest", "a", "--quest", "b"], "r4 r3 r2 r1"),
    (["--quest", "a", "--cause", "exit"], "r4"),
    (["--quest", "none"], ""),
    (["--state", "ended"], "r4 r3 r2 r1"),
    (["--state", "running"], ""),
    (["-r", "base"], "r4 r3 r2 r1"),
    (["-r", "other"], ""),
    (["--since", "1h"], "r4 r3 r2 r1"),
    (["--since", "2020-01-01"], "r4 r3 r2 r1"),
    (["--since", "2100-01-01T00:00"], ""),
    (["-n", "2"], "r4 r3"),
    (["-n", "2", "--after", "r3"], "r2 r1"),
    (["-n", "2", "--after", "r2", "--reverse"], "r3 r4"),
    (["--after", "r1"], ""),
    (["--after", "r4", "--reverse"], ""),
    (["--quest", "a", "-n", "2"], "r4 r3"),
    (["--quest", "a", "-n", "2", "--reverse"], "r1 r3"),
])
def test_list_by_kind_and_page(several, words, wanted):
    assert ids(several, *words) == wanted.split()


def test_list_since_is_to_the_moment(several):
    times = {run["id"]: run["accepted"] for run in ask_json(several, "list")}
    assert ids(several, "--since", times["r3"]) == ["r4", "r3"]


def test_list_says_how_to_go_on(several):
    status, _, err = several.call(several.binary, "list", "-n", "3")
    assert status == 0 and err == "cupel: there are more: --after r2\n"
    status, _, err = several.call(several.binary, "list", "-n", "3", "--reverse")
    assert status == 0 and err == "cupel: there are more: --after r3\n"
    assert several.call(several.binary, "list", "-n", "4")[2] == ""


@pytest.mark.parametrize("words", [["--cause", "bad"], ["--state", "x"], ["--since", "later"],
                                   ["-n", "0"], ["--after", "../x"], ["--quest", ""]])
def test_list_of_what_cannot_be(several, words):
    status, out, err = several.call(several.binary, "list", *words)
    assert status == 2 and not out and err.startswith("cupel: ")


def test_list_running(cupel):
    with Going(cupel) as going:
        assert ids(cupel, "--state", "running", "--since", "1h") == [going.id]
        going.end()
    assert not ids(cupel, "--state", "running")


# What was shown is recorded.

def test_contents_are_recorded(cupel):
    data = cupel.dir / "in.csv"
    data.write_text("a,b\n1,2\n", encoding="utf-8")
    tree = cupel.dir / "shown"
    tree.mkdir(exist_ok=True)
    (tree / "x").write_text("x", encoding="utf-8")
    script = cupel.dir / "s.sh"
    script.write_text("cat data/in.csv\n", encoding="utf-8")
    result = cupel.run("--data", data, "--data", tree, script)
    assert result.status == 0, result.stderr
    analysis = json.loads((result.run_dir / "analysis.json").read_text())
    assert analysis["inputs"][0]["sha256"] == hashlib.sha256(data.read_bytes()).hexdigest()
    assert (analysis["inputs"][1]["kind"], analysis["inputs"][1]["files"]) == ("directory", 1)
    assert analysis["code_contents"][0]["sha256"] == hashlib.sha256(
        script.read_bytes()).hexdigest()


@pytest.mark.parametrize("change, cause", [
    (lambda path: path.write_text("other"), "input-changed"),
    (lambda path: path.unlink(), "input-changed"),
    (lambda path: path.write_text("first"), "ok"),
    (lambda path: os.utime(path), "ok"),
    (lambda path: None, "ok"),
])
def test_an_input_that_changes_while_it_is_read(cupel, change, cause):
    data = cupel.dir / "moving"
    data.write_text("first", encoding="utf-8")
    with Going(cupel, "--data", data, "--out", "out/**") as going:
        change(data)
        going.end()
    verdict = json.loads((cupel.run_dir(going.id) / "verdict.json").read_text())
    assert verdict["cause"] == cause
    assert verdict["exit_status"] == (0 if cause == "ok" else 1)
    assert verdict.get("input_changed") == (None if cause == "ok" else str(data))


# diff.

def test_diff(cupel):
    words = ["--quest", "d", "--", "sh", "-c"]
    one = cupel.run("--memory", "64M", *words, "echo 'a,b\n1,2' > out/t.csv; echo x > out/x")
    two = cupel.run("--memory", "96M", *words, "echo 'a,b\n1,3' > out/t.csv; echo x > out/x; exit 1")
    a, b = one.run_dir.name, two.run_dir.name
    diff = ask_json(cupel, "diff", a, b, status=1)
    rows = {row["key"]: (row["a"], row["b"]) for row in diff["analysis"]}
    assert rows["limits.memory"] == ("64M", "96M") and "command[2]" in rows and "quest" not in rows
    assert {row["key"] for row in diff["verdict"]} >= {"cause", "exit_status"}
    assert "wall_usec" in {row["key"] for row in diff["usage"]} and diff["runtime"] == []
    assert (diff["a"], diff["b"], diff["same"]) == (a, b, False)
    text = ask(cupel, "diff", a, b, status=1)
    assert "limits.memory" in text and "runtime: the same" in text


def test_diff_of_equal_runs(cupel):
    words = ["--", "sh", "-c", "echo x > out/x"]
    a, b = cupel.run(*words).run_dir.name, cupel.run(*words).run_dir.name
    assert ask_json(cupel, "diff", a, b)["same"] is True
    assert "1 the same, 0 different" in ask(cupel, "diff", a, b)
    assert cupel.call(cupel.binary, "diff", a, "no-such")[0] == 2
    assert cupel.call(cupel.binary, "diff", a)[0] == 2


def test_diff_of_very_many_outputs(cupel):
    script = "i=0; while [ $i -lt 1050 ]; do echo $CUPEL_RUN_ID > out/$i; i=$((i + 1)); done"
    a, b = (cupel.run("--", "sh", "-c", script).run_dir.name for _ in range(2))
    status, out, _ = cupel.call(cupel.binary, "diff", a, b)
    assert status == 1 and "0 the same, 1050 different" in out
    assert out.count(": differs: ") == 1000 and "\n  and 50 more\n" in out
