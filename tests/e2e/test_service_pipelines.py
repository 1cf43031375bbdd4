"""What goes through the queue beside single runs: pipelines with what they need, pipelines that are gone on with, runs again."""

import contextlib
import json
import sqlite3
import time

import pytest

import cupel as lib
import doors
import services
from doors import sleeper

pytestmark = pytest.mark.skipif(not doors.BINARY.exists(), reason="service: it was not built")
OTHER = {"who": "ana", "uid": lib.USER_ID, "gid": lib.USER_ID}
CAPS = "aggregate: {memory: 256M, cpus: 2, pids: 512}\n"


@pytest.fixture
def made(fresh):
    fresh.configure(CAPS)
    opened = doors.Doors(fresh)
    yield opened
    opened.close()


@pytest.fixture(name="service")
def _service(fresh):
    made = services.Service(fresh, settings="max_running: 1, ").start()
    yield made
    made.stop()


def step(command, memory="32M", **more):
    return {"command": command, "limits": {"memory": memory, "cpus": 0.1, "pids": 16, "disk": "8M"}, **more}


def query(fresh, sql):
    with contextlib.closing(sqlite3.connect(fresh.home / "cupel.db")) as db:
        return db.execute(sql).fetchall()


def failing(fresh):
    """A pipeline that fails as long as there is no file."""
    place = fresh.base / "ana"
    place.mkdir(exist_ok=True)
    (place / "status").write_text("1\n")
    return {"steps": {"s": step("exit $(cat data/status)", inputs=[f"{place}/status"], retries={})}}, place / "status"


def test_what_is_gone_on_with_waits_in_the_queue_like_any_other(made, fresh):
    door = made.ready()
    pipeline, status = failing(fresh)
    run = door.accepted(pipeline, **OTHER)
    assert door.ended(run) == "exit"
    status.write_text("0\n")
    large = door.accepted(sleeper(1000, limits={"memory": "240M", "cpus": 0.1, "pids": 16}))
    door.news(large, "started")
    answer = door.submit({"resume": run}, resume=run, key="k", **OTHER)
    assert (answer["id"], answer["new"]) == (run, True)
    assert lib.wait_until(lambda: door.pending(run)["reason"] == "memory"), door.pending(run)  # once it was looked at
    assert [waiting["id"] for waiting in door.queue()["waiting"]] == [run]
    again = door.submit({"resume": run}, resume=run, key="k", **OTHER)
    assert (again["id"], again["new"]) == (run, False), "the same key is the same"
    assert door.submit({"resume": run}, resume=run, **OTHER)["error"] == "EBUSY"
    door = made.ready()  # killed, and begun again
    assert lib.wait_until(lambda: door.pending(run)["reason"] == "memory"), door.pending(run)
    door.question("cancel", "asked", id=large, scopes=7)
    assert door.ended(run) == "ok"
    door.drain()
    (row,) = query(fresh, f"SELECT id, submitter, uid, state, cause FROM submissions WHERE run = '{run}' AND id <> '{run}'")
    assert row[1:] == ("ana", lib.USER_ID, "ended", "ok")
    assert json.loads((fresh.home / "pipelines" / run / "begun.json").read_text())["submission"] == row[0]


def test_what_is_gone_on_with_is_cancelled_by_the_name_of_the_pipeline(made, fresh):
    door = made.ready()
    pipeline, status = failing(fresh)
    run = door.accepted(pipeline)
    assert door.ended(run) == "exit"
    status.write_text("0\n")
    door.submit({"resume": run}, resume=run, not_before=time.time_ns() + 3600 * 10**9)
    door.question("cancel", "asked", id=run)
    assert not door.queue()["waiting"]
    assert query(fresh, f"SELECT state FROM submissions WHERE run = '{run}' ORDER BY n") == [("ended",), ("cancelled",)]
    assert json.loads((fresh.home / "pipelines" / run / "result.json").read_text())["state"] == "failed", "nothing was begun"


def test_a_pipeline_asks_for_its_largest_step(made):
    door = made.ready()
    large = door.accepted(sleeper(1000, limits={"memory": "100M", "cpus": 0.1, "pids": 16}))
    door.news(large, "started")
    small = door.accepted({"steps": {"a": step("true"), "b": step("true", needs=["a"])}})
    assert door.ended(small) == "ok", "the control: it fits beside"
    waits = door.accepted({"steps": {"a": step("true"), "b": step("true", memory="200M", needs=["a"])}})
    assert lib.wait_until(lambda: door.pending(waits)["reason"] == "memory"), door.pending(waits)
    pending = door.pending(waits)
    assert pending["reason"] == "memory" and "needs 200M" in pending["text"], pending
    never = door.submit({"steps": {"a": step("true", memory="300M")}})
    assert never["error"] == "EINVAL" and "memory 300M" in never["text"] and "ask for at most 256M" in never["text"], never
    door.question("cancel", "asked", id=large)
    assert door.ended(waits) == "ok"


