"""What is the client's own: requests that are tried again, streams and downloads that go on, answers that are none.
The server is told what to say; the service itself is tested elsewhere."""

import asyncio
import concurrent.futures
import contextlib
import hashlib
import inspect
import json
import socket
import threading

import pytest
from replies import Server, files_below, nothing, raw, reply, stream, waits

import cupel
from cupel.wire import EventParser

QUICK = cupel.Patience(tries=3, first_s=0.001, longest_s=0.01, outage_s=0.5)
ROW = {"id": "r1", "state": "ended", "cause": "ok", "exit_status": 0}
END = b'event: end\ndata: {"state": "ended", "cause": "ok"}\n\n'


class Caller:
    """Calls a method of Client or AsyncClient to its end: a value, or the list of what it yields."""

    def __init__(self, kind, address, **options):
        options.setdefault("patience", QUICK)
        options.setdefault("timeout", 5)
        self.client = (cupel.AsyncClient if kind == "asyncio" else cupel.Client)(address, **options)

    def __getattr__(self, name):
        method = getattr(self.client, name)

        def call(*args, **keys):
            made = method(*args, **keys)
            if inspect.isawaitable(made):
                return asyncio.run(self._value(made))
            if hasattr(made, "__aiter__"):
                return asyncio.run(self._list(made))
            return list(made) if inspect.isgenerator(made) else made
        return call

    @staticmethod
    async def _value(awaitable):
        return await awaitable

    @staticmethod
    async def _list(iterator):
        return [item async for item in iterator]


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request):
    return request.param


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def client(server, kind):
    made = Caller(kind, server.address)
    yield made
    made.close()


def headers(request):
    return {name.lower(): value for name, value in request[2].items()}


# Tried again.

def test_a_submission_that_was_cut_off_is_sent_again_with_the_same_key(server, client):
    server.on("POST", "/v1/runs", nothing, reply(201, {"id": "r1", "state": "queued"}))
    assert client.submit(["true"], limits={"memory": "64M"}) == "r1"
    first, second = server.seen
    assert first[3] == second[3] and json.loads(first[3])["analysis"]["limits"] == {"memory": "64M"}
    key = headers(first)["idempotency-key"]
    assert headers(second)["idempotency-key"] == key and len(key) >= 16
    client.submit(["true"])
    assert headers(server.seen[-1])["idempotency-key"] != key  # the control: another submission is another


def test_a_service_that_asks_to_come_back_is_asked_again(server, client):
    busy = reply(503, {"error": {"code": "draining", "message": "going down", "remedy": None}}, Retry_After="1")
    server.on("GET", "/v1/host", busy, busy, reply(200, {"cpus": 2}))
    assert client.host() == {"cpus": 2}
    server.on("GET", "/v1/host", busy)
    with pytest.raises(cupel.Unavailable) as told:
        client.host()
    assert (told.value.code, told.value.status) == ("draining", 503)
    assert len(server.seen) == 3 + QUICK.tries


@pytest.mark.parametrize("status, kind_of_error", [(404, cupel.NotFound), (409, cupel.Refused), (403, cupel.Refused),
                                                   (500, cupel.CupelError)])
def test_errors_are_what_the_service_says(server, client, status, kind_of_error):
    server.on("GET", "/v1/runs/r1/outputs", reply(status, {"error": {"code": "c", "message": "m", "remedy": "r"}}))
    with pytest.raises(cupel.CupelError) as told:
        client.outputs("r1")
    assert type(told.value) is kind_of_error and str(told.value) == "m (r)"
    assert (told.value.code, told.value.status, len(server.seen)) == ("c", status, 1)
    server.on("GET", "/v1/runs/r1/outputs", reply(status, b"<html>"))
    with pytest.raises(kind_of_error, match=f"answered {status}: <html>"):
        client.outputs("r1")


def test_nobody_there(tmp_path, kind):
    client = Caller(kind, str(tmp_path / "none"))
    with pytest.raises(cupel.Unavailable, match="does not answer") as told:
        client.show("r1")
    assert "cupel serve" in told.value.remedy


def test_a_service_that_never_answers(server, kind):
    server.on("GET", "/v1/host", waits(server))
    client = Caller(kind, server.address, timeout=0.1)
    with pytest.raises(cupel.Unavailable):
        client.host()
    assert len(server.seen) == QUICK.tries
    client.close()


