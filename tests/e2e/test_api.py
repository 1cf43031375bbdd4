"""The HTTP interface: runs and pipelines from submission to record, lists, files, logs, streams of events, and the queue."""

import contextlib
import re

import cupel as lib
from api_service import _outside, _service, bearer, serving  # noqa: F401  (fixtures)


def test_a_run_from_submission_to_its_record(service):
    run_id = service.submit("sh", "-c", "echo out; echo err >&2; printf 'a,b\\n1,2\\n' > out/t.csv",
                            analysis={"name": "a title", "quest": "q"})
    run = service.wait(run_id)
    assert (run["cause"], run["exit_status"], run["name"], run["quest"], run["submitter"]) == ("ok", 0, "a title", "q", "root")
    assert [phase["phase"] for phase in run["timeline"]] == ["queue", "prepare", "run", "collect"]
    assert run["limits"]["memory"]["limit"] == run["memory_limit_bytes"] > run["limits"]["memory"]["used"]
    assert service.get(f"/v1/runs/{run_id}/log/stdout").body == b"out\n"
    assert service.get(f"/v1/runs/{run_id}/log/stderr").body == b"err\n"
    assert [event["event"] for event in service.get(f"/v1/runs/{run_id}/events").json["events"]] == [e["event"] for e in run["events"]]
    outputs = service.get(f"/v1/runs/{run_id}/outputs").json
    assert [(o["path"], o["bytes"], o["preview"]) for o in outputs["outputs"]] == [("out/t.csv", 8, "table")]
    assert service.get(f"/v1/runs/{run_id}/preview/out/t.csv").json == {"kind": "table", "columns": ["a", "b"], "rows": [["1", "2"]], "truncated": False}
    usage = service.get(f"/v1/runs/{run_id}/usage?points=2").json
    assert usage["columns"][:2] == ["t_ms", "mem"] and len(usage["rows"]) <= 2
    rows = service.get("/v1/runs?quest=q").json["runs"]
    assert [row["id"] for row in rows] == [run_id] and rows[0]["submitter"] == "root"


def test_an_ordinary_user_is_served_by_his_own_service(user):
    with serving(user) as service:
        told = service.get("/v1").json
        assert told["identity"]["name"] == "root"  # who runs this test
        run = service.wait(service.submit("true"))
        assert run["cause"] == "ok"


def test_lists_go_page_by_page(service):
    ids = [service.submit("true", analysis={"quest": f"q{i % 2}"}) for i in range(5)]
    for run_id in ids:
        service.wait(run_id)
    # Their order is that of one moment: what is on its way to the ledger may change places.
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    seen, after = [], ""
    while after is not None:
        page = service.get(f"/v1/runs?limit=2&after={after}").json
        assert len(page["runs"]) <= 2
        seen += [run["id"] for run in page["runs"]]
        after = page["next"]
    assert sorted(seen) == sorted(ids)
    oldest = [run["id"] for run in service.get("/v1/runs?order=oldest").json["runs"]]
    assert oldest == seen[::-1]
    assert service.get("/v1/runs").json["total"] == 5
    assert {run["quest"] for run in service.get("/v1/runs?quest=q0").json["runs"]} == {"q0"}
    assert service.get("/v1/runs?quest=q0,q1").json["total"] == 5
    assert service.get("/v1/runs?cause=oom").json["runs"] == []
    assert len(service.get(f"/v1/runs?q={ids[3]}").json["runs"]) == 1
    assert service.get("/v1/runs?q=%25").json["runs"] == [], "no wildcard"
    assert service.get("/v1/runs?submitter=root&limit=500").json["total"] == 5
    assert service.get("/v1/runs?submitter=nobody").json["runs"] == []
    # One that is in the ledger and still to be put there, as each is for a moment, is one.
    owed = service.caller.home / "undelivered" / ids[4]
    owed.touch()
    page = service.get("/v1/runs").json
    owed.unlink(missing_ok=True)
    assert (page["total"], len(page["runs"])) == (5, 5)
    for wrong in ("limit=501", "limit=x", "state=odd", "order=odd", "since=odd", "limit=1&limit=2"):
        assert service.get(f"/v1/runs?{wrong}").status == 400, wrong


