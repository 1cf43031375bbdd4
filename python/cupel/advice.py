"""Sentences of cupel's that advise an option of the command line, with the argument of Python in its place."""

from __future__ import annotations

import re
from typing import Callable, Optional

_LIMITS = frozenset({"memory", "cpus", "pids", "time", "cpu-time", "disk", "inodes", "file-size", "open-files", "log",
                     "output-size", "output-count", "grace", "warn"})
_KEYWORDS = {"data": "inputs", "out": "outputs", "env": "env", "param": "parameters", "runtime": "runtime", "profile": "profile",
             "post-process": "post_process", "checkpoint": "checkpoint", "network": "network", "allow-drift": "allow_drift"}
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])(?![\w-])(?:[ =](\d+(?:\.\d+)?(?:[A-Za-z]+\d*)*))?")
# Of an option and its value: the argument, or None if there is none by another name.
Naming = Callable[[str, Optional[str]], Optional[str]]


def _command(text: str, at: int) -> bool:
    """Whether the option belongs to a command that the sentence quotes: that is for a shell, and stays as it is."""
    return re.search(r"\bcupel [a-z][^.;:]*$", text[:at]) is not None


def in_python(text: str, naming: Optional[Naming] = None) -> str:
    """Options that are no argument of Python stay as they are."""
    def argument(found: "re.Match[str]") -> str:
        option, value = found[1], found[2]
        if _command(text, found.start()):
            return found[0]
        if option in _LIMITS:
            name = option.replace("-", "_")
            named = naming(option, value) if naming else None
            return named or (f'limits={{"{name}": "{value}"}}' if value else f'limits["{name}"]')
        return _KEYWORDS.get(option, found[0][:len(option) + 2]) + (f" {value}" if value else "")

    return _OPTION.sub(argument, text)
