"""The HTTP interface, by friends and by strangers."""

import contextlib
import datetime
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

import cupel as lib
import services

JSON = {"Content-Type": "application/json"}


def needs_service():
    if not services.SERVE.exists():
        pytest.skip("service: cupel was built without libmicrohttpd or libsystemd")


@contextlib.contextmanager
def serving(caller, **more):
    needs_service()
    made = services.Service(caller, **more).start()
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            for run in made.get("/v1/runs?state=queued,running&limit=500").json["runs"]:
                made.post(f"/v1/runs/{run['id']}/cancel")
            lib.wait_until(lambda: not made.get("/v1/runs?state=queued,running").json["runs"])
        made.stop()


@pytest.fixture(name="service")
def _service(fresh):
    with serving(fresh) as made:
        yield made


@pytest.fixture(name="outside")
def _outside(fresh):
    """With a TCP door."""
    with serving(fresh, tcp=True) as made:
        yield made


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


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


def test_outputs_are_a_strangers(service):
    """Nothing but what was collected can be had, and no browser makes a page of it."""
    run_id = service.submit("sh", "-c", "echo '<script>alert(1)</script>' > out/evil.html; printf x > 'out/a \"b\n.txt'; ln -s /etc/passwd out/link; mkfifo out/fifo; ln -s / out/root")
    service.wait(run_id)
    page = service.get(f"/v1/runs/{run_id}/outputs/out/evil.html?inline=1")
    assert page.status == 200 and page.headers["Content-Disposition"].startswith("attachment")
    assert page.headers["Content-Security-Policy"] == "sandbox; default-src 'none'" and page.headers["X-Content-Type-Options"] == "nosniff"
    odd = service.get(f"/v1/runs/{run_id}/outputs/" + urllib.parse.quote('out/a "b\n.txt'))
    assert odd.status == 200 and odd.headers["Content-Disposition"] == "attachment; filename*=UTF-8''a%20%22b%0A.txt"
    plain = service.get(f"/v1/runs/{run_id}/outputs/" + urllib.parse.quote('out/a "b\n.txt') + "?inline=1")
    assert plain.headers["Content-Disposition"] is None
    for path in ("out/link", "out/fifo", "out/root/etc/passwd", "verdict.json", "../verdict.json", "out/../../verdict.json"):
        assert service.get(f"/v1/runs/{run_id}/outputs/{path}").status in (400, 404), path
    # The record was made ours by whoever can write it; even so nothing but a file is opened.
    outputs = service.caller.run_dir(run_id) / "outputs/out"
    evil = outputs / "evil.html"
    evil.unlink()
    os.symlink("/etc/passwd", evil)
    assert service.get(f"/v1/runs/{run_id}/outputs/out/evil.html").status == 403
    evil.unlink()
    os.mkfifo(evil)
    assert service.get(f"/v1/runs/{run_id}/outputs/out/evil.html").status == 403


@pytest.mark.parametrize("path", [
    "/v1/runs/..", "/v1/runs/../..", "/v1/runs/%2e%2e", "/v1/runs/%2e%2e%2f%2e%2e", "/v1/runs/a%2fb", "/v1/runs/a%00b", "/v1/runs/%",
    "/v1/runs/%zz", "/v1//runs", "/v1/runs/", "/v1/runs/.hidden", "/v1/runs/-x", "/v1/runs/a..b", "/v1/runs/" + "a" * 65, "/assets/..%2fmain.c",
    "/assets/%2e%2e", "/v1/runs/a\\b", "/v1/runs/x/log/../../y", "/v1/runtimes/..%2f..", "/v1/pipelines/%2e%2e/why", "/v1/runs/x/log/events.jsonl",
])
def test_no_path_leads_elsewhere(service, path):
    answer = service.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert re.match(rb"HTTP/1.1 (400|404) ", answer), answer[:200]
    assert b'"error"' in answer or b"<html>" in answer


POST = b"POST /v1/plan HTTP/1.1\r\nHost: cupel\r\nContent-Type: application/json\r\nConnection: close\r\n"
GET = b"GET /v1 HTTP/1.1\r\nHost: cupel\r\nConnection: close\r\n"
PLAN = b'{"analysis":{"command":["true"]}}'
LENGTH = b"Content-Length: %d\r\n" % len(PLAN)
CHUNKED, CHUNKS = b"Transfer-Encoding: chunked\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(PLAN), PLAN)


