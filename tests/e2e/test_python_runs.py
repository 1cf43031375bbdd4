"""Runs by the Python package and the program alone: each end is a value, scripts and notebooks, many at once, cancelled ones."""

import importlib.util
import json
import os
import shutil

import pytest

import cupel as lib
import platforms

ROOT = lib.TESTS.parent


# How an analysis ends is a value.

ENDS = {
    "ok": ("['sh', '-c', 'echo out; echo err >&2']", "", [0, "ok"]),
    "exit": ("'exit 7'", "", [7, "exit"]),
    "its own 137": ("'exit 137'", "", [137, "exit"]),
    "signal": ("'kill -SEGV $$'", "", [-11, "signal"]),
    "killed": ("'kill -9 $$'", "", [-9, "signal"]),
    "oom": ("['python3', '-c', 'x = bytearray(300_000_000)']", "memory_limit_mb=64", [-9, "oom"]),
    "deadline": ("['sleep', '60']", "timeout_seconds=0.5", [-1, "deadline"]),
    "disk": ("'dd if=/dev/zero of=out/x bs=1M count=64'", "disk_limit_mb=16, outputs=['out/none']", None),
    "pids": ("'for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; wait'", "pids_limit=4", None),
    "not found": ("['no-such-program']", "", [127, "exit"]),
    "missing": ("['true']", "outputs=[{'path': 'out/x', 'required': True}]", [1, "output-missing"]),
}


@pytest.mark.parametrize("end", ENDS)
def test_each_end_is_a_value(cupel, python, end):
    command, options, expected = ENDS[end]
    told = python(cupel, f"""
        result = isolated_run({command}, {options})
        tell(facts(result), result.stdout, result.stderr, result.completion_notes, result.duration, result.run_id,
             result.notes[0].code, result.ok, str(result.directory))
        """)
    verdict = json.loads((cupel.run_dir(told[5]) / "verdict.json").read_text(encoding="utf-8"))
    assert told[3].startswith(verdict["completion_notes"].partition("--")[0]) and "--" not in told[3] and told[6] == verdict["cause"] == told[0][1]
    assert abs(told[4] - verdict["usage"]["wall_usec"] / 1e6) < 1e-6 and told[8] == str(cupel.run_dir(told[5]))
    if expected:
        assert told[0] == expected, told
    else:
        assert told[0][1] == end and told[0][0] != 0, told
    if end == "ok":
        assert told[1:3] == ["out\n", "err\n"] and told[7] is True


@pytest.mark.parametrize("call", [
    "[]", "''", "['a\\0b']", "b'true'", "7", "['true'], timeout_seconds=0", "['true'], timeout_seconds='9'", "['true'], memory_limit_mb=-1",
    "['true'], cpu_quota=float('nan')", "['true'], cwd='/no/such/place'", "['true'], env={'A': 1}",
    "['true'], metadata=[]", "['true'], metadata={'timeout_seconds': 'long'}", "['true'], run_id='../x'", "['true'], nonsense=1",
    "['true'], outputs_to=True", "['\\udc80']"])
def test_a_misuse_is_told_by_an_exception(root, python, call):
    before = set(os.listdir(root.home / "runs")) if root.home.exists() else set()
    told = python(root, f"""
        try:
            isolated_run({call})
        except (ValueError, TypeError) as error:
            tell(type(error).__name__, str(error))
        """)
    assert told[1]
    assert (set(os.listdir(root.home / "runs")) if root.home.exists() else set()) == before


