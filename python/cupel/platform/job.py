"""A call of the platform as an analysis of cupel's."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..door import Door
from ..errors import CupelError
from ..spec import Input, Limit, StrPath, absolute, input_name, new_id, option_id
from . import directory, limits

CAPTURE_BYTES = 10 << 20


@dataclasses.dataclass(frozen=True)
class Options:
    """What the functions of this module take besides what they run.

    cwd: a directory that is shown read-only, see docs/PYTHON.md (default: that of create_analysis_temp_dir(run_id), if it
    exists); env: variables, in place of those of the caller; names that start with CUPEL_ are dropped with a note;
    timeout_seconds, memory_limit_mb, cpu_quota (in cpus), pids_limit, disk_limit_mb: limits, and `limits` for others
    by cupel's names; metadata: of the analysis, for limits and names that no argument says;
    inputs: paths, (path, name) pairs: shown as data/NAME; outputs: globs in the working directory;
    outputs_to: a directory to which verified outputs are copied (False: none, also not to a temporary directory);
    shell: reads a command that is a text, "sh" as `shell=True` of subprocess does (man cupel-analysis);
    run_id: of the run, used once; analysis_id: a label; capture_bytes: how much of stdout and stderr is returned.
    """

    cwd: Optional[StrPath] = None
    env: Optional[Mapping[str, str]] = None
    timeout_seconds: Optional[float] = None
    memory_limit_mb: Optional[float] = None
    cpu_quota: Optional[float] = None
    pids_limit: Optional[int] = None
    disk_limit_mb: Optional[float] = None
    limits: Optional[Mapping[str, Limit]] = None
    metadata: Optional[Mapping[str, Any]] = None
    runtime: Optional[str] = None
    shell: Union[str, Sequence[str], None] = None
    profile: Optional[str] = None
    inputs: Sequence[Input] = ()
    outputs: Optional[Sequence[Any]] = None
    outputs_to: Union[StrPath, bool, None] = None
    parameters: Optional[Mapping[str, Any]] = None
    name: Optional[str] = None
    quest: Optional[str] = None
    labels: Optional[Mapping[str, str]] = None
    analysis_id: Optional[str] = None
    run_id: Optional[str] = None
    post_process: Optional[str] = None
    capture_bytes: int = CAPTURE_BYTES


@dataclasses.dataclass(frozen=True)
class Job:
    """What to run and where to put what comes of it."""

    run_id: str
    analysis: Dict[str, Any]
    outputs_to: Optional[str]
    capture_bytes: int
    left_out: List[str]
    dropped_env: List[str] = dataclasses.field(default_factory=list)


def _limits(options: Options, profile: str, suggested: Mapping[str, Limit]) -> Dict[str, Limit]:
    """In rising priority: what the script says, what was changed in RESOURCE_LIMITS, metadata, arguments."""
    arguments = {name: getattr(options, name) for name in limits.NAMES}
    return {**suggested, **limits.of_numbers(limits.RESOURCE_LIMITS.changes(profile)),
            **limits.of_metadata(options.metadata), **(options.limits or {}), **limits.of_numbers(arguments)}


def _environment(env: Optional[Mapping[str, str]]) -> Tuple[Optional[Dict[str, str]], List[str]]:
    """The variables that the analysis gets, and the names that are dropped: os.environ may have names that cupel sets itself,
    and functions that a shell exported."""
    if env is None:
        return None, []
    made: Dict[str, str] = {}
    dropped: List[str] = []
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"env: {name!r} and its value are texts")
        if name.startswith(("CUPEL_", "BASH_FUNC_")):
            dropped.append(name)
        else:
            made[name] = value
    return made, sorted(dropped)


def cwd_of(options: Options) -> Optional[str]:
    """`cwd`, or the directory that create_analysis_temp_dir made for the id of the run."""
    if options.cwd is None and options.run_id:
        return directory.existing_temp_dir(options.run_id)
    return directory.directory_of(options.cwd)


def _outputs_to(options: Options, cwd: Optional[str]) -> Optional[str]:
    if options.outputs_to is False:
        return None
    if options.outputs_to is True:
        raise ValueError("outputs_to is a directory, or False")
    if options.outputs_to is not None:
        return absolute(options.outputs_to)
    return cwd if cwd and directory.is_temp_dir(cwd) else None


def _text(metadata: Optional[Mapping[str, Any]], name: str) -> Optional[str]:
    value = metadata.get(name) if metadata else None
    return value if isinstance(value, str) and value else None


def _labels(options: Options) -> Optional[Dict[str, str]]:
    made = dict(options.labels or {})
    named = options.analysis_id or _text(options.metadata, "analysis_id")
    if named:
        made.setdefault("analysis_id", named)
    return made or None


def make(what: Mapping[str, Any], options: Options, profile: Optional[str] = None,
         suggested: Optional[Mapping[str, Limit]] = None) -> Job:
    """`what` has the command, as a list or for a shell, or the code. Raises what is wrong with the arguments."""
    cwd = cwd_of(options)
    env, dropped = _environment(options.env)
    made: Dict[str, Any] = dict(what)
    inputs: List[Input] = [*options.inputs]
    left_out: List[str] = []
    if "command" in made:
        made["command"] = directory.inside(made["command"], cwd)
    if cwd is not None:
        shown = directory.show(cwd, {input_name(item) for item in inputs})
        inputs += shown.inputs
        left_out = shown.left_out
        if isinstance(made.get("command"), str) and options.shell is not None and shown.links:
            made["command"] = [*shell_words(options.shell), made["command"]]
        if "command" in made:
            made["command"] = directory.linked(made["command"], shown)
    if isinstance(made.get("command"), str) and options.shell is not None:
        made["shell"] = options.shell if isinstance(options.shell, str) else [*options.shell]
    metadata = options.metadata
    profile = options.profile or _text(metadata, "profile") or profile
    if profile in limits.ALIASES:
        profile = limits.RESOURCE_LIMITS.name_of(profile)
    made.update({
        "inputs": inputs or None, "outputs": options.outputs, "env": env,
        "limits": _limits(options, profile or "default", suggested or {}) or None, "profile": profile,
        "runtime": options.runtime or _text(metadata, "runtime"), "parameters": options.parameters,
        "name": options.name or _text(metadata, "name") or _text(metadata, "title"),
        "quest": options.quest or _text(metadata, "quest"), "labels": _labels(options),
        "post_process": options.post_process})
    if isinstance(options.capture_bytes, bool) or options.capture_bytes < 0:
        raise ValueError("capture_bytes is below zero")
    run_id = option_id(options.run_id) if options.run_id else new_id()
    return Job(run_id, {key: value for key, value in made.items() if value is not None},
               _outputs_to(options, cwd), options.capture_bytes, left_out, dropped)


def shell_words(shell: Union[str, Sequence[str]]) -> List[str]:
    """The words before a text, as `shell` of an analysis file stands for them."""
    if not isinstance(shell, str):
        return [*shell]
    if shell == "bash":
        return ["bash", "-euo", "pipefail", "-c"]
    return ["/bin/sh" if shell == "sh" else shell, "-c"]


def command_of(cmd: Union[str, Sequence[StrPath]]) -> Dict[str, Any]:
    """A text is for a shell, a list is not."""
    if isinstance(cmd, str):
        if not cmd.strip():
            raise ValueError("the command is empty")
        return {"command": cmd}
    if isinstance(cmd, (bytes, Mapping)) or not isinstance(cmd, Sequence):
        raise TypeError(f"a command is a list of texts, or a text, not {type(cmd).__name__}")
    words = [os.fspath(word) for word in cmd]
    if not all(isinstance(word, str) for word in words):
        raise TypeError("the words of a command are texts")
    if not words or not words[0]:
        raise ValueError("the command is empty")
    return {"command": words}


def script_of(script: StrPath, ending: Optional[str] = None) -> str:
    path = absolute(script)
    if not os.path.isfile(path):
        raise ValueError(f"{path} is no file")
    if ending and not path.endswith(ending):
        raise ValueError(f"{path} does not end in {ending}")
    return path


def suggestion(door: Door, code: Sequence[str]) -> Tuple[Optional[str], Dict[str, Limit]]:
    """The runtime that cupel would choose for a script, and the limits in its metadata."""
    try:
        chosen = door.plan({"code": [*code]})["runtime"]
        said = chosen.get("selection", {}).get("limits", {})
        return chosen["name"], {name: limit["value"] for name, limit in said.items()}
    except (CupelError, KeyError, TypeError):
        return None, {}  # the run itself says what is wrong