def test_a_kept_connection_that_was_closed_is_no_failure(server):
    once = cupel.Client(server.address, patience=cupel.Patience(tries=1))
    server.on("GET", "/v1/host", reply(200, {"n": 1}, keep=True))
    assert [once.host() for _ in range(5)] == [{"n": 1}] * 5
    assert len(server.connections) == 1  # the control: it is kept
    server.on("GET", "/v1/host", nothing, reply(200, {"n": 2}))
    assert once.host() == {"n": 2}  # tries=1: what the dead connection did does not count
    once.close()


def test_a_client_is_for_many_threads(server):
    server.on("GET", "/v1/host", reply(200, {"n": 1}, keep=True))
    with cupel.Client(server.address, patience=QUICK) as client, concurrent.futures.ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: client.host()["n"], range(400)))
    assert found == [1] * 400 and len(server.seen) == 400


def test_a_full_queue_of_connections_is_waited_for(tmp_path, kind):
    """A service that is slow to accept: the kernel refuses to wait for those who have a timeout."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening, contextlib.ExitStack() as stack:
        listening.bind(path)
        listening.listen(0)
        others = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(5)]
        full = 0
        for other in others:
            other.setblocking(False)
            try:
                other.connect(path)
            except BlockingIOError:
                full += 1
        assert full  # the control: there is no place left

        def accept():
            for _ in range(5 - full + 1):
                taken = stack.enter_context(listening.accept()[0])
                if taken.recv(1 << 16):
                    taken.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"n\": 1}")

        for other in others:
            other.close()  # whoever is in the queue sends nothing
        timer = threading.Timer(0.2, accept)
        timer.start()
        client = Caller(kind, path, patience=cupel.Patience(tries=1))
        assert client.host() == {"n": 1}
        client.close()
        timer.join()


@pytest.mark.parametrize("data", [
    b"HTTP/9.9 200 OK\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{",
    b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{x}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n"])
def test_what_is_no_answer_is_an_error_of_ours(server, client, data):
    server.on("GET", "/v1/host", raw(data))
    with pytest.raises(cupel.CupelError):
        client.host()


def test_a_chunked_answer_in_any_pieces(server, client):
    server.on("GET", "/v1/host", raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n3;x=y\r\n\"a\"\r\n"
                                     b"4\r\n: 1}\r\n0\r\n\r\n"))
    assert client.host() == {"a": 1}


# Who we are.

def test_a_token_goes_with_each_request_and_no_line_break_with_it(kind):
    server = Server(tcp=True)
    server.on("GET", "/v1/host", reply(200, {}))
    client = Caller(kind, server.address, token="cupel_abc")
    client.host()
    client.close()
    got = headers(server.seen[0])
    assert got["authorization"] == "Bearer cupel_abc" and got["host"] == server.address[len("http://"):]
    with pytest.raises((ValueError, cupel.CupelError)):
        Caller(kind, server.address, token="cupel_abc\r\nX-Evil: 1").host()
    assert len(server.seen) == 1
    server.close()


@pytest.mark.parametrize("name", ["ftp://x", "relative/path", "http://", "http://u:p@host", ""])
def test_what_is_no_service(name, monkeypatch):
    monkeypatch.delenv("CUPEL_SERVICE", raising=False)
    with pytest.raises(ValueError):
        cupel.Client(name)


# Streams.

def log_event(offset, text):
    return b"id: %d\nevent: log\ndata: %s\n\n" % (offset, json.dumps({"text": text}).encode())


def test_a_log_goes_on_where_it_broke_off(server, client):
    whole = log_event(3, "abc") + b": keep alive\n\n" + log_event(6, "d\u00e9") + log_event(9, "never seen whole")
    server.on("GET", "/v1/runs/r1/log/stdout",
              stream(whole[:10], whole[10:75], whole[75:-5]), stream(), stream(log_event(9, "xyz")), stream(END))
    assert "".join(client.logs("r1", follow=True)) == "abcd\u00e9xyz"
    asked = [request[1].partition("?")[2] for request in server.seen]
    assert asked == ["offset=0", "offset=6", "offset=6", "offset=9"]
    assert all(headers(request)["accept"] == "text/event-stream" for request in server.seen)


def test_waiting_goes_on_behind_the_last_event(server, client):
    server.on("GET", "/v1/runs/r1/events", stream(b'id: 4\nevent: event\ndata: {"n": 4}\n\n'), nothing,
              reply(503, {}), stream(END))
    server.on("GET", "/v1/runs/r1", *[reply(200, {**ROW, "state": "running"})] * 2, reply(200, ROW))
    run = client.wait("r1")
    assert run.ok and run.returncode == 0
    streams = [headers(request).get("last-event-id") for request in server.seen if request[1].endswith("/events")]
    assert streams == [None, "4", "4", "4"]


def test_waiting_ends_when_it_should_and_says_so(server, client):
    server.on("GET", "/v1/runs/r1", reply(200, {**ROW, "state": "queued"}))
    server.on("GET", "/v1/runs/r1/events", stream(b": hello\n\n", then=lambda: server.release.wait(60)))
    with pytest.raises(cupel.WaitTimeout):
        client.wait("r1", 0.2)
    assert isinstance(cupel.WaitTimeout("x"), TimeoutError)


def test_a_service_that_stays_away_is_given_up(server, client):
    server.on("GET", "/v1/runs/r1", reply(200, {**ROW, "state": "running"}))
    server.on("GET", "/v1/runs/r1/events", nothing)
    with pytest.raises(cupel.Unavailable):
        client.wait("r1")
    assert len(server.seen) > 4


def test_a_pipeline_is_asked_for_by_its_own_name(server, client):
    server.on("GET", "/v1/runs/p1", reply(200, {"id": "p1", "kind": "pipeline", "state": "running"}),
              reply(404, {"error": {"code": "not-found", "message": "it is a pipeline"}}))
    server.on("GET", "/v1/pipelines/p1", reply(200, {"id": "p1", "state": "failed", "cause": "exit", "exit_status": 3}))
    run = client.wait("p1")
    assert (run.kind, run.state, run.cause, run.returncode) == ("pipeline", "ended", "exit", 3)


def test_events_of_all_kinds_of_lines(server, client):
    server.on("GET", "/v1/runs/r1/events", stream(b'data: {"n":\r', b'\ndata: 1}\r\n\r', b'\nretry: 10\rdata:{"n": 2}\r\r', END))
    assert client.events("r1", follow=True) == [{"n": 1}, {"n": 2}]


def test_a_stream_means_the_same_however_it_is_cut():
    data = ('id: 1\r\ndata: a\u00e9\r\rdata\n\n: c\nevent: x\ndata: b\ndata:  c\n\nid\ndata: d\n\r\n').encode()
    whole = EventParser().feed(data)
    assert [(event.event, event.data, event.id) for event in whole] == [
        ("message", "a\u00e9", "1"), ("message", "", "1"), ("x", "b\n c", "1"), ("message", "d", "")]
    for first in range(len(data)):
        for second in range(first, len(data)):
            parser = EventParser()
            assert parser.feed(data[:first]) + parser.feed(data[first:second]) + parser.feed(data[second:]) == whole


def test_an_event_without_an_end_is_refused(server, client):
    server.on("GET", "/v1/runs/r1/events", stream(*[b"data: " + b"x" * 1_000_000] * 6))
    with pytest.raises(cupel.CupelError, match="too long"):
        client.events("r1", follow=True)


def test_a_cancelled_task_cancels_its_run(server):
    async def main():
        client = cupel.AsyncClient(server.address, patience=QUICK)
        task = asyncio.ensure_future(client.run(["sleep", "60"], id="r1"))
        while not any(request[1].endswith("/events") for request in server.seen):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    server.on("POST", "/v1/runs", reply(201, {"id": "r1"}))
    server.on("GET", "/v1/runs/r1/events", stream(b": wait\n\n", then=lambda: server.release.wait(60)), stream(END))
    server.on("POST", "/v1/runs/r1/cancel", reply(202, {}))
    server.on("GET", "/v1/runs/r1", reply(200, {**ROW, "state": "running"}),
              reply(200, {**ROW, "cause": "cancelled", "exit_status": 143}))
    asyncio.run(main())
    assert [request[1] for request in server.seen if request[0] == "POST"] == ["/v1/runs", "/v1/runs/r1/cancel"]


# Logs and outputs by range.

def test_a_log_by_range(server, client):
    server.on("GET", "/v1/runs/r1/log/stderr", reply(206, b"cde", Content_Range="bytes 2-4/10"))
    part = client.log("r1", "stderr", offset=2, limit=3)
    assert (part.data, part.offset, part.total, part.cut) == (b"cde", 2, 10, True)
    assert headers(server.seen[0])["range"] == "bytes=2-4"
    server.on("GET", "/v1/runs/r1/log/stderr", reply(200, b"abcdefghij"))
    assert client.log("r1", "stderr", offset=2, limit=3).data == b"cde"
    server.on("GET", "/v1/runs/r1/log/stderr", reply(416, b"", Content_Range="bytes */10"))
    assert client.log("r1", "stderr", offset=99).total == 10
    with pytest.raises(ValueError):
        client.log("r1", "stdin")


DATA = bytes(range(256)) * 4000


def offers(server, path="out/a b.bin", data=DATA, **changes):
    entry = {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "media_type": None, **changes}
    server.on("GET", "/v1/runs/r1/outputs", reply(200, {"outputs": [entry], "partial": False}))


def cut(data, whole):
    return raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (whole, data))


def test_a_download_goes_on_where_it_broke_off(server, client, tmp_path):
    offers(server)
    server.on("GET", "/v1/runs/r1/outputs/out/a%20b.bin", cut(DATA[:300_000], len(DATA)), nothing,
              reply(206, DATA[300_000:], Content_Range=f"bytes 300000-{len(DATA) - 1}/{len(DATA)}"))
    assert client.download("r1", tmp_path) == [tmp_path / "out/a b.bin"]
    assert (tmp_path / "out/a b.bin").read_bytes() == DATA
    assert files_below(tmp_path) == ["out/a b.bin"]
    ranges = [headers(request).get("range") for request in server.seen[1:]]
    assert ranges == [None, "bytes=300000-", "bytes=300000-"]


def test_a_server_without_ranges_sends_it_again(server, client, tmp_path):
    offers(server)
    server.on("GET", "/v1/runs/r1/outputs/out/a%20b.bin", cut(DATA[:70_001], len(DATA)), reply(200, DATA))
    client.download("r1", tmp_path)
    assert (tmp_path / "out/a b.bin").read_bytes() == DATA


@pytest.mark.parametrize("sent", [DATA[:-1] + b"!", DATA + b"more"])
def test_what_is_not_what_was_recorded_leaves_nothing(server, client, tmp_path, sent):
    offers(server)
    server.on("GET", "/v1/runs/r1/outputs/out/a%20b.bin", reply(200, sent))
    with pytest.raises(cupel.CupelError, match="recorded"):
        client.download("r1", tmp_path)
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("path", ["../up", "/etc/x", "a//b", "a/./b", ""])
def test_a_path_that_leads_out_is_refused(server, client, tmp_path, path):
    offers(server, path, b"x")
    with pytest.raises(cupel.CupelError, match="no path"):
        client.download("r1", tmp_path / "in")
    assert files_below(tmp_path) == []


def test_no_link_is_followed_and_nothing_replaced_unasked(server, client, tmp_path):
    offers(server, "out/a", b"new")
    server.on("GET", "/v1/runs/r1/outputs/out/a", reply(200, b"new"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in/out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        client.download("r1", tmp_path / "in")
    assert files_below(tmp_path / "elsewhere") == []
    (tmp_path / "in/out").unlink()
    (tmp_path / "in/out").mkdir()
    (tmp_path / "victim").write_text("old")
    (tmp_path / "in/out/a").symlink_to(tmp_path / "victim")
    with pytest.raises(cupel.Refused, match="there already"):
        client.download("r1", tmp_path / "in")
    client.download("r1", tmp_path / "in", overwrite=True)
    assert (tmp_path / "in/out/a").read_text() == "new" and not (tmp_path / "in/out/a").is_symlink()
    assert (tmp_path / "victim").read_text() == "old"


def test_an_output_as_a_file(server):
    offers(server)
    server.on("GET", "/v1/runs/r1/outputs/out/a%20b.bin", reply(200, DATA))
    with cupel.Client(server.address, patience=QUICK) as client, client.open_output("r1", "out/a b.bin") as file:
        assert file.read(5) == DATA[:5] and file.read() == DATA[5:]
        with pytest.raises(cupel.NotFound):
            client.open_output("r1", "out/none")
