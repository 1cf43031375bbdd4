"""The HTTP interface by strangers: malformed and hostile requests, pages of other sites, tokens, and whoever asks too much or too slowly."""

import contextlib
import json
import os
import re
import resource
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest

import cupel as lib
from api_service import JSON, _outside, _service, bearer, needs_service, serving  # noqa: F401  (fixtures)


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
