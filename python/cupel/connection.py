"""Blocking HTTP to the service: connections that are kept, requests that are tried again, streams that go on."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import threading
import time
from typing import Any, Callable, Dict, Generator, Iterator, List, Optional, Tuple

from .errors import CupelError, Unavailable, WaitTimeout
from .wire import (JSON_BYTES, RETRIED, Endpoint, EventParser, Patience, Request, ServerEvent, decoded, error_of,
                   protocol_error, retry_after)

IDLE_MAX = 8
BACKLOG_S = 0.005
STALL_S = 45.0  # a stream says something every 15 seconds
FAILURES = (OSError, http.client.HTTPException)


class UnixConnection(http.client.HTTPConnection):
    """http.client over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        end = time.monotonic() + (self.timeout or 0)
        try:
            made.settimeout(self.timeout)
            while not self._is_taken(made, end):
                time.sleep(BACKLOG_S)
        except BaseException:
            made.close()
            raise
        self.sock = made

    def _is_taken(self, made: socket.socket, end: float) -> bool:
        """With a timeout the kernel does not wait for a place in the queue of a busy service: EAGAIN."""
        try:
            made.connect(self._path)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            return False
        return True


class Answer:
    """An answer whose body is still to be read; it is closed with its connection unless all of it was."""

    def __init__(self, connection: http.client.HTTPConnection, sock: socket.socket,
                 response: http.client.HTTPResponse) -> None:
        self.connection = connection
        self.response = response
        self._sock = sock
        self.status = response.status
        self.headers: Dict[str, str] = {name.lower(): value for name, value in response.getheaders()}

    def body(self, limit: int = JSON_BYTES) -> bytes:
        data = bytearray()
        for piece in self.pieces():  # Python 3.9 makes room for all that read() might return
            data += piece
            if len(data) > limit:
                raise protocol_error(f"more than {limit} bytes")
        if self.response.length:  # http.client is silent about a body that was cut off
            raise http.client.IncompleteRead(bytes(data), self.response.length)
        self.response.close()  # all of it was read: the connection is free for another request
        return bytes(data)

    def pieces(self, size: int = 1 << 16) -> Iterator[bytes]:
        """As they come. A body that was cut off just ends: the caller knows how long it is."""
        return iter(lambda: self.response.read1(size), b"")

    def set_timeout(self, seconds: float) -> None:
        with contextlib.suppress(OSError):  # closed by the peer: reading tells
            self._sock.settimeout(seconds)

    def close(self) -> None:
        self.response.close()
        self.connection.close()


class Connections:
    """Sends requests to one endpoint, from any thread."""

    def __init__(self, endpoint: Endpoint, token: Optional[str], timeout: float, patience: Patience) -> None:
        self.endpoint = endpoint
        self.patience = patience
        self._token = token
        self._timeout = timeout
        self._lock = threading.Lock()
        self._idle: List[http.client.HTTPConnection] = []
        self._pid = os.getpid()

    def _take(self) -> Optional[http.client.HTTPConnection]:
        with self._lock:
            if self._pid != os.getpid():  # a fork: the connections are the parent's
                self._idle, self._pid = [], os.getpid()
            return self._idle.pop() if self._idle else None

    def _give(self, answer: Answer) -> None:
        with self._lock:
            if not answer.response.will_close and len(self._idle) < IDLE_MAX:
                self._idle.append(answer.connection)
                return
        answer.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _new(self) -> http.client.HTTPConnection:
        at = self.endpoint
        if at.socket:
            return UnixConnection(at.socket, self._timeout)
        if at.tls:
            return http.client.HTTPSConnection(at.host, at.port, timeout=self._timeout)
        return http.client.HTTPConnection(at.host, at.port, timeout=self._timeout)

    def _send(self, connection: http.client.HTTPConnection, request: Request) -> Answer:
        try:
            if connection.sock is None:
                connection.connect()
            sock: Any = connection.sock  # http.client lets go of it where the answer ends the connection
            connection.request(request.method, request.target(self.endpoint), request.payload(),
                               request.fields(self.endpoint, self._token))
            return Answer(connection, sock, connection.getresponse())
        except BaseException:
            connection.close()
            raise

    def open(self, request: Request) -> Answer:
        """Sends it once. A connection that was kept may have been closed meanwhile: that is no failure."""
        kept = self._take()
        if kept:
            with contextlib.suppress(*FAILURES):
                return self._send(kept, request)
        return self._send(self._new(), request)

    def failed(self, error: BaseException) -> Unavailable:
        return Unavailable(f"the service at {self.endpoint.name} does not answer: {str(error) or type(error).__name__}",
                           code="no-service", remedy="`cupel serve` starts one; CUPEL_SERVICE says where it is")

    def exchange(self, request: Request, fine: Tuple[int, ...] = (200, 201, 202)) -> Tuple[Answer, bytes]:
        """The answer with its whole body; tried again if the service is away or asks for it."""
        failures = 0
        while True:
            failures += 1
            asked: Optional[float] = None
            problem: CupelError
            try:
                answer = self.open(request)
                try:
                    body = answer.body()
                except BaseException:
                    answer.close()
                    raise
                self._give(answer)
                if answer.status in fine:
                    return answer, body
                problem, asked = error_of(answer.status, body), retry_after(answer.headers)
                if answer.status not in RETRIED:
                    raise problem
            except FAILURES as error:
                problem = self.failed(error)
                problem.__cause__ = error
            if failures >= self.patience.tries:
                raise problem
            time.sleep(self.patience.delay(failures, asked))

    def ask(self, request: Request) -> Any:
        return decoded(self.exchange(request)[1])

    def _stream_once(self, request: Request, parser: EventParser, heard: Callable[[], None],
                     deadline: Optional[float]) -> Iterator[ServerEvent]:
        answer = self.open(request)
        try:
            if answer.status in RETRIED:
                raise http.client.HTTPException(f"it answered {answer.status}")
            if answer.status != 200:
                raise error_of(answer.status, answer.body())
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                raise protocol_error("no event stream")
            pieces = answer.pieces()
            while True:
                answer.set_timeout(STALL_S if deadline is None else max(0.001, min(STALL_S, deadline - time.monotonic())))
                piece = next(pieces, b"")
                if not piece:
                    return
                heard()
                yield from parser.feed(piece)
        finally:
            answer.close()

    def stream(self, again: Callable[[Optional[str]], Request], deadline: Optional[float] = None
               ) -> Generator[ServerEvent, None, None]:
        """Events up to `end`. When the connection breaks it goes on behind the last id: `again` makes the request."""
        last_id: Optional[str] = None
        failures, quiet_since = 0, time.monotonic()

        def heard() -> None:
            nonlocal failures, quiet_since
            failures, quiet_since = 0, time.monotonic()

        while True:
            problem: BaseException = http.client.HTTPException("the stream ended too soon")
            try:
                for event in self._stream_once(again(last_id), EventParser(), heard, deadline):
                    last_id = event.id if event.id is not None else last_id
                    yield event
                    if event.event == "end":
                        return
            except FAILURES as error:
                problem = error
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise WaitTimeout("the run was not over in time", code="timeout")
            if now - quiet_since > self.patience.outage_s:
                raise self.failed(problem) from problem
            failures += 1
            time.sleep(self.patience.delay(failures))
