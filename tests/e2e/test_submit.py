"""cupel submit, wait and cancel, and what ps, list, show and logs tell of a service: what is asked of it, and how its answers are
read, whatever they are. The service here is a script; tests/e2e/test_service*.py have the real one."""

import json
import os
import signal
import subprocess
import threading

import pytest

import cupel as lib
import scripted


U = f"t{os.getpid()}-"  # working directories are the host's: others may have runs of the same name


def call(caller, *words, **env):
    return caller.call(caller.binary, *words, env=env)


def is_over(caller, run_id):
    return (caller.run_dir(run_id) / "verdict.json").exists()


def begun(caller, *args, **options):
    """A run that has said so: (process, id)."""
    process, run_id = caller.start("--", "sh", "-c", f"echo up; {args[0]}", stdout=subprocess.PIPE, **options)
    assert process.stdout.readline() == b"up\n"
    return process, run_id


# Without a service.

def test_wait_gives_the_status_of_the_run(cupel):
    done = cupel.run("--", "true")
    process, run_id = begun(cupel, "sleep 1; exit 7")
    with process:
        status, out, err = call(cupel, "wait", run_id)
        assert (status, out) == (7, "") and err.startswith(f"cupel: {run_id}: exit: ")
        assert is_over(cupel, run_id)
    assert call(cupel, "wait", "-q", done.run_dir.name) == (0, "", "")
    status, out, _ = call(cupel, "wait", "--json", done.run_dir.name, run_id)
    told = json.loads(out)
    assert status == 7 and [run["cause"] for run in told] == ["ok", "exit"]
    shown = call(cupel, "show", "--json", run_id)[1]
    assert told[1] == json.loads(shown)


def test_wait_no_longer_than_said(cupel):
    process, run_id = begun(cupel, "sleep 1000")
    with process:
        status, out, err = call(cupel, "wait", "--timeout", "300ms", "--json", run_id)
        assert status == 123 and "goes on" in err
        assert [run["state"] for run in json.loads(out)] == ["running"] and not is_over(cupel, run_id)
        process.terminate()
        assert call(cupel, "wait", run_id)[0] == 143
        assert process.wait(60) == 143


def test_wait_for_any(cupel):
    first, a = begun(cupel, "sleep 1000")
    second, b = begun(cupel, "exit 3")
    with first, second:
        status, _, err = call(cupel, "wait", "--any", a, b)
        assert status == 3 and b in err and a not in err
        first.terminate()


def test_wait_records_a_run_whose_keeper_was_killed(cupel):
    process, run_id = begun(cupel, "sleep 1000")
    keeper, = (run["keeper_pid"] for run in json.loads(call(cupel, "ps", "--json")[1]) if run["id"] == run_id)
    with cupel.popen(cupel.binary, "wait", run_id, stderr=subprocess.PIPE) as waiting:
        os.kill(keeper, signal.SIGKILL)
        err = waiting.communicate(timeout=60)[1].decode()
        assert f"{run_id}: lost" in err, err
    process.communicate(timeout=60)
    assert json.loads(call(cupel, "wait", "--json", run_id)[1])[0]["cause"] == "lost"


@pytest.mark.parametrize("command", ["wait", "cancel"])
def test_what_is_not_there(cupel, command):
    for run_id, word in (("nosuch", "no run 'nosuch'"), ("../x", "id")):
        status, out, err = call(cupel, command, run_id)
        assert (status, out) == (2, "") and word in err, err
    assert call(cupel, command)[0] == 2


def test_cancel(cupel):
    process, run_id = begun(cupel, "sleep 1000")
    other, running = begun(cupel, "sleep 1000")
    with process, other:
        status, _, err = call(cupel, "cancel", run_id, "nosuch")
        assert status == 2 and f"cupel: {run_id}: cancelled\n" in err and "no run 'nosuch'" in err
        assert json.loads((cupel.run_dir(run_id) / "verdict.json").read_text())["cause"] == "cancelled"
        assert process.wait(60) == 143 and not is_over(cupel, running)
        status, _, err = call(cupel, "cancel", run_id)
        assert status == 2 and "has ended already: cancelled" in err
        status, out, _ = call(cupel, "cancel", "--json", running)
        assert status == 0 and [run["cause"] for run in json.loads(out)] == ["cancelled"]


