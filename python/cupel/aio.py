"""What asyncio lacks, or has only in later Pythons."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from typing import AsyncGenerator, AsyncIterator, Awaitable, Callable, Optional, TypeVar

from .model import LogPart
from .save import CHUNK

T = TypeVar("T")


async def finish(awaitable: "Awaitable[T]") -> T:
    """Awaits it to its end even if the task is cancelled meanwhile; the cancellation is raised afterwards."""
    inner = asyncio.ensure_future(awaitable)
    cancelled = False
    while not inner.done():
        try:
            await asyncio.shield(inner)
        except asyncio.CancelledError:
            cancelled = True
        except Exception:  # it is inner's, and is raised below
            break
    if cancelled:
        with contextlib.suppress(Exception):
            inner.result()
        raise asyncio.CancelledError
    return inner.result()


async def within(awaitable: "Awaitable[T]", timeout: Optional[float], discard: Callable[[T], object] = id) -> T:
    """Its result, or asyncio.TimeoutError. asyncio.wait_for loses a cancellation that comes together with the result
    (until Python 3.12); here it is raised, and the result is given to `discard`."""
    inner = asyncio.ensure_future(awaitable)
    try:
        done, _ = await asyncio.wait({inner}, timeout=timeout)
        if done:
            return inner.result()
    except asyncio.CancelledError:
        await _put_away(inner, discard)
        raise
    await _put_away(inner, discard)
    raise asyncio.TimeoutError


async def _put_away(inner: "asyncio.Future[T]", discard: Callable[[T], object]) -> None:
    inner.cancel()
    await asyncio.wait({inner})
    if not inner.cancelled() and not inner.exception():
        discard(inner.result())


@contextlib.asynccontextmanager
async def aclosing(made: AsyncGenerator[T, None]) -> AsyncIterator[AsyncGenerator[T, None]]:
    """contextlib has it from Python 3.10 on."""
    try:
        yield made
    finally:
        await made.aclose()


async def async_texts(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[str, None]:
    """As local.texts."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async with aclosing(pieces):
        async for piece in pieces:
            text = decoder.decode(piece)
            if text:
                yield text
    rest = decoder.decode(b"", True)
    if rest:
        yield rest


async def log_pieces(log: "Callable[..., Awaitable[LogPart]]", run_id: str, stream: str,
                     offset: int) -> AsyncGenerator[bytes, None]:
    """What a log holds from there on, asked for part by part."""
    while True:
        part = await log(run_id, stream, offset=offset, limit=CHUNK)
        if not part.data:
            return
        yield part.data
        offset += len(part.data)