def test_either_database_gives_the_same_lists(kept):
    with serving(kept.caller, config=f"ledger: {{url: '{kept.db.url}'}}\n") as service:
        ids = [service.submit(command, analysis={"quest": quest, "name": f"100% of {quest}"}) for command, quest in
               (("true", "b"), ("false", "a"), ("true", "B"), ("true", "a"))]
        never = service.submit("true", analysis={"quest": "n"}, not_before="2099-01-01T00:00:00Z")
        assert service.post(f"/v1/runs/{never}/cancel").status == 202
        for run_id in ids:
            service.wait(run_id)
        assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0 and service.state(never) == "ended")

        def listed(query):
            page = service.get(f"/v1/runs?{query}")
            assert page.status == 200, page.body
            return {run["id"] for run in page.json["runs"]}

        assert listed("") == {*ids, never} and listed("quest=a") == {ids[1], ids[3]}
        assert listed("quest=a&cause=ok") == {ids[3]} and listed("cause=cancelled") == {never}
        assert listed("q=OF%20A") == {ids[1], ids[3]} and listed("name=100%25") == set(ids) and listed("q=0_%25") == set()
        assert listed("submitter=root&runtime=base") == {*ids} and listed("since=2099-01-01") == set()
        pages, after = [], ""
        while after is not None:
            page = service.get(f"/v1/runs?limit=2&order=oldest&after={after}").json
            pages += [run["id"] for run in page["runs"]]
            after = page["next"]
        assert len(pages) == len(set(pages)) == 5 and set(pages) == {*ids, never}
        quests = {quest["quest"]: quest["runs"] for quest in service.get("/v1/quests").json["quests"]}
        assert quests["a"] == {"queued": 0, "running": 0, "ok": 1, "failed": 1}
        # What was delivered is linked a moment later.
        assert lib.wait_until(lambda: service.get("/v1/senate").json["chain"]["length"] == 4)
        assert service.get("/v1/senate").json["spend"]["by_submitter"][0]["runs"] == 4
        assert 'cupel_runs_total{runtime="base",result="ok"} 3\n' in service.get("/metrics").body.decode()
        assert service.get(f"/v1/runs/{ids[0]}").json["submission"]["submitter"] == "root"


def test_parts_of_files(service):
    run_id = service.submit("sh", "-c", "printf 0123456789; printf 0123456789 > out/x.txt")
    service.wait(run_id)
    for path in (f"/v1/runs/{run_id}/log/stdout", f"/v1/runs/{run_id}/outputs/out/x.txt"):
        whole = service.get(path)
        assert (whole.status, whole.body, whole.headers["Accept-Ranges"]) == (200, b"0123456789", "bytes")
        for said, status, body, where in (
            ("bytes=2-4", 206, b"234", "bytes 2-4/10"), ("bytes=7-", 206, b"789", "bytes 7-9/10"), ("bytes=-3", 206, b"789", "bytes 7-9/10"),
            ("bytes=5-100", 206, b"56789", "bytes 5-9/10"), ("bytes=10-", 416, b"", "bytes */10"), ("bytes=-0", 416, b"", "bytes */10"),
            ("bytes=4-2", 200, b"0123456789", None), ("bytes=0-1,3-4", 200, b"0123456789", None), ("lines=1-2", 200, b"0123456789", None),
            ("bytes=99999999999999999999-", 200, b"0123456789", None),
        ):
            part = service.get(path, {"Range": said})
            assert (part.status, part.body, part.headers["Content-Range"]) == (status, body, where), said
        tag = whole.headers["ETag"]
        assert service.get(path, {"If-None-Match": tag}).status == 304
        assert service.get(path, {"If-Range": tag, "Range": "bytes=0-0"}).body == b"0"
        assert service.get(path, {"If-Range": '"another"', "Range": "bytes=0-0"}).body == b"0123456789"
        head = service.ask("HEAD", path)
        assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", "10")


def test_the_same_key_twice_is_one_run(service):
    body = {"analysis": {"command": ["true"]}}
    first = service.post("/v1/runs", body, {"Idempotency-Key": "k"})
    again = service.post("/v1/runs", body, {"Idempotency-Key": "k"})
    other = service.post("/v1/runs", {"analysis": {"command": ["false"]}}, {"Idempotency-Key": "k"})
    assert (first.status, again.status, other.status) == (201, 200, 409)
    assert first.json["id"] == again.json["id"] and first.headers["Location"] == f"/v1/runs/{first.json['id']}"
    assert service.post("/v1/runs", body, {"Idempotency-Key": "k" * 201}).status == 400
    service.wait(first.json["id"])


