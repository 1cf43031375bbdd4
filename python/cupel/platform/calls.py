"""The calls of the platform: each makes a job, has it run, and reads what came of it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pathlib
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..client import Client
from ..door import AsyncDoor, Door
from ..errors import CupelError, Refused
from ..select import connect, connect_async
from ..spec import Input, StrPath, absolute
from . import job as jobs
from .job import Job, Options
from .result import Note, RuntimeResult, not_run, of_run

Command = Union[str, Sequence[StrPath]]
Maker = Callable[[Door], Job]


def _perform(make: Maker) -> RuntimeResult:
    try:
        door = connect()
        job = make(door)
        run = door.run(job.analysis, id=job.run_id)
    except CupelError as error:
        return not_run(error)
    return of_run(door, job, run)


async def _perform_async(make: Maker) -> RuntimeResult:
    """The door of this loop runs it; what is short is done by the blocking one, in a thread."""
    def begin() -> Tuple[Door, Job, AsyncDoor]:
        door = connect()
        return door, make(door), connect_async()

    try:
        door, job, runs = await asyncio.to_thread(begin)
        run = await runs.run(job.analysis, id=job.run_id)
    except CupelError as error:
        return not_run(error)
    return await asyncio.to_thread(of_run, door, job, run)


# A command.

def _command(cmd: Command, options: Options, profile: Optional[str] = None) -> Maker:
    what = jobs.command_of(cmd)
    return lambda _: jobs.make(what, options, profile)


def _positional(cwd: Any, env: Any, timeout_seconds: Any, options: Dict[str, Any]) -> Options:
    return Options(cwd=cwd, env=env, timeout_seconds=timeout_seconds, **options)


def isolated_run(cmd: Command, cwd: Optional[StrPath] = None, env: Optional[Mapping[str, str]] = None,
                 timeout_seconds: Optional[float] = None, **options: Any) -> RuntimeResult:
    """Runs a command: a list of words, or a text for the runtime's shell. `options`: see Options."""
    return _perform(_command(cmd, _positional(cwd, env, timeout_seconds, options)))


async def isolated_run_async(cmd: Command, cwd: Optional[StrPath] = None, env: Optional[Mapping[str, str]] = None,
                             timeout_seconds: Optional[float] = None, **options: Any) -> RuntimeResult:
    return await _perform_async(_command(cmd, _positional(cwd, env, timeout_seconds, options)))


def run_tool_isolated(tool: StrPath, args: Sequence[StrPath] = (), **options: Any) -> RuntimeResult:
    """Runs a program of the runtime, with the limits of the profile `tool`."""
    return _perform(_command([tool, *args], Options(**options), "tool"))


async def run_tool_isolated_async(tool: StrPath, args: Sequence[StrPath] = (), **options: Any) -> RuntimeResult:
    return await _perform_async(_command([tool, *args], Options(**options), "tool"))


# A script.

def _script(script: StrPath, args: Sequence[str], files: Sequence[StrPath], options: Options,
            profile: Optional[str] = None) -> Maker:
    """Without `cwd` the script and its files are shown in code/. With it the script is run where it lies, in the runtime
    that cupel would choose for it."""
    words = [str(word) for word in args]
    cwd = jobs.cwd_of(options)
    path = jobs.script_of(os.path.join(cwd, os.fspath(script)) if cwd else script)
    code = [path, *(absolute(file) for file in files)]
    if cwd is None or not path.startswith(cwd + "/"):
        return lambda _: jobs.make({"code": code, "args": words}, options, profile)

    def make(door: Door) -> Job:
        runtime, limits = (options.runtime, {}) if options.runtime else jobs.suggestion(door, code)
        made = jobs.make({"command": ["python3", path, *words]}, options, profile, limits)
        if runtime:
            made.analysis.setdefault("runtime", runtime)
        return made

    return make


def run_python_script(script: StrPath, args: Sequence[str] = (), *, files: Sequence[StrPath] = (),
                      **options: Any) -> RuntimeResult:
    """Runs a Python script. `files` are shown beside it, for it to import. A relative path is relative to `cwd`."""
    return _perform(_script(script, args, files, Options(**options)))


async def run_python_script_async(script: StrPath, args: Sequence[str] = (), *, files: Sequence[StrPath] = (),
                                  **options: Any) -> RuntimeResult:
    return await _perform_async(_script(script, args, files, Options(**options)))


# A notebook.

def _notebook(notebook: StrPath, parameters: Optional[Mapping[str, Any]], options: Options) -> Maker:
    cwd = jobs.cwd_of(options)
    path = jobs.script_of(os.path.join(cwd, os.fspath(notebook)) if cwd else notebook, ".ipynb")
    what: Dict[str, Any] = {"code": [path]}
    made_with = {"parameters": dict(parameters)} if parameters else {}

    def make(_: Door) -> Job:
        made = jobs.make(what, options, "notebook")
        made.analysis.update(made_with)
        return made

    return make


