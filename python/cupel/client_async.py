"""The service, by its HTTP API: for asyncio, over its streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import socket
import ssl
import time
from typing import Any, AsyncGenerator, AsyncIterator, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from . import api, save
from .aio import aclosing, async_texts, finish, log_pieces, within
from .spec import Moment, StrPath, What, local_path
from .client import POLL_S, after_event, from_range, not_there_is_refused, where
from .connection import BACKLOG_S, STALL_S
from .door import AsyncDoor
from .errors import CupelError, NotFound, Unavailable, WaitTimeout
from .model import LogPart, Output, Run, outputs_of, run_of
from .wire import (HEAD_BYTES, JSON_BYTES, RETRIED, EventParser, Head, Patience, Request, ServerEvent, chunk_size,
                   decoded, error_of, protocol_error, retry_after, whole_length)

FAILURES = (OSError, EOFError, asyncio.TimeoutError)  # IncompleteReadError is an EOFError


class Answer:
    """The head of an answer, and its body in pieces."""

    def __init__(self, reader: asyncio.StreamReader, head: Head, timeout: float) -> None:
        self._reader = reader
        self._timeout = timeout
        self.head = head

    async def _read(self, size: int) -> bytes:
        return await within(self._reader.read(size), self._timeout)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """As they come; a body that is cut off is an EOFError."""
        length = self.head.length()
        if length == "chunked":
            async for piece in self._chunks():
                yield piece
            return
        left = None if isinstance(length, str) else length
        while left is None or left > 0:
            piece = await self._read(1 << 16 if left is None else min(left, 1 << 16))
            if not piece and left is None:
                return
            if not piece:
                raise EOFError("the answer was cut off")
            left = None if left is None else left - len(piece)
            yield piece

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            left = chunk_size(await within(self._reader.readuntil(b"\n"), self._timeout))
            if not left:
                return
            while left:
                piece = await self._read(min(left, 1 << 16))
                if not piece:
                    raise EOFError("the answer was cut off")
                left -= len(piece)
                yield piece
            if await within(self._reader.readexactly(2), self._timeout) != b"\r\n":
                raise protocol_error("a chunk has no end")

    async def body(self, limit: int = JSON_BYTES) -> bytes:
        data = bytearray()
        async for piece in self.pieces():
            data += piece
            if len(data) > limit:
                raise protocol_error(f"more than {limit} bytes")
        return bytes(data)


class AsyncClient(AsyncDoor):
    """As Client; takes the same arguments. Each request has a connection of its own."""

    def __init__(self, service: Optional[str] = None, token: Optional[str] = None, *, timeout: float = 30.0,
                 patience: Optional[Patience] = None) -> None:
        self.endpoint = where(service)
        self._token = token or os.environ.get("CUPEL_TOKEN")
        self._timeout = timeout
        self._patience = patience or Patience()

    # Requests.

    async def _connect(self) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        at = self.endpoint
        if at.socket:
            opening = self._connect_unix(at.socket)
        else:
            opening = asyncio.open_connection(at.host, at.port, limit=HEAD_BYTES,
                                              ssl=ssl.create_default_context() if at.tls else None)
        return await within(opening, self._timeout, lambda made: made[1].close())

    @staticmethod
    async def _connect_unix(path: str) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """By hand: where the queue of a busy service is full, asyncio takes EAGAIN for a connection in progress."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            while True:
                try:
                    made.connect(path)
                    break
                except BlockingIOError:
                    await asyncio.sleep(BACKLOG_S)
            return await asyncio.open_unix_connection(sock=made, limit=HEAD_BYTES)
        except BaseException:
            made.close()
            raise

    @contextlib.asynccontextmanager
    async def _open(self, request: Request, stall: Optional[float] = None) -> AsyncIterator[Answer]:
        reader, writer = await self._connect()
        try:
            payload = request.payload()
            writer.write(request.head(self.endpoint, self._token, payload) + (payload or b""))
            await within(writer.drain(), self._timeout)
            try:
                head = await within(reader.readuntil(b"\r\n\r\n"), self._timeout)
            except asyncio.LimitOverrunError:
                raise protocol_error("its head is too long") from None
            yield Answer(reader, Head.parse(head[:-4]), stall or self._timeout)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _failed(self, error: BaseException) -> Unavailable:
        return Unavailable(f"the service at {self.endpoint.name} does not answer: {str(error) or type(error).__name__}",
                           code="no-service", remedy="`cupel serve` starts one; CUPEL_SERVICE says where it is")

    async def _exchange(self, request: Request, fine: Tuple[int, ...] = (200, 201, 202)) -> Tuple[Head, bytes]:
        failures = 0
        while True:
            failures += 1
            asked: Optional[float] = None
            problem: CupelError
            try:
                async with self._open(request) as answer:
                    head, body = answer.head, await answer.body()
                if head.status in fine:
                    return head, body
                problem, asked = error_of(head.status, body), retry_after(head.headers)
                if head.status not in RETRIED:
                    raise problem
            except FAILURES as error:
                problem = self._failed(error)
                problem.__cause__ = error
            if failures >= self._patience.tries:
                raise problem
            await asyncio.sleep(self._patience.delay(failures, asked))

    async def _ask(self, request: Request) -> Any:
        return decoded((await self._exchange(request))[1])

    async def _stream(self, again: Callable[[Optional[str]], Request]) -> AsyncGenerator[ServerEvent, None]:
        """As Connections.stream."""
        last_id: Optional[str] = None
        failures, quiet_since = 0, time.monotonic()
        while True:
            problem: BaseException = EOFError("the stream ended too soon")
            try:
                async with self._open(again(last_id), STALL_S) as answer:
                    if answer.head.status in RETRIED:
                        raise EOFError(f"it answered {answer.head.status}")
                    if answer.head.status != 200:
                        raise error_of(answer.head.status, await answer.body())
                    if not answer.head.is_stream:
                        raise protocol_error("no event stream")
                    parser = EventParser()
                    async for piece in answer.pieces():
                        failures, quiet_since = 0, time.monotonic()
                        for event in parser.feed(piece):
                            last_id = event.id if event.id is not None else last_id
                            yield event
                            if event.event == "end":
                                return
            except FAILURES as error:
                problem = error
            if time.monotonic() - quiet_since > self._patience.outage_s:
                raise self._failed(problem) from problem
            failures += 1
            await asyncio.sleep(self._patience.delay(failures))

    def _following(self, request: Request) -> AsyncGenerator[ServerEvent, None]:
        return self._stream(lambda last_id: after_event(request, last_id))

    # The interface.

    async def info(self) -> Dict[str, Any]:
        return dict(await self._ask(api.info()))

    async def submit(self, what: What, *, id: Optional[str] = None, priority: int = 0,
                     retries: Optional[Mapping[str, Any]] = None, not_before: Optional[Moment] = None,
                     idempotency_key: Optional[str] = None, **keys: Any) -> str:
        with not_there_is_refused():
            return str((await self._ask(api.submit(what, id, priority, retries, keys, not_before, idempotency_key)))["id"])

    async def wait(self, run_id: str, timeout: Optional[float] = None) -> Run:
        try:
            return await within(self._wait(run_id), timeout)
        except asyncio.TimeoutError:
            raise WaitTimeout(f"run {run_id} was not over after {timeout} s", code="timeout") from None

    async def _wait(self, run_id: str) -> Run:
        run = await self.show(run_id)
        if not run.over and run.kind == "run":  # a pipeline has no events of its own
            async with aclosing(self._following(api.follow_events(run_id))) as events:
                async for _ in events:
                    pass
            run = await self.show(run_id)
        while not run.over:
            await asyncio.sleep(POLL_S)
            run = await self.show(run_id)
        return run

    async def run(self, what: What, *, id: Optional[str] = None, priority: int = 0,
                  retries: Optional[Mapping[str, Any]] = None, not_before: Optional[Moment] = None,
                  idempotency_key: Optional[str] = None, **keys: Any) -> Run:
        submission = asyncio.ensure_future(self.submit(what, id=id, priority=priority, retries=retries, not_before=not_before,
                                                       idempotency_key=idempotency_key, **keys))
        try:
            return await self.wait(await finish(submission))
        except BaseException:
            if submission.done() and not submission.cancelled() and not submission.exception():
                await finish(self._end(submission.result()))
            raise

    async def _end(self, run_id: str) -> None:
        with contextlib.suppress(CupelError):
            await self.cancel(run_id)
            await self.wait(run_id, 60)

    async def show(self, run_id: str) -> Run:
        try:
            return run_of(await self._ask(api.show(run_id)))
        except NotFound as error:
            with contextlib.suppress(NotFound):
                return run_of({"kind": "pipeline", **(await self._ask(api.pipeline(run_id)))})
            raise error

    async def list(self, *, state: Optional[str] = None, cause: Optional[str] = None, runtime: Optional[str] = None,
                   quest: Optional[str] = None, since: Optional[str] = None, limit: int = 50,
                   after: Optional[str] = None, newest_first: bool = True) -> List[Run]:
        said = await self._ask(api.runs(limit, newest_first, state=state, cause=cause, runtime=runtime, quest=quest,
                                        since=since, after=after))
        return [run_of(row) for row in api.rows(said, "runs")]

    async def cancel(self, run_id: str) -> None:
        await self._exchange(api.cancel(run_id))

    async def log(self, run_id: str, stream: str = "stdout", *, offset: int = 0, limit: int = 10 << 20) -> LogPart:
        head, body = await self._exchange(api.log(run_id, stream, offset, limit), (200, 206, 416))
        if head.status == 416:
            return LogPart(b"", offset, whole_length(416, head.headers, offset, 0))
        if head.status == 200:
            return LogPart(body[offset:offset + limit], offset, len(body))
        return LogPart(body, offset, whole_length(206, head.headers, offset, len(body)))

    async def logs(self, run_id: str, stream: str = "stdout", *, follow: bool = False,
                   offset: int = 0) -> AsyncIterator[str]:
        if not follow:
            async for text in async_texts(log_pieces(self.log, run_id, stream, offset)):
                yield text
            return
        async with aclosing(self._stream(
                lambda last: api.follow_log(run_id, stream, int(last) if last else offset))) as events:
            async for event in events:
                text = api.text_of(event.json()) if event.event == "log" else ""
                if text:
                    yield text

    async def events(self, run_id: str, *, follow: bool = False) -> AsyncIterator[Dict[str, Any]]:
        if not follow:
            for row in api.rows(await self._ask(api.events(run_id)), "events"):
                yield row
            return
        async with aclosing(self._following(api.follow_events(run_id))) as events:
            async for event in events:
                if event.event != "end":
                    yield event.json()

    async def watch(self) -> AsyncIterator[Dict[str, Any]]:
        """As Client.watch."""
        async with aclosing(self._following(api.watch())) as events:
            async for event in events:
                yield {"change": "reset"} if event.event == "reset" else event.json()

    async def outputs(self, run_id: str) -> List[Output]:
        return outputs_of(await self._ask(api.outputs(run_id)))

    async def open_output(self, run_id: str, path: str) -> AsyncIterator[bytes]:
        output = save.chosen(await self.outputs(run_id), [path])[0]
        async with aclosing(self._output_pieces(run_id, output)) as pieces:
            async for piece in pieces:
                yield piece

    async def _output_pieces(self, run_id: str, output: Output) -> AsyncGenerator[bytes, None]:
        """As Client._output_pieces."""
        request, offset, failures = api.output(run_id, output.path), 0, 0
        while offset < output.bytes:
            problem: BaseException = EOFError("the output ended too soon")
            try:
                async with self._open(from_range(request, offset)) as answer:
                    if answer.head.status not in (200, 206):
                        raise error_of(answer.head.status, await answer.body())
                    skip = offset if answer.head.status == 200 else 0
                    async for piece in answer.pieces():
                        rest = piece[skip:]
                        skip -= len(piece) - len(rest)
                        offset, failures = offset + len(rest), 0
                        if rest:
                            yield rest
            except FAILURES as error:
                problem = error
            if offset < output.bytes:
                failures += 1
                if failures >= self._patience.tries:
                    raise self._failed(problem) from problem
                await asyncio.sleep(self._patience.delay(failures))

    async def download(self, run_id: str, directory: StrPath, paths: Optional[Sequence[str]] = None, *,
                       overwrite: bool = False) -> List[pathlib.Path]:
        copied = []
        for output in save.chosen(await self.outputs(run_id), paths):
            with save.Copy(local_path(directory), output, overwrite=overwrite) as copy:
                async with aclosing(self._output_pieces(run_id, output)) as pieces:
                    async for piece in pieces:
                        await asyncio.to_thread(copy.write, piece)
                copied.append(await asyncio.to_thread(copy.commit))
        return copied

    async def plan(self, what: What, **keys: Any) -> Dict[str, Any]:
        return dict(await self._ask(api.plan(what, keys)))

    async def why(self, run_id: str) -> List[Dict[str, Any]]:
        try:
            return api.rows(await self._ask(api.why(run_id)), "tasks")
        except NotFound:
            return api.rows(await self._ask(api.why_pipeline(run_id)), "tasks")

    async def rerun(self, run_id: str, *, env: Optional[Mapping[str, str]] = None) -> str:
        return str((await self._ask(api.rerun(run_id, env)))["id"])

    async def resume(self, run_id: str) -> str:
        return str((await self._ask(api.resume(run_id))).get("id", run_id))

    async def runtimes(self) -> List[Dict[str, Any]]:
        return api.rows(await self._ask(api.runtimes()), "runtimes")

    async def quests(self) -> List[Dict[str, Any]]:
        return api.rows(await self._ask(api.quests()), "quests")

    async def host(self) -> Dict[str, Any]:
        return dict(await self._ask(api.host()))