def test_cancel_without_waiting(cupel):
    process, run_id = begun(cupel, "trap 'echo asked; exit 0' TERM; while :; do sleep 0.1; done")
    with process:
        assert call(cupel, "cancel", "--no-wait", run_id) == (0, "", "")
        assert process.stdout.readline() == b"asked\n"
        assert call(cupel, "wait", run_id)[0] == 143


def test_cancel_of_another_user(root, user):
    """A home that others may read; the keeper is still not theirs."""
    process, run_id = begun(root, "sleep 1000")
    (root.home / "active" / run_id).chmod(0o666)
    shared = [root.home, root.home / "active", root.home / "runs", root.run_dir(run_id)]
    before = [path.stat().st_mode for path in shared]
    with process:
        for path in shared:
            path.chmod(0o755)
        status, _, err = user.call(user.binary, "cancel", run_id, env={"CUPEL_HOME": str(root.home)})
        assert status == 2 and "not yours" in err, err
        for path, mode in zip(shared, before):
            path.chmod(mode)
        assert call(root, "cancel", run_id)[0] == 0


PIPELINE = "steps:\n  one: {command: [sleep, '%s']}\n  two: {command: ['true'], needs: [one]}\n"


def test_pipelines_are_waited_for_and_cancelled(root):
    (root.dir / "p.yaml").write_text(PIPELINE % "1000", encoding="utf-8")
    with root.popen(root.binary, "run", "--id", U + "pipe-a", "p.yaml", stderr=subprocess.PIPE) as process:
        assert lib.wait_until(lambda: list((root.home / "active").glob(U + "pipe-a*")))
        assert call(root, "wait", "--timeout", "100ms", U + "pipe-a")[0] == 123
        assert call(root, "cancel", U + "pipe-a")[0] == 0
        assert process.wait(60) != 0
    status, out, _ = call(root, "wait", "--json", U + "pipe-a")
    assert status == 143 and json.loads(out)[0]["state"] == "cancelled"
    (root.dir / "p.yaml").write_text(PIPELINE % "0", encoding="utf-8")
    assert call(root, "run", "-q", "--id", U + "pipe-b", "p.yaml")[0] == 0
    assert call(root, "wait", U + "pipe-b")[0] == 0


def test_submit_needs_a_service(cupel):
    status, out, err = call(cupel, "submit", "--", "true")
    assert (status, out) == (125, "") and "cupel serve" in err and str(cupel.home) in err
    assert not list((cupel.home / "runs").glob("*")) or "no service" in err


@pytest.mark.parametrize("where, word", [("/nowhere/sock", "no service answers"), ("relative", "absolute"), ("http://", "HOST:PORT"),
                                         ("http://a@b:1", "HOST:PORT"), ("http://a:1/x", "HOST:PORT"), ("/" + "x" * 200, "too long")])
def test_a_service_that_is_named_must_be_there(cupel, where, word):
    for words in (["submit", "--", "true"], ["ps"], ["list"], ["wait", "x"]):
        status, out, err = call(cupel, *words, CUPEL_SERVICE=where)
        assert status in (2, 125) and out == "" and word in err, err
    assert call(cupel, "ps", CUPEL_SERVICE="none")[0] == 0


# A scripted service.

@pytest.fixture(name="server")
def _server(root):
    with scripted.Server(root.base / "s.sock") as server:
        yield server


def ask(root, server, *words, **env):
    return call(root, *words, CUPEL_SERVICE=str(server.where or server.url), **env)


ACCEPTED = (201, {"id": "r1", "state": "queued", "location": "/v1/runs/r1"})


