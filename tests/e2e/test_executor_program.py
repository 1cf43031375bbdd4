"""Runs that a program of the site's own carries out: by the example that comes with cupel, and by programs that answer wrongly."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess

import pytest

import cupel as lib
import program_executor
import services

pytestmark = pytest.mark.test_all

Node = program_executor.Node
LIMITS = "limits: {memory: %dK, disk: 16M, grace: 1s}\n" % lib.memory_limit_kb(64 << 10)
# Goes on until it is let go: what is done meanwhile takes its time.
WAITS = "until test -e go; do sleep 0.05; done"


@pytest.fixture(name="node")
def _node(cupel):
    made = Node(cupel)
    yield made
    assert lib.wait_until(lambda: not made.jobs()), made.jobs()


def let_go(caller, run_id):
    """The other place is on this host too, and so is the working directory there."""
    (caller.work_dir(run_id) / "go").touch()


def wait_taken_over(caller, run_id):
    events = caller.run_dir(run_id) / "events.jsonl"
    assert lib.wait_until(lambda: '"taken-over"' in events.read_text()), events.read_text()


def executor(caller, *words):
    return caller.call(caller.binary, "executor", *words)


# What is there, and what it can do.

def test_list(node):
    status, out, _ = executor(node.caller, "list", "--json")
    told = {one["name"]: one for one in json.loads(out)}
    assert status == 0 and list(told) == ["local", "node"]
    assert told["local"]["default"] and not told["node"]["default"]
    assert told["node"]["reached"] and told["node"]["engine"].startswith("cupel ")
    status, out, _ = executor(node.caller, "list")
    assert status == 0 and out.splitlines()[2].split()[:4] == ["node", "program", "-", "yes"]


def test_list_tells_why_one_is_not_reached(root):
    Node(root, more="defaults: {executor: node}\n", wrong="gone:probe")
    status, out, _ = executor(root, "list", "--json")
    told = json.loads(out)[1]
    assert status == 0 and told["default"] and not told["reached"] and "gave no answer" in told["error"]


def test_check(node):
    status, out, _ = executor(node.caller, "check", "--json", "node")
    told = json.loads(out)
    assert status == 0 and told["usable"] and told["capability"]["reattaches"] and "disk" in told["capability"]["layers"]
    status, out, _ = executor(node.caller, "check", "node")
    assert status == 0 and "is accepted" in out and out.splitlines()[0].startswith("node: kind program, cupel ")


def test_check_of_this_host(cupel):
    status, out, _ = executor(cupel, "check", "--json", "local")
    told = json.loads(out)
    assert status == 0 and told["kind"] == "local" and told["capability"]["layers"][:3] == ["user", "mount", "pid"]
    assert not told["capability"]["reattaches"] and told["capability"]["checkpoints"]


def test_check_of_one_that_is_not_usable(root):
    Node(root, wrong="probe-staging")
    status, out, _ = executor(root, "check", "node")
    assert status == 1 and "can't be used" in out and "'staging' is not one of here, shared, copy" in out
    status, out, err = executor(root, "check", "nosuch")
    assert status == 2 and "known: local, node" in err
    assert executor(root, "check")[0] == 2


def test_inputs_are_data_elsewhere_too(node):
    """Another program makes the mounts: no directory with a socket, and nothing that only its caller may read as root."""
    caller = node.caller
    place = caller.base / "served"
    (place / "sub").mkdir(parents=True)
    (place / "file").write_text("text", encoding="utf-8")
    for path in (place, place / "sub", place / "file"):
        caller.own(path)
    try:
        result = caller.run("-x", "node", "--data", place, "--", "cat", "data/served/file")
        assert (result.cause, result.stdout) == ("ok", "text"), result.stderr
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place / "sub/s"))
            result = caller.run("-x", "node", "--data", place, "--", "true")
            assert result.status == 2 and f"{place}/sub/s is a socket" in result.stderr
        (place / "file").chmod(0o600)
        result = caller.run("-x", "node", "--data", place / "file", "--", "cat", "data/file")
        if caller.who == "root":
            assert result.status == 2 and "the executor node can't show it to one run alone" in result.stderr
        else:
            assert (result.cause, result.stdout) == ("ok", "text"), result.stderr
    finally:
        shutil.rmtree(place)


def test_one_that_does_not_give_all(root):
    node = Node(root, wrong="weak")
    status, out, _ = executor(root, "check", "node")
    assert status == 1 and "is refused: the executor node can't give: disk. Remedy: " in out
    result = root.run("-x", "node", "--", "true")
    assert result.status == 2 and "can't give: disk" in result.stderr and not result.run_dir.exists() and not node.jobs()
    result = root.run("-x", "node", "--allow-missing", "disk", "--", "true")
    assert result.cause == "ok" and not node.jobs()


# The same test as for every other.

@pytest.mark.limit_s(900)
@pytest.mark.parametrize("name", ["node", "local"])
def test_conformance(node, name):
    status, told = node.conformance(name=name)
    failed = [case for case in told["cases"] if case["outcome"] == "failed"]
    assert (status, failed, told["failed"]) == (0, [], 0)
    skipped = {case["case"] for case in told["cases"] if case["outcome"] == "skipped"}
    of_this_host = {"submit-twice", "away-start", "away-running", "away-cancel", "away-left"}
    assert skipped == {"cancel-queued"} | (set() if name == "node" else of_this_host)
    assert told["passed"] + told["skipped"] == len(told["cases"]) >= 25
    remarks = {case["case"]: case["text"] for case in told["cases"]}
    assert ("lost" in remarks["killed-running"]) == (name == "local")
    assert not node.caller.home.exists() or not (node.caller.home / "runs").exists() or \
        not [run for run in os.listdir(node.caller.home / "runs") if run.startswith("conform-")]


@pytest.mark.parametrize("wrong, case, words", [
    ("no-logs", "success", "stdout.log is not 'said"),
    ("foreign-record", "exit", "the cause is 'lost', not 'exit'"),
    ("submit-anew", "submit-twice", "it is another job"),
    ("no-reap", "left", "is left"),
])
def test_conformance_finds_what_is_wrong(root, wrong, case, words):
    node = Node(root, wrong=wrong, patience="2s")
    status, told = node.conformance("--only", case)
    assert status == 1 and told["failed"] == 1 and words in told["cases"][0]["text"], told
    node.forget()


def test_conformance_finds_that_nobody_waits(root):
    """With no patience an executor that is out of reach for a moment loses the run."""
    status, told = Node(root, patience="1ms").conformance("--only", "away-running")
    assert status == 1 and "lost" in told["cases"][0]["text"], told


def test_conformance_of_one_case(root):
    Node(root)
    status, out, err = executor(root, "conformance", "--only", "exit", "node")
    assert (status, err) == (0, "") and out.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"
    assert out.split()[:2] == ["passed", "exit"]
    status, _, err = executor(root, "conformance", "--only", "luck", "node")
    assert status == 2 and "they are: success, exit, " in err


def test_conformance_that_is_interrupted_leaves_nothing(fresh):
    node = Node(fresh)
    with fresh.popen(fresh.binary, "executor", "conformance", "--only", "cancel", "node", env={"TMPDIR": str(fresh.base)},
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert lib.wait_until(node.jobs)
        process.terminate()
        assert process.wait(120) == 1
    assert not node.jobs() and not list(fresh.base.glob("cupel-conformance-*"))
    # A run that was cancelled before it was recorded there may still be removing its own.
    assert lib.wait_until(lambda: not [*fresh.work_root.iterdir()])


# Runs.

def test_a_run_is_recorded_with_who_carried_it_out(node):
    result = node.caller.run("-x", "node", "--", "sh", "-c", "echo said; echo made > out/made")
    assert (result.status, result.stdout, result.cause) == (0, "said\n", "ok")
    told = result.verdict["executor"]
    assert (told["name"], told["kind"], told["state"]) == ("node", "program", "ended") and told["job"].endswith(result.run_dir.name)
    assert [file["path"] for file in result.outputs["files"]] == ["out/made"]
    assert (result.run_dir / "outputs/out/made").read_text() == "made\n"
    events = [event["event"] for event in result.events]
    assert events.index("submitted") < events.index("started") < events.index("ended")
    assert json.loads((result.run_dir / "analysis.json").read_text())["executor"] == "node"
    assert not (node.caller.home / "jobs" / result.run_dir.name).exists()
    shown = node.caller.call(node.caller.binary, "show", result.run_dir.name)[1]
    assert f"executor node (program, {told['engine']})\n" in shown
    here = node.caller.run("--", "true").run_dir.name
    assert "executor local\n" in node.caller.call(node.caller.binary, "show", here)[1]
    node.caller.call(node.caller.binary, "ledger", "check")  # delivers; other tests have runs there too
    with contextlib.closing(sqlite3.connect(node.caller.home / "cupel.db")) as db:
        found = dict(db.execute("SELECT run, executor FROM attempts"))
    assert (found[result.run_dir.name], found[here]) == ("node", "local")


def test_what_chooses_the_executor(root):
    node = Node(root, more="defaults: {executor: node}\n")
    assert root.run("--", "true").verdict["executor"]["name"] == "node"
    assert "executor" not in root.run("-x", "local", "--", "true").verdict
    (root.dir / "a.yaml").write_text("command: 'true'\nexecutor: local\n")
    assert "executor" not in root.run("a.yaml").verdict
    assert root.run("-x", "node", "a.yaml").verdict["executor"]["name"] == "node"
    result = root.run("-x", "nosuch", "--", "true")
    assert result.status == 2 and "there is no executor 'nosuch'; known: local, node" in result.stderr and not result.run_dir.exists()
    assert lib.wait_until(lambda: not node.jobs())


def test_the_log_goes_on_when_another_keeper_took_over(node):
    caller = node.caller
    process, run_id = caller.start("-x", "node", "--", "sh", "-c", f"echo first; {WAITS}; echo second; sleep 1; echo last >&2; exit 3",
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"first\n"
        os.kill(program_executor.keeper(caller, run_id), signal.SIGKILL)
        wait_taken_over(caller, run_id)
        let_go(caller, run_id)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (3, b"second\n") and err.startswith(b"last\n")


def test_a_signal_reaches_the_keeper_that_took_over(node):
    caller = node.caller
    process, run_id = caller.start("-x", "node", "--", "sh", "-c", "echo first; sleep 1000", stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"first\n"
        os.kill(program_executor.keeper(caller, run_id), signal.SIGKILL)
        process.terminate()
        assert process.wait(120) == 143
    assert json.loads((caller.run_dir(run_id) / "verdict.json").read_text())["cause"] == "cancelled"


def test_who_takes_over_waits_for_an_executor_that_is_down(node):
    caller = node.caller
    program = caller.base / "remote.py"
    works = program.read_bytes()
    process, run_id = caller.start("-x", "node", "--", "sh", "-c", f"echo first; {WAITS}; echo last", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    events = caller.run_dir(run_id) / "events.jsonl"
    with process:
        assert process.stdout.readline() == b"first\n"
        program.write_bytes(b"#!/bin/sh\nexit 1\n")
        os.kill(program_executor.keeper(caller, run_id), signal.SIGKILL)
        assert lib.wait_until(lambda: '"unreachable"' in events.read_text() or process.poll() is not None)
        assert process.poll() is None, process.stderr.read()
        program.write_bytes(works)
        let_go(caller, run_id)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, b"last\n"), err
    assert '"reached-again"' in events.read_text() and json.loads((caller.run_dir(run_id) / "verdict.json").read_text())["cause"] == "ok"


# Pipelines and the service.

PIPELINE = LIMITS + """
steps:
  near: {command: "echo near > out/a"}
  far:
    executor: node
    inputs: [{step: near, path: out/a}]
    command: "echo first; cat data/a > out/b; %s; echo far >> out/b"
  last: {inputs: [{step: far, path: out/b}], command: "cat data/b; cat data/b > out/c"}
