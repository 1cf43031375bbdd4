"""Runs and outputs as values: the same, whether a record, the program or the service told of them."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, Dict, List, Mapping, Optional

from .advice import in_python

# Ends by which somebody else ended the analysis: its exit status is 128 + a signal.
_KILLED = frozenset({"signal", "oom", "cpu", "denied", "cancelled", "lost"})
_PIPELINE_ENDS = frozenset({"ok", "failed", "cancelled"})


@dataclasses.dataclass(frozen=True)
class Run:
    """One run, or one pipeline, as far as it is known. `raw` is everything that was said of it."""

    id: str
    state: str  # queued, running, ended, lost?
    kind: str = "run"  # or pipeline
    cause: Optional[str] = None
    exit_status: Optional[int] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    completion_notes: str = ""
    name: Optional[str] = None
    runtime: Optional[str] = None
    quest: Optional[str] = None
    submitter: Optional[str] = None
    submitted: Optional[str] = None
    started: Optional[str] = None
    ended: Optional[str] = None
    wall_usec: Optional[int] = None
    cpu_usec: Optional[int] = None
    memory_peak_bytes: Optional[int] = None
    directory: Optional[pathlib.Path] = None
    pending: Optional[Mapping[str, Any]] = None
    raw: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        return self.cause == "ok"

    @property
    def over(self) -> bool:
        return self.state == "ended"

    @property
    def returncode(self) -> int:
        """As subprocess has it: the analysis's own status, -N if signal N ended it. -1 is a deadline, 125 that cupel
        could not run it; `cause` tells -1 from a SIGHUP."""
        if not self.over:
            raise ValueError(f"run {self.id} has not ended")
        if self.cause == "deadline":
            return -1
        status = 125 if self.exit_status is None else self.exit_status
        killed = self.cause in _KILLED or (self.cause == "disk" and self.exit_code is None)
        return 128 - status if killed and status > 128 else status


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> Optional[int]:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def recorded_notes(said: Mapping[str, Any]) -> str:
    """The notes as they are recorded, with the options of the command line."""
    places = (said, _map(said.get("verdict")), _map(said.get("submission")))
    found = (_text(place.get(key)) for key in ("completion_notes", "error", "note") for place in places)
    return next(filter(None, found), "")


def run_of(said: Mapping[str, Any]) -> Run:
    """A run as `cupel show --json`, verdict.json, or the service tells of it."""
    verdict, submission = _map(said.get("verdict")), _map(said.get("submission"))

    def first(key: str) -> Any:
        for place in (said, verdict, submission):
            if place.get(key) is not None:
                return place[key]
        return None

    usage = _map(first("usage"))
    runtime = first("runtime")
    state, cause = _text(said.get("state")) or "", _text(first("cause"))
    if said.get("kind") == "pipeline" and state in _PIPELINE_ENDS:
        state, cause = "ended", cause or state
    directory = _text(said.get("directory"))
    return Run(
        id=str(said.get("id", "")), state=state, kind=_text(said.get("kind")) or "run", cause=cause,
        exit_status=_number(first("exit_status")), exit_code=_number(first("exit_code")),
        signal=_number(first("signal")), name=_text(said.get("name")), quest=_text(said.get("quest")),
        completion_notes=in_python(recorded_notes(said)),
        runtime=_text(_map(runtime).get("name")) or _text(runtime), submitter=_text(said.get("submitter")),
        submitted=_text(first("submitted")) or _text(first("accepted")), started=_text(first("started")),
        ended=_text(first("ended")), directory=pathlib.Path(directory) if directory else None,
        wall_usec=_number(said.get("wall_usec", usage.get("wall_usec"))),
        cpu_usec=_number(said.get("cpu_usec", usage.get("cpu_usec"))),
        memory_peak_bytes=_number(said.get("memory_peak_bytes", usage.get("memory_peak_bytes"))),
        pending=_map(said.get("pending")) or None, raw=said)


@dataclasses.dataclass(frozen=True)
class Output:
    """A file that came out. Those of a run that did not succeed are partial: nothing vouches for them."""

    path: str  # relative to the working directory
    bytes: int
    sha256: str
    media_type: Optional[str] = None
    partial: bool = False
    location: Optional[pathlib.Path] = None  # where it can be read on this host, if it can


def outputs_of(said: Mapping[str, Any], directory: Optional[pathlib.Path] = None) -> List[Output]:
    """outputs.json of a run, or the service's answer."""
    partial = bool(said.get("partial"))
    place = directory / ("partial" if partial else "outputs") if directory else None
    found = []
    for entry in said.get("outputs", said.get("files", [])):
        path = str(entry["path"])
        found.append(Output(path, int(entry.get("bytes", entry.get("size", 0))), str(entry.get("sha256") or ""),
                            _text(entry.get("media_type")), partial, place / path if place else None))
    return found


@dataclasses.dataclass(frozen=True)
class LogPart:
    """Bytes of a log from `offset` on, and how long the log is as a whole."""

    data: bytes
    offset: int
    total: int

    @property
    def cut(self) -> bool:
        return self.offset > 0 or self.offset + len(self.data) < self.total


def quests_of(runs: List[Run]) -> List[Dict[str, Any]]:
    """Work by quest, as the service tells it, made of a list of runs."""
    made: Dict[str, Dict[str, Any]] = {}
    for run in runs:
        if not run.quest:
            continue
        quest = made.setdefault(run.quest, {
            "quest": run.quest, "runs": {"queued": 0, "running": 0, "ok": 0, "failed": 0}, "success_rate": None,
            "wall_usec": 0, "cpu_usec": 0, "first": None, "last": None, "causes": {}})
        kind = ("ok" if run.ok else "failed") if run.over else run.state
        quest["runs"][kind] = quest["runs"].get(kind, 0) + 1
        if run.cause:
            quest["causes"][run.cause] = quest["causes"].get(run.cause, 0) + 1
        quest["wall_usec"] += run.wall_usec or 0
        quest["cpu_usec"] += run.cpu_usec or 0
        times = [time for time in (quest["first"], quest["last"], run.submitted) if time]
        quest["first"], quest["last"] = (min(times), max(times)) if times else (None, None)
    for quest in made.values():
        over = quest["runs"]["ok"] + quest["runs"]["failed"]
        quest["success_rate"] = quest["runs"]["ok"] / over if over else None
    return sorted(made.values(), key=lambda quest: str(quest["quest"]))
