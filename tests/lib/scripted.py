"""An HTTP server that says what a test tells it to: how a client reads answers that no service of ours would give.

    with scripted.Server(path) as server:
        server.answers["GET /v1/runs/a"] = {"id": "a", "state": "ended"}
"""

import http.server
import json
import os
import socketserver
import sys
import threading


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "test"

    def log_message(self, *_):
        pass

    def _answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.script.asked.append(
            (self.command, self.path, dict(self.headers), json.loads(body) if body else None)
        )
        script = self.server.script
        for key in (f"{self.command} {self.path}", f"{self.command} {self.path.split('?')[0]}"):
            if key in script.answers:
                answer = script.answers[key]
                break
        else:
            answer = (404, {"error": {"code": "not-found", "message": f"no {self.path}"}})
        if callable(answer):
            answer = answer(self)
        if answer is not None:
            status, value = answer if isinstance(answer, tuple) else (200, answer)
            self.send(status, value if isinstance(value, bytes) else json.dumps(value).encode())

    do_GET = do_POST = _answer

    def send(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, *pieces):
        """Server-sent events, each piece a chunk of its own; the connection is cut behind them."""
        self.begin_stream()
        for piece in pieces:
            self.piece(piece)
        self.close_connection = True

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def piece(self, data):
        data = data.encode() if isinstance(data, str) else data
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class _Quiet:
    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that has enough goes
            super().handle_error(request, client_address)


class _Unix(_Quiet, socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def get_request(self):
        connection, _ = super().get_request()
        return connection, ("test", 0)


class _Tcp(_Quiet, socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class Server:
    """`where`: a path, or None for TCP on the loopback; `url` then says where."""

    def __init__(self, where=None, home="/nowhere"):
        self.where = where
        self.asked = []
        self.ended = threading.Event()  # for handlers that hold their connection
        self.answers = {"GET /v1": {"service": "cupel", "api": "1", "home": str(home)}}
        self._server = None

    def start(self):
        if self.where:
            self._server = _Unix(str(self.where), _Handler)
            os.chmod(self.where, 0o666)
        else:
            self._server = _Tcp(("127.0.0.1", 0), _Handler)
        self._server.script = self
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def stop(self):
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        if self.where:
            os.unlink(self.where)

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def paths(self):
        return [f"{method} {path}" for method, path, _, _ in self.asked]

    __enter__ = start

    def __exit__(self, *_):
        self.stop()