env: {TEST: %s}
"""


def pipeline(caller, pause):
    folder = caller.dir / caller.new_id()
    folder.mkdir()
    caller.own(folder)
    (folder / "p.yaml").write_text(PIPELINE % (pause, folder.name))
    return folder


def accepted(run):
    """When; the directory itself changes with all that is recorded later, which may be after a later run's."""
    return json.loads((run / "events.jsonl").read_text().splitlines()[0])["time"]


def runs_of(caller, step):
    found = []
    for path in (caller.home / "runs").glob("*/analysis.json"):
        try:
            record = json.loads(path.read_text())
        except json.JSONDecodeError:
            continue  # it is being written
        if (record.get("pipeline") or {}).get("step") == step:
            found.append(path.parent)
    return sorted(found, key=accepted)


def begin(caller, folder):
    """The pipeline, with its far step at work: (process, run directory of that step)."""
    before = set(runs_of(caller, "far"))
    process = caller.popen(caller.binary, "run", "-q", "p.yaml", cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    new = []

    def printed():
        new[:] = set(runs_of(caller, "far")) - before
        return new and program_executor.has_printed(caller, new[0].name, "first") or process.poll() is not None

    assert lib.wait_until(printed)
    assert process.poll() is None, process.stderr.read()
    return process, new[0]


def test_a_step_elsewhere_and_steps_here(node):
    caller = node.caller
    folder = pipeline(caller, "true")
    status, _, err = caller.call(caller.binary, "run", "-q", "p.yaml", cwd=folder)
    assert status == 0, err
    by_step = {step: json.loads((runs_of(caller, step)[-1] / "verdict.json").read_text()) for step in ("near", "far", "last")}
    assert by_step["far"]["executor"]["name"] == "node" and "executor" not in by_step["near"] and "executor" not in by_step["last"]
    assert (runs_of(caller, "last")[-1] / "stdout.log").read_text() == "near\nfar\n"


def test_a_pipeline_goes_on_when_the_keeper_of_a_step_elsewhere_was_killed(node):
    caller = node.caller
    process, run = begin(caller, pipeline(caller, WAITS))
    with process:
        os.kill(program_executor.keeper(caller, run.name), signal.SIGKILL)
        wait_taken_over(caller, run.name)
        let_go(caller, run.name)
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
    assert json.loads((run / "verdict.json").read_text())["cause"] == "ok"
    assert (runs_of(caller, "last")[-1] / "stdout.log").read_text() == "near\nfar\n"


def kill(caller, process, run, with_its_keeper):
    """The pipeline, and the keeper of its far step; returns its id."""
    with process:
        process.send_signal(signal.SIGSTOP)  # it would see its keeper die, and have it taken over
        if with_its_keeper:
            os.kill(program_executor.keeper(caller, run.name), signal.SIGKILL)
        process.kill()
    return json.loads((run / "analysis.json").read_text())["pipeline"]["id"]


def test_a_pipeline_that_was_killed_is_resumed_across_executors(node):
    caller = node.caller
    # The first attempt lasts until it is cancelled; the second need not wait.
    folder = pipeline(caller, "case $CUPEL_RUN_ID in *-far-1) sleep 1000;; esac")
    process, run = begin(caller, folder)
    near = runs_of(caller, "near")[-1]
    pipeline_id = kill(caller, process, run, with_its_keeper=False)
    assert lib.wait_until((run / "verdict.json").exists)
    assert json.loads((run / "verdict.json").read_text())["cause"] == "cancelled"
    status, _, err = caller.call(caller.binary, "resume", "-q", pipeline_id, cwd=folder)
    assert status == 0, err
    assert runs_of(caller, "near")[-1] == near  # not run again
    again = runs_of(caller, "far")[-1]
    assert again != run and json.loads((again / "verdict.json").read_text())["executor"]["name"] == "node"
    assert (runs_of(caller, "last")[-1] / "stdout.log").read_text() == "near\nfar\n"


@pytest.mark.parametrize("command", ["resume", "run"])
def test_what_goes_on_elsewhere_after_a_kill_is_waited_for(node, command):
    """With its keeper gone too nobody ended the far step: it is not computed a second time."""
    caller = node.caller
    folder = pipeline(caller, WAITS)
    process, run = begin(caller, folder)
    before = set(runs_of(caller, "far"))
    pipeline_id = kill(caller, process, run, with_its_keeper=True)
    status, out, err = caller.call(caller.binary, "plan", "--json", "p.yaml", cwd=folder)
    assert status == 0 and f"unless {run.name}, which was begun before" in out, err
    with caller.popen(caller.binary, command, pipeline_id if command == "resume" else "p.yaml", cwd=folder,
                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while f"waits for {run.name}".encode() not in (line := process.stderr.readline()):
            assert line, "it ended"
        let_go(caller, run.name)
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
    assert b"far: reused" in err and set(runs_of(caller, "far")) == before
    assert json.loads((run / "verdict.json").read_text())["cause"] == "ok"
    assert (runs_of(caller, "last")[-1] / "stdout.log").read_text() == "near\nfar\n"


def test_what_goes_on_elsewhere_is_waited_for_when_another_step_fails(node):
    """As what runs is: its result is there for the next time."""
    caller = node.caller
    folder = pipeline(caller, WAITS)
    (folder / "flag").touch()
    text = (folder / "p.yaml").read_text()
    (folder / "p.yaml").write_text(text.replace("  last:", "  bad: {inputs: [{step: near, path: out/a}, flag], command: 'test -s data/flag'}\n  last:"))
    process, run = begin(caller, folder)
    before = set(runs_of(caller, "far"))
    pipeline_id = kill(caller, process, run, with_its_keeper=True)
    with caller.popen(caller.binary, "resume", pipeline_id, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        told = b""
        while b"bad: exit" not in told or f"waits for {run.name}".encode() not in told:
            assert (line := process.stderr.readline()), told
            told += line
        let_go(caller, run.name)
        _, err = process.communicate(timeout=200)
        assert process.returncode == 1, err
    assert json.loads((run / "verdict.json").read_text())["cause"] == "ok"
    (folder / "flag").write_text("now")
    status, _, err = caller.call(caller.binary, "run", "-q", "p.yaml", cwd=folder)
    assert status == 0 and set(runs_of(caller, "far")) == before, err


def test_who_waits_for_what_goes_on_elsewhere_can_end_it(node):
    caller = node.caller
    folder = pipeline(caller, WAITS)
    process, run = begin(caller, folder)
    pipeline_id = kill(caller, process, run, with_its_keeper=True)
    with caller.popen(caller.binary, "resume", pipeline_id, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while f"waits for {run.name}".encode() not in (line := process.stderr.readline()):
            assert line, "it ended"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=200)
        assert process.returncode == 130, err
    assert lib.wait_until((run / "verdict.json").exists)
    assert json.loads((run / "verdict.json").read_text())["cause"] == "cancelled"


def test_what_goes_on_elsewhere_and_is_attended_by_nobody_is_begun_anew(fresh):
    """Nobody can say where it is, until somebody mends its record."""
    node = Node(fresh)
    folder = pipeline(fresh, "case $CUPEL_RUN_ID in *-far-1) " + WAITS + ";; esac")
    process, run = begin(fresh, folder)
    pipeline_id = kill(fresh, process, run, with_its_keeper=True)
    note = run / "executor.json"
    known = note.read_bytes()
    note.write_bytes(b"{}")
    status, _, err = fresh.call(fresh.binary, "resume", pipeline_id, cwd=folder)
    assert status == 0 and f"far: started: {run.name} was begun before and may go on elsewhere" in err, err
    again = runs_of(fresh, "far")[-1]
    assert again != run and json.loads((again / "verdict.json").read_text())["cause"] == "ok"
    note.write_bytes(known)
    let_go(fresh, run.name)
    assert lib.wait_until(lambda: fresh.call(fresh.binary, "ps")[0] == 0 and not node.jobs())
    assert json.loads((run / "verdict.json").read_text())["cause"] == "ok"


def test_a_submission_to_the_service(fresh):
    if not services.SERVE.exists():
        pytest.skip("service: cupel was built without libmicrohttpd or libsystemd")
    node = Node(fresh)
    service = services.Service(fresh, config=fresh.settings)
    service.start()
    try:
        run_id = service.submit("sh", "-c", "echo said; echo x > out/x", analysis={"executor": "node"})
        told = service.wait(run_id)
        assert told["cause"] == "ok", told
        verdict = json.loads((fresh.run_dir(run_id) / "verdict.json").read_text())
        assert verdict["executor"]["name"] == "node" and (fresh.run_dir(run_id) / "stdout.log").read_text() == "said\n"
        status, _, err = fresh.call(fresh.binary, "submit", "--wait", "-x", "node", "--", "sh", "-c", "exit 5")
        assert status == 5, err
        refused = service.post("/v1/runs", {"analysis": {"command": ["true"], "executor": "nosuch"}})
        if refused.status == 201:  # it is looked at when its turn comes
            assert service.wait(refused.json["id"])["cause"] == "refused"
    finally:
        service.stop()
    assert lib.wait_until(lambda: not node.jobs())


# For others, as a service that is root's has it carried out.

FOR_OTHER = {"CUPEL_SUBMITTER": f"{lib.USER_ID}:{lib.USER_ID}"}


def test_a_run_for_another_user_has_his_rights_there(root):
    """Judged by what he may read there: here he could still read it."""
    place = root.base / "place"
    place.mkdir()
    (place / "input").write_text("words\n", encoding="utf-8")
    Node(root, wrong=f"hides={place}")

    def run(**options):
        place.chmod(0o755)
        return root.run("-x", "node", "--data", f"{place}/input:input", "--", "sh", "-c", "cat data/input > out/copy", **options)
    result = run(env=FOR_OTHER)
    assert result.cause == "setup" and "Permission denied" in result.verdict["completion_notes"], result.verdict
    assert not (result.run_dir / "outputs").exists()
    assert run().cause == "ok", "the control: root may read it"
    Node(root)
    result = run(env=FOR_OTHER)
    assert result.cause == "ok" and (result.run_dir / "outputs/out/copy").read_text() == "words\n"


def test_a_program_that_knows_no_submitters_runs_nothing_for_others(root):
    node = Node(root, wrong="no-submitters")
    result = root.run("-x", "node", "--", "true", env=FOR_OTHER)
    assert result.status == 2 and "submitters" in result.stderr and not result.run_dir.exists() and not node.jobs()
    assert root.run("-x", "node", "--", "true").cause == "ok", "the control: it is root's own"


# Programs that answer wrongly.

@pytest.mark.parametrize("wrong, words", [
    ("no-json:probe", "no JSON object"),
    ("list:probe", "no JSON object"),
    ("deep:probe", "no JSON object"),
    ("huge:probe", "gave no answer: Message too long"),
    ("slow:probe", "gave no answer: Connection timed out"),
    ("half:probe", "gave no answer"),
    ("gone:probe", "gave no answer"),
    ("mute:probe", "refused without a word"),
    ("refused:probe", "no?[31m room?at all"),
    ("probe-staging", "'staging' is not one of"),
    ("copied-here", "'staging: copy' needs 'judged: there'"),
])
def test_no_answer_to_the_first_question(root, wrong, words):
    Node(root, wrong=wrong)
    result = root.run("-x", "node", "--", "true")
    assert result.status == 125 and words in result.stderr and "\033" not in result.stderr, result.stderr
    assert not result.run_dir.exists()


@pytest.mark.parametrize("wrong, words", [
    ("no-handle", "submit: the answer has no handle"),
    ("text-handle", "submit: the answer has no handle"),
    ("no-json:submit", "no JSON object"),
    ("refused:submit", "no?[31m room?at all"),
])
def test_a_job_that_was_not_accepted(root, wrong, words):
    node = Node(root, wrong=wrong, patience="1s")
    result = root.run("-x", "node", "--", "sleep", "3")
    assert result.cause == "setup" and words in result.verdict["completion_notes"], result.verdict
    assert result.status == 125
    assert not (root.home / "jobs" / result.run_dir.name).exists()
    assert lib.wait_until(lambda: not node.jobs()), "what it had started all the same is found by its name, and removed"


@pytest.mark.parametrize("wrong, words", [
    ("no-json:poll", "no JSON object"),
    ("half:poll", "gave no answer"),
    ("huge:poll", "gave no answer: Message too long"),
    ("gone:poll", "gave no answer"),
    ("poll-state", "'state' is not one of"),
])
def test_no_word_of_how_it_stands(root, wrong, words):
    node = Node(root, wrong=wrong, patience="1s")
    result = root.run("-x", "node", "--", "true")
    assert result.cause == "lost" and words in result.verdict["completion_notes"], result.verdict
    assert result.status == 137  # as of any run that is lost
    assert [event["event"] for event in result.events].count("unreachable") == 1
    assert lib.wait_until(lambda: not node.jobs())


@pytest.mark.parametrize("wrong, words", [
    ("other-handle", "its directory was removed"),
    ("foreign-record", "verdict.json"),
    ("linked-record", "record"),
])
def test_lies_about_handles_and_records(root, wrong, words):
    node = Node(root, wrong=wrong, patience="1s")
    result = root.run("-x", "node", "--", "sh", "-c", "echo made > out/made")
    assert result.cause == "lost" and words in result.verdict["completion_notes"], result.verdict
    assert not (result.run_dir / "outputs").exists()
    node.forget()


@pytest.mark.parametrize("wrong", ["logs-not-base64", "logs-too-much", "refused:logs"])
def test_a_log_that_can_not_be_had_is_told(root, wrong):
    Node(root, wrong=wrong, patience="1s")
    result = root.run("-x", "node", "--", "sh", "-c", "echo said; echo made > out/made")
    assert result.cause == "ok" and "Its log could not be written to the end" in result.verdict["completion_notes"]
    assert result.log() == b"" and (result.run_dir / "outputs/out/made").read_text() == "made\n"


def test_a_program_that_does_not_remove_its_jobs(root):
    """The run is recorded; the job is the next command's to remove, again and again."""
    node = Node(root, wrong="refused:reap", patience="1s")
    result = root.run("-x", "node", "--", "true")
    assert result.cause == "ok" and result.status == 0 and node.jobs()
    assert (root.home / "active" / result.run_dir.name).exists()
    Node(root)
    assert lib.wait_until(lambda: root.call(root.binary, "gc")[0] == 0 and root.call(root.binary, "ps")[0] == 0 and not node.jobs())
    assert lib.wait_until(lambda: not (root.home / "active" / result.run_dir.name).exists())
