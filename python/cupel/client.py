"""The service, by its HTTP API: blocking."""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import pathlib
import time
from typing import Any, BinaryIO, Dict, Generator, Iterator, List, Mapping, Optional, Sequence

from . import api, save
from .spec import Moment, StrPath, What, local_path
from .connection import FAILURES, Connections
from .door import Door
from .errors import NotFound, Refused, WaitTimeout
from .records import texts
from .model import LogPart, Output, Run, outputs_of, run_of
from .wire import Endpoint, Patience, Request, ServerEvent, error_of, whole_length

POLL_S = 0.2


def where(service: Optional[str]) -> Endpoint:
    """A service by its socket or URL, or $CUPEL_SERVICE."""
    named = service or os.environ.get("CUPEL_SERVICE")
    if not named:
        raise ValueError("no service is named, and CUPEL_SERVICE is not set")
    return Endpoint.parse(named)


@contextlib.contextmanager
def not_there_is_refused() -> Iterator[None]:
    """A runtime or a file that an analysis names and that is not there is a mistake of the analysis."""
    try:
        yield
    except NotFound as error:
        raise Refused(error.message, code=error.code, remedy=error.remedy, status=error.status) from None


def after_event(request: Request, last_id: Optional[str]) -> Request:
    if last_id is None:
        return request
    return Request(request.method, request.path, request.query,
                   headers={**request.headers, "Last-Event-ID": last_id})


def from_range(request: Request, offset: int) -> Request:
    if not offset:
        return request
    return Request(request.method, request.path, request.query,
                   headers={**request.headers, "Range": f"bytes={offset}-"})


