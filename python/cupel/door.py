"""The one interface to cupel, blocking and asynchronous, that the program and the service are both behind."""

from __future__ import annotations

import abc
import contextlib
import pathlib
from typing import Any, AsyncIterator, BinaryIO, Dict, Iterator, List, Mapping, Optional, Sequence, TypeVar

from .spec import Moment, StrPath, What, analysis
from .errors import CupelError
from .model import LogPart, Output, Run

D = TypeVar("D", bound="Door")
A = TypeVar("A", bound="AsyncDoor")


class Door(abc.ABC):
    """Blocking. Each method may be called from any thread."""

    @abc.abstractmethod
    def submit(self, what: What, *, id: Optional[str] = None, priority: int = 0,
               retries: Optional[Mapping[str, Any]] = None, not_before: Optional[Moment] = None,
               idempotency_key: Optional[str] = None, **keys: Any) -> str:
        """Has it run, and returns its id at once. `keys` are those of an analysis. What only a service can do: `not_before` a time; with an
        `idempotency_key` the same submission is made once, and the id of the first is returned; another one is refused."""

    @abc.abstractmethod
    def wait(self, run_id: str, timeout: Optional[float] = None) -> Run:
        """Returns when the run is over. Raises WaitTimeout after so many seconds; the run then goes on."""

    def run(self, what: What, *, id: Optional[str] = None, priority: int = 0,
            retries: Optional[Mapping[str, Any]] = None, not_before: Optional[Moment] = None,
            idempotency_key: Optional[str] = None, **keys: Any) -> Run:
        """Runs it to its end, whatever that is. If the caller is interrupted, the run is cancelled."""
        run_id: Optional[str] = None
        try:
            run_id = self.submit(what, id=id, priority=priority, retries=retries, not_before=not_before,
                                 idempotency_key=idempotency_key, **keys)
            return self.wait(run_id)
        except BaseException:
            if run_id is not None:
                with contextlib.suppress(CupelError):
                    self.cancel(run_id)
                    self.wait(run_id, 60)  # the run has ended when the caller continues
            raise

    @abc.abstractmethod
    def show(self, run_id: str) -> Run:
        """All that is known of a run or pipeline, in `raw` of what is returned."""

    @abc.abstractmethod
    def list(self, *, state: Optional[str] = None, cause: Optional[str] = None, runtime: Optional[str] = None,
             quest: Optional[str] = None, since: Optional[str] = None, limit: int = 50,
             after: Optional[str] = None, newest_first: bool = True) -> List[Run]:
        """Runs, a page of them; the next page is `after` the last id."""

    @abc.abstractmethod
    def cancel(self, run_id: str) -> None:
        """Asks a run to end. It is over when `wait` returns. Of one that is over nothing changes."""

    @abc.abstractmethod
    def log(self, run_id: str, stream: str = "stdout", *, offset: int = 0, limit: int = 10 << 20) -> LogPart:
        """Bytes of stdout or stderr as they are."""

    @abc.abstractmethod
    def logs(self, run_id: str, stream: str = "stdout", *, follow: bool = False, offset: int = 0) -> Iterator[str]:
        """The log in pieces, as text, with what is not UTF-8 replaced; with `follow` until the run is over."""

    @abc.abstractmethod
    def events(self, run_id: str, *, follow: bool = False) -> Iterator[Dict[str, Any]]:
        """What happened to the run, an object each; with `follow` until it is over."""

    @abc.abstractmethod
    def outputs(self, run_id: str) -> List[Output]:
        """What came out of a run that is over."""

    @abc.abstractmethod
    def open_output(self, run_id: str, path: str) -> BinaryIO:
        """An output for reading; the caller closes it."""

    @abc.abstractmethod
    def download(self, run_id: str, directory: StrPath, paths: Optional[Sequence[str]] = None, *,
                 overwrite: bool = False) -> List[pathlib.Path]:
        """Copies outputs, at their own paths, below a directory. A copy has its name once it is whole and has the
        SHA-256 that was recorded; no link is followed."""

    @abc.abstractmethod
    def plan(self, what: What, **keys: Any) -> Dict[str, Any]:
        """Every mount, limit and variable of a run, without running it."""

    @abc.abstractmethod
    def why(self, run_id: str) -> List[Dict[str, Any]]:
        """Why the steps of a pipeline were run, or were not."""

    @abc.abstractmethod
    def rerun(self, run_id: str, *, env: Optional[Mapping[str, str]] = None) -> str:
        """Has a run be done again from its record; returns the new id at once.

        env: the values of secret variables, which no record has."""

    @abc.abstractmethod
    def resume(self, run_id: str) -> str:
        """Has a pipeline go on; returns its id at once."""

    @abc.abstractmethod
    def runtimes(self) -> List[Dict[str, Any]]:
        """The runtimes of this host and how they are."""

    @abc.abstractmethod
    def quests(self) -> List[Dict[str, Any]]:
        """Work by quest."""

    @abc.abstractmethod
    def host(self) -> Dict[str, Any]:
        """How this host stands."""

    def close(self) -> None:
        """Lets go of connections. Runs go on."""

    def __enter__(self: D) -> D:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncDoor(abc.ABC):
    """The same for asyncio; see Door for what each method means."""

    @abc.abstractmethod
    async def submit(self, what: What, *, id: Optional[str] = None, priority: int = 0,
                     retries: Optional[Mapping[str, Any]] = None, not_before: Optional[Moment] = None,
                     idempotency_key: Optional[str] = None, **keys: Any) -> str: ...

    @abc.abstractmethod
    async def wait(self, run_id: str, timeout: Optional[float] = None) -> Run: ...

    @abc.abstractmethod
    async def run(self, what: What, *, id: Optional[str] = None, priority: int = 0,
                  retries: Optional[Mapping[str, Any]] = None, not_before: Optional[Moment] = None,
                  idempotency_key: Optional[str] = None, **keys: Any) -> Run:
        """As Door.run. If the task is cancelled, so is the run."""

    @abc.abstractmethod
    async def show(self, run_id: str) -> Run: ...

    @abc.abstractmethod
    async def list(self, *, state: Optional[str] = None, cause: Optional[str] = None, runtime: Optional[str] = None,
                   quest: Optional[str] = None, since: Optional[str] = None, limit: int = 50,
                   after: Optional[str] = None, newest_first: bool = True) -> List[Run]: ...

    @abc.abstractmethod
    async def cancel(self, run_id: str) -> None: ...

    @abc.abstractmethod
    async def log(self, run_id: str, stream: str = "stdout", *, offset: int = 0,
                  limit: int = 10 << 20) -> LogPart: ...

    @abc.abstractmethod
    def logs(self, run_id: str, stream: str = "stdout", *, follow: bool = False,
             offset: int = 0) -> AsyncIterator[str]: ...

    @abc.abstractmethod
    def events(self, run_id: str, *, follow: bool = False) -> AsyncIterator[Dict[str, Any]]: ...

    @abc.abstractmethod
    async def outputs(self, run_id: str) -> List[Output]: ...

    @abc.abstractmethod
    def open_output(self, run_id: str, path: str) -> AsyncIterator[bytes]:
        """The bytes of an output in pieces."""

    @abc.abstractmethod
    async def download(self, run_id: str, directory: StrPath, paths: Optional[Sequence[str]] = None, *,
                       overwrite: bool = False) -> List[pathlib.Path]: ...

    @abc.abstractmethod
    async def plan(self, what: What, **keys: Any) -> Dict[str, Any]: ...

    @abc.abstractmethod
    async def why(self, run_id: str) -> List[Dict[str, Any]]: ...

    @abc.abstractmethod
    async def rerun(self, run_id: str, *, env: Optional[Mapping[str, str]] = None) -> str: ...

    @abc.abstractmethod
    async def resume(self, run_id: str) -> str: ...

    @abc.abstractmethod
    async def runtimes(self) -> List[Dict[str, Any]]: ...

    @abc.abstractmethod
    async def quests(self) -> List[Dict[str, Any]]: ...

    @abc.abstractmethod
    async def host(self) -> Dict[str, Any]: ...

    async def close(self) -> None:
        """Lets go of connections. Runs go on."""

    async def __aenter__(self: A) -> A:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


__all__ = ["Door", "AsyncDoor", "analysis"]