def test_a_cupel_that_is_not_there_or_refuses(root, python):
    """In the platform's module a value, elsewhere an error of cupel's own."""
    assert python(root, """
        refused = isolated_run(["true"], runtime="nosuch")
        name = cupel.new_id()
        twice = [isolated_run(["true"], run_id=name).returncode for _ in range(2)]
        try:
            cupel.run(["true"], runtime="nosuch")
        except cupel.Refused as error:
            told = str(error)
        little = isolated_run(["true"], memory_limit_mb=1)
        os.environ["CUPEL"] = "/no/cupel"
        missing = isolated_run(["true"])
        try:
            cupel.run(["true"])
        except cupel.Unavailable as error:
            told = [told, error.code]
        os.environ["CUPEL"] = "/bin/false"
        broken = isolated_run(["true"])
        tell(facts(refused), twice, facts(missing), facts(broken)[0], told[1], "nosuch" in told[0],
             "nosuch" in refused.completion_notes, "no program" in missing.completion_notes, missing.run_id,
             "/analysis.yaml" in little.completion_notes, "at least" in little.completion_notes)
        """) == [[125, "refused"], [0, 125], [125, "no-program"], 125, "no-program", True, True, True, None, False, True]


# The other calls.

def test_scripts_in_the_runtime_they_ask_for(root, python):
    (root.base / "runtimes.d").mkdir(exist_ok=True)
    (root.base / "runtimes.d/mine.yaml").write_text("name: mine\nkind: system\nsummary: a runtime of this host\n", encoding="utf-8")
    told = python(root, """
        pathlib.Path("s").mkdir()
        pathlib.Path("s/a.py").write_text('# /// script\\n# [tool.cupel]\\n# runtime = "mine"\\n# limits = { time = "33s" }\\n# ///\\n'
                                          "import os, sys, b; print(os.environ['CUPEL_RUNTIME'], b.word, sys.argv[1:])")
        pathlib.Path("s/b.py").write_text("word = 'imported'")
        plain = run_python_script("s/a.py", ["x", 1], files=["s/b.py"])
        there = run_python_script("a.py", ["y"], cwd="s")
        asked = json.loads((there.directory / "analysis.json").read_text())["limits"]["time"]["value"]
        try:
            run_python_script("s/none.py")
        except ValueError:
            tell(plain.stdout, there.stdout, asked, plain.runtime, plain.stderr)
        """)
    assert told == ["mine imported ['x', '1']\n", "mine imported ['y']\n", "33s", "mine", ""]


def test_notebooks(root, python):
    for name in ("nbclient", "ipykernel", "nbconvert"):
        if not importlib.util.find_spec(name):
            pytest.skip(f"science: python3-{name} is not installed")
    shutil.copytree(ROOT / "runtimes.d", root.base / "runtimes.d", dirs_exist_ok=True)
    told = python(root, """
        def book(name, *cells):
            made = [{"cell_type": "code", "source": text, "metadata": {"tags": tags}, "outputs": [], "execution_count": None}
                    for text, *tags in cells]
            pathlib.Path(name).write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
        book("good.ipynb", ("n = 1", "parameters"), ("print(n * 7); open('out/n', 'w').write(str(n))",))
        book("bad.ipynb", ("print('before')",), ("1 / 0",), ("print('after')",))
        good = run_notebook_isolated("good.ipynb", {"n": 6}, output_path="done.ipynb")
        bad = run_notebook_isolated("bad.ipynb", output_path="bad-done.ipynb")
        profile = json.loads((good.directory / "analysis.json").read_text())["limits"]["time"]["value"]
        tell(facts(good), sorted(output.path for output in good.outputs), good.read_output("out/n").decode(), profile,
             "42" in pathlib.Path("done.ipynb").read_text(), facts(bad), bad.completion_notes, bad.has("partial"),
             "ZeroDivisionError" in pathlib.Path("bad-done.ipynb").read_text())
        """)
    assert told[:6] == [[0, "ok"], ["out/good.html", "out/good.ipynb", "out/n"], "6", "10m", True, [1, "exit"]]
    assert told[6].startswith("Cell 2 of 3 raised ZeroDivisionError") and told[7:] == [True, True]


