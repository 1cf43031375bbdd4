"""A real service with a home of its own, asked by HTTP as strangers and friends would."""

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess

import cupel as lib

SERVE = lib.BUILD / "src/cli/cupel-serve"
SETTINGS = "service: {%s check_runtimes: never}\n"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        assert lib.wait_until(self._is_taken), "its queue of connections stays full"

    def _is_taken(self):
        """With a time limit a full queue is not waited for by the kernel."""
        try:
            self.sock.connect(str(self._path))
        except BlockingIOError:
            return False
        return True


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["error"]["code"]


class Service:
    def __init__(self, caller, settings="", tcp=False, config="", prefix=()):
        """`prefix`: a command that starts ours, the service and what makes tokens for it."""
        self.caller = caller
        self.prefix = prefix
        self.port = lib.free_port() if tcp else None
        listen = f"listen: 127.0.0.1:{self.port}, " if tcp else ""
        shutil.copy(SERVE, caller.base / "cupel-serve")
        caller.configure(config + SETTINGS % (settings + listen))
        self.socket = caller.home / "cupel.sock"
        self.process = None

    def start(self):
        self.process = self.caller.popen(*self.prefix, self.caller.binary, "serve", stderr=subprocess.PIPE)
        assert lib.wait_until(lambda: self.process.poll() is not None or self.takes_work())
        assert self.process.poll() is None, self.process.stderr.read()
        return self

    def takes_work(self):
        """The queue was read, not only the door opened."""
        with contextlib.suppress(OSError):
            return self.post("/v1/runs", {"analysis": {"odd": 1}}).status == 400
        return False

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        err = self.process.communicate(timeout=60)[1].decode()
        assert "Sanitizer" not in err, err
        assert self.process.returncode == 0, err

    def connect(self, tcp=False, timeout=60):
        if tcp:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        return _UnixConnection(self.socket, timeout)

    def ask(self, method, path, body=None, headers=None, tcp=False):
        connection = self.connect(tcp)
        sent = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            sent.setdefault("Content-Type", "application/json")
        with contextlib.closing(connection):
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Answer(response, response.read())

    def get(self, path, headers=None, **more):
        return self.ask("GET", path, headers=headers, **more)

    def post(self, path, body=None, headers=None, **more):
        return self.ask("POST", path, body, headers, **more)

    def raw(self, data, limit=1 << 20, timeout=60):
        """What comes back for these bytes, up to the end of the stream."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(timeout)
            s.connect(str(self.socket))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                s.sendall(data)
            got = b""
            with contextlib.suppress(ConnectionResetError):
                while len(got) < limit and (piece := s.recv(65536)):
                    got += piece
            return got

    def submit(self, *command, **keys):
        analysis = {"command": list(command), **keys.pop("analysis", {})}
        answer = self.post("/v1/runs", {"analysis": analysis, **keys})
        assert answer.status == 201, answer.body
        return answer.json["id"]

    def state(self, run_id):
        answer = self.get(f"/v1/runs/{run_id}")
        return answer.json["state"] if answer.status == 200 else None

    def wait(self, run_id):
        assert lib.wait_until(lambda: self.state(run_id) == "ended")
        return self.get(f"/v1/runs/{run_id}").json

    def events(self, path, headers=None, timeout=60):
        """The events of a stream, which is open from here on, until it ends or the caller does."""
        connection = self.connect(timeout=timeout)
        connection.request("GET", path, headers={"Accept": "text/event-stream", **(headers or {})})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        return self._events(connection, response)

    @staticmethod
    def _events(connection, response):
        event = {}
        with contextlib.closing(connection):
            for line in response:
                line = line.decode().rstrip("\n")
                if line and not line.startswith(":"):
                    key, _, value = line.partition(": ")
                    event[key] = value
                elif not line and event:
                    yield event.get("id"), event.get("event"), json.loads(event["data"])
                    event = {}

    def token(self, name, *options):
        status, out, err = self.caller.call(*self.prefix, self.caller.binary, "token", "create", name, *options)
        assert status == 0, err
        return out.strip()


def open_files():
    return len(os.listdir("/proc/self/fd"))