def test_what_is_submitted(root, server):
    server.answers["POST /v1/runs"] = ACCEPTED
    root.configure("defaults: {env_pass: [TZ, NOT_SET, OWN]}\n")
    (root.dir / "cupel.yaml").write_text("{}\n", encoding="utf-8")
    (root.dir / "data").mkdir()
    (root.dir / "data/table.csv").write_text("1\n", encoding="utf-8")
    (root.dir / "a.py").write_text("1\n", encoding="utf-8")
    try:
        status, out, err = ask(root, server, "submit", "--id", "r1", "--priority", "-5", "--key", "k-1", "--not-before",
                               "2030-01-02T03:04", "--memory", "1G", "--env", "OWN=mine", "--quest", "q", "-d", "data/table.csv:t",
                               "--out", "x/*", "a.py", "--flag", "x y", TZ="UTC", OWN="caller")
    finally:
        (root.dir / "cupel.yaml").unlink()
        (root.dir / "data/table.csv").unlink()
        (root.dir / "data").rmdir()
    assert (status, out, err) == (0, "r1\n", "")
    (method, path, headers, body), = server.asked
    assert (method, path, headers["Idempotency-Key"]) == ("POST", "/v1/runs", "k-1")
    assert body == {
        "id": "r1", "priority": -5, "not_before": "2030-01-02T03:04:00.000Z",
        "analysis": {
            "code": [f"{root.dir}/a.py"], "args": ["--flag", "x y"], "quest": "q", "env": {"OWN": "mine", "TZ": "UTC"},
            "inputs": [{"path": f"{root.dir}/data/table.csv", "name": "t"}, {"path": f"{root.dir}/data/table.csv", "name": "table.csv"}],
            "outputs": [{"path": "x/*", "required": False}], "limits": {"memory": "1G"},
        },
    }


def test_a_file_is_submitted_as_what_it_says(root, server):
    server.answers["POST /v1/runs"] = ACCEPTED
    (root.dir / "f").mkdir(exist_ok=True)
    (root.dir / "is-there.csv").touch()
    (root.dir / "f/a.yaml").write_text("name: n\ncommand: echo hi\ninputs: [../is-there.csv]\nid: fixed\n", encoding="utf-8")
    status, out, _ = ask(root, server, "submit", "--json", "f/a.yaml")
    assert status == 0 and json.loads(out) == ACCEPTED[1]
    assert server.asked[0][3] == {"id": "fixed", "priority": 0, "analysis": {
        "name": "n", "command": "echo hi", "env": {"LANG": "C.UTF-8"},
        "inputs": [{"path": f"{root.dir}/is-there.csv", "name": "is-there.csv"}]}}
    (root.dir / "f/b.yaml").write_text("command: echo hi\nshell: sh\n", encoding="utf-8")
    assert ask(root, server, "submit", "f/b.yaml")[0] == 0
    said = server.asked[1][3]["analysis"]
    assert (said["command"], said["shell"]) == ("echo hi", ["/bin/sh", "-c"])


def test_a_pipeline_is_named(root, server):
    server.answers["POST /v1/runs"] = ACCEPTED
    (root.dir / "p.yaml").write_text("parameters: {n: 1}\n" + PIPELINE % "0", encoding="utf-8")
    assert ask(root, server, "submit", "--param", "n=2", "--quest", "q", "p.yaml")[0] == 0
    asked = server.asked[0][3]["analysis"]
    assert asked["file"] == f"{root.dir}/p.yaml" and asked["parameters"] == {"n": 2} and asked["quest"] == "q"
    (root.dir / "p.yaml").write_text("steps: {a: {command: x, needs: [b]}}\n", encoding="utf-8")
    status, _, err = ask(root, server, "submit", "p.yaml")
    assert status == 2 and "p.yaml:1:" in err and len(server.asked) == 1