class Pieces(io.RawIOBase):
    """An iterator of bytes as a file."""

    def __init__(self, pieces: Generator[bytes, None, None]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._rest:
            try:
                self._rest = next(self._pieces)
            except StopIteration:
                return 0
        taken = min(len(into), len(self._rest))
        into[:taken], self._rest = self._rest[:taken], self._rest[taken:]
        return taken

    def close(self) -> None:
        self._pieces.close()
        super().close()


class Client(Door):
    """A service, by the path of its socket or its URL ($CUPEL_SERVICE), with a token ($CUPEL_TOKEN) for the latter.

    timeout: seconds for a connection and for each answer; patience: how often and how long it is tried again.
    """

    def __init__(self, service: Optional[str] = None, token: Optional[str] = None, *, timeout: float = 30.0,
                 patience: Optional[Patience] = None) -> None:
        self._http = Connections(where(service), token or os.environ.get("CUPEL_TOKEN"), timeout,
                                 patience or Patience())

    def close(self) -> None:
        self._http.close()

    def info(self) -> Dict[str, Any]:
        """Which service this is, and who we are to it."""
        return dict(self._http.ask(api.info()))

    def submit(self, what: What, *, id: Optional[str] = None, priority: int = 0,
               retries: Optional[Mapping[str, Any]] = None, not_before: Optional[Moment] = None,
               idempotency_key: Optional[str] = None, **keys: Any) -> str:
        with not_there_is_refused():
            return str(self._http.ask(api.submit(what, id, priority, retries, keys, not_before, idempotency_key))["id"])

    def wait(self, run_id: str, timeout: Optional[float] = None) -> Run:
        deadline = None if timeout is None else time.monotonic() + timeout
        run = self.show(run_id)
        if not run.over and run.kind == "run":  # a pipeline has no events of its own
            with contextlib.closing(self._following(api.follow_events(run_id), deadline)) as events:
                for _ in events:
                    pass
            run = self.show(run_id)
        while not run.over:  # the row may be a moment behind the record, or the service tries it again
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(f"run {run_id} was not over after {timeout} s", code="timeout")
            time.sleep(POLL_S)
            run = self.show(run_id)
        return run

    def _following(self, request: Request, deadline: Optional[float] = None) -> Generator[ServerEvent, None, None]:
        return self._http.stream(lambda last_id: after_event(request, last_id), deadline)

    def show(self, run_id: str) -> Run:
        try:
            return run_of(self._http.ask(api.show(run_id)))
        except NotFound as error:
            with contextlib.suppress(NotFound):
                return run_of({"kind": "pipeline", **self._http.ask(api.pipeline(run_id))})
            raise error

    def list(self, *, state: Optional[str] = None, cause: Optional[str] = None, runtime: Optional[str] = None,
             quest: Optional[str] = None, since: Optional[str] = None, limit: int = 50,
             after: Optional[str] = None, newest_first: bool = True) -> List[Run]:
        said = self._http.ask(api.runs(limit, newest_first, state=state, cause=cause, runtime=runtime, quest=quest,
                                       since=since, after=after))
        return [run_of(row) for row in api.rows(said, "runs")]

    def cancel(self, run_id: str) -> None:
        self._http.exchange(api.cancel(run_id))

    def log(self, run_id: str, stream: str = "stdout", *, offset: int = 0, limit: int = 10 << 20) -> LogPart:
        answer, body = self._http.exchange(api.log(run_id, stream, offset, limit), (200, 206, 416))
        if answer.status == 416:  # behind the end, or there is nothing
            return LogPart(b"", offset, whole_length(416, answer.headers, offset, 0))
        if answer.status == 200:  # all of it, whatever was asked for
            return LogPart(body[offset:offset + limit], offset, len(body))
        return LogPart(body, offset, whole_length(206, answer.headers, offset, len(body)))

    def _log_pieces(self, run_id: str, stream: str, offset: int) -> Iterator[bytes]:
        while True:
            part = self.log(run_id, stream, offset=offset, limit=save.CHUNK)
            if not part.data:
                return
            yield part.data
            offset += len(part.data)

    def logs(self, run_id: str, stream: str = "stdout", *, follow: bool = False, offset: int = 0) -> Iterator[str]:
        if not follow:
            yield from texts(self._log_pieces(run_id, stream, offset))
            return
        with contextlib.closing(self._http.stream(
                lambda last: api.follow_log(run_id, stream, int(last) if last else offset))) as events:
            for event in events:
                text = api.text_of(event.json()) if event.event == "log" else ""
                if text:
                    yield text

    def events(self, run_id: str, *, follow: bool = False) -> Iterator[Dict[str, Any]]:
        if not follow:
            yield from api.rows(self._http.ask(api.events(run_id)), "events")
            return
        with contextlib.closing(self._following(api.follow_events(run_id))) as events:
            for event in events:
                if event.event != "end":
                    yield event.json()

    def watch(self) -> Iterator[Dict[str, Any]]:
        """What happens to all runs, from now on, without an end. {"change": "reset"}: some was missed, list again."""
        with contextlib.closing(self._following(api.watch())) as events:
            for event in events:
                yield {"change": "reset"} if event.event == "reset" else event.json()

    def outputs(self, run_id: str) -> List[Output]:
        return outputs_of(self._http.ask(api.outputs(run_id)))

    def _output_pieces(self, run_id: str, output: Output) -> Generator[bytes, None, None]:
        """All of an output; after a broken connection the rest of it."""
        request, offset, failures = api.output(run_id, output.path), 0, 0
        while offset < output.bytes:
            try:
                for piece in self._rest_of(from_range(request, offset), offset):
                    offset, failures = offset + len(piece), 0
                    yield piece
                problem: BaseException = http.client.IncompleteRead(b"", output.bytes - offset)
            except FAILURES as error:
                problem = error
            if offset < output.bytes:
                failures += 1
                if failures >= self._http.patience.tries:
                    raise self._http.failed(problem) from problem
                time.sleep(self._http.patience.delay(failures))

    def _rest_of(self, request: Request, offset: int) -> Iterator[bytes]:
        answer = self._http.open(request)
        try:
            if answer.status not in (200, 206):
                raise error_of(answer.status, answer.body())
            skip = offset if answer.status == 200 else 0  # it has no ranges: what we have comes again
            for piece in answer.pieces():
                rest = piece[skip:]
                skip -= len(piece) - len(rest)
                if rest:
                    yield rest
        finally:
            answer.close()

    def open_output(self, run_id: str, path: str) -> BinaryIO:
        output = save.chosen(self.outputs(run_id), [path])[0]
        return io.BufferedReader(Pieces(self._output_pieces(run_id, output)))

    def download(self, run_id: str, directory: StrPath, paths: Optional[Sequence[str]] = None, *,
                 overwrite: bool = False) -> List[pathlib.Path]:
        copied = []
        for output in save.chosen(self.outputs(run_id), paths):
            with save.Copy(local_path(directory), output, overwrite=overwrite) as copy, \
                    contextlib.closing(self._output_pieces(run_id, output)) as pieces:
                for piece in pieces:
                    copy.write(piece)
                copied.append(copy.commit())
        return copied

    def plan(self, what: What, **keys: Any) -> Dict[str, Any]:
        return dict(self._http.ask(api.plan(what, keys)))

    def why(self, run_id: str) -> List[Dict[str, Any]]:
        try:
            return api.rows(self._http.ask(api.why(run_id)), "tasks")
        except NotFound:
            return api.rows(self._http.ask(api.why_pipeline(run_id)), "tasks")

    def rerun(self, run_id: str, *, env: Optional[Mapping[str, str]] = None) -> str:
        return str(self._http.ask(api.rerun(run_id, env))["id"])

    def resume(self, run_id: str) -> str:
        return str(self._http.ask(api.resume(run_id)).get("id", run_id))

    def runtimes(self) -> List[Dict[str, Any]]:
        return api.rows(self._http.ask(api.runtimes()), "runtimes")

    def quests(self) -> List[Dict[str, Any]]:
        return api.rows(self._http.ask(api.quests()), "quests")

    def host(self) -> Dict[str, Any]:
        return dict(self._http.ask(api.host()))