def test_logs_come_live_and_go_on_where_they_were(service):
    run_id = service.submit("sh", "-c", "echo one; sleep 1000")
    assert lib.wait_until(lambda: service.get(f"/v1/runs/{run_id}/log/stdout").body == b"one\n")
    stream = service.events(f"/v1/runs/{run_id}/log/stdout")
    first = next(stream)
    assert first == ("4", "log", {"text": "one\n"})
    service.post(f"/v1/runs/{run_id}/cancel")
    assert list(stream)[-1] == (None, "end", {"state": "ended", "cause": "cancelled"})
    assert list(service.events(f"/v1/runs/{run_id}/log/stdout", {"Last-Event-ID": "2"})) == [
        ("4", "log", {"text": "e\n"}), (None, "end", {"state": "ended", "cause": "cancelled"})]
    assert list(service.events(f"/v1/runs/{run_id}/log/stdout?offset=4")) == [(None, "end", {"state": "ended", "cause": "cancelled"})]
    assert service.get(f"/v1/runs/{run_id}/log/stdout", {"Accept": "text/event-stream", "Last-Event-ID": "x"}).status == 400


def test_bytes_that_are_no_text_are_shown_as_such(service):
    run_id = service.submit("sh", "-c", "printf 'a\\377b\\303\\251'")
    service.wait(run_id)
    events = list(service.events(f"/v1/runs/{run_id}/log/stdout"))
    assert events[0] == ("5", "log", {"text": "a\ufffdb\u00e9"})


def test_events_of_a_run_and_of_all(service):
    everything = service.events("/v1/events")
    run_id = service.submit("true", analysis={})
    told = []
    while not told or told[-1][2]["state"] != "ended":
        told.append(next(everything))
    assert [(event, data["id"], data["change"]) for _, event, data in told] == [
        ("run", run_id, "submitted"), ("run", run_id, "started"), ("run", run_id, "ended")]
    again = service.events("/v1/events", {"Last-Event-ID": told[0][0]})
    assert next(again) == told[1] and next(again) == told[2]
    for stale in ("1-1", "x", told[0][0].split("-")[0] + "-99"):
        assert next(service.events("/v1/events", {"Last-Event-ID": stale}))[1] == "reset", stale
    events = list(service.events(f"/v1/runs/{run_id}/events"))
    assert [int(number) for number, event, _ in events if event == "event"] == list(range(1, len(events)))
    assert events[-1][1] == "end"
    assert list(service.events(f"/v1/runs/{run_id}/events", {"Last-Event-ID": events[-2][0]})) == events[-1:]
    assert service.get("/v1/runs/none/events", {"Accept": "text/event-stream"}).status == 404


def test_what_leaves_no_run_ends_its_streams_too(service):
    end = (None, "end", {"state": "ended", "cause": "cancelled"})
    waiting = service.submit("true", not_before="2099-01-01T00:00:00Z")
    streams = [service.events(f"/v1/runs/{waiting}/{of}") for of in ("events", "log/stdout")]
    with contextlib.closing(service.connect()) as connection:  # heard before it is cancelled
        connection.request("GET", f"/v1/runs/{waiting}/events", headers={"Accept": "text/event-stream"})
        response = connection.getresponse()
        assert response.readline() == b": cupel\n"
        assert service.post(f"/v1/runs/{waiting}/cancel").status == 202
        assert b"event: end" in response.read()
    assert [list(stream) for stream in streams] == [[end], [end]]
    pipeline = {"steps": {"one": {"command": ["true"]}, "two": {"command": ["false"], "needs": ["one"]}}}
    later = service.post("/v1/runs", {"analysis": pipeline, "not_before": "2099-01-01T00:00:00Z"}).json
    shown = service.get(later["location"]).json
    assert (shown["id"], shown["kind"], shown["state"]) == (later["id"], "pipeline", "queued")
    submitted = service.post("/v1/runs", {"analysis": pipeline})
    assert submitted.json["location"] == submitted.headers["Location"] == f"/v1/pipelines/{submitted.json['id']}"
    events = list(service.events(f"/v1/runs/{submitted.json['id']}/events"))
    assert [event[1] for event in events] == ["end"] and events[0][2]["cause"] != "ok"
    result = service.get(submitted.json["location"]).json
    assert service.get(f"/v1/runs/{submitted.json['id']}").status == 404  # it is no run
    assert (result["state"], result["counts"]["total"]) == ("failed", 2) and result["cause"] == events[0][2]["cause"]
    assert list(service.events(f"/v1/runs/{submitted.json['id']}/log/stdout")) == events