def _executed(result: RuntimeResult, notebook: StrPath, output_path: Optional[StrPath]) -> RuntimeResult:
    """The notebook with its results, also of one that failed, to where the caller wants it."""
    name = f"out/{os.path.basename(os.fspath(notebook))}"
    if output_path is None or not any(output.path == name for output in result.outputs):
        return result
    target = pathlib.Path(absolute(output_path))
    try:
        data = result.read_output(name)
        temporary = target.with_name(f".{target.name}.{result.run_id}")
        temporary.write_bytes(data)
        os.replace(temporary, target)
        result.copied.append(target)
    except (CupelError, OSError) as error:
        note = Note("outputs-not-copied", f"The notebook could not be written to {target}: {error}.")
        result.notes.append(note)
        result.completion_notes += f" {note.text}"
    return result


def run_notebook_isolated(notebook: StrPath, parameters: Optional[Mapping[str, Any]] = None, *,
                          output_path: Optional[StrPath] = None, **options: Any) -> RuntimeResult:
    """Runs a notebook cell by cell, with the limits of the profile `notebook`. out/NAME.ipynb, with results, is among
    the outputs, and is written to `output_path`, also after a failure; out/NAME.html is the same as a page."""
    return _executed(_perform(_notebook(notebook, parameters, Options(**options))), notebook, output_path)


async def run_notebook_isolated_async(notebook: StrPath, parameters: Optional[Mapping[str, Any]] = None, *,
                                      output_path: Optional[StrPath] = None, **options: Any) -> RuntimeResult:
    result = await _perform_async(_notebook(notebook, parameters, Options(**options)))
    return await asyncio.to_thread(_executed, result, notebook, output_path)


# What is done with results.

def _earlier(door: Door, of: Union[RuntimeResult, str]) -> Tuple[str, List[Input]]:
    """The outputs of a run that succeeded, as an input."""
    run_id = of.run_id if isinstance(of, RuntimeResult) else of
    if not run_id:
        raise Refused("there was no run whose results could be processed", code="not-run")
    run = door.show(run_id)
    if not run.ok:
        raise Refused(f"run {run_id} ended as {run.cause}: its outputs do not count", code="not-ok")
    directory = run.directory
    if directory is None and isinstance(door, Client):
        directory = pathlib.Path(door.info()["home"], "runs", run_id)
    if directory is None:
        raise Refused(f"nothing says where the outputs of {run_id} are", code="no-directory")
    place = directory / "outputs"
    return run_id, [(place, "outputs")] if door.outputs(run_id) else []


def _post_process(what: Union[Command, "os.PathLike[str]"], of: Union[RuntimeResult, str], args: Sequence[str],
                  asked: Options) -> Maker:
    if not isinstance(of, (RuntimeResult, str)):
        raise TypeError("`of` is the result of a run, or its id")
    script = isinstance(what, os.PathLike)
    if not script:
        jobs.command_of(what)  # type: ignore[arg-type]

    def make(door: Door) -> Job:
        run_id, earlier = _earlier(door, of)
        labels = {**(asked.labels or {}), "post_process_of": run_id}
        made = dataclasses.replace(asked, inputs=[*asked.inputs, *earlier], labels=labels)
        if script:
            return _script(what, args, (), made, "post_process")(door)  # type: ignore[arg-type]
        command = jobs.command_of(what)["command"]  # type: ignore[arg-type]
        if isinstance(command, str) and args:  # they are $0, $1, ... of the text, which only words can say
            command = [*jobs.shell_words(made.shell or "sh"), command]
        return jobs.make({"command": [*command, *args] if args else command}, made, "post_process")

    return make


def run_post_process_isolated(what: Union[Command, "os.PathLike[str]"], of: Union[RuntimeResult, str],
                              args: Sequence[str] = (), **options: Any) -> RuntimeResult:
    """Runs a command, or a script if it is a path object, over the outputs of a run that succeeded: they are in
    data/outputs, read-only, at their own paths. The limits are those of the profile `post_process`. It has no database:
    a step that writes one is the host's to declare (post_processes of cupel.yaml), and `post_process=` of the first run
    names it."""
    return _perform(_post_process(what, of, args, Options(**options)))


async def run_post_process_isolated_async(what: Union[Command, "os.PathLike[str]"], of: Union[RuntimeResult, str],
                                          args: Sequence[str] = (), **options: Any) -> RuntimeResult:
    return await _perform_async(_post_process(what, of, args, Options(**options)))


