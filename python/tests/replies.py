"""A server that answers as it is told, for tests of what is the client's own: breaking off, ranges, errors, garbage."""

import contextlib
import http.server
import json
import os
import pathlib
import socketserver
import tempfile
import threading


class Stop(Exception):
    """Raised by an answer that breaks the connection."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections.append(self.client_address)

    def _handle(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        replies = self.server.replies[self.command, self.path.partition("?")[0]]
        chosen = replies.pop(0) if len(replies) > 1 else replies[0]
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        self.close_connection = True
        with contextlib.suppress(Stop, BrokenPipeError, ConnectionResetError):
            chosen(self)

    do_GET = do_POST = _handle

    def address_string(self):
        return "client"

    def log_message(self, *_):
        pass


class _Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False


class _Tcp(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False


class Server:
    """replies[(method, path)]: a list of functions of the handler, one for each request; the last one stays."""

    def __init__(self, tcp=False):
        self._place = tempfile.TemporaryDirectory(prefix="cupel-replies-")
        self.address = os.path.join(self._place.name, "s")
        self._server = _Tcp(("127.0.0.1", 0), _Handler) if tcp else _Unix(self.address, _Handler)
        if tcp:
            self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.replies = self._server.replies = {}
        self.seen = self._server.seen = []
        self.connections = self._server.connections = []
        self.release = threading.Event()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def on(self, method, path, *replies):
        self.replies[method, path] = list(replies)

    def close(self):
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._place.cleanup()


def reply(status, body, keep=False, **headers):
    """A JSON answer, or bytes as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def send(handler):
        handler.close_connection = not keep
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
    return send


def stream(*pieces, then=None):
    """An event stream, chunked, in these pieces; then it breaks off, or what `then` does."""
    def send(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in pieces:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.flush()
        if then:
            then()
        raise Stop
    return send


def raw(data):
    """These bytes in place of an answer."""
    def send(handler):
        handler.wfile.write(data)
        raise Stop
    return send


def nothing(handler):
    """Breaks off without a word."""
    raise Stop


def waits(server):
    """Never answers, until the test is over."""
    def send(_):
        server.release.wait(60)
        raise Stop
    return send


def files_below(place):
    return sorted(str(path.relative_to(place)) for path in pathlib.Path(place).rglob("*") if not path.is_dir())