def test_the_steps_of_a_pipeline_are_their_submitters(outside):
    """Who is billed for them is not nobody."""
    key = bearer(outside.token("maker", "--scope", "read,submit"))
    sent = outside.post("/v1/runs", {"analysis": {"steps": {"one": {"command": ["true"]}}}}, key, tcp=True).json
    assert lib.wait_until(lambda: outside.get(f"/v1/pipelines/{sent['id']}").json.get("state") == "ok")
    step, = outside.get(f"/v1/pipelines/{sent['id']}").json["steps"]
    run = outside.get(f"/v1/runs/{step['tasks'][0]['run']}").json
    assert run["submitter"] == run["analysis"]["submitter"] == "token:maker"
    assert lib.wait_until(lambda: outside.get("/v1/ledger").json["owed"] == 0)
    spent = {row["submitter"]: row["runs"] for row in outside.get("/v1/senate").json["spend"]["by_submitter"]}
    assert spent == {"token:maker": 1}
    # The pipeline itself is in the list until the service has heard of its end.
    assert lib.wait_until(lambda: [one["id"] for one in outside.get("/v1/runs?submitter=token:maker").json["runs"]] == [run["id"]])
    alone, _ = outside.caller.start("--", "true", env={"CUPEL_SUBMITTER_NAME": "somebody"})
    assert alone.wait(60) == 0, "the control: by itself the name is nobody's"
    assert [one["submitter"] for one in outside.get("/v1/runs").json["runs"] if one["id"] != run["id"]] == ["root"], "the owner's of the home"


def test_what_an_analysis_names_and_is_not_there_is_its_mistake(service):
    answer = service.post("/v1/runs", {"analysis": {"command": ["true"], "runtime": "no-such"}})
    assert (answer.status, answer.code) == (400, "invalid") and "no-such" in answer.json["error"]["message"]
    answer = service.post("/v1/runs", {"analysis": {"comand": ["true"]}})
    assert answer.json["error"]["message"] == "the analysis: unknown key 'comand'; did you mean 'command'?"
    answer = service.post("/v1/runs", {"analysis": {"command": ["true"], "limits": {"memory": "100T"}}})
    assert re.search(r"all runs together have \d+\.\d GiB$", answer.json["error"]["message"])
    assert service.get("/v1/runtimes/no-such").status == 404


def test_the_service_says_where_it_listens(outside):
    outside.stop()
    outside.start()
    outside.process.terminate()
    said = outside.process.communicate(timeout=60)[1].decode()
    assert f"listening on {outside.socket}\n" in said and f"http://127.0.0.1:{outside.port}/" in said
    outside.start()


def test_runs_that_others_start_are_told_of(service):
    stream = service.events("/v1/events")
    assert service.get("/v1").status == 200
    result = service.caller.run("--", "true")
    assert result.cause == "ok"
    told = [next(stream)[2] for _ in range(2)]
    assert [(data["id"], data["state"]) for data in told] == [(result.run_dir.name, "running"), (result.run_dir.name, "ended")]
    assert result.run_dir.name in [run["id"] for run in service.get("/v1/runs").json["runs"]]


def test_what_the_program_beside_it_answers(service):
    run_id = service.submit("sh", "-c", "echo x > out/a.txt")
    service.wait(run_id)
    plan = service.post("/v1/plan", {"analysis": {"command": ["true"]}})
    assert plan.status == 200 and "plan" in plan.json
    assert service.post("/v1/plan", {"analysis": {"command": ["true"], "limits": {"memory": "x"}}}).status == 400
    report = service.get(f"/v1/runs/{run_id}/report")
    assert report.status == 200 and report.body.startswith(b"<!DOCTYPE html>")
    crate = service.get(f"/v1/runs/{run_id}/crate")
    assert crate.status == 200 and crate.body.startswith(b"PK") and b"ro-crate-metadata.json" in crate.body
    assert [runtime["name"] for runtime in service.get("/v1/runtimes").json["runtimes"]] == ["base"]
    assert service.get("/v1/runtimes/base").json["name"] == "base" and service.get("/v1/runtimes/none").status == 404
    assert service.get(f"/v1/runs/{run_id}/why").status == 400 and service.get("/v1/runs/none/why").status == 404
    again = service.post(f"/v1/runs/{run_id}/rerun")
    assert again.status == 201 and service.wait(again.json["id"])["cause"] == "ok"
    first, second = (service.get(f"/v1/runs/{i}/outputs").json["outputs"] for i in (run_id, again.json["id"]))
    assert first == second
    assert not list((service.caller.home / "tmp").iterdir()), "what was made for an answer is gone"


