"""Runs without a service, for asyncio. What is short is done by a thread; what lasts is waited for by the loop."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import subprocess
from typing import Any, AsyncGenerator, AsyncIterator, Dict, List, Mapping, Optional, Sequence

from . import save
from .spec import Moment, StrPath, What
from .aio import aclosing, async_texts, finish, log_pieces, within
from .door import AsyncDoor
from .errors import CupelError, WaitTimeout
from .local import POLL_S, Local
from .model import LogPart, Output, Run
from .program import Child

class AsyncLocal(AsyncDoor):
    """As Local; takes the same arguments, or a Local to share its runs with."""

    def __init__(self, local: Optional[Local] = None, **options: Any) -> None:
        self.sync = local or Local(**options)

    async def submit(self, what: What, *, id: Optional[str] = None, priority: int = 0,
                     retries: Optional[Mapping[str, Any]] = None, not_before: Optional[Moment] = None,
                     idempotency_key: Optional[str] = None, **keys: Any) -> str:
        return await asyncio.to_thread(self.sync.submit, what, id=id, priority=priority, retries=retries, not_before=not_before,
                                       idempotency_key=idempotency_key, **keys)

    @staticmethod
    async def _over(child: Child) -> None:
        loop = asyncio.get_running_loop()
        over = loop.create_future()

        def tell() -> None:
            if not over.done():
                over.set_result(None)

        def from_thread() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(tell)

        child.watch(from_thread)
        await over

    async def wait(self, run_id: str, timeout: Optional[float] = None) -> Run:
        try:
            await within(self._wait(run_id), timeout)
        except asyncio.TimeoutError:
            raise WaitTimeout(f"run {run_id} was not over after {timeout} s", code="timeout") from None
        return await asyncio.to_thread(self.sync.ended, run_id)

    async def _wait(self, run_id: str) -> None:
        child = self.sync.child_of(run_id)
        if child:
            await self._over(child)
            return
        if (await self.show(run_id)).kind != "pipeline":
            async for _ in self.logs(run_id, follow=True):
                pass
        while not (await self.show(run_id)).over:
            await asyncio.sleep(POLL_S)

    async def run(self, what: What, *, id: Optional[str] = None, priority: int = 0,
                  retries: Optional[Mapping[str, Any]] = None, not_before: Optional[Moment] = None,
                  idempotency_key: Optional[str] = None, **keys: Any) -> Run:
        started: List[str] = []

        async def start() -> str:
            started.append(await self.submit(what, id=id, priority=priority, retries=retries, not_before=not_before,
                                             idempotency_key=idempotency_key, **keys))
            return started[0]

        try:
            return await self.wait(await finish(start()))
        except BaseException:
            if started:
                await finish(self._end(started[0]))
            raise

    async def _end(self, run_id: str) -> None:
        """Cancels it and sees it end, so that nothing of it is left when the caller goes on."""
        with contextlib.suppress(CupelError):
            await self.cancel(run_id)
            await self.wait(run_id)

    async def show(self, run_id: str) -> Run:
        return await asyncio.to_thread(self.sync.show, run_id)

    async def list(self, *, state: Optional[str] = None, cause: Optional[str] = None, runtime: Optional[str] = None,
                   quest: Optional[str] = None, since: Optional[str] = None, limit: int = 50,
                   after: Optional[str] = None, newest_first: bool = True) -> List[Run]:
        return await asyncio.to_thread(self.sync.list, state=state, cause=cause, runtime=runtime, quest=quest,
                                       since=since, limit=limit, after=after, newest_first=newest_first)

    async def cancel(self, run_id: str) -> None:
        await asyncio.to_thread(self.sync.cancel, run_id)

    async def log(self, run_id: str, stream: str = "stdout", *, offset: int = 0, limit: int = 10 << 20) -> LogPart:
        return await asyncio.to_thread(self.sync.log, run_id, stream, offset=offset, limit=limit)

    async def logs(self, run_id: str, stream: str = "stdout", *, follow: bool = False,
                   offset: int = 0) -> AsyncIterator[str]:
        pieces = self._follow(run_id, stream, offset) if follow else log_pieces(self.log, run_id, stream, offset)
        async with aclosing(async_texts(pieces)) as made:
            async for text in made:
                yield text

    async def _follow(self, run_id: str, stream: str, offset: int) -> AsyncGenerator[bytes, None]:
        args, ends = await asyncio.to_thread(self.sync.follow_args, run_id, stream)
        program = self.sync.program
        options: Dict[str, Any] = {**program.options, **ends}
        process = await asyncio.create_subprocess_exec(program.path, *args, stdin=subprocess.DEVNULL, **options)
        try:
            pipe = process.stdout or process.stderr
            assert pipe
            while True:
                piece = await pipe.read(1 << 16)
                if not piece:
                    return
                skipped = min(offset, len(piece))
                offset -= skipped
                if piece[skipped:]:
                    yield piece[skipped:]
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def events(self, run_id: str, *, follow: bool = False) -> AsyncIterator[Dict[str, Any]]:
        offset, over = 0, not follow
        while True:
            found, offset = await asyncio.to_thread(self.sync.events_from, run_id, offset)
            for event in found:
                yield event
            if over:
                return
            over = await asyncio.to_thread(self.sync.settled, run_id)
            if not over:
                await asyncio.sleep(POLL_S)

    async def outputs(self, run_id: str) -> List[Output]:
        return await asyncio.to_thread(self.sync.outputs, run_id)

    async def open_output(self, run_id: str, path: str) -> AsyncIterator[bytes]:
        file = await asyncio.to_thread(self.sync.open_output, run_id, path)
        with file:
            while True:
                piece = await asyncio.to_thread(file.read, save.CHUNK)
                if not piece:
                    return
                yield piece

    async def download(self, run_id: str, directory: StrPath, paths: Optional[Sequence[str]] = None, *,
                       overwrite: bool = False) -> List[pathlib.Path]:
        return await asyncio.to_thread(self.sync.download, run_id, directory, paths, overwrite=overwrite)

    async def plan(self, what: What, **keys: Any) -> Dict[str, Any]:
        return await asyncio.to_thread(self.sync.plan, what, **keys)

    async def why(self, run_id: str) -> List[Dict[str, Any]]:
        return await asyncio.to_thread(self.sync.why, run_id)

    async def rerun(self, run_id: str, *, env: Optional[Mapping[str, str]] = None) -> str:
        return await asyncio.to_thread(self.sync.rerun, run_id, env=env)

    async def resume(self, run_id: str) -> str:
        return await asyncio.to_thread(self.sync.resume, run_id)

    async def runtimes(self) -> List[Dict[str, Any]]:
        return await asyncio.to_thread(self.sync.runtimes)

    async def quests(self) -> List[Dict[str, Any]]:
        return await asyncio.to_thread(self.sync.quests)

    async def host(self) -> Dict[str, Any]:
        return await asyncio.to_thread(self.sync.host)