def test_a_request_means_one_thing_only(service):
    """Whatever a proxy and this service could read in two ways is refused, and the connection ends: what follows is no request."""
    for fine in (POST + LENGTH + b"\r\n" + PLAN, POST + CHUNKED + b"\r\n" + CHUNKS, GET + b"Accept: a\r\nAccept: b\r\n\r\n"):
        assert service.raw(fine).startswith(b"HTTP/1.1 200 "), fine
    follows = b"GET /v1/openapi.json HTTP/1.1\r\nHost: cupel\r\n\r\n"
    too_large = (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 20 + b"0\r\n\r\n"
    cases = {
        "both": POST + LENGTH + CHUNKED + b"\r\n" + CHUNKS,
        "both, the other way round": POST + CHUNKED + LENGTH + b"\r\n" + CHUNKS,
        "both, and too large": POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n" + too_large,
        "two lengths": POST + LENGTH + b"Content-Length: 2\r\n\r\n" + PLAN,
        "the same length twice": POST + LENGTH + LENGTH + b"\r\n" + PLAN,
        "a list of lengths": POST + b"Content-Length: 33, 33\r\n\r\n" + PLAN,
        "a signed length": POST + b"Content-Length: +33\r\n\r\n" + PLAN,
        "a space before the colon": POST + b"Content-Length : 33\r\n\r\n" + PLAN,
        "another encoding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS,
        "identity": POST + LENGTH + b"Transfer-Encoding: identity\r\n\r\n" + PLAN,
        "chunks twice": POST + CHUNKED + CHUNKED + b"\r\n" + CHUNKS,
        "chunks in HTTP/1.0": POST.replace(b"HTTP/1.1", b"HTTP/1.0") + CHUNKED + b"\r\n" + CHUNKS,
        "two hosts": GET + b"Host: evil.example\r\n\r\n",
        "the same host twice": GET + b"host: cupel\r\n\r\n",
        "two tokens": GET + b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
        "two origins": POST + LENGTH + b"Origin: http://cupel\r\nOrigin: http://evil\r\n\r\n" + PLAN,
        "two types": POST + LENGTH + b"Content-Type: text/plain\r\n\r\n" + PLAN,
        "a carriage return": GET + b"X: a\rb\r\n\r\n",
        "a header that begins with a space": b"GET /v1 HTTP/1.1\r\n Host: evil\r\nHost: cupel\r\n\r\n",
    }
    for name, data in cases.items():
        answer = service.raw(data + follows)
        assert re.findall(rb"HTTP/1.1 (\d+) ", answer)[:1] == [b"400"] and b'"openapi"' not in answer, (name, answer[:300])
    assert service.get("/v1").status == 200


def test_only_pages_of_this_service_change_things(outside):
    token = bearer(outside.token("t", "--scope", "submit"))
    own = f"127.0.0.1:{outside.port}"
    for origin, status in ((None, 200), (f"http://{own}", 200), (f"https://{own}", 403), (f"ftp://{own}", 403), ("http://evil.example", 403),
                           (f"http://{own}.evil.example", 403), (f"http://evil@{own}", 403), ("http://127.0.0.1:1", 403), ("null", 403)):
        headers = {**token, **JSON, "Host": own, **({"Origin": origin} if origin else {})}
        assert outside.ask("POST", "/v1/plan", PLAN, headers, tcp=True).status == status, origin


def test_malformed_requests_leave_it_serving(service):
    huge = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n"
    for data in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"G" * 100000, b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                 b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 20000 + b"\r\n", b"GET / HTTP/1.1\r\n\r\n",
                 b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
                 b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(str(service.socket))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
                answer = s.recv(65536)
                assert not answer.startswith(b"HTTP/1.1 2"), (data[:60], answer[:100])
    assert service.raw(huge).startswith(b"HTTP/1.1 413 ")
    chunks = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 20 + b"0\r\n\r\n"
    assert b" 413 " in service.raw(chunks)[:20]
    for body, status in ((b"{", 400), (b"[]", 400), (b"{}", 400), (b'{"analysis":1}', 400), (b'{"analysis":{},"analysis":{}}', 400),
                         (b'{"analysis":' + b"[" * 100000, 400), (b'{"analysis":{"command":["true"]},"odd":1}', 400),
                         (b'{"analysis":{"command":["true"],"odd":1}}', 400), (b'{"analysis":{"command":["true"]},"priority":1.5}', 400),
                         (b'{"analysis":{"command":["true"]},"id":"../x"}', 400), (b'{"analysis":{"command":["true"]},"not_before":"x"}', 400),
                         (b'{"analysis":{"command":["\xff"]}}', 400)):
        answer = service.post("/v1/runs", body, JSON)
        assert answer.status == status and answer.json["error"]["message"], (body[:60], answer.status, answer.body)
    assert service.post("/v1/runs", b"{}", {"Content-Type": "text/plain"}).status == 415
    assert service.ask("DELETE", "/v1/runs").headers["Allow"] == "GET, HEAD, POST"
    assert service.ask("PUT", "/v1/runs/x/cancel").status == 405
    assert service.get("/v1/nothing").code == "not-found"
    assert service.get("/v1").status == 200


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


def test_every_answer_is_safe_in_a_browser(service):
    run_id = service.submit("true")
    service.wait(run_id)
    for path in ("/", "/v1", "/v1/runs", f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/log/stdout", f"/v1/runs/{run_id}/report", "/nothing", "/healthz", "/metrics", "/v1/openapi.json"):
        headers = service.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff", path
        assert headers["Referrer-Policy"] == "no-referrer" and headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin" and "default-src 'none'" in headers["Content-Security-Policy"]
        assert not [name for name in headers if name.lower().startswith("access-control")]
        assert "Set-Cookie" not in headers
    assert "script" not in service.get(f"/v1/runs/{run_id}/report").headers["Content-Security-Policy"]


def test_pages_of_other_sites_may_not_ask(service):
    run_id = service.submit("sleep", "1000")
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        answer = service.post(f"/v1/runs/{run_id}/cancel", headers=headers)
        assert (answer.status, answer.code) == (403, "cross-site"), headers
    assert service.state(run_id) in ("queued", "running")
    assert service.ask("OPTIONS", "/v1/runs", headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}).status == 405
    own = {"Origin": "http://localhost", "Host": "localhost", "Sec-Fetch-Site": "same-origin"}
    assert service.post(f"/v1/runs/{run_id}/cancel", headers=own).status == 202


def test_tokens(outside):
    service = outside
    read, submit = service.token("reader"), service.token("maker", "--scope", "read,submit")
    admin = service.token("chief", "--scope", "read,submit,admin", "--user", "root")
    assert re.fullmatch(r"cupel_[0-9a-hjkmnp-tv-z]{52}", read) and read != submit
    kept = service.caller.home / "tokens.json"
    text = kept.read_text(encoding="utf-8")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert read not in text and read[6:] not in text and len(json.loads(text)["tokens"]) == 3
    for wrong in ({}, bearer("cupel_"), bearer(read[:-1]), bearer(read + "0"), bearer(read.upper()), {"Authorization": f"Basic {read}"}, bearer("x" * 9000)):
        answer = service.get("/v1", wrong, tcp=True)
        assert answer.status in (401, 431), wrong
    assert service.get("/v1", {}, tcp=True).headers["WWW-Authenticate"].startswith("Bearer")
    told = service.get("/v1", bearer(read), tcp=True).json["identity"]
    assert told == {"name": "token:reader", "scopes": ["read"], "sees": "own"}
    body = {"analysis": {"command": ["true"]}}
    for answer, scope in ((service.post("/v1/runs", body, bearer(read), tcp=True), "submit"), (service.get("/v1/config", bearer(submit), tcp=True), "admin")):
        assert (answer.status, answer.code) == (403, "forbidden") and f"'{scope}'" in answer.json["error"]["message"]
        assert "cupel token create" in answer.json["error"]["remedy"]
    assert service.get("/v1/config", bearer(admin), tcp=True).status == 200
    assert service.post("/v1/runs", {**body, "priority": 1}, bearer(submit), tcp=True).status == 403
    made = service.post("/v1/runs", body, bearer(submit), tcp=True)
    assert made.status == 201 and service.wait(made.json["id"])["submitter"] == "token:maker"
    for page in ("/", "/healthz", "/v1/openapi.json"):
        assert service.get(page, tcp=True).status in (200, 404), page
    status, out, _ = service.caller.call(service.caller.binary, "token", "list", "--json")
    assert status == 0 and {token["name"] for token in json.loads(out)} == {"reader", "maker", "chief"} and "sha256" not in out
    assert service.caller.call(service.caller.binary, "token", "revoke", "reader")[0] == 0
    assert service.get("/v1", bearer(read), tcp=True).status == 401
    assert service.get("/v1", bearer(submit), tcp=True).status == 200
    assert service.caller.call(service.caller.binary, "token", "revoke", "reader")[0] == 2
    assert service.caller.call(service.caller.binary, "token", "create", "maker")[0] == 2
    kept.chmod(0o644)
    assert service.get("/v1", bearer(submit), tcp=True).status in (200, 401)
    kept.touch()
    assert service.get("/v1", bearer(submit), tcp=True).status == 401, "a file that others can read is not believed"


def test_a_token_ends_when_it_was_said(outside):
    brief, lasting = outside.token("brief", "--expires", "1s"), outside.token("lasting", "--expires", "1h")
    assert outside.get("/v1", bearer(lasting), tcp=True).status == 200
    assert lib.wait_until(lambda: outside.get("/v1", bearer(brief), tcp=True).status == 401)
    assert outside.get("/v1", bearer(lasting), tcp=True).status == 200


def test_a_name_that_somebody_points_here_is_none_of_ours(outside):
    token = bearer(outside.token("t"))
    for host in ("evil.example", f"evil.example:{outside.port}", "127.0.0.1.evil.example", "[evil]", "localhost.evil.example", "[::1].evil", "127.0.0.1:80@evil", "127.0.0.1:evil", "::1"):
        assert outside.get("/v1", {**token, "Host": host}, tcp=True).status == 421, host
    for host in ("localhost", f"localhost:{outside.port}", f"127.0.0.1:{outside.port}", "[::1]:80"):
        assert outside.get("/v1", {**token, "Host": host}, tcp=True).status == 200, host


def test_who_asks_too_often_is_told_to_wait(outside):
    ask = f"GET /v1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {outside.token('eager')}\r\n\r\n".encode()

    def answer(file):
        status, headers = int(file.readline().split()[1]), {}
        while line := file.readline().strip():
            name, _, value = line.partition(b": ")
            headers[name.lower()] = value
        file.read(int(headers[b"content-length"]))
        return status, headers

    with socket.create_connection(("127.0.0.1", outside.port), 60) as s, s.makefile("rb") as file:
        for number in range(60000):
            if number % 100 == 0:  # who waits for each answer may be too slow to be too eager
                s.sendall(ask * 100)
            status, headers = answer(file)
            if status != 200:
                break
    assert status == 429 and int(headers[b"retry-after"]) >= 1
    other = bearer(outside.token("calm"))
    assert outside.get("/v1", other, tcp=True).status == 200, "others are not held up"


def test_other_users_read_and_submit_but_end_only_their_own(fresh):
    """By the kernel's word: the same socket, another user."""
    needs_service()
    with serving(fresh) as service:
        fresh.base.chmod(0o755)
        fresh.home.chmod(0o711)
        service.socket.chmod(0o666)
        mine = service.submit("sleep", "1000")
        # Whose it is stands in its record, which is there a moment after it was started.
        assert lib.wait_until(lambda: "started" in [event["event"] for event in service.get(f"/v1/runs/{mine}/events").json["events"]])
        script = """
import http.client, json, os, socket, sys
os.setgroups([]); os.setgid(12345); os.setuid(12345)
def ask(method, path, body=None):
    c = http.client.HTTPConnection("localhost"); c.sock = socket.socket(socket.AF_UNIX); c.sock.connect(sys.argv[1])
    c.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"}); r = c.getresponse()
    return r.status, json.loads(r.read())
print(json.dumps([ask("GET", "/v1"), ask("GET", "/v1/runs"), ask("POST", f"/v1/runs/{sys.argv[2]}/cancel"), ask("GET", "/v1/config"),
    ask("POST", f"/v1/runs/{sys.argv[2]}/rerun"), ask("POST", "/v1/runs", {"analysis": {"command": ["true"]}}), *[ask("POST", "/v1/plan", {"analysis": analysis}) for analysis in
    ({"command": ["true"]}, {"command": ["true"], "inputs": [sys.argv[3]]}, {"command": ["true"], "inputs": ["/etc/shadow"]}, {"steps": {"a": {"command": ["true"]}}})]]))
"""
        closed = fresh.base / "closed/file"  # readable by all, in a folder that only root may enter
        closed.parent.mkdir(mode=0o700)
        closed.write_text("root's")
        closed.chmod(0o644)
        assert service.post("/v1/plan", {"analysis": {"command": ["true"], "inputs": [str(closed)]}}).status == 200, "the control: root may"
        done = subprocess.run(["/usr/bin/python3", "-c", script, str(service.socket), mine, str(closed)], capture_output=True, text=True, check=True, timeout=60)
        who, runs, cancel, config, rerun, submit, *plans = json.loads(done.stdout)
        assert who[1]["identity"] == {"name": "uid:12345", "scopes": ["read", "submit"], "sees": "own"}
        assert runs[0] == 200 and runs[1]["runs"] == [], "root's is root's"
        assert (cancel[0], config[0], rerun[0], submit[0]) == (404, 403, 404, 201)
        assert [plan[0] for plan in plans] == [200, 400, 400, 200], plans
        assert service.wait(submit[1]["id"])["submitter"] == "uid:12345"
        assert service.state(mine) == "running"


def test_five_thousand_idle_connections_leave_it_serving(service):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 6000:
        pytest.skip(f"files: only {hard} descriptors are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 6000), hard))
    idle = []
    try:
        for number in range(5000):
            s = socket.socket(socket.AF_UNIX)
            s.connect(str(service.socket))
            if number % 2:
                s.sendall(b"GET /v1 HTTP/1.1\r\nHo")  # begun, and never ended
            idle.append(s)
        assert service.get("/v1").status == 200
        run = service.wait(service.submit("true"))
        assert run["cause"] == "ok"
    finally:
        for s in idle:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert lib.wait_until(lambda: len(os.listdir(f"/proc/{service.process.pid}/fd")) < 200), "each is let go"


def test_who_takes_for_ever_to_ask_is_let_go(service):
    """A byte now and then is no request: the whole of it has its time, not the pause between two."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(service.socket))
        s.settimeout(1)
        s.sendall(b"GET /v1 HTTP/1.1\r\nX: ")

        def is_over():
            try:
                s.sendall(b"x")
                return s.recv(100) == b""
            except TimeoutError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                return True

        assert lib.wait_until(is_over)
    assert service.get("/v1").status == 200


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


def test_quests_and_senate(service):
    for command, quest in (("true", "good"), ("false", "bad"), ("true", "bad")):
        service.wait(service.submit(command, analysis={"quest": quest}))
    hungry = service.submit("/usr/bin/python3", "-c", "bytearray(300 << 20)", analysis={"limits": {"memory": "32M"}, "quest": "bad"})
    assert service.wait(hungry)["cause"] == "oom"
    waiting = service.submit("true", analysis={"quest": "later"}, not_before="2099-01-01T00:00:00Z")
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    quests = {quest["quest"]: quest for quest in service.get("/v1/quests").json["quests"]}
    assert (quests["good"]["success_rate"], quests["bad"]["runs"]["ok"], quests["bad"]["runs"]["failed"]) == (1.0, 1, 2)
    assert quests["bad"]["causes"] == {"ok": 1, "exit": 1, "oom": 1}
    assert [blocked["id"] for blocked in quests["later"]["blocked"]] == [waiting]
    senate = service.get("/v1/senate").json
    assert [kill["id"] for kill in senate["limit_kills"]] == [hungry]
    assert senate["spend"]["by_submitter"][0]["submitter"] == "root" and senate["spend"]["by_submitter"][0]["runs"] == 4
    assert lib.wait_until(lambda: service.get("/v1/senate").json["chain"]["length"] == 4)
    queue = service.get("/v1/queue").json
    assert [run["id"] for run in queue["waiting"]] == [waiting] and queue["waiting"][0]["pending"]["reason"] == "not-before"
    shown = service.get(f"/v1/runs/{waiting}").json
    assert (shown["state"], shown["pending"]["reason"], shown["verdict"]) == ("queued", "not-before", None)
    assert service.post(f"/v1/runs/{waiting}/cancel").status == 202
    assert lib.wait_until(lambda: service.state(waiting) == "ended")
    assert service.get(f"/v1/runs/{waiting}").json["cause"] == "cancelled"
    assert waiting in [run["id"] for run in service.get("/v1/runs?cause=cancelled").json["runs"]]


def test_what_is_said_of_a_quest(outside):
    """By the configuration, and by the API over it; it is there after a restart, and null takes it back."""
    admin = bearer(outside.token("boss", "--scope", "read,submit,admin"))
    reader = bearer(outside.token("guest", "--scope", "read"))

    def say(**body):
        return outside.post("/v1/quests", body, admin, tcp=True)

    def quests():
        return {quest["quest"]: quest for quest in outside.get("/v1/quests").json["quests"]}

    assert say(quest="aging", title="Why cells age", layer="Atlas", priority=80, link="https://example.org/q").status == 200
    answer = say(quest="aging", status="active")
    assert answer.json == {"quest": "aging", "title": "Why cells age", "layer": "Atlas", "priority": 80, "status": "active", "link": "https://example.org/q"}
    outside.wait(outside.submit("true", analysis={"quest": "aging"}))
    assert lib.wait_until(lambda: outside.get("/v1/ledger").json["owed"] == 0)
    outside.stop()
    outside.start()
    shown = quests()["aging"]
    assert (shown["title"], shown["priority"], shown["status"], shown["runs"]["ok"]) == ("Why cells age", 80, "active", 1)
    assert say(quest="aging", title=None, layer=None, priority=None).json["title"] is None
    assert quests()["aging"]["title"] is None and quests()["aging"]["status"] == "active"
    assert say(quest="no runs yet", status="planned").status == 200 and quests()["no runs yet"]["runs"]["ok"] == 0
    say(quest="no runs yet", status=None)
    assert "no runs yet" not in quests()
    before = quests()
    for body, why in (({"quest": "aging", "link": "javascript:alert(1)"}, "is not a web address"), ({"quest": "aging", "priority": "80"}, "priority: expected a number"),
                      ({"quest": "aging", "priority": -1}, "from 0 to 100"), ({"quest": "aging", "colour": "red"}, "unknown key 'colour'"), ({"title": "x"}, "expected the name of a quest"),
                      ({"quest": "a\nb"}, "cannot be the name of a quest"), ({"quest": "aging", "title": "x" * 201}, "1 to 200 bytes")):
        answer = say(**body)
        assert answer.status in (400, 422) and why in answer.json["error"]["message"], answer.body
    assert outside.post("/v1/quests", {"quest": "aging", "title": "mine"}, reader, tcp=True).status == 403
    assert quests() == before


def test_how_a_quest_went(service):
    for command in ("true", "true", "false"):
        service.wait(service.submit(command, analysis={"quest": "aging"}))
    service.caller.run("--quest", "aging", "--", "true")
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    answer = service.get("/v1/quests?quest=aging").json
    assert [quest["quest"] for quest in answer["quests"]] == ["aging"]
    trend, points = answer["trend"], answer["trend"]["points"]
    assert (trend["runs"], trend["is_cut"], trend["width_s"]) == (4, False, 60)
    assert sum(point["runs"] for point in points) == 4 and sum(point["ok"] for point in points) == 3
    assert sum(point["cpu_usec"] for point in points) == answer["quests"][0]["cpu_usec"]
    assert all(point["waited_usec"] is None or 0 <= point["waited_usec"] < 60e6 for point in points) and points[0]["waited_usec"] is not None
    assert "trend" not in service.get("/v1/quests").json
    assert service.get("/v1/quests?quest=nothing").status == 404


def test_metrics_know_the_largest_quests(service):
    """Fifty by name, the others together, whoever is called that."""
    one = service.caller.run("--quest", "large", "--", "true", id="r000").run_dir
    texts = {name: (one / name).read_text() for name in ("analysis.json", "verdict.json", "events.jsonl", "outputs.json", "stdout.log", "stderr.log")}
    for number in range(1, 62):  # three of "large" and "other", one of 56 others each
        quest = "large" if number < 3 else "other" if number < 6 else f"small {number:03}"
        service.caller.run_dir(f"r{number:03}").mkdir()
        for name, text in texts.items():
            (service.caller.run_dir(f"r{number:03}") / name).write_text(text.replace("r000", f"r{number:03}").replace('"large"', f'"{quest}"'))
    status, _, err = service.caller.call(service.caller.binary, "ledger", "rebuild")
    assert status == 0, err

    def found():
        text = service.get("/metrics").body.decode()
        return dict(re.findall(r'^cupel_quest_runs_total\{quest="([^"]*)",result="ok"\} (\d+)$', text, re.MULTILINE))

    assert lib.wait_until(lambda: sum(int(n) for n in found().values()) == 62), found()
    numbers = found()
    assert len(numbers) == 51 and numbers["large"] == "3" and numbers["small 006"] == "1"
    assert numbers["other"] == str(3 + 56 - 49), numbers
    assert len(re.findall(r"^cupel_quest_cpu_seconds_total\{", service.get("/metrics").body.decode(), re.MULTILINE)) == 51


def test_what_nobody_submitted_is_the_owners_of_the_home(service):
    """`cupel run` has no submitter: the owner of the home ran it, in lists, filters, searches and sums."""
    for run_id, command in (("by-hand", ["true"]), ("too-much", ["python3", "-c", "bytearray(300 << 20)"])):
        service.caller.run("--memory", "64M", "--", *command, id=run_id)
    asked = service.submit("true")
    service.wait(asked)
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    for query in ("", "?submitter=root", "?q=ROOT"):
        rows = {run["id"]: run["submitter"] for run in service.get(f"/v1/runs{query}").json["runs"]}
        assert rows == {"by-hand": "root", "too-much": "root", asked: "root"}, query
    assert service.get("/v1/runs?submitter=token:x").json["runs"] == []
    assert service.get("/v1/runs/by-hand").json["submitter"] == "root"
    senate = service.get("/v1/senate").json
    assert [(row["submitter"], row["runs"]) for row in senate["spend"]["by_submitter"]] == [("root", 3)]
    assert [(row["id"], row["submitter"]) for row in senate["limit_kills"]] == [("too-much", "root")]


@pytest.mark.parametrize("cause, limits, script, limit, of", [
    ("oom", {"memory": "64M"}, "bytearray(300 << 20)", "memory", 64 << 20),
    ("deadline", {"time": "1s"}, "import time; time.sleep(600)", "time", 10**9),
    ("cpu", {"cpu_time": "1s"}, "while True: pass", "cpu_time", 10**9),
    ("disk", {"disk": "32M"}, "open('big', 'wb').write(bytes(64 << 20))", "disk", 32 << 20),
    ("disk", {"inodes": "2000"}, "[open(str(n), 'x').close() for n in range(4000)]", "inodes", 2000),
    ("pids", {"pids": "20"}, "import os, time\nfor _ in range(40): os.fork() or time.sleep(600)", "pids", 20),
    ("output-cap", {"output_size": "1M"}, "open('out/x', 'wb').write(bytes(4 << 20))", "output_size", 1 << 20),
])
def test_the_senate_names_the_limit_that_was_reached(service, cause, limits, script, limit, of):
    run_id = service.submit("python3", "-c", script, analysis={"limits": limits, "outputs": [{"path": "**"}]})
    assert service.wait(run_id)["cause"] == cause
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    reached = service.get("/v1/senate").json["limit_kills"][0]["reached"]
    assert (reached["limit"], reached["of"]) == (limit, of)
    if limit == "output_size":
        assert reached["used"] is None, "what was collected says nothing of what was there"
    else:
        assert 0.9 * of <= reached["used"], "in the units of the limit"


def test_metrics_are_what_prometheus_reads(service, tmp_path):
    service.wait(service.submit("true"))
    service.wait(service.submit("false"))
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    answer = service.get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    text = answer.body.decode()
    assert text.endswith("# EOF\n")
    assert 'cupel_runs_total{runtime="base",result="ok"} 1\n' in text and 'cupel_runs_total{runtime="base",result="exit"} 1\n' in text
    assert 'cupel_runs_active{state="running"} 0\n' in text and "cupel_submissions_total 2\n" in text
    assert 'cupel_run_queue_seconds_bucket{le="+Inf"} 2\n' in text and "cupel_run_queue_seconds_count 2\n" in text
    buckets = [int(n) for n in re.findall(r'^cupel_run_queue_seconds_bucket\{le="[^"]+"\} (\d+)$', text, re.MULTILINE)]
    assert len(buckets) > 5 and buckets == sorted(buckets)
    assert 'cupel_cache_lookups_total{result="hit"} 0\n' in text
    assert "# TYPE cupel_build_info gauge\n" in text and " info\n" not in text, "Prometheus's tools know no type info"
    if not shutil.which("promtool"):
        pytest.skip("prometheus: promtool is not installed")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=60)
    # Read as the older text it is whole. The names of counters have an ending there that their descriptions do not have here.
    assert all(re.fullmatch(r"cupel_\w+_total no help text", line) for line in done.stderr.split("\n") if line), done.stderr
    plain = service.get("/metrics")
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    older = plain.body.decode()
    done = subprocess.run(["promtool", "check", "metrics"], input=older, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_how_long_runs_wait_and_what_pipelines_find(service, tmp_path):
    """One that had to wait is not among the fast; a time that was asked for is no wait. A pipeline that was run before finds its results."""
    def numbers(name):
        text = service.get("/metrics").body.decode()
        return {label: float(value) for label, value in re.findall(rf'^{name}\{{\w+="([^"]+)"\}} (\S+)$', text, re.MULTILINE)}

    def total():
        return float(re.search(r"^cupel_run_queue_seconds_sum (\S+)$", service.get("/metrics").body.decode(), re.MULTILINE)[1])

    long = service.submit("sleep", "1000", analysis={"limits": {"cpus": "64"}})
    assert lib.wait_until(lambda: service.state(long) == "running")
    second = service.submit("true", analysis={"limits": {"cpus": "64"}})
    assert lib.wait_until(lambda: service.get(f"/v1/runs/{second}").json["pending"]["reason"] == "cpus")
    time.sleep(0.6)  # it is to wait for longer than half a second
    service.post(f"/v1/runs/{long}/cancel")
    service.wait(second)
    waits = numbers("cupel_run_queue_seconds_bucket")
    assert waits["+Inf"] == 2 and waits["0.5"] <= 1, waits
    before, soon = total(), time.time() + 1
    stamp = datetime.datetime.fromtimestamp(soon, datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    service.wait(service.submit("true", not_before=stamp))
    assert 0 <= total() - before <= time.time() - soon + 0.001, "from then on, not from the submission"
    file = tmp_path / "p.yaml"
    file.write_text("steps:\n  a: {command: 'echo 1 > out/a'}\n  b: {command: 'cat data/a', inputs: [{step: a, path: out/a}]}\n  c: {command: 'true', cache: off}\n")
    for found in ({"hit": 0, "miss": 2, "unusable": 0}, {"hit": 2, "miss": 2, "unusable": 0}):
        answer = service.post("/v1/runs", {"analysis": {"file": str(file)}})
        assert answer.status == 201, answer.body
        pipeline = answer.json["id"]
        assert lib.wait_until(lambda at=pipeline: service.get(f"/v1/pipelines/{at}").json.get("state") == "ok")
        assert lib.wait_until(lambda: numbers("cupel_cache_lookups_total") == found), numbers("cupel_cache_lookups_total")


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


def test_caps_are_told_alike_everywhere(service):
    """What all runs together may have, by the queue, the Senate and what waits for it; in words that fit their number."""
    use, senate = service.get("/v1/queue").json["use"], service.get("/v1/senate").json
    assert senate["caps"] == {name: part["cap"] for name, part in use.items()}
    cpus = use["cpus"]["cap"] // 1000
    assert senate["policy"]["aggregate.cpus"] == str(cpus) and senate["policy"]["aggregate.pids"] == str(use["pids"]["cap"])
    metrics = service.get("/metrics").body.decode()
    assert f'cupel_cpus{{kind="cap"}} {cpus}\n' in metrics
    long = service.submit("sleep", "1000", analysis={"limits": {"cpus": "64"}})
    assert lib.wait_until(lambda: service.state(long) == "running")
    waiting = [service.submit("true", analysis={"limits": {"cpus": wanted}}) for wanted in ("1", "0.5")]

    def pending():
        return [service.get(f"/v1/runs/{run_id}").json["pending"] for run_id in waiting]

    assert lib.wait_until(lambda: {why["reason"] for why in pending()} == {"cpus"}), pending()
    texts = [why["text"] for why in pending()]
    unit = "cpu" if cpus == 1 else "cpus"
    assert texts[0] == f"needs 1 cpu; none of {cpus} {unit} is free"
    assert texts[1] == f"needs 0.5 cpus; none of {cpus} {unit} is free; 1 is ahead of it"
    service.post(f"/v1/runs/{long}/cancel")
    assert lib.wait_until(lambda: not service.get("/v1/queue").json["waiting"])


def test_a_real_prometheus_scrapes_it(outside, tmp_path):
    if not shutil.which("prometheus"):
        pytest.skip("prometheus: it is not installed")
    token, port = outside.token("prometheus", "--scope", "read-all"), services.free_port()
    outside.wait(outside.submit("true"))
    assert lib.wait_until(lambda: outside.get("/v1/ledger").json["owed"] == 0)
    page = (lib.TESTS.parent / "docs/man/cupel-api.7.scd").read_text(encoding="utf-8")  # as it tells people to do it
    told = re.search(r"```\n(scrape_configs:\n.*?)```", page, re.DOTALL)[1]
    (tmp_path / "token").write_text(token + "\n", encoding="utf-8")
    told = told.replace("/etc/prometheus/cupel.token", f"{tmp_path}/token").replace("127.0.0.1:8470", f"127.0.0.1:{outside.port}")
    (tmp_path / "p.yml").write_text("global: {scrape_interval: 1s}\n" + told, encoding="utf-8")
    process = subprocess.Popen(["prometheus", f"--config.file={tmp_path}/p.yml", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def value():
        query = urllib.parse.quote('cupel_runs_total{result="ok"}')
        with contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}", timeout=30) as answer:
                results = json.load(answer)["data"]["result"]
                return results and results[0]["value"][1]
        return None

    try:
        assert lib.wait_until(lambda: value() == "1")
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_the_dashboard_asks_for_what_there_is(service):
    service.wait(service.submit("true"))
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    text = service.get("/metrics").body.decode()
    names = set(re.findall(r"^(cupel_\w+)", text, re.MULTILINE)) | set(re.findall(r"^# TYPE (cupel_runtime\w+)", text, re.MULTILINE))
    dashboard = json.loads((lib.TESTS.parent / "docs/grafana/cupel.json").read_text(encoding="utf-8"))
    asked = {name for panel in dashboard["panels"] for target in panel["targets"] for name in re.findall(r"cupel_\w+", target["expr"])}
    assert asked and asked <= names, asked - names
