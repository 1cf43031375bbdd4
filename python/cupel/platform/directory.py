"""Directories of analyses on the host, and how one that the platform names as `cwd` is shown in a box."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
import shutil
import stat
import sys
import threading
from typing import Dict, List, Optional, Sequence, Set, Tuple, Union

from ..errors import CupelError, Refused
from ..program import Program
from ..spec import StrPath, absolute, option_id

INPUTS_MAX = 4000
DEFAULT_PLACE = "/tmp/scidex-analysis-{id}"
# What every box has of its own. Into the first three, what cwd has in its own is linked.
_SHARED = ("code", "data", "docs")
_OWN = ("out", "tmp", "home")
_lock = threading.Lock()
_made: Set[Tuple[int, int]] = set()


def _template() -> str:
    try:
        settings = Program().settings
        return f"{settings['work.root']}/{settings['work.template']}"
    except (CupelError, KeyError):
        return DEFAULT_PLACE


def _place(analysis_id: str) -> pathlib.Path:
    return pathlib.Path(_template().replace("{id}", option_id(analysis_id)))


def _id_of(path: str) -> str:
    """The id of the analysis whose directory this is. Nothing else is ever removed."""
    before, _, after = _template().partition("{id}")
    text = os.path.abspath(path)
    if not (text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after)):
        raise ValueError(f"{path} is no directory of an analysis")
    return text[len(before):len(text) - len(after)]


def _checked(path: pathlib.Path) -> os.stat_result:
    """A directory of ours: others may make names in /tmp, too."""
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise CupelError(f"{path} is a link, a file, or a directory of another user; remove it or use another id",
                         code="not-ours")
    return found


def existing_temp_dir(analysis_id: str) -> Optional[str]:
    """The directory of this id, if there is one. One that belongs to somebody else, and a link, are refused."""
    path = _place(analysis_id)
    try:
        _checked(path)
    except FileNotFoundError:
        return None
    return str(path)


def create_analysis_temp_dir(analysis_id: str) -> pathlib.Path:
    """Makes /tmp/scidex-analysis-ID/ with data/ and out/ for the files of an analysis; what is there stays.

    Its files are found in the box by the same relative paths if it is given as `cwd`, or if its id is the `run_id`: then they
    have the same absolute paths, too. What the analysis leaves in out/ is copied to its out/; nothing else in it changes, and
    only cleanup_analysis_temp_dir removes it. It can be read by all, since an analysis that root starts has a user of its own."""
    if not isinstance(analysis_id, str) or not analysis_id:
        raise ValueError("an analysis has an id")
    path = _place(analysis_id)
    try:
        path.mkdir(mode=0o755)
        path.chmod(0o755)
    except FileExistsError:
        pass
    found = _checked(path)
    for name in ("data", "out"):
        inner = path / name
        inner.mkdir(mode=0o755, exist_ok=True)
        inner.chmod(0o755)
    with _lock:
        _made.add((found.st_dev, found.st_ino))
    return path


def cleanup_analysis_temp_dir(analysis_id: StrPath) -> bool:
    """Removes the directory of an analysis, named by its id or its path. False if there is none. The records of its
    runs stay."""
    text = os.fspath(analysis_id)
    path = _place(_id_of(text) if "/" in text else text)
    try:
        found = _checked(path)
    except FileNotFoundError:
        return False
    shutil.rmtree(path)
    with _lock:
        _made.discard((found.st_dev, found.st_ino))
    return True


def is_temp_dir(path: str) -> bool:
    """Whether create_analysis_temp_dir made it, in this process."""
    found = os.stat(path)
    with _lock:
        return (found.st_dev, found.st_ino) in _made


@dataclasses.dataclass(frozen=True)
class Shown:
    """What of a directory is shown: inputs, by name; links to make in the box; what is left out, and why."""

    inputs: List[Tuple[str, str]]
    links: Dict[str, List[str]]  # directory of the box: what to link there
    left_out: List[str]


def _why_not(entry: "os.DirEntry[str]", root: str) -> Optional[str]:
    """A secret stays one: hidden files, links that lead out, and what not everybody may read are not shown."""
    if entry.name.startswith("."):
        return ""
    if not entry.name.isprintable():
        return f"{entry.name!r} is no name that can be shown"
    try:
        if entry.is_symlink() and not os.path.realpath(entry.path).startswith(root + "/"):
            return f"{entry.name} is a link that leads out of it"
        mode = entry.stat().st_mode
    except OSError as error:
        return f"{entry.name}: {error.strerror}"
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return f"{entry.name} is neither a file nor a directory"
    needed = 0o005 if stat.S_ISDIR(mode) else 0o004
    if os.geteuid() == 0 and mode & needed != needed:
        return f"{entry.name} cannot be read by all"
    return None


def _entries(path: str, root: str, left_out: List[str]) -> List["os.DirEntry[str]"]:
    found = []
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            why = _why_not(entry, root)
            if why is None:
                found.append(entry)
            elif why:
                left_out.append(why)
    return found


def show(cwd: str, taken: Set[str]) -> Shown:
    """How `cwd` looks in a box: each of its entries read-only under its own name, linked to data/, where cupel shows
    inputs. Those of its data/ are in data/. out/, tmp/ and home/ are the box's own, and empty."""
    left_out: List[str] = []
    inputs: Dict[str, str] = {}
    links: Dict[str, List[str]] = {}
    root = os.path.realpath(cwd)
    entries = _entries(cwd, root, left_out)
    for entry in entries:
        if entry.name == "data" and entry.is_dir():
            inputs.update({inner.name: inner.path for inner in _entries(entry.path, root, left_out)
                           if inner.name not in taken})
    for entry in entries:
        if entry.name in _OWN or (entry.name == "data" and entry.is_dir()):
            continue
        if entry.name in _SHARED and not entry.is_dir():
            left_out.append(f"{entry.name} has the name of a directory of the box")
            continue
        name = entry.name
        while name in inputs or name in taken:  # cwd/x beside cwd/data/x
            name = f"cwd.{name}"
        inputs[name] = entry.path
        if entry.name in _SHARED:
            links[entry.name] = [f"../data/{name}/{inner.name}" for inner in _entries(entry.path, root, left_out)]
        elif name == entry.name:
            links.setdefault(".", []).append(f"data/{name}")
        else:
            links[entry.name] = [f"data/{name}"]
    if len(inputs) + len(taken) > INPUTS_MAX:
        raise Refused(f"{cwd} has {len(inputs)} entries to be shown, and an analysis at most {INPUTS_MAX} inputs",
                      code="too-many", remedy="put them into a directory of it")
    return Shown([(path, name) for name, path in inputs.items()], links, left_out)


