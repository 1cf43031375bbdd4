"""A service that is root's, and submitters who are not: pipelines, ids of others, and what an administrator does for them."""

import concurrent.futures
import contextlib
import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import threading
import time

import pytest

import cupel as lib
import doors
import services

pytestmark = pytest.mark.skipif(not doors.BINARY.exists(), reason="service: it was not built")
OTHER = {"who": "ana", "uid": lib.USER_ID, "gid": lib.USER_ID}


@pytest.fixture
def made(fresh):
    opened = doors.Doors(fresh)
    yield opened
    opened.close()


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(name="hidden")
def _hidden(fresh):
    """What all could read, if they could get there."""
    place = fresh.base / "hidden"
    place.mkdir()
    (place / "x-secret").write_text("secret\n")
    (place / "x-secret").chmod(0o644)
    place.chmod(0o700)
    return place


def test_a_pattern_matches_nothing_that_its_submitter_could_not_list(made, fresh, hidden):
    door = made.ready()
    (fresh.base / "shown").mkdir(mode=0o755)
    (fresh.base / "shown/x-open").write_text("open\n")
    analysis = {"steps": {"s": {"command": "echo {{f}}", "scatter": {"f": {"glob": f"{fresh.base}/*/x-*"}}}}}

    def shards(**who):
        run = door.accepted(analysis, **who)
        assert door.ended(run) == "ok"
        return read(fresh.home / "pipelines" / run / "pipeline.json")["steps"][0]["shards"]
    assert shards() == 2, "root's own"
    assert shards(**OTHER) == 1
    hidden.chmod(0o755)
    assert shards(**OTHER) == 2


def plan_for_other(fresh, step):
    """The plan of a pipeline that root makes for ana."""
    file = fresh.dir / "p.yaml"
    file.write_text(json.dumps({"steps": {"s": step}}))
    env = {"CUPEL_SUBMITTER": f"{lib.USER_ID}:{lib.USER_ID}"}
    return fresh.call(fresh.binary, "plan", "--json", file, env=env)


def test_a_script_is_read_with_the_rights_of_whom_it_is_for(fresh, hidden):
    script = hidden / "s.sh"
    script.write_text("# /// script\n# [tool.cupel]\n# runtime = 'secret-name'\n# ///\necho\n")
    script.chmod(0o600)
    hidden.chmod(0o755)
    status, out, err = plan_for_other(fresh, {"code": str(script)})
    assert status == 2 and "secret-name" not in out + err and "Permission denied" in err, err
    script.chmod(0o644)
    status, out, err = plan_for_other(fresh, {"code": str(script)})
    assert status == 2 and "secret-name" in err, "the control: it is read"


def test_a_key_is_made_of_what_its_submitter_may_read(fresh, hidden):
    step = {"command": "cat data/x", "inputs": [{"path": f"{hidden}/x-secret", "name": "x"}]}
    status, _, err = plan_for_other(fresh, step)
    assert status == 2 and "Permission denied" in err, "not even that it is there"
    (hidden / "x-secret").chmod(0o600)
    hidden.chmod(0o755)
    status, out, err = plan_for_other(fresh, step)
    assert status == 0 and "has no key" in out, (out, err)
    (hidden / "x-secret").chmod(0o644)
    assert "has no key" not in plan_for_other(fresh, step)[1]


def test_what_a_step_made_is_cupels_word_alone(fresh, hidden):
    """An analysis that says so of its input is believed no more than any other."""
    given = {"path": f"{hidden}/x-secret", "name": "x", "step": "align"}
    file = fresh.dir / "one.yaml"
    env = {"CUPEL_SUBMITTER": f"{lib.USER_ID}:{lib.USER_ID}"}

    def run(**more):
        file.write_text(json.dumps({"command": "cat data/x", "inputs": [given]}))
        return fresh.call(fresh.binary, "run", "--quiet", file, **more)

    status, out, err = run(env=env)
    assert status == 2 and "secret" not in out and "Permission denied" in err, (out, err)
    status, out, err = run()
    assert (status, out) == (0, "secret\n"), f"the control: root's own, {err}"
    hidden.chmod(0o755)
    status, out, err = run(env=env)
    assert (status, out) == (0, "secret\n"), err


