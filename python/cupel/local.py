"""Runs without a service: the program starts them, and HOME/runs/ID tells of them."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from typing import Any, BinaryIO, Dict, Generator, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import save
from .spec import Moment, StrPath, What, analysis, as_yaml, local_path, option_id
from .door import Door
from .errors import CupelError, NotFound, Refused, WaitTimeout, from_exit
from .model import LogPart, Output, Run, outputs_of, quests_of, run_of
from .program import Child, Program
from .records import RECORD_BYTES, STREAMS, milliseconds, read_json, stream_name, texts

POLL_S = 0.05  # for what no descriptor tells of
# The place of a mistake, before or within the sentence, in a file that the caller never wrote.
_TEMPORARY = r"\S*/cupel-analysis-\w+/analysis\.yaml(:\d+)+: | \(\S*/cupel-analysis-\w+/analysis\.yaml(:\d+)+\)"


class Local(Door):
    """cupel on this host, without a service. Runs that were submitted go on if this process ends.

    program: in place of $CUPEL or PATH; home: in place of $CUPEL_HOME; env: in place of the environment;
    cwd: where to look for a project's cupel.yaml, in place of the current directory.
    """

    def __init__(self, *, program: Optional[StrPath] = None, home: Optional[StrPath] = None,
                 env: Optional[Mapping[str, str]] = None, cwd: Optional[StrPath] = None) -> None:
        if home is not None:
            env = {**(os.environ if env is None else env), "CUPEL_HOME": str(local_path(home))}
        self.program = Program(os.fspath(program) if program is not None else None, env,
                               os.fspath(cwd) if cwd is not None else None)
        self._children: Dict[str, Child] = {}

    # Starting and ending.

    def _operands(self, made: Mapping[str, Any]) -> Tuple[List[str], Any]:
        """The words for an analysis, and what to call when they are no longer needed."""
        if "file" in made:
            words = [f"--param={name}={json.dumps(value)}" for name, value in made.get("parameters", {}).items()]
            return [*words, made["file"]], lambda: None
        try:
            place = tempfile.mkdtemp(prefix="cupel-analysis-")
            file = os.path.join(place, "analysis.yaml")
            with open(file, "wb") as out:
                out.write(as_yaml(made))
        except OSError as error:
            raise CupelError(f"the analysis could not be written to a temporary file: {error}", code="host") from error
        return [file], lambda: shutil.rmtree(place, ignore_errors=True)

    @staticmethod
    def _never_started(child: Child) -> CupelError:
        """What it said, without the name of the temporary file."""
        return from_exit(child.status, re.sub(_TEMPORARY, "", child.said))

    def _start(self, run_id: str, args: List[str], env: Optional[Mapping[str, str]] = None) -> str:
        for known, child in list(self._children.items()):
            if child.over and len(self._children) > 1000:
                del self._children[known]
        self._children[run_id] = Child(self.program.with_env(env) if env else self.program, args)
        return run_id

    def submit(self, what: What, *, id: Optional[str] = None, priority: int = 0,
               retries: Optional[Mapping[str, Any]] = None, not_before: Optional[Moment] = None,
               idempotency_key: Optional[str] = None, **keys: Any) -> str:
        if priority or retries or not_before or idempotency_key:
            raise Refused("priority, retries, not_before and idempotency_key need the service", code="no-service")
        made, run_id = analysis(what, **keys), option_id(id)
        if id is not None and any(self._directories(run_id)):
            raise Refused(f"the id '{run_id}' was used before", code="used")
        operands, cleanup = self._operands(made)
        try:
            self._start(run_id, ["run", "--quiet", "--id", run_id, *operands])
            return self._accepted(run_id)
        finally:
            cleanup()

    def rerun(self, run_id: str, *, env: Optional[Mapping[str, str]] = None) -> str:
        new = option_id(None)
        # Values go by the environment: everybody on the host can read the arguments of a process.
        names = [f"--env={name}" for name in env or {}]
        return self._accepted(self._start(new, ["rerun", "--quiet", "--id", new, *names, option_id(run_id)], env))

    def _accepted(self, run_id: str) -> str:
        """Returns once there is a record of it, so that what is refused is told at once; the file of the analysis was
        read by then."""
        child = self._children[run_id]
        try:
            while not any(self._directories(run_id)):
                if child.over and not any(self._directories(run_id)):
                    del self._children[run_id]
                    raise self._never_started(child)
                time.sleep(POLL_S / 25)
        except KeyboardInterrupt:  # nobody would know of it
            child.signal(signal.SIGTERM)
            with contextlib.suppress(CupelError):
                child.wait(60)  # the run has ended when the caller continues
            raise
        return run_id

    def resume(self, run_id: str) -> str:
        return self._start(option_id(run_id), ["resume", "--quiet", run_id])

    def child_of(self, run_id: str) -> Optional[Child]:
        """The process that runs it, if it is ours."""
        return self._children.get(run_id)

    def wait(self, run_id: str, timeout: Optional[float] = None) -> Run:
        child = self.child_of(run_id)
        if child:
            child.wait(timeout)
        elif self.show(run_id).kind == "pipeline":
            self._poll(lambda: self.show(run_id).over, timeout)
        else:
            self._wait_for_stranger(run_id, timeout)
        return self.ended(run_id)

    def ended(self, run_id: str) -> Run:
        """How a run that is over ended; raises what kept it from starting."""
        child = self.child_of(run_id)
        if not child:
            return self.show(run_id)
        began_ms = int(child.began * 1000) - 1
        run = self._recorded(run_id, began_ms)
        if run:
            return run
        if child.status in (2, 125) and not any(self._directories(run_id)):
            raise self._never_started(child)
        shown = self.show(run_id)  # sweeps, if everything was killed
        if child.status == 2 and milliseconds(shown.ended) < began_ms:
            raise self._never_started(child)  # the id is somebody else's, or what was to go on could not
        return shown

    def _wait_for_stranger(self, run_id: str, timeout: Optional[float]) -> None:
        """`logs -f` ends with the run, whoever started it."""
        with self.program.popen(["logs", "-f", run_id], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise WaitTimeout(f"run {run_id} was not over after {timeout} s", code="timeout") from None
            finally:
                process.kill()
        self._poll(lambda: self.show(run_id).over, 60)  # the verdict is written a moment later

    @staticmethod
    def _poll(condition: Any, timeout: Optional[float]) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        while not condition():
            if end is not None and time.monotonic() > end:
                raise WaitTimeout(f"not so after {timeout} s", code="timeout")
            time.sleep(POLL_S)

    def cancel(self, run_id: str) -> None:
        child = self.child_of(option_id(run_id))
        if child:
            child.signal(signal.SIGTERM)
            return
        pid = self._keeper(run_id)
        if pid is None:
            run = self.show(run_id)
            if not run.over:
                raise CupelError(f"{run_id} was started elsewhere; end it there", code="not-ours")
            return
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                if self._keeper(run_id) == pid:  # so the handle is that of the keeper, and of nobody else
                    signal.pidfd_send_signal(handle, signal.SIGTERM)
            finally:
                os.close(handle)

    def _keeper(self, run_id: str) -> Optional[int]:
        for row in self.program.ask(["ps", "--json"]):
            if row["id"] == run_id:
                return int(row["keeper_pid"])
        return None

    # Looking.

    def _directories(self, run_id: str) -> List[pathlib.Path]:
        places = (self.program.home / "runs" / run_id, self.program.home / "pipelines" / run_id)
        return [place for place in places if place.exists()]

    def directory(self, run_id: str) -> pathlib.Path:
        """The record of a run. Of one that we have just started it may not be there yet: then it is waited for."""
        place = self.program.home / "runs" / option_id(run_id)
        child = self.child_of(run_id)
        while child and not child.over and not (place / "stderr.log").exists():
            time.sleep(POLL_S / 25)
        if not place.exists():
            raise NotFound(f"there is no run '{run_id}' in {place.parent}", code="not-found")
        return place

    def _recorded(self, run_id: str, since_ms: float) -> Optional[Run]:
        """The run as its verdict tells, without asking the program; not one that was accepted before."""
        place = self.program.home / "runs" / run_id
        verdict = read_json(place / "verdict.json")
        if verdict is None or milliseconds(verdict.get("accepted")) < since_ms:
            return None
        asked = read_json(place / "analysis.json") or {}
        told = {key: asked[key] for key in ("name", "quest", "labels", "command", "code") if key in asked}
        return run_of({**told, **verdict, "state": "ended", "directory": str(place)})

    def show(self, run_id: str) -> Run:
        try:
            return run_of(self.program.ask(["show", "--json", option_id(run_id)]))
        except NotFound:
            child = self.child_of(run_id)
            if not child:
                raise
            if child.over and child.status in (2, 125):
                raise self._never_started(child) from None
            return Run(run_id, "queued")

    def list(self, *, state: Optional[str] = None, cause: Optional[str] = None, runtime: Optional[str] = None,
             quest: Optional[str] = None, since: Optional[str] = None, limit: int = 50,
             after: Optional[str] = None, newest_first: bool = True) -> List[Run]:
        if state == "queued":
            return []
        words = [f"--{name}={value}" for name, value in (
            ("state", state), ("cause", cause), ("runtime", runtime), ("quest", quest), ("since", since),
            ("limit", limit), ("after", after)) if value is not None]
        said = self.program.ask(["list", "--json", *words, *([] if newest_first else ["--reverse"])])
        return [run_of(row) for row in said]

    def log(self, run_id: str, stream: str = "stdout", *, offset: int = 0, limit: int = 10 << 20) -> LogPart:
        try:
            with open(self.directory(run_id) / f"{stream_name(stream)}.log", "rb") as file:
                total = file.seek(0, os.SEEK_END)
                file.seek(offset)
                return LogPart(file.read(limit), offset, total)
        except FileNotFoundError:  # nothing was started
            return LogPart(b"", 0, 0)

    def logs(self, run_id: str, stream: str = "stdout", *, follow: bool = False, offset: int = 0) -> Iterator[str]:
        pieces = self._follow(run_id, stream, offset) if follow else self._pieces(run_id, stream, offset)
        with contextlib.closing(pieces):
            yield from texts(pieces)

    def _pieces(self, run_id: str, stream: str, offset: int) -> Generator[bytes, None, None]:
        while True:
            part = self.log(run_id, stream, offset=offset, limit=save.CHUNK)
            if not part.data:
                return
            yield part.data
            offset += len(part.data)

    def follow_args(self, run_id: str, stream: str) -> Tuple[List[str], Dict[str, int]]:
        """The command that follows one stream, and where its own streams go."""
        self.directory(run_id)
        ends = {name: subprocess.PIPE if name == stream_name(stream) else subprocess.DEVNULL for name in STREAMS}
        return ["logs", "-f", run_id], ends

    def _follow(self, run_id: str, stream: str, offset: int) -> Generator[bytes, None, None]:
        args, ends = self.follow_args(run_id, stream)
        with self.program.popen(args, **ends) as process:
            try:
                pipe = process.stdout or process.stderr
                assert pipe
                while True:
                    piece = os.read(pipe.fileno(), 1 << 16)
                    if not piece:
                        return
                    skipped = min(offset, len(piece))
                    offset -= skipped
                    if piece[skipped:]:
                        yield piece[skipped:]
            finally:
                process.kill()

    def events_from(self, run_id: str, offset: int) -> Tuple[List[Dict[str, Any]], int]:
        """Whole lines of events.jsonl from there on, and where the next begins."""
        try:
            with open(self.directory(run_id) / "events.jsonl", "rb") as file:
                file.seek(offset)
                data = file.read(RECORD_BYTES)
        except FileNotFoundError:
            return [], offset
        whole = data[:data.rfind(b"\n") + 1]
        return [json.loads(line) for line in whole.splitlines() if line.strip()], offset + len(whole)

    def events(self, run_id: str, *, follow: bool = False) -> Iterator[Dict[str, Any]]:
        offset, over = 0, not follow
        while True:
            found, offset = self.events_from(run_id, offset)
            yield from found
            if over:
                return
            over = self.settled(run_id)
            if not over:
                time.sleep(POLL_S)

    def settled(self, run_id: str) -> bool:
        """Whether nothing will be added to the record: without a verdict, only while its keeper lives."""
        if (self.directory(run_id) / "verdict.json").exists():
            return True
        child = self.child_of(run_id)
        return self.show(run_id).over if not child or child.over else False

    # What came out.

    def outputs(self, run_id: str) -> List[Output]:
        place = self.directory(run_id)
        return outputs_of(read_json(place / "outputs.json") or {}, place)

    def open_output(self, run_id: str, path: str) -> BinaryIO:
        return self._open(save.chosen(self.outputs(run_id), [path])[0])

    @staticmethod
    def _open(output: Output) -> BinaryIO:
        assert output.location
        try:
            handle = os.open(output.location, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise NotFound(f"{output.location} is gone: partial outputs are removed after a time", code="gone") from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise CupelError(f"{output.location} is no file", code="damaged")
        return os.fdopen(handle, "rb")

    def download(self, run_id: str, directory: StrPath, paths: Optional[Sequence[str]] = None, *,
                 overwrite: bool = False) -> List[pathlib.Path]:
        copied = []
        for output in save.chosen(self.outputs(run_id), paths):
            with self._open(output) as source, save.Copy(local_path(directory), output, overwrite=overwrite) as copy:
                for piece in iter(lambda: source.read(save.CHUNK), b""):
                    copy.write(piece)
                copied.append(copy.commit())
        return copied

    # Asking.

    def plan(self, what: What, **keys: Any) -> Dict[str, Any]:
        operands, cleanup = self._operands(analysis(what, **keys))
        try:
            said = self.program.ask(["plan", "--json", *operands], fine=(0,))
        finally:
            cleanup()
        return dict(said)

    def why(self, run_id: str) -> List[Dict[str, Any]]:
        out = self.program.call(["why", "--json", option_id(run_id)])
        return [json.loads(line) for line in out.splitlines() if line.strip()]

    def runtimes(self) -> List[Dict[str, Any]]:
        return list_of(self.program.ask(["runtime", "list", "--json"]))

    def quests(self) -> List[Dict[str, Any]]:
        return quests_of([run_of(row) for row in self.program.ask(["list", "--json"])])

    def host(self) -> Dict[str, Any]:
        here = os.uname()
        return {"host": here.nodename, "kernel": here.release, "machine": here.machine, "cpus": os.cpu_count(),
                "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "load": os.getloadavg()[0],
                "uptime_s": int(time.clock_gettime(time.CLOCK_BOOTTIME)),
                "health": self.program.ask(["health", "--json"], fine=(0, 1, 2))}


def list_of(said: Any) -> List[Dict[str, Any]]:
    if not isinstance(said, list):
        raise CupelError("the answer is no list", code="protocol")
    return said
