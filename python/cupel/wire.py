"""HTTP as the service speaks it, without any input or output: where it is, requests, answers, event streams."""

from __future__ import annotations

import dataclasses
import json
import re
import urllib.parse
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from .errors import CupelError, from_http

HEAD_BYTES = 64 << 10
JSON_BYTES = 64 << 20
EVENT_BYTES = 4 << 20
RETRIED = frozenset({429, 502, 503, 504})


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where a service listens: a unix socket, or a host and port."""

    socket: Optional[str] = None
    host: str = "localhost"
    port: int = 0
    tls: bool = False
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> "Endpoint":
        """/run/cupel.sock, unix:/run/cupel.sock, http://host:port, https://host/prefix"""
        if text.startswith("unix:"):
            text = text[5:]
        if text.startswith("/"):
            return cls(socket=text)
        url = urllib.parse.urlsplit(text)
        if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment or url.username:
            raise ValueError(f"{text!r} is no service: give the path of a socket, or http://HOST:PORT")
        tls = url.scheme == "https"
        return cls(host=url.hostname, port=url.port or (443 if tls else 80), tls=tls, prefix=url.path.rstrip("/"))

    @property
    def name(self) -> str:
        return self.socket or f"http{'s' if self.tls else ''}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        if self.socket:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Request:
    """One request. All of them may be sent again: those that change something carry a key."""

    method: str
    path: str
    query: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    body: Optional[Mapping[str, Any]] = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def target(self, endpoint: Endpoint) -> str:
        query = {key: value for key, value in self.query.items() if value is not None}
        return endpoint.prefix + self.path + (f"?{urllib.parse.urlencode(query)}" if query else "")

    def payload(self) -> Optional[bytes]:
        if self.body is None:
            return b"" if self.method == "POST" else None
        return json.dumps(self.body, ensure_ascii=False).encode("utf-8")

    def fields(self, endpoint: Endpoint, token: Optional[str]) -> Dict[str, str]:
        made = {"Host": endpoint.authority, "Accept": "application/json", "User-Agent": "cupel-python"}
        if token:
            made["Authorization"] = f"Bearer {token}"
        if self.body is not None:
            made["Content-Type"] = "application/json"
        made.update(self.headers)
        return made

    def head(self, endpoint: Endpoint, token: Optional[str], payload: Optional[bytes]) -> bytes:
        """The request line and headers, for those who send them by hand."""
        fields = {**self.fields(endpoint, token), "Connection": "close"}
        if payload is not None:
            fields["Content-Length"] = str(len(payload))
        lines = [f"{self.method} {self.target(endpoint)} HTTP/1.1", *(f"{key}: {value}" for key, value in fields.items())]
        if any(re.search(r"[\r\n\0]", line) for line in lines):
            raise ValueError("a line break in a header")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@dataclasses.dataclass(frozen=True)
class Head:
    """The status line and headers of an answer."""

    status: int
    headers: Mapping[str, str]  # names in lower case

    @classmethod
    def parse(cls, data: bytes) -> "Head":
        lines = data.decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not re.fullmatch(r"[1-5]\d\d", words[1]):
            raise protocol_error(f"an answer began with {lines[0][:80]!r}")
        headers: Dict[str, str] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if line and (not colon or not name or name != name.strip()):
                raise protocol_error(f"a header is {line[:80]!r}")
            if line:
                headers[name.lower()] = value.strip()
        return cls(int(words[1]), headers)

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def length(self) -> Union[int, str]:
        """Of the body: a number, `chunked`, or `close` if the end of the connection is its end."""
        if self.status in (204, 304):
            return 0
        coding = self.headers.get("transfer-encoding", "").lower()
        if coding == "chunked":
            return "chunked"
        if coding:
            raise protocol_error(f"a transfer encoding is {coding[:40]!r}")
        value = self.headers.get("content-length")
        if value is None:
            return "close"
        if not re.fullmatch(r"\d{1,18}", value):
            raise protocol_error(f"a length is {value[:40]!r}")
        return int(value)