@pytest.mark.parametrize("owner", [0, lib.USER_ID])
def test_a_directory_at_the_path_of_a_run_is_its_submitters_or_refused(fresh, owner):
    """Root runs it for ana: only hers is left alone and worked beside, not what root or anybody else has there."""
    for_ana = {"CUPEL_SUBMITTER": f"{lib.USER_ID}:{lib.USER_ID}"}
    answers = []
    for env in (for_ana, {}):
        run_id = fresh.new_id()
        place = fresh.work_dir(run_id)
        place.mkdir()
        (place / "kept").write_text("x", encoding="utf-8")
        os.chown(place, owner, owner)
        try:
            answers.append(fresh.call(fresh.binary, "run", "--quiet", "--id", run_id, "--", "sh", "-c", "pwd; ls kept", env=env)[:2])
            assert os.listdir(place) == ["kept"]
        finally:
            (place / "kept").unlink()
            place.rmdir()
        expected = (2, f"{place}\n") if owner == (lib.USER_ID if env else 0) else (125, "")
        assert answers[-1] == expected, (env, answers)


def checkpointed(**more):
    """Says what it finds in its checkpoint, and leaves something there for the next run of the same analysis."""
    return {"command": ["sh", "-c", "cat saved/n; echo found > saved/n; exit 3"], "checkpoint": "saved",
            "limits": {"memory": "64M", "disk": "16M", "cpus": 0.1}, **more}


def test_a_checkpoint_is_of_its_submitter_alone(made, fresh):
    door = made.ready()
    runs = fresh.home / "runs"

    def found(who, analysis):
        run = door.accepted(analysis, **who)
        assert door.ended(run) == "exit"
        (step,) = runs.glob(f"{run}*")
        return (step / "stdout.log").read_text()
    ana, bo = OTHER, {**OTHER, "who": "bo"}
    for analysis in (checkpointed(), {"steps": {"s": checkpointed(retries={})}}):
        assert [found(who, analysis) for who in (ana, bo, {})] == [""] * 3, "each begins at the beginning"
        assert [found(who, analysis) for who in (ana, bo, {})] == ["found\n"] * 3, "the control: and finds what is its own"
    keys = {read(path)["checkpoint_key"] for path in runs.glob("*/analysis.json")}
    assert len(keys) == 6 == len([path for path in (fresh.home / "checkpoints").iterdir() if path.is_dir()])


def test_a_checkpoint_that_another_user_holds_locks_nobody_out(made, fresh):
    door = made.ready()
    analysis = doors.held(checkpoint="saved")
    first = door.accepted(analysis, **OTHER)
    assert lib.wait_until(lambda: (fresh.home / "runs" / first / "receipt.json").exists())
    other = door.accepted(analysis, **{**OTHER, "who": "bo"})
    assert lib.wait_until(lambda: (fresh.home / "runs" / other / "receipt.json").exists()), "it begins beside it"
    same = door.accepted(analysis, **OTHER)
    assert door.ended(same) == "refused", "the control: the same user's own is one at a time"
    for run in (first, other):
        assert lib.wait_until(lambda run=run: doors.let_go(run))
        assert door.ended(run) == "ok"


def test_who_goes_on_with_a_pipeline_does_so_for_its_submitter(made, fresh, hidden):
    door = made.ready()
    place = fresh.base / "ana"
    place.mkdir()
    (place / "x").write_text("open\n")
    step = {"command": "cat data/x > out/x; exit $(cat data/status)", "inputs": [f"{place}/x", f"{place}/status"], "outputs": ["out/x"], "retries": {}}
    (place / "status").write_text("1\n")
    run = door.accepted({"steps": {"s": step}}, **OTHER)
    assert door.ended(run) == "exit"
    (place / "x").unlink()
    (place / "x").symlink_to(hidden / "x-secret")
    (place / "status").write_text("0\n")
    status, _, err = fresh.call(fresh.binary, "resume", run)
    assert status != 0 and "Permission denied" in err, err
    assert not any(b"secret" in path.read_bytes() for path in (fresh.home / "runs").rglob("out/x"))
    hidden.chmod(0o755)
    status, _, err = fresh.call(fresh.binary, "resume", run)
    assert status == 0, err