def test_what_is_done_with_results(cupel, python):
    told = python(cupel, """
        first = isolated_run("printf 'gene,score\\\\na,1\\\\nb,2\\\\n' > out/r.csv")
        second = run_post_process_isolated("cut -d, -f2 data/outputs/out/r.csv; touch data/outputs/x", first)
        pathlib.Path("sum.py").write_text("import sys; print(sum(int(line.split(',')[1]) for line in list(open('data/outputs/out/r.csv'))[1:]), sys.argv[1])")
        third = run_post_process_isolated(pathlib.Path("sum.py"), first.run_id, ["word"])
        failed = run_post_process_isolated("true", isolated_run("echo > out/x; exit 1"))
        never = run_post_process_isolated("true", isolated_run(["true"], runtime="nosuch"))
        tell(second.stdout, second.stderr, third.stdout, facts(failed), facts(never), failed.completion_notes,
             json.loads((third.directory / "analysis.json").read_text())["labels"] == {"post_process_of": first.run_id},
             json.loads((third.directory / "analysis.json").read_text())["limits"]["time"]["value"])
        """)
    assert told[0] == "score\n1\n2\n" and "Read-only file system" in told[1]
    assert told[2] == "3 word\n" and told[3][0] == told[4][0] == 125 and "ended as exit" in told[5] and told[6:] == [True, "5m"]


def test_a_step_of_the_host_takes_the_results(root, python):
    platform = platforms.Sqlite(root)
    platforms.declare(root, platform, args=["scores", "out/results.csv"])
    told = python(root, """
        result = isolated_run("printf 'gene,score\\\\na,1\\\\n' > out/results.csv", post_process="step")
        tell(facts(result), result.run_id)
        """)
    assert told[0] == [0, "ok"]
    assert platform.query("SELECT run_id, gene, score FROM scores") == [(told[1], "a", "1")]


# Many, long, large.

def test_ten_at_once_and_nothing_left_open(cupel, python):
    assert python(cupel, """
        async def main():
            return await asyncio.gather(*(isolated_run_async(["sh", "-c", f"echo {n}; exit {n}"]) for n in range(10)))
        isolated_run(["true"])
        before = open_things()
        results = asyncio.run(main())
        threads = [threading.Thread(target=isolated_run, args=(["true"],)) for _ in range(5)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        after = open_things()
        tell([[result.returncode, result.stdout] for result in results], after == before, after[1],
             os.listdir(os.environ["TMPDIR"]))
        """) == [[[n, f"{n}\n"] for n in range(10)], True, [], []]


def test_a_caller_with_ways_of_its_own(root, python):
    """One that ignores SIGCHLD, has closed its streams, forks, or moves about."""
    assert python(root, """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        codes = [isolated_run("exit 3").returncode]
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir("/")
        codes.append(isolated_run("exit 4").returncode)
        pid = os.fork()
        if not pid:
            os._exit(isolated_run("exit 5").returncode)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        kept = os.dup(1)
        for number in (0, 1, 2):
            os.close(number)
        codes.append(isolated_run("echo out; echo err >&2; exit 6").returncode)
        os.dup2(kept, 1), os.dup2(kept, 2), os.close(kept)
        tell(codes)
        """) == [3, 4, 5, 6]


def test_a_cancelled_task_cancels_the_run(cupel, python):
    told = python(cupel, """
        ids = [cupel.new_id() for _ in range(2)]
        async def main():
            door = cupel.connect_async()
            tasks = [asyncio.ensure_future(isolated_run_async("trap 'echo told' TERM; echo up; sleep 100 & wait; sleep 100",
                                           run_id=ids[0], limits={"grace": "1s"})),
                     asyncio.ensure_future(cupel.run_async(["sleep", "100"], id=ids[1]))]
            while [run.state for run in await door.list(state="running")] != ["running"] * 2:
                await asyncio.sleep(0.05)
            async for text in door.logs(ids[0], follow=True):
                break
            ends = []
            for task in tasks:
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    ends.append("cancelled")
            return ends, text, [(await door.show(name)).cause for name in ids], [run.id for run in await door.list(state="running")]
        told = asyncio.run(main())
        tell(*told, cupel.connect().log(ids[0]).data.decode(), open_things()[1], ids)
        """)
    assert told[:4] == [["cancelled"] * 2, "up\n", ["cancelled"] * 2, []]
    assert told[4].endswith("told\n") and told[5] == []
    for run_id in told[6]:
        assert not cupel.work_dir(run_id).exists()