def test_what_waits_and_runs_names_its_runtime(service):
    """The one asked for as long as it waits, or why there is none; the one chosen when it runs, also for a service that did not start it."""
    def row(run_id):
        rows = {run["id"]: run for run in service.get("/v1/runs").json["runs"]}
        return rows[run_id]["state"], rows[run_id]["runtime"], rows[run_id]["runtime_why"]

    later = {"not_before": "2099-01-01T00:00:00Z"}
    asked, open_one = service.submit("true", analysis={"runtime": "base"}, **later), service.submit("true", **later)
    assert row(asked) == ("queued", "base", None)
    assert row(open_one) == ("queued", None, "it is chosen when the run starts")
    assert [run["id"] for run in service.get("/v1/runs?state=queued&runtime=base").json["runs"]] == [asked]
    steps = {"steps": {"a": {"command": ["true"]}}}
    pipeline = service.post("/v1/runs", {"analysis": steps, **later}).json["id"]
    assert row(pipeline) == ("queued", None, "each step has its own")
    long = service.submit("sleep", "1000")
    assert lib.wait_until(lambda: row(long) == ("running", "base", None)), row(long)
    service.process.kill()
    service.process.wait(60)
    service.process.stderr.close()  # the keeper has it too: it has no end yet
    service.start()
    assert lib.wait_until(lambda: row(long) == ("running", "base", None)), row(long)
    for run_id in (asked, open_one, pipeline, long):
        service.post(f"/v1/runs/{run_id}/cancel")
    assert lib.wait_until(lambda: service.state(long) == "ended")


def test_what_is_not_due_is_ahead_of_nobody(service):
    later = service.submit("true", not_before="2099-01-01T00:00:00Z")
    long = service.submit("sleep", "1000", analysis={"limits": {"cpus": "64"}})
    assert lib.wait_until(lambda: service.state(long) == "running")
    due = [service.submit("true", analysis={"limits": {"cpus": "64"}}) for _ in range(2)]
    pending = [service.get(f"/v1/runs/{run_id}").json["pending"] for run_id in (*due, later)]
    assert [one["position"] for one in pending] == [0, 1, None]
    assert "ahead" not in pending[0]["text"] and pending[1]["text"].endswith("; 1 is ahead of it") and "ahead" not in pending[2]["text"]
    assert [run["id"] for run in service.get("/v1/queue").json["waiting"]] == [*due, later]
    for run_id in (*due, later, long):
        service.post(f"/v1/runs/{run_id}/cancel")


def test_the_id_of_a_pipeline_is_answered_if_any_kind_will_do(service):
    run_id = service.submit("true")
    later = {"analysis": {"steps": {"a": {"command": ["true"]}}}, "not_before": "2099-01-01T00:00:00Z"}
    waiting = service.post("/v1/runs", later).json["id"]
    shown = service.get(f"/v1/runs/{waiting}?kind=any").json
    assert (shown["id"], shown["kind"], shown["state"]) == (waiting, "pipeline", "queued")
    done = service.post("/v1/runs", {"analysis": later["analysis"]}).json["id"]
    assert lib.wait_until(lambda: service.get(f"/v1/pipelines/{done}").json.get("state") == "ok")
    assert lib.wait_until(lambda: service.get(f"/v1/runs/{done}").status == 404), "the control: a pipeline is no run"
    shown = service.get(f"/v1/runs/{done}?kind=any").json
    assert shown["kind"] == "pipeline" and shown == service.get(f"/v1/pipelines/{done}").json
    service.wait(run_id)
    either, run = (service.get(f"/v1/runs/{run_id}{query}").json for query in ("?kind=any", ""))
    assert (either["id"], either["verdict"]) == (run["id"], run["verdict"])
    assert service.get("/v1/runs/nothing?kind=any").status == 404
    answer = service.get(f"/v1/runs/{run_id}?kind=step")
    assert answer.status == 400 and "use run or any" in answer.json["error"]["message"]
    service.post(f"/v1/runs/{waiting}/cancel")