def test_a_pipeline_that_somebody_runs_himself_is_not_followed_nor_ended(made, fresh):
    door = made.ready()
    file = fresh.dir / "p.yaml"
    file.write_text(json.dumps({"steps": {"s": {"command": "sleep 1000"}}}))
    blocker = door.accepted(doors.sleeper(1000, limits={"memory": "32M", "cpus": 64, "pids": 16}))
    door.news(blocker, "started")
    small = {"command": "true", "limits": {"cpus": 64}}
    for name, analysis in (("roots", {"steps": {"s": small}}), ("single", small)):
        door.accepted(analysis, id=name, **OTHER)
    with fresh.popen(fresh.binary, "run", "--quiet", "--id", "roots", file) as roots, \
            fresh.popen(fresh.binary, "run", "--quiet", "--id", "single", "--", "sleep", "1000") as single:
        try:
            assert lib.wait_until((fresh.home / "pipelines/roots/pipeline.json").exists)
            assert lib.wait_until((fresh.home / "runs/single/analysis.json").exists)
            door.question("cancel", "asked", id=blocker, scopes=7)
            for name in ("roots", "single"):
                assert door.ended(name) == "refused", name
            assert roots.poll() is None and single.poll() is None
            assert not (fresh.home / "pipelines/roots/result.json").exists()
        finally:
            for process in (roots, single):
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) != 0
    door.drain()

    def count(what):
        with contextlib.closing(sqlite3.connect(fresh.home / "cupel.db")) as db:
            return db.execute(f"SELECT count(*) FROM {what}").fetchone()[0]
    assert fresh.call(fresh.binary, "gc")[0] == 0
    assert lib.wait_until(lambda: count("runs WHERE id = 'single'") == 1)
    assert count("submission_runs WHERE run IN ('roots', 'single')") == 0, "it is not ana's"


def test_a_key_lays_nothing_over_the_id_of_another(made, fresh):
    """Whoever has the id, waits, runs, or runs it himself: what has a key is refused as what has none."""
    door = made.ready()
    later = time.time_ns() + 3600 * 10**9
    door.accepted(doors.sleeper(), id="waits", not_before=later)
    assert fresh.call(fresh.binary, "run", "--quiet", "--id", "roots", "--", "true")[0] == 0
    pipeline = {"steps": {"s": {"command": "true"}}}
    for name in ("waits", "roots"):
        for analysis in (pipeline, doors.sleeper()):
            assert door.submit(analysis, id=name, not_before=later, **OTHER)["error"] == "EEXIST"
            answer = door.submit(analysis, id=name, key="k", not_before=later, **OTHER)
            assert answer["error"] == "EEXIST" and "is taken" in answer["text"], answer
    assert [waiting["id"] for waiting in door.queue()["waiting"]] == ["waits"]
    own = door.submit(pipeline, id="own", key="own", not_before=later, **OTHER)
    again = door.submit(pipeline, id="own", key="own", not_before=later, **OTHER)
    assert (own["new"], again["new"], again["id"]) == (True, False, "own"), "what the key has made is still found"
    other = door.submit(doors.sleeper(), id="own", key="own", not_before=later, **OTHER)
    assert other["error"] == "EEXIST" and "this key was used" in other["text"], other
    for number in range(20):  # while they are looked at, the one that waits can be seen and cancelled
        door.ask("submit", tag=f"shadow{number}", analysis=pipeline, id="waits", key=f"s{number}", **OTHER)
    door.question("cancel", "asked", id="waits")
    for number in range(20):
        answer = door.wait(lambda heard, number=number: heard.get("tag") == f"shadow{number}")
        assert answer["error"] == "EEXIST", answer
    door.drain()


def test_layers_may_be_missing_in_steps_only_where_they_may_in_runs(made, fresh):
    door = made.ready()
    step = {"command": "true", "allow_missing": ["landlock"]}
    assert door.submit(step, **OTHER)["error"] == "EPERM"
    assert door.submit({"steps": {"s": step}}, **OTHER)["error"] == "EPERM"
    assert door.submit({"steps": {"s": step}})["error"] == "EPERM", "root's rights on files are not the scope admin"
    assert door.ended(door.accepted({"steps": {"s": step}}, scopes=7)) == "ok"


@pytest.fixture(name="service")
def _service(fresh):
    made = services.Service(fresh).start()
    fresh.home.chmod(0o711)
    made.socket.chmod(0o666)
    yield made
    made.stop()


@contextlib.contextmanager
def stopped(service):
    try:
        yield service
    finally:
        service.stop()