@pytest.mark.parametrize("words, word", [(["--priority", "101", "--", "true"], "-100 to 100"), (["--not-before", "soon", "--", "true"], "UTC"),
                                         (["--key", "a b", "--", "true"], "ASCII"), ([], "nothing to run"), (["--", "a\udcff"], "UTF-8")])
def test_what_cannot_be_submitted(root, server, words, word):
    status, out, err = ask(root, server, "submit", *words)
    assert (status, out) == (2, "") and word in err, err
    assert not server.asked


@pytest.mark.parametrize("answer, status, words", [
    ((403, {"error": {"code": "scope", "message": "you may not", "remedy": "ask an admin"}}), 2, ["you may not; ask an admin"]),
    ((409, {"error": {"code": "conflict", "message": "the key is taken\x1b[31m", "remedy": None}}), 2, ["the key is taken?[31m"]),
    ((429, {"error": {"code": "rate", "message": "too much"}}), 125, ["too much"]),
    ((503, {"error": {"code": "draining", "message": "it ends"}}), 125, ["it ends"]),
    ((500, b"<html>"), 125, ["status 500"]),
    ((302, b""), 2, ["status 302"]),
    ((200, b"<html>"), 125, ["no JSON"]),
    ((200, b'{"id": 1}'), 125, ["names no id"]),
    (lambda handler: setattr(handler, "close_connection", True), 125, ["does not answer"]),
    ((200, b"[" * 5000), 125, ["no JSON"]),
    ((200, b" " * ((64 << 20) + 1)), 125, ["more than"]),
], ids=lambda value: "none" if callable(value) else str(value)[:60])
def test_answers_that_are_none(root, server, answer, status, words):
    server.answers["POST /v1/runs"] = answer
    got, out, err = ask(root, server, "submit", "--", "true")
    assert (got, out) == (status, "") and all(word in err for word in words) and err.count("\n") == 1, err


def test_a_service_that_has_just_begun_is_asked_again(root, server):
    server.answers["POST /v1/runs"] = lambda _: ACCEPTED if len(server.asked) > 2 else (503, {"error": {"message": "not yet"}})
    assert ask(root, server, "submit", "--", "true") == (0, "r1\n", "") and len(server.asked) == 3


def ended(run_id, status=0, cause="ok"):
    return {"id": run_id, "state": "ended", "cause": cause, "exit_status": status, "submitter": "ana"}


def waits(run_id):
    return {"id": run_id, "state": "queued", "submitter": "ana", "priority": 0, "submitted": "2030-01-01T00:00:00.000Z",
            "name": None, "quest": "q7", "runtime": "base",
            "pending": {"reason": "memory", "text": "needs 8G of memory; 2 are ahead of it", "position": 2}}


def test_submit_and_wait(root, server):
    """The end is told by an event that comes byte by byte."""
    def events(handler):
        handler.begin_stream()
        for byte in 'id: 1-1\nevent: run\ndata: {"id": "other", "state": "ended"}\n\n: beat\n\n':
            handler.piece(byte)
        server.answers["GET /v1/runs/r1"] = ended("r1", 9, "exit")
        for byte in 'id: 1-2\r\nevent: run\r\ndata: {"id": "r1",\r\ndata: "state": "ended"}\r\n\r\n':
            handler.piece(byte)
        server.ended.wait()
        handler.close_connection = True

    server.answers.update({"POST /v1/runs": ACCEPTED, "GET /v1/runs/r1": waits("r1"), "GET /v1/events": events})
    status, out, err = ask(root, server, "submit", "--wait", "--", "true")
    assert (status, out) == (9, "r1\n") and "cupel: r1: exit" in err