def test_steps_side_by_side_stay_within_what_the_pipeline_was_given(made, fresh):
    """Ten of 32M at once would be 320M; half of the 256M are given, which are four."""
    door = made.ready()
    shards = {"s": step(lib.WAITS, scatter={"n": list(range(8))})}
    file = fresh.dir / "p.yaml"
    file.write_text(json.dumps({"steps": shards}))
    run = door.accepted({"file": str(file), "jobs": 8})
    use = door.question("use", "memory_used")
    assert use["memory_used"] in (0, 128 << 20), use

    def begun():
        return [path.parent.name for path in (fresh.home / "runs").glob(f"{run}-s-*/events.jsonl") if fresh.has_started(path.parent.name)]

    assert lib.wait_until(lambda: len(begun()) >= 4), begun()
    # Admission is over when four boxes are there. A fifth step would have a record by the time that another command was run and the service answered.
    assert fresh.call(fresh.binary, "show", run)[0] == 0
    door.question("use", "memory_used")
    assert len([*(fresh.home / "runs").glob(f"{run}-s-*")]) == 4
    going = set()
    while len(going) < 8:
        assert lib.wait_until(lambda: set(begun()) - going), "the next are started when those before have ended"
        for one in set(begun()) - going:
            fresh.let_go(one)
            going.add(one)
    assert door.ended(run) == "ok"
    marks = []
    for path in (fresh.home / "runs").glob(f"{run}-s-*/events.jsonl"):
        events = {event["event"]: event["time"] for event in map(json.loads, path.read_text().splitlines())}
        marks += [(events["started"], 1), (events["ended"], -1)]
    at_once = most = 0
    for _, change in sorted(marks):
        at_once += change
        most = max(most, at_once)
    assert len(marks) == 16 and 1 < most <= 4


def test_limits_grow_by_retries_no_further_than_what_the_pipeline_was_given(made, fresh):
    door = made.ready()
    greedy = {"steps": {"s": step("head -c 60M /dev/zero | tail -c 60M | wc -c", retries={"oom": {"times": 2, "factor": 6}})}}
    run = door.accepted(greedy)
    assert door.ended(run) == "oom"
    assert len(list((fresh.home / "runs").glob(f"{run}-s-*"))) == 1
    wide = {"steps": {**greedy["steps"], "t": step("true", memory="200M")}}
    run = door.accepted(wide)
    assert door.ended(run) == "ok", "the control: there is as much to grow to"
    assert len(list((fresh.home / "runs").glob(f"{run}-s-*"))) == 2


def test_a_step_that_wants_more_than_the_pipeline_was_given_is_refused(fresh):
    """It was less when the pipeline was admitted: its file has changed since."""
    file = fresh.dir / "p.yaml"
    file.write_text(json.dumps({"steps": {"s": step("true")}}))
    status, _, err = fresh.call(fresh.binary, "run", file, env={"CUPEL_GIVEN": f"{16 << 20},100,16"})
    assert status == 2 and "memory: 32M is more than the 16M with which the service has admitted the pipeline" in err, err
    status, _, err = fresh.call(fresh.binary, "run", file, env={"CUPEL_GIVEN": f"{32 << 20},100,16"})
    assert status == 0, err


def test_a_pipeline_that_cannot_be_read_is_refused_while_somebody_listens(made):
    door = made.ready()
    answer = door.submit({"steps": {"a": step("true", needs=["nothing"])}})
    assert answer["error"] == "EINVAL" and "nothing" in answer["text"]
    answer = door.submit({"file": "/nowhere/p.yaml"}, **OTHER)
    assert "error" in answer and "/nowhere/p.yaml" in answer["text"]


def test_a_run_again_is_refused_if_what_it_was_made_of_has_changed(service, fresh):
    place = fresh.base / "data"
    place.mkdir()
    (place / "x").write_text("then\n")
    run = service.post("/v1/runs", {"analysis": {"command": ["cat", "data/x"], "inputs": [f"{place}/x"]}}).json["id"]
    assert service.wait(run)["cause"] == "ok"
    headers = {"Idempotency-Key": "one"}
    first = service.post(f"/v1/runs/{run}/rerun", headers=headers)
    assert first.status == 201
    again = service.post(f"/v1/runs/{run}/rerun", headers=headers)
    assert (again.status, again.json["id"]) == (200, first.json["id"])
    service.wait(first.json["id"])
    assert json.loads((fresh.run_dir(first.json["id"]) / "analysis.json").read_text())["rerun_of"] == run
    (place / "x").write_text("now\n")
    assert service.post(f"/v1/runs/{run}/rerun", headers=headers).json["id"] == first.json["id"], "whatever has changed since"
    assert service.post(f"/v1/runs/{run}/rerun", headers={"Idempotency-Key": "two"}).status == 409
    refused = service.post(f"/v1/runs/{run}/rerun")
    assert (refused.status, refused.code) == (409, "changed") and f"{place}/x has changed" in refused.json["error"]["message"]
    anyway = service.post(f"/v1/runs/{run}/rerun", {"anyway": True})
    assert anyway.status == 201
    ended = service.wait(anyway.json["id"])
    assert ended["cause"] == "ok" and ended["provenance"]["rerun_of"] == run
    assert service.post(f"/v1/runs/{run}/rerun", {"odd": 1}).status == 400
    assert service.post(f"/v1/runs/{run}/rerun", {"anyway": 1}).status == 400