def protocol_error(text: str) -> CupelError:
    return CupelError(f"this is no answer of cupel: {text}", code="protocol")


def chunk_size(line: bytes) -> int:
    found = re.fullmatch(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r\n", line)
    if not found:
        raise protocol_error(f"a chunk begins with {line[:40]!r}")
    return int(found[1], 16)


def decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise protocol_error(f"no JSON: {body[:80]!r}") from None


def error_of(status: int, body: bytes) -> CupelError:
    """What an answer of 400 and above says."""
    try:
        said = json.loads(body)["error"]
        return from_http(status, str(said.get("code", "error")), str(said.get("message", "")), said.get("remedy"))
    except (ValueError, KeyError, TypeError, AttributeError):
        words = body[:200].decode("utf-8", "replace").strip()
        return from_http(status, f"http-{status}", f"the service answered {status}{': ' if words else ''}{words}", None)


def retry_after(headers: Mapping[str, str]) -> Optional[float]:
    value = headers.get("retry-after", "")
    return float(value) if re.fullmatch(r"\d{1,6}", value) else None


def whole_length(status: int, headers: Mapping[str, str], offset: int, received: int) -> int:
    """How long a file is of which a range was asked for."""
    found = re.fullmatch(r"bytes (?:\*|\d+-\d+)/(\d{1,18})", headers.get("content-range", ""))
    return int(found[1]) if status in (206, 416) and found else offset + received


@dataclasses.dataclass(frozen=True)
class ServerEvent:
    event: str
    data: str
    id: Optional[str]

    def json(self) -> Any:
        return decoded(self.data.encode("utf-8"))


class EventParser:
    """A stream of server-sent events in pieces of any size. Comments, which keep it alive, are nothing."""

    def __init__(self) -> None:
        self._rest = b""
        self._size = 0
        self._data: List[str] = []
        self._event = ""
        self.last_id: Optional[str] = None
        self.retry_s: Optional[float] = None

    def feed(self, piece: bytes) -> List[ServerEvent]:
        found = []
        lines, self._rest = self._lines(self._rest + piece)
        if len(self._rest) > EVENT_BYTES:
            raise protocol_error("an event is too long")
        for line in lines:
            made = self._line(line.decode("utf-8", "replace"))
            if made:
                found.append(made)
        return found

    @staticmethod
    def _lines(data: bytes) -> Tuple[List[bytes], bytes]:
        """Lines end with LF, CR LF or CR; a CR at the end may be the first half of one."""
        held = b"\r" if data.endswith(b"\r") else b""
        parts = re.split(rb"\r\n|\n|\r", data[:len(data) - len(held)])
        return parts[:-1], parts[-1] + held

    def _line(self, line: str) -> Optional[ServerEvent]:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data":
            self._size += len(value)
            if self._size > EVENT_BYTES:
                raise protocol_error("an event is too long")
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and re.fullmatch(r"\d{1,7}", value):
            self.retry_s = int(value) / 1000
        return None

    def _dispatch(self) -> Optional[ServerEvent]:
        data, event = self._data, self._event
        self._data, self._event, self._size = [], "", 0
        if not data:
            return None
        return ServerEvent(event or "message", "\n".join(data), self.last_id)


@dataclasses.dataclass(frozen=True)
class Patience:
    """How often a request is tried, and how long is waited between. `outage_s`: how long a service that someone waits
    on may be away."""

    tries: int = 5
    first_s: float = 0.1
    longest_s: float = 10.0
    outage_s: float = 60.0

    def delay(self, failures: int, asked: Optional[float] = None) -> float:
        grown = min(self.first_s * 2.0 ** min(failures - 1, 20), self.longest_s)
        return grown if asked is None else min(max(grown, asked), self.longest_s)