def test_wait_survives_a_restart(root, server):
    """The connection is cut, then nobody listens; what ended meanwhile is found by asking again."""
    came, cut = threading.Event(), threading.Event()

    def events(handler):
        handler.begin_stream()
        handler.piece('id: 1-1\nevent: run\ndata: {"id": "r1", "sta')
        came.set()
        cut.wait()
        handler.close_connection = True
        handler.connection.close()

    server.answers.update({"GET /v1/runs/r1": waits("r1"), "GET /v1/events": events})
    with root.popen(root.binary, "wait", "r1", env={"CUPEL_SERVICE": str(server.where)}, stderr=subprocess.PIPE) as process:
        assert came.wait(60)
        server.stop()
        cut.set()
        assert b"waiting for it" in process.stderr.readline()
        server.answers.update({"GET /v1/runs/r1": ended("r1", 4, "exit"),
                               "GET /v1/events": lambda handler: (handler.stream(":\n\n"), server.ended.wait())[:0] or None})
        server.ended.clear()
        server.start()
        assert process.wait(60) == 4
        assert b"cupel: r1: exit\n" == process.stderr.read()


def test_events_that_are_refused_or_too_large(root, server):
    server.answers["GET /v1/runs/r1"] = waits("r1")
    server.answers["GET /v1/events"] = (403, {"error": {"message": "not for you"}})
    status, _, err = ask(root, server, "wait", "r1")
    assert status == 2 and "not for you" in err
    server.answers["GET /v1/events"] = lambda handler: handler.stream(b"data: " + b"x" * (5 << 20))
    status, _, err = ask(root, server, "wait", "r1")
    assert status == 125 and "larger than" in err


def test_wait_for_what_is_cancelled_or_refused(root, server):
    server.answers["GET /v1/events"] = lambda handler: handler.stream(":\n\n")
    for cause, status in (("cancelled", 143), ("refused", 125), ("ok", 0)):
        server.answers["GET /v1/runs/r1"] = {**ended("r1", cause=cause), "exit_status": None}
        assert ask(root, server, "wait", "r1")[0] == status
    status, _, err = ask(root, server, "wait", "r2")
    assert status == 2 and "/r2" in err


def test_cancel_asks_the_service(root, server):
    server.answers.update({"POST /v1/runs/r1/cancel": (202, {}), "GET /v1/runs/r1": ended("r1", 143, "cancelled"),
                           "POST /v1/runs/r2/cancel": (403, {"error": {"message": "r2 is another's"}}),
                           "GET /v1/runs/r3": ended("r3"), "GET /v1/events": lambda handler: handler.stream(":\n\n")})
    status, _, err = ask(root, server, "cancel", "r1", "r2", "r3", "nosuch")
    assert status == 2
    assert "cupel: r1: cancelled\n" in err and "r2 is another's" in err and "'r3' has ended already: ok" in err and "nosuch" in err
    asked = [path for path in server.paths() if path.startswith("POST")]
    assert asked == [f"POST /v1/runs/{name}/cancel" for name in ("r1", "r2", "r3", "nosuch")]
    status, out, _ = ask(root, server, "cancel", "--no-wait", "--json", "r1")
    assert status == 0 and json.loads(out) == [{"id": "r1"}]


def rows(server, running=(), queued=()):
    def runs(handler):
        wanted = [word for word in handler.path.split("?")[1].split("&") if word.startswith("state=")]
        found = [row for row in [*running, *queued] if not wanted or wanted[0][6:] == row["state"]]
        after = [word[6:] for word in handler.path.split("&") if word.startswith("after=")]
        found = found[[row["id"] for row in found].index(after[0]) + 1:] if after else found
        return {"runs": found[:2], "next": found[1]["id"] if len(found) > 2 else None, "total": None}
    server.answers["GET /v1/runs"] = runs


RUNNING = {"id": "a1", "state": "running", "submitter": "ben", "name": "title", "quest": None, "runtime": "base", "started": "2030-01-01T00:00:00.000Z",
           "memory_limit_bytes": 1 << 30, "pending": None}