@pytest.mark.parametrize("hears", ["main", "other"])
def test_an_interrupted_call_cancels_its_run(root, python, hears):
    """Also if the signal does not wake the thread that waits: here since the kernel gives it to another one."""
    told = python(root, f"""
        name = cupel.new_id()
        events = cupel.connect().program.home / "runs" / name / "events.jsonl"
        def interrupt():
            while not (events.exists() and b'"started"' in events.read_bytes()):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        if {hears == "other"}:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            isolated_run(["sleep", "100"], run_id=name)
        except KeyboardInterrupt:
            tell(cupel.connect().show(name).cause)
        """)
    assert told == "cancelled"


def test_an_interrupted_submission_leaves_no_run(root, python):
    """The interrupt comes while the package still waits for the record: the run has ended when the caller hears of it."""
    told = python(root, """
        door, name = cupel.Local(), cupel.new_id()
        events, directories = door.program.home / "runs" / name / "events.jsonl", door._directories
        def interrupted(run_id):
            if events.exists() and b'"started"' in events.read_bytes():
                raise KeyboardInterrupt
            return iter(())
        door._directories = interrupted
        try:
            door._accepted(door._start(name, ["run", "--quiet", "--id", name, "--", "sleep", "100"]))
        except KeyboardInterrupt:
            door._directories = directories
            tell(door.show(name).cause)
        """)
    assert told == "cancelled"


def test_a_hundred_megabytes_of_output(root, python):
    told = python(root, """
        result = isolated_run(["sh", "-c", "head -c 104857600 /dev/zero | tr '\\\\0' x; printf '\\\\377\\\\376bad' >&2"], limits={"log": "40M"})
        small = isolated_run(["sh", "-c", "head -c 104857600 /dev/zero | tr '\\\\0' x"], capture_bytes=1000)
        whole = sum(len(text) for text in result.door.logs(result.run_id))
        import pathlib, re
        peak = int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
        tell(facts(result), len(result.stdout), set(result.stdout) == {"x"}, result.stderr, result.has("capture-cut"), result.has("log-dropped"),
             len(small.stdout), whole > 40 << 20, whole < 41 << 20, peak < 300_000)
        """)
    assert told == [[0, "ok"], 10 << 20, True, "\ufffd\ufffdbad", True, True, 1000, True, True, True]


def test_a_caller_that_is_gone_leaves_its_submission_running(root, python):
    """A run that was submitted ends as it would have, and another process sees it end."""
    run_id = python(root, """tell(cupel.connect().submit("sleep 1; echo done"))""")
    told = python(root, """
        door = cupel.Local()
        run = door.wait(sys.argv[1])
        tell(run.cause, door.log(run.id).data.decode())
        """, run_id)
    assert told == ["ok", "done\n"]


def test_rerun_takes_secret_variables(cupel, python):
    told = python(cupel, """
        door = cupel.connect()
        run = door.run(["sh", "-c", "echo $API_TOKEN"], env={"API_TOKEN": "hunter2"})
        try:
            door.rerun(run.id)
        except cupel.Refused as error:
            refused = str(error)
        again = door.wait(door.rerun(run.id, env={"API_TOKEN": "hunter2"}))
        tell(run.ok, "API_TOKEN" in refused, again.ok, door.log(again.id).data.decode())
        """)
    assert told == [True, True, True, "hunter2\n"]


def test_a_refusal_does_not_name_the_temporary_file(cupel, python):
    told = python(cupel, """
        try:
            cupel.run(["true"], limits={"memory": "900T"})
        except cupel.Refused as error:
            tell(str(error))
        """)
    assert told.startswith("memory 900T is more than all runs together may use"), told