def as_other(service, script, **options):
    """Python as another user, with ask(METHOD, PATH, BODY)."""
    begin = f"""
import http.client, json, os, socket, sys
os.setgroups([]); os.setgid({lib.USER_ID}); os.setuid({lib.USER_ID})
def connect():
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); return s
def ask(method, path, body=None):
    c = http.client.HTTPConnection("localhost"); c.sock = connect()
    c.request(method, path, body and json.dumps(body), {{"Content-Type": "application/json"}}); r = c.getresponse()
    return r.status, json.loads(r.read())
"""
    return subprocess.Popen(["/usr/bin/python3", "-c", begin + script, str(service.socket)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


def test_who_was_removed_is_let_in_no_more_and_the_next_of_that_uid_is_not_taken_for_him(fresh):
    """With a table of users that is this service's alone."""
    users = fresh.base / "passwd"
    others = "".join(line + "\n" for line in open("/etc/passwd", encoding="utf-8").read().splitlines() if f":{lib.USER_ID}:" not in line)

    def know(name, uid=lib.USER_ID):
        users.write_text(others + (f"{name}:x:{uid}:{uid}::/:/bin/false\n" if name else ""), encoding="utf-8")
    know("ana")
    alone = ("unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', users)
    with stopped(services.Service(fresh, tcp=True, prefix=alone).start()) as service:
        fresh.home.chmod(0o711)
        service.socket.chmod(0o666)
        bearer = {"Authorization": "Bearer " + service.token("ci", "--user", "ana")}

        def by_token():
            return service.get("/v1", headers=bearer, tcp=True).status

        def by_socket():
            with as_other(service, "print(json.dumps(ask('GET', '/v1')[1]['identity']['name']))") as other:
                return json.loads(other.communicate(timeout=60)[0])

        def notes():
            out = fresh.call(*alone, fresh.binary, "token", "list", "--json")[1]
            return [token.get("note") for token in json.loads(out)]
        assert (by_token(), by_socket(), notes()) == (200, "ana", [None])
        know(None)
        assert (by_token(), by_socket()) == (401, f"uid:{lib.USER_ID}")
        know("bo")
        assert (by_token(), by_socket()) == (401, "bo"), "who has the uid now"
        know("ana", lib.USER_ID + 1)
        assert (by_token(), by_socket()) == (401, f"uid:{lib.USER_ID}"), "who has the name now"
        assert notes() == ["invalid: its user was removed"]
        know("ana")
        assert (by_token(), by_socket()) == (200, "ana"), "the control: it was this that kept it out"


def test_what_an_administrator_runs_again_has_the_rights_of_its_submitter(service, fresh, hidden):
    place = fresh.base / "ana"
    place.mkdir()
    (place / "x").write_text("open\n")
    analysis = {"command": ["cat", "data/x"], "inputs": [{"path": f"{place}/x", "name": "x"}]}
    with as_other(service, f"print(ask('POST', '/v1/runs', {{'analysis': {analysis!r}}})[1]['id'])") as other:
        run = other.communicate(timeout=60)[0].strip()
    assert service.wait(run)["cause"] == "ok"

    def again(body=None):
        answer = service.post(f"/v1/runs/{run}/rerun", body)
        return service.wait(answer.json["id"])["cause"] if answer.status == 201 else answer.status
    assert again() == "ok"
    (place / "x").unlink()
    (place / "x").symlink_to(hidden / "x-secret")
    assert again() == again({"anyway": True}) == 403
    hidden.chmod(0o755)
    assert again() == 409, "it is something else"
    assert again({"anyway": True}) == "ok"


def test_who_submitted_a_pipeline_may_go_on_with_it_and_nobody_else(service):
    pipeline = {"steps": {"s": {"command": ["false"], "limits": {"memory": "32M", "disk": "8M"}}}}
    roots = service.post("/v1/runs", {"analysis": pipeline}).json["id"]
    with as_other(service, f"print(ask('POST', '/v1/runs', {{'analysis': {pipeline!r}}})[1]['id'])") as other:
        own = other.communicate(timeout=60)[0].strip()

    def is_over(name):
        """For the service too, which hears of it after its record says so: then it is no run of the queue any more."""
        return service.get(f"/v1/pipelines/{name}").json.get("state") == "failed" and service.get(f"/v1/runs/{name}").status == 404

    for name in (roots, own):
        assert lib.wait_until(lambda name=name: is_over(name)), service.get(f"/v1/pipelines/{name}").body
    with as_other(service, f"print([ask('POST', f'/v1/pipelines/{{name}}/resume')[0] for name in ({roots!r}, {own!r})])") as other:
        assert json.loads(other.communicate(timeout=60)[0]) == [404, 201], "another's is as if it were not there"
    runs = service.caller.home / "runs"
    assert lib.wait_until(lambda: len(list(runs.glob(f"{own}-s-*/verdict.json"))) == 2), "it was run again"
    assert len(list(runs.glob(f"{roots}-s-*"))) == 1


def test_a_plan_of_a_pipeline_has_the_rights_of_who_asks(service, fresh, hidden):
    """By its steps and by its file: what it names, and the file itself."""
    place = fresh.base / "ana"
    place.mkdir()
    (place / "x").write_text("open\n")
    shown = {"steps": {"s": {"command": "cat data/x", "inputs": [{"path": f"{place}/x", "name": "x"}]}}}
    secret = {"steps": {"s": {"command": "cat data/x", "inputs": [{"path": f"{hidden}/x-secret", "name": "x"}]}}}
    (place / "p.yaml").write_text(json.dumps({**shown, "parameters": {"n": 1}}))
    (place / "q.yaml").write_text(json.dumps(secret))
    (hidden / "p.yaml").write_text(json.dumps(shown))
    (hidden / "p.yaml").chmod(0o644)
    asked = [shown, secret, {"file": f"{place}/p.yaml", "parameters": {"n": 2}}, {"file": f"{place}/q.yaml"}, {"file": f"{hidden}/p.yaml"}, {"file": "p.yaml"}]
    script = f"print(json.dumps([ask('POST', '/v1/plan', {{'analysis': a}}) for a in json.loads({json.dumps(asked)!r})]))"

    def plans():
        with as_other(service, script) as other:
            return json.loads(other.communicate(timeout=60)[0])
    answers = plans()
    assert [status < 300 for status, _ in answers] == [True, False, True, False, False, False], answers
    assert all("Permission denied" in answers[i][1]["error"]["message"] for i in (1, 3, 4)), answers
    assert len(answers[0][1]["steps"]) == len(answers[2][1]["steps"]) == 1, answers
    hidden.chmod(0o755)
    assert [status < 300 for status, _ in plans()] == [True] * 5 + [False]
    unfit = {"steps": {"s": {"command": "true", "runtime": "nothing-of-this-name"}}}
    (fresh.base / "u.yaml").write_text(json.dumps(unfit))
    with as_other(service, f"print(ask('POST', '/v1/plan', {{'analysis': {{'file': {str(fresh.base / 'u.yaml')!r}}}}})[0])") as other:
        assert other.communicate(timeout=60)[0] == "400\n"
    assert not list((fresh.home / "tmp").glob("serve-*")), "nothing is left"
    assert [service.post("/v1/plan", {"analysis": a}).status for a in asked] == [200] * 5 + [400], "root's own"
    left, other = (fresh.home / "tmp" / name for name in ("serve-0.yaml", "0.yaml"))
    for path in (left, other):
        path.write_text("")
    service.stop()
    service.start()
    assert (left.exists(), other.exists()) == (False, True), "what a killed service has left is removed"
    other.unlink()


@pytest.mark.alone  # the service ends silent connections after 30 s: on a busy machine that may be before all are counted
def test_one_user_cannot_have_all_connections(service):
    """As many as one address has, and then no more until some have ended; root has no such limit."""
    script = """
import select, time
held = [connect() for _ in range(1500)]
poll = select.poll()
for s in held:
    poll.register(s, select.POLLIN | select.POLLHUP)
end = time.monotonic() + 25  # after 30 the service ends those that say nothing
while len(ended := poll.poll(100)) < 476 and time.monotonic() < end:
    pass
print(len(held) - len(ended), flush=True)
sys.stdin.readline()
"""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 2000:
        pytest.skip(f"files: only {hard} descriptors are allowed")
    with as_other(service, script, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))) as other:
        assert other.stdout.readline() == "1024\n"
        assert service.get("/v1").status == 200
        other.communicate("\n", timeout=60)

    def is_let_in():
        with as_other(service, "print(ask('GET', '/v1')[0])") as other:
            return other.communicate(timeout=60)[0] == "200\n"
    assert lib.wait_until(is_let_in), "once the service has seen a thousand ends"


def test_large_bodies_that_never_end_leave_room_for_others(service):
    head = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    large = {"analysis": {"command": ["true", "x" * 900000]}}
    small = {"analysis": {"odd": 1}}
    held = []
    assert service.post("/v1/runs", large).status == 400, "too long for a command, but heard"
    for _ in range(200):
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].connect(str(service.socket))
        held[-1].sendall(head % (1 << 20) + b" " * (1 << 19))
    assert lib.wait_until(lambda: service.post("/v1/runs", large).status == 503)
    assert service.post("/v1/runs", small).status == 400
    for s in held:
        s.close()
    assert lib.wait_until(lambda: service.post("/v1/runs", large).status == 400)