def test_who_may_name_a_step_that_takes_outputs(fresh):
    table = fresh.base / "platform.db"
    with contextlib.closing(sqlite3.connect(table)) as db:
        db.execute("CREATE TABLE t (x)")
    said = "{command: ['true'], database: 'sqlite:%s'%s}" % (table, "%s")
    steps = f"post_processes: {{closed: {said % ''}, open: {said % ', submitters: [ana]'}}}\n"
    fresh.configure(steps)
    opened = doors.Doors(fresh)
    try:
        door = opened.ready()

        def told(name, **who):
            later = time.time_ns() + 3600 * 10**9
            return door.submit({**sleeper(0), "post_process": name}, not_before=later, **who).get("error")
        assert told("closed", **OTHER) == "EPERM"
        assert told("open", **OTHER) is None
        assert told("open", **{**OTHER, "who": "eve"}) == "EPERM"
        assert told("closed", scopes=7) is None, "root, as the socket lets it in"
        assert told("closed") == "EPERM", "a token of root without the scope admin"
        assert told("closed", **{**OTHER, "who": "token:x"}, scopes=7) is None, "who may do everything"
        assert told("closed", who="token:x") == "EPERM", "root's files, not root's rights"
    finally:
        opened.close()


def test_nobody_takes_ids_that_what_another_has_may_come_to(made, fresh):
    door = made.ready()
    later = time.time_ns() + 3600 * 10**9
    door.accepted({"steps": {"s": step("true")}}, id="flow", not_before=later, **OTHER)
    door.accepted(sleeper(), id="single", not_before=later, **OTHER)
    eve = {"who": "eve", "uid": lib.USER_ID + 1, "gid": lib.USER_ID + 1}
    for taken in ("flow-s-1", "flow-s-7-2", "single.2", "single-post"):
        answer = door.submit(sleeper(), id=taken, not_before=later, **eve)
        assert answer.get("error") == "EEXIST" and "is taken" in answer["text"], (taken, answer)
        assert door.submit(sleeper(), id=taken, not_before=later, key=taken, **eve).get("error") == "EEXIST"
        assert "error" not in door.submit(sleeper(), id=taken, not_before=later, **OTHER), "one's own"
    for free in ("flow-2", "flowers-s-1", "single-s-1", "single.x", "other.2"):
        door.accepted(sleeper(), id=free, not_before=later, **eve)
    ended = door.accepted({"steps": {"s": step("false")}}, **OTHER)
    assert door.ended(ended) == "exit"
    assert door.submit(sleeper(), id=f"{ended}-s-2", not_before=later, **eve)["error"] == "EEXIST", "it may be gone on with"
    door.accepted(sleeper(), id=f"{ended}-s-3", not_before=later, **OTHER)


def test_many_pipelines_at_once_are_looked_at_one_after_the_other(made):
    door = made.ready()
    later = time.time_ns() + 3600 * 10**9
    for number in range(60):
        analysis = {"steps": {"s": step("true", **({"needs": ["nothing"]} if number % 3 == 0 else {}))}}
        door.ask("submit", tag=f"m{number}", analysis=analysis, not_before=later, key=f"k{number}" if number % 2 else None)
    answers = [door.wait(lambda heard, number=number: heard.get("tag") == f"m{number}") for number in range(60)]
    assert [answer.get("error") for answer in answers] == ["EINVAL" if number % 3 == 0 else None for number in range(60)]
    assert len(door.queue()["waiting"]) == 40
    door.drain()


def test_many_questions_of_one_submitter_do_not_hold_up_another(made):
    """His wait for each other, two at a time; all are answered, whoever came first first."""
    door = made.ready()
    later = time.time_ns() + 3600 * 10**9
    pipeline = {"steps": {f"s{number}": step("true") for number in range(200)}}
    for number in range(40):
        door.ask("submit", tag=f"e{number}", analysis=pipeline, not_before=later, who="eve", uid=lib.USER_ID + 1, gid=lib.USER_ID + 1)
    anas = door.submit(pipeline, not_before=later, **OTHER)
    heard = list(door.heard)
    before = [answer.get("tag") for answer in heard[:heard.index(anas)]]  # not what came while we were slow
    assert not all(f"e{number}" in before for number in range(40)), "ana has not waited for all of eve's"
    for number in range(40):
        assert "error" not in door.wait(lambda heard, number=number: heard.get("tag") == f"e{number}")
    door.drain()
