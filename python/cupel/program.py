"""The program `cupel`: where it is, a command of it to its end, and one that goes on by itself."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
from typing import IO, Any, Callable, Dict, List, Mapping, Optional

from .errors import CupelError, Unavailable, WaitTimeout, from_exit

ERROR_BYTES = 16 << 10
HEAR_S = 0.5  # how late a signal may be heard


class Program:
    """The program with the environment it is called in. Nothing is started before it is used."""

    def __init__(self, path: Optional[str] = None, env: Optional[Mapping[str, str]] = None,
                 cwd: Optional[str] = None) -> None:
        self._path = path
        self._env = env
        self._cwd = cwd
        self._settings: Optional[Dict[str, str]] = None

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ if self._env is None else self._env

    def with_env(self, env: Mapping[str, str]) -> "Program":
        """The same program with more variables."""
        return Program(self._path, {**self.environ, **env}, self._cwd)

    @property
    def path(self) -> str:
        """$CUPEL, or the first in PATH."""
        wanted = self._path or self.environ.get("CUPEL") or "cupel"
        found = shutil.which(wanted, path=self.environ.get("PATH"))
        if not found:
            raise Unavailable(f"there is no program '{wanted}'", code="no-program",
                              remedy="install cupel, or name it in the environment as CUPEL")
        return os.path.abspath(found)

    @property
    def options(self) -> Dict[str, Any]:
        """What a process of it is started with."""
        return {"env": self._env, "cwd": self._cwd}

    def popen(self, args: List[str], **options: Any) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen([self.path, *args], stdin=subprocess.DEVNULL, **self.options, **options)
        except OSError as error:
            raise Unavailable(f"cupel could not be started: {error}", code="no-program") from error

    def call(self, args: List[str], *, timeout: Optional[float] = 300, fine: "tuple[int, ...]" = (0,)) -> bytes:
        """What a short command prints."""
        with self.popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise Unavailable(f"cupel {args[0]} did not end within {timeout} s", code="no-answer") from None
            except BaseException:
                process.kill()
                raise
        if process.returncode not in fine:
            raise from_exit(process.returncode, err.decode("utf-8", "replace"))
        return out

    def ask(self, args: List[str], **options: Any) -> Any:
        """The same for a command that prints JSON."""
        out = self.call(args, **options)
        try:
            return json.loads(out)
        except ValueError:
            raise CupelError(f"cupel {args[0]} printed no JSON: {out[:200]!r}", code="protocol") from None

    @property
    def settings(self) -> Dict[str, str]:
        """The configuration in effect, asked for once."""
        if self._settings is None:
            self._settings = {row["key"]: row["value"] for row in self.ask(["config", "--json"])}
        return self._settings

    @property
    def home(self) -> pathlib.Path:
        """Where the records are."""
        return pathlib.Path(self.settings["home"])


class Child:
    """`cupel run`, `rerun` or `resume`, going on by itself. A thread reaps it, so that none is left behind by a caller
    who never asks; what it says on standard error goes to an unnamed file, so that it never waits for a reader."""

    def __init__(self, program: Program, args: List[str]) -> None:
        self.began = time.time()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._watchers: List[Callable[[], None]] = []
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        try:
            self._process = program.popen(args, stdout=subprocess.DEVNULL, stderr=self._errors, start_new_session=True)
        except BaseException:
            self._errors.close()
            raise
        self.said = ""
        threading.Thread(target=self._reap, name="cupel-wait", daemon=True).start()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):  # somebody ignores SIGCHLD, or waits for all children
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:  # nobody signals the pid once it is free for others
            self._process.wait()
        with self._errors:
            size = self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, size - ERROR_BYTES))
            self.said = self._errors.read().decode("utf-8", "replace")
        with self._lock:
            self._ended.set()
            watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()

    @property
    def over(self) -> bool:
        return self._ended.is_set()

    @property
    def status(self) -> int:
        """The exit status, once it is over."""
        status = self._process.returncode
        return 128 - status if status < 0 else status

    def signal(self, number: int) -> None:
        with self._lock:
            if self._process.returncode is None:
                os.kill(self._process.pid, number)

    def wait(self, timeout: Optional[float] = None) -> None:
        """In slices: a signal that comes just before the main thread sleeps, or that the kernel gives to another thread,
        does not wake it, and Ctrl-C would be heard when the run is over."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._ended.wait(max(0, min(HEAR_S, end - time.monotonic()))):
            if time.monotonic() >= end:
                raise WaitTimeout(f"the run was not over after {timeout} s", code="timeout")

    def watch(self, watcher: Callable[[], None]) -> None:
        """Calls it, from another thread, when the child is over."""
        with self._lock:
            if not self._ended.is_set():
                self._watchers.append(watcher)
                return
        watcher()