def test_ps_of_a_service_elsewhere(root, server):
    rows(server, [RUNNING], [waits(f"w{i}") for i in range(5)])
    server.answers["GET /v1/runs/a1/usage"] = {"columns": ["t_ms", "mem", "cpu_usec", "pids"], "memory_limit_bytes": 2 << 30,
                                               "rows": [[1000, 5, 1000000, 1], [2000, 7 << 20, 2500000, 3]]}
    told = json.loads(ask(root, server, "ps", "--json")[1])
    assert [(run["id"], run["phase"]) for run in told] == [("a1", "running"), *((f"w{i}", "queued") for i in range(5))]
    assert (told[0]["cpus"], told[0]["memory_bytes"], told[0]["pids"], told[0]["submitter"]) == (1.5, 7 << 20, 3, "ben")
    assert told[1]["pending"]["position"] == 2 and told[1]["submitter"] == "ana"
    status, out, _ = ask(root, server, "ps")
    live, waiting = out.split("WAITING")
    assert status == 0 and "7.0 MiB" in live and "ben" in live and "w1" not in live
    assert "needs 8G of memory" in waiting and "q7" in waiting and waiting.count("ana") == 5
    status, out, _ = ask(root, server, "top")
    assert status == 0 and out.startswith("1 run  memory 7.0 MiB") and "needs 8G" in out


def test_list_of_a_service_elsewhere(root, server):
    rows(server, [RUNNING], [waits(f"w{i}") for i in range(5)])
    status, out, _ = ask(root, server, "list")
    assert status == 0 and [line.split()[:2] for line in out.splitlines()[1:]] == [["a1", "running"], *([f"w{i}", "queued"] for i in range(5))]
    assert [run["id"] for run in json.loads(ask(root, server, "list", "--json", "--state", "queued", "-n", "3")[1])] == ["w0", "w1", "w2"]
    status, out, err = ask(root, server, "list", "-n", "2", "--quest", "q7")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["w0", "w1"] and "--after w1" in err


def test_show_and_logs_of_a_service_elsewhere(root, server):
    server.answers["GET /v1/runs/w1"] = waits("w1")
    status, out, _ = ask(root, server, "show", "w1")
    assert status == 0 and "state    queued\n" in out and "waits    needs 8G of memory; 2 are ahead of it\n" in out and "by       ana" in out
    server.answers["GET /v1/runs/e1"] = {**ended("e1"), "verdict": {"cause": "ok", "completion_notes": "fine", "usage": {"wall_usec": 5}},
                                         "analysis": {"command": ["true"], "runtime": {"name": "base", "rule": "default"}}}
    told = json.loads(ask(root, server, "show", "--json", "e1")[1])
    assert told["completion_notes"] == "fine" and told["usage"] == {"wall_usec": 5} and told["command"] == ["true"]
    assert "notes    fine\n" in ask(root, server, "show", "e1")[1]
    assert ask(root, server, "show", "nosuch")[0] == 2
    server.answers.update({"GET /v1/runs/e1/log/stdout": (200, b"out\xff\n"), "GET /v1/runs/e1/log/stderr": (200, b"err\n")})
    assert ask(root, server, "logs", "e1") == (0, "out\ufffd\n", "err\n")
    assert ask(root, server, "logs", "w1") == (0, "", "")
    assert ask(root, server, "logs", "--json", "e1")[0] == 2


def test_logs_go_on_where_they_were_cut(root, server):
    def stdout(handler):
        if "Last-Event-ID" not in handler.headers:
            handler.stream('id: 4\nevent: log\ndata: {"text": "one\\n"}\n\nid: 8\nevent: log\ndata: {"text"')
        else:
            assert handler.headers["Last-Event-ID"] == "4"
            handler.stream('id: 8\nevent: log\ndata: {"text": "two\\n"}\n\nevent: end\ndata: {"state": "ended"}\n\n')

    server.answers.update({"GET /v1/runs/r1": {**RUNNING, "id": "r1"}, "GET /v1/runs/r1/log/stdout": stdout,
                           "GET /v1/events": lambda handler: handler.stream(":\n\n"),
                           "GET /v1/runs/r1/log/stderr": lambda handler: handler.stream("event: end\ndata: {}\n\n")})
    assert ask(root, server, "logs", "-f", "r1") == (0, "one\ntwo\n", "")


