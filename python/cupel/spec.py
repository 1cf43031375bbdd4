"""What is to be run, as the map that an analysis file is (man cupel-analysis): checked, with absolute paths."""

from __future__ import annotations

import datetime
import json
import math
import os
import pathlib
import re
import secrets
import time
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

StrPath = Union[str, "os.PathLike[str]"]
# A list is a program and its arguments, a text is for the runtime's shell (man cupel-analysis, `shell`), a path is a
# script or an analysis file, a map is an analysis.
What = Union[Sequence[str], str, "os.PathLike[str]", Mapping[str, Any]]
Input = Union[StrPath, Tuple[StrPath, str], Mapping[str, Any]]
Limit = Union[str, int, float, datetime.timedelta]
Moment = Union[str, datetime.datetime]

_SIZES = frozenset({"memory", "disk", "log", "file_size", "output_size"})
_TIMES = frozenset({"time", "cpu_time", "grace", "warn"})
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_EPOCH_MS = 1577836800000  # 2020
# What JSON lets stand as it is and YAML does not.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def new_id() -> str:
    """An id that sorts by time, as those that cupel makes."""
    now = time.time_ns() // 1_000_000 - _EPOCH_MS
    head = "".join(_DIGITS[now >> shift & 31] for shift in range(40, -1, -5))
    return head + "".join(secrets.choice(_DIGITS) for _ in range(6))


def absolute(path: StrPath) -> str:
    """An absolute path that is a text cupel can be given. Links are cupel's to follow."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path is a str or a PathLike of one, not {type(text).__name__}")
    if not text:
        raise ValueError("a path is empty")
    return os.path.abspath(text)


def limit_text(name: str, value: Limit) -> str:
    """Bytes, seconds and counts as an analysis file has them. A text is passed on as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"limit {name}: a number or a text, not {type(value).__name__}")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"limit {name}: {value} is not above zero")
    if name in _TIMES:
        return f"{max(1, round(value * 1000))}ms"
    if name == "cpus":
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if value != int(value):
        raise ValueError(f"limit {name}: {value} is no whole number")
    return f"{int(value)}B" if name in _SIZES else str(int(value))


def input_name(item: Input) -> str:
    """The name in data/ under which an input is shown."""
    if isinstance(item, Mapping):
        return str(item.get("name") or os.path.basename(absolute(item["path"])))
    return item[1] if isinstance(item, tuple) else os.path.basename(absolute(item))


def _input(item: Input) -> Union[str, Dict[str, str]]:
    """One value where that says it all: an analysis has only so many."""
    path = absolute(item["path"] if isinstance(item, Mapping) else item[0] if isinstance(item, tuple) else item)
    name = input_name(item)
    return path if name == os.path.basename(path) and ":" not in path else {"path": path, "name": name}


def _paths(value: Union[StrPath, Iterable[StrPath]]) -> List[str]:
    if isinstance(value, (str, os.PathLike)):
        return [absolute(value)]
    return [absolute(path) for path in value]


def _checked(value: Any, where: str) -> Any:
    """A copy of plain JSON values; what cannot be said in UTF-8 is refused here, by its place."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError(f"{where}: there is a NUL in {value[:60]!r}, which no argument can have")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"{where}: {value[:60]!r} is not UTF-8") from None
        return value
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where}: {value} is no number of JSON")
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"{where}: the names in a map are texts")
        return {_checked(key, where): _checked(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_checked(item, f"{where}[{at}]") for at, item in enumerate(value)]
    raise TypeError(f"{where}: {type(value).__name__} cannot be given to an analysis")


def _started_as(what: What) -> Dict[str, Any]:
    if isinstance(what, Mapping):
        return dict(what)
    if isinstance(what, os.PathLike):
        path = absolute(what)
        return {"file": path} if path.endswith((".yaml", ".yml")) else {"code": [path]}
    if isinstance(what, str):
        if not what.strip():
            raise ValueError("the command is empty")
        return {"command": what}
    if isinstance(what, bytes) or not isinstance(what, Sequence):
        raise TypeError(f"a command is a list of texts, not {type(what).__name__}")
    words = [os.fspath(word) for word in what]
    if not words or not words[0]:
        raise ValueError("the command is empty")
    if not all(isinstance(word, str) for word in words):
        raise TypeError("the words of a command are texts")
    return {"command": words}


def analysis(what: What, **keys: Any) -> Dict[str, Any]:
    """An analysis from a command, script, file or map, with more of its keys (man cupel-analysis): args, inputs,
    outputs, env, parameters, limits, profile, runtime, shell, name, quest, labels, post_process, ...; None is left out.
    Limits may be numbers: bytes, seconds, counts. An analysis file takes only parameters."""
    made = _started_as(what)
    for key, value in keys.items():
        if value is not None:
            made[key] = value
    if "file" in made:
        extra = set(made) - {"file", "parameters"}
        if extra:
            raise ValueError(f"{', '.join(sorted(extra))}: say it in the analysis file, {made['file']}")
        made["file"] = absolute(made["file"])
    elif "steps" not in made and ("command" in made) == ("code" in made):
        raise ValueError("an analysis has either a command or code")
    if "steps" in made:  # a pipeline's own paths are in its steps: cupel says which are not absolute
        checked: Dict[str, Any] = _checked(made, "analysis")
        return checked
    if "code" in made:
        made["code"] = _paths(made["code"])
    if "inputs" in made:
        made["inputs"] = [_input(item) for item in made["inputs"]]
    if "db_snapshot" in made:
        made["db_snapshot"] = absolute(made["db_snapshot"])
    if "limits" in made:
        made["limits"] = {name: limit_text(name, value) for name, value in made["limits"].items() if value is not None}
    checked = _checked(made, "analysis")
    return checked


def as_yaml(made: Mapping[str, Any]) -> bytes:
    """The analysis as a file that cupel reads. JSON is YAML but for some characters, and for pairs of surrogates."""
    text = json.dumps(made, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8")


def moment_text(moment: Moment) -> str:
    """As the API has it. A text is passed on as it is."""
    if isinstance(moment, str):
        return moment
    if not isinstance(moment, datetime.datetime):
        raise TypeError(f"a time is a datetime or a text, not {type(moment).__name__}")
    if moment.utcoffset() is None:
        raise ValueError("a time without a zone is another one elsewhere: say tzinfo")
    return moment.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def option_id(run_id: Optional[str]) -> str:
    """The id that was asked for, or a new one. cupel checks its letters; it must not be an option."""
    if run_id is None:
        return new_id()
    if not isinstance(run_id, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", run_id) or ".." in run_id:
        raise ValueError(f"{run_id!r} is no id: 1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first, not two dots")
    return run_id


def local_path(value: StrPath) -> pathlib.Path:
    return pathlib.Path(absolute(value))
