"""How an analysis ended, as the platform takes it: always a value."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..advice import in_python
from ..door import Door
from ..errors import CupelError, Refused
from ..model import LogPart, Output, Run, recorded_notes
from ..spec import StrPath
from .job import Job
from .limits import argument

NOT_RUN = 125


@dataclasses.dataclass(frozen=True)
class Note:
    """A fact about the end of a run. `code` is to branch on, `text` is for people."""

    code: str
    text: str


@dataclasses.dataclass
class RuntimeResult:
    """What came of an analysis.

    returncode: its own exit status; -N if signal N ended it (-9 out of memory); -1 after its deadline; 1 if it
    succeeded but its outputs do not count; 125 if cupel could not run it. `cause` is the word for it.
    stdout, stderr: as text, with what is not UTF-8 replaced, up to a cap. duration: seconds of wall time in the box.
    completion_notes: what happened and what would help, in sentences; notes: the same by code.
    outputs: what came out; copied: where those were copied to. run_id: None if there is no record.
    """

    returncode: int
    stdout: str = ""
    stderr: str = ""
    duration: float = 0.0
    completion_notes: str = ""
    run_id: Optional[str] = None
    outputs: List[Output] = dataclasses.field(default_factory=list)
    cause: str = "setup"
    notes: List[Note] = dataclasses.field(default_factory=list)
    copied: List[pathlib.Path] = dataclasses.field(default_factory=list)
    runtime: Optional[str] = None
    usage: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    directory: Optional[pathlib.Path] = None
    raw: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    door: Optional[Door] = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        return self.cause == "ok"

    @property
    def timed_out(self) -> bool:
        return self.cause == "deadline"

    @property
    def out_of_memory(self) -> bool:
        return self.cause == "oom"

    def has(self, code: str) -> bool:
        """Whether there is a note of this code."""
        return any(note.code == code for note in self.notes)

    def _record(self) -> Tuple[Door, str]:
        if self.door is None or self.run_id is None:
            raise CupelError("nothing was run: there are no outputs", code="not-found")
        return self.door, self.run_id

    def read_output(self, path: str) -> bytes:
        """An output, by its path relative to the working directory."""
        door, run_id = self._record()
        with door.open_output(run_id, path) as file:
            return file.read()

    def download(self, directory: StrPath, *, overwrite: bool = False) -> List[pathlib.Path]:
        """Copies the outputs, verified, below a directory."""
        door, run_id = self._record()
        return door.download(run_id, directory, overwrite=overwrite)


def not_run(error: CupelError) -> RuntimeResult:
    """cupel is not there, is broken, or refuses."""
    text = in_python(f"cupel did not run it: {error}", argument)
    cause = "refused" if isinstance(error, Refused) else error.code
    return RuntimeResult(NOT_RUN, completion_notes=text, cause=cause, notes=[Note(error.code, text)])


def _log(door: Door, job: Job, run_id: str, stream: str, notes: List[Note]) -> str:
    try:
        part = door.log(run_id, stream, limit=job.capture_bytes) if job.capture_bytes else LogPart(b"", 0, 0)
    except CupelError as error:
        notes.append(Note("log-unread", f"{stream} could not be read: {error}"))
        return ""
    if part.cut:
        notes.append(Note("capture-cut", f"Of {stream} the first {len(part.data)} of {part.total} bytes are here."))
    return part.data.decode("utf-8", "replace")


def _facts(run: Run, verdict: Mapping[str, Any], outputs: List[Output], job: Job) -> List[Note]:
    usage = verdict.get("usage") or {}
    notes = [Note(run.cause or "unknown", in_python(recorded_notes(run.raw), argument) or f"The run ended as {run.cause}.")]
    if usage.get("log_dropped_bytes"):
        notes.append(Note("log-dropped", f"{usage['log_dropped_bytes']} bytes of its log were beyond the limit."))
    if outputs and outputs[0].partial:
        notes.append(Note("partial", "Its outputs are partial: nothing vouches for them."))
    if (verdict.get("runtime_state") or {}).get("allowed_drift"):
        notes.append(Note("drift", "Its runtime was not what it should be, which was allowed."))
    if verdict.get("missing_layers"):
        notes.append(Note("missing-layers", f"This host could not give: {verdict['missing_layers']}."))
    if job.left_out:
        more = f" and {len(job.left_out) - 5} more" if len(job.left_out) > 5 else ""
        notes.append(Note("not-shown", f"Of cwd was not shown: {'; '.join(job.left_out[:5])}{more}."))
    if job.dropped_env:
        names = ", ".join(job.dropped_env[:5]) + (f" and {len(job.dropped_env) - 5} more" if len(job.dropped_env) > 5 else "")
        notes.append(Note("env-dropped", f"These variables of env were not passed on, cupel sets its own: {names}."))
    return notes


def of_run(door: Door, job: Job, run: Run) -> RuntimeResult:
    """Reads what a run that is over left. Only outputs that count are copied: those of a success."""
    if run.cause == "refused":  # by the service, when its turn came: it left nothing
        return not_run(Refused(run.completion_notes or "it was refused", code="refused"))
    verdict: Dict[str, Any] = dict(run.raw.get("verdict") or run.raw)
    notes: List[Note] = []
    outputs: List[Output] = []
    copied: List[pathlib.Path] = []
    try:
        outputs = door.outputs(run.id)
        if job.outputs_to and run.ok:
            copied = door.download(run.id, job.outputs_to, overwrite=True)
    except (CupelError, OSError) as error:
        notes.append(Note("outputs-not-copied" if outputs else "outputs-unread", f"Its outputs: {error}."))
    facts = _facts(run, verdict, outputs, job)
    stdout, stderr = (_log(door, job, run.id, stream, notes) for stream in ("stdout", "stderr"))
    notes = facts + notes
    return RuntimeResult(
        run.returncode, stdout, stderr, (run.wall_usec or 0) / 1e6, " ".join(note.text for note in notes), run.id,
        outputs, run.cause or "unknown", notes, copied, run.runtime, verdict.get("usage") or {}, run.directory,
        run.raw, door)