def test_tcp_has_the_token_and_no_proxy(root):
    with scripted.Server() as server:
        server.answers["POST /v1/runs"] = ACCEPTED
        assert ask(root, server, "submit", "--", "true", CUPEL_TOKEN="cupel_abc", http_proxy="http://127.0.0.1:9", ALL_PROXY="http://127.0.0.1:9")[:2] == (0, "r1\n")
        assert server.asked[0][2]["Authorization"] == "Bearer cupel_abc"
        status, _, err = ask(root, server, "submit", "--", "true", CUPEL_TOKEN="a\r\nX: y")
        assert status == 2 and "CUPEL_TOKEN" in err and len(server.asked) == 1
        assert ask(root, server, "submit", "--", "true")[0] == 0 and "Authorization" not in server.asked[1][2]


def test_the_records_of_a_service_here_are_read(fresh):
    """The same home: the records tell of runs, the service of what waits."""
    fresh.run("--", "true", id=U + "m1")
    with scripted.Server(fresh.home / "cupel.sock", fresh.home) as server:
        rows(server, [], [waits(U + "a9"), waits(U + "z1"), waits(U + "m0")])
        process, run_id = begun(fresh, "sleep 1000", id=U + "m2")
        with process:
            listed = json.loads(call(fresh, "list", "--json")[1])
            assert [(run["id"], run["state"]) for run in listed] == [(U + "z1", "queued"), (U + "m0", "queued"), (U + "a9", "queued"), (U + "m2", "running"), (U + "m1", "ended")]
            assert listed[4]["command"] == ["true"]
            server.answers[f"GET /v1/runs/{U}m0"] = waits(U + "m0")
            for words, ids in ((["-n", "2"], "z1 m0"), (["--after", U + "m0"], "a9 m2 m1"), (["--reverse", "-n", "3"], "m1 m2 a9"), (["--state", "queued"], "z1 m0 a9"),
                               (["--state", "queued,ended"], "z1 m0 a9 m1"), (["--cause", "ok"], "m1"), (["--quest", "q7"], "z1 m0 a9"), (["--reverse", "--after", U + "m2"], "a9 m0 z1")):
                out = call(fresh, "list", *words)[1]
                assert [line.split()[0] for line in out.splitlines()[1:]] == [U + name for name in ids.split()], words
            assert f"--after {U}m0" in call(fresh, "list", "-n", "2")[2] and call(fresh, "list", "-n", "5")[2] == ""
            assert [(run["id"], run["phase"]) for run in json.loads(call(fresh, "ps", "--json")[1])] == [(U + "m2", "running"), (U + "a9", "queued"), (U + "z1", "queued"), (U + "m0", "queued")]
            # A run that was made without it is cancelled without it.
            assert call(fresh, "cancel", "--no-wait", U + "m2")[0] == 0 and process.wait(60) == 143
        server.answers[f"GET /v1/runs/{U}a9"] = waits(U + "a9")
        assert "2 are ahead of it" in call(fresh, "show", U + "a9")[1]
        assert call(fresh, "show", "nosuch")[0] == 2 and call(fresh, "show", U + "m1")[0] == 0
    # What it left is no service.
    assert [run["id"] for run in json.loads(call(fresh, "list", "--json")[1])] == [U + "m2", U + "m1"]


def test_a_service_that_does_not_answer_leaves_the_records(fresh):
    fresh.run("--", "true", id=U + "m1")
    with scripted.Server(fresh.home / "cupel.sock", fresh.home) as server:
        server.answers["GET /v1"] = (500, b"")
        for words in (["list"], ["show", U + "m1"], ["ps"], ["logs", U + "m1"]):
            status, _, err = call(fresh, *words)
            assert status == 0 and "records" in err