def loop_cpu_s(service):
    """Of the thread that does everything."""
    pid = service.process.pid
    with open(f"/proc/{pid}/task/{pid}/stat", encoding="ascii") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def fill(service, n):
    """So many that wait until the test is over."""
    connection = service.connect()
    body = json.dumps({"analysis": {"command": ["true"], "name": "n" * 100}, "not_before": "2099-01-01T00:00:00Z"})
    for _ in range(n):
        connection.request("POST", "/v1/runs", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        assert response.status == 201
    connection.close()


def test_who_asks_for_all_that_waits_does_not_hold_up_the_service(service):
    """The more there is, the less often it is looked at anew: the control is what one look costs."""
    fill(service, 3000)
    for path in ("/v1/queue", "/v1/runs?limit=1"):
        before = loop_cpu_s(service)
        for _ in range(10):  # apart from each other, so that each is made anew
            asked = time.monotonic()
            assert service.get(path).status == 200
            answered = time.monotonic()
            # It is made anew after four times as long as it took, which was less than the whole answer.
            assert lib.wait_until(lambda at=answered, took=answered - asked: time.monotonic() > at + max(0.3, 5 * took))
        apart = loop_cpu_s(service) - before
        before = loop_cpu_s(service)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _, p=path: service.get(p).status, range(100))) == {200}
        assert loop_cpu_s(service) - before < apart * 5, path  # ten times as many