def linked(command: Union[str, Sequence[str]], shown: Shown) -> Union[str, List[str]]:
    """The command behind a few words of shell that make the links."""
    if not shown.links:
        return command if isinstance(command, str) else list(command)
    lines = []
    for target, sources in shown.links.items():
        words = " ".join(shlex.quote(source) for source in sources)
        if sources:
            lines.append(f"ln -s -- {words} {shlex.quote(target)}" + ("/" if target in (".", *_SHARED) else ""))
    if isinstance(command, str):
        return "\n".join([*lines, command])
    return ["/bin/sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh", *command]


def inside(command: Union[str, Sequence[str]], cwd: Optional[str]) -> Union[str, List[str]]:
    """Words that name this Python, or a path in `cwd`, as they are called in the box. A text is left as it is."""
    if isinstance(command, str):
        return command
    words = [os.fspath(word) for word in command]
    if words and words[0] == sys.executable and not words[0].startswith(("/usr/", "/bin/")):
        words[0] = "python3"
    if cwd is None:
        return words
    return [os.path.relpath(word, cwd) if word == cwd or word.startswith(cwd + "/") else word for word in words]


def directory_of(cwd: Optional[StrPath]) -> Optional[str]:
    if cwd is None:
        return None
    path = absolute(cwd)
    if not os.path.isdir(path) or not os.access(path, os.R_OK | os.X_OK):
        raise ValueError(f"cwd: {path} is no directory that can be read")
    return path