def test_long_answers_that_nobody_takes_leave_room_for_others(service):
    fill(service, 1000)
    ask = b"GET /v1/runs?limit=500 HTTP/1.1\r\nHost: x\r\n\r\n"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 3000:
        pytest.skip(f"files: only {hard} descriptors are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3000, hard))
    assert service.get("/v1/runs?limit=500").status == 200
    held = []
    try:
        for _ in range(1000):
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].connect(str(service.socket))
            held[-1].sendall(ask)
        assert lib.wait_until(lambda: service.get("/v1/runs?limit=500").status == 503, 60)
        assert service.get("/v1/runs?limit=5").status == 200
    finally:
        for s in held:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert lib.wait_until(lambda: service.get("/v1/runs?limit=500").status == 200, 60)


def test_a_stranger_uses_up_only_what_he_may_ask_himself(fresh):
    """Pages need no token; a script without one, elsewhere, is not to take them from everybody."""
    with stopped(services.Service(fresh, tcp=True).start()) as service:

        def answered(n, source):
            """How many of n requests, sent all at once; after one that is too many there is no more."""
            ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
            got = b""

            def send(s):
                with contextlib.suppress(OSError):
                    s.sendall((ask + b"\r\n") * (n - 1) + ask + b"Connection: close\r\n\r\n")
            with socket.create_connection(("127.0.0.1", service.port), 60, (source, 0)) as s:
                sender = threading.Thread(target=send, args=(s,))
                sender.start()
                with contextlib.suppress(ConnectionResetError):
                    while piece := s.recv(1 << 20):
                        got += piece
                sender.join()
            return got.count(b"HTTP/1.1 200")
        assert answered(40000, "127.0.0.2") < 40000
        assert answered(3000, "127.0.0.1") == 3000


def test_a_file_in_the_place_of_the_socket_stays(fresh):
    service = services.Service(fresh, settings=f"socket: {fresh.base}/precious, ")
    (fresh.base / "precious").write_text("precious\n")
    with fresh.popen(fresh.binary, "serve", stderr=subprocess.PIPE) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(lib.RUN_LIMIT_S)
        process.terminate()
        assert b"precious" in process.communicate(timeout=60)[1]
        assert process.returncode == 125
    assert (fresh.base / "precious").read_text() == "precious\n", service
