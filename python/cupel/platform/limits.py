"""The limits of a platform, by the names it knows: RESOURCE_LIMITS, arguments, and what an analysis's metadata say."""

from __future__ import annotations

import re
import threading
from typing import Any, Dict, Iterator, List, Mapping, MutableMapping, Optional

from ..program import Program
from ..spec import Limit

# The platform's name, that of cupel, and how many of cupel's units one of the platform's is.
NAMES = {
    "memory_limit_mb": ("memory", 1 << 20),
    "cpu_quota": ("cpus", 1),
    "pids_limit": ("pids", 1),
    "timeout_seconds": ("time", 1),
    "disk_limit_mb": ("disk", 1 << 20),
}
# Older names of profiles that platforms use.
ALIASES = {"notebook_execution": "notebook"}
_PLACES = ("limits", "resource_limits", "resources")
_SIZE = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_TIME = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def number_of(text: str) -> float:
    """A limit as cupel writes it (2G, 1h30m, 1.5) in bytes, seconds or pieces."""
    size = re.fullmatch(r"(\d+(?:\.\d+)?)([BKMGTP])", text)
    if size:
        return float(size[1]) * _SIZE[size[2]]
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhd])", text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _TIME[unit] for number, unit in parts)
    return float(text)


def _plain(value: float) -> float:
    return int(value) if value == int(value) else value


class ResourceLimits(MutableMapping[str, Dict[str, float]]):
    """The limits of each profile (default, notebook, tool, post_process, and those of the host's configuration), read
    from the configuration when they are first looked at. What is changed here goes over the configuration for the
    runs of this process; the host's ceilings hold all the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._configured: Optional[Dict[str, Dict[str, float]]] = None
        self._now: Dict[str, Dict[str, float]] = {}

    def _load(self) -> Dict[str, Dict[str, float]]:
        with self._lock:
            if self._configured is None:
                found: Dict[str, Dict[str, float]] = {}
                by_limit = {limit: (name, unit) for name, (limit, unit) in NAMES.items()}
                for key, value in Program().settings.items():
                    match = re.fullmatch(r"profiles\.(.+)\.(\w+)", key)
                    if match and match[2] in by_limit:
                        name, unit = by_limit[match[2]]
                        found.setdefault(match[1], {})[name] = _plain(number_of(value) / unit)
                self._configured = found
                self._now = {**{profile: dict(limits) for profile, limits in found.items()}, **self._now}
        return self._now

    def name_of(self, profile: str) -> str:
        """The profile itself, or the one that an older name stands for. A host may have a profile of that name."""
        return ALIASES[profile] if profile in ALIASES and profile not in self._load() else profile

    def changes(self, profile: str) -> Dict[str, float]:
        """What was changed here. If nobody has looked, nothing was."""
        configured = (self._configured or {}).get(profile, {})
        return {name: value for name, value in self._now.get(profile, {}).items() if configured.get(name) != value}

    def __getitem__(self, profile: str) -> Dict[str, float]:
        return self._load()[self.name_of(profile)]

    def __setitem__(self, profile: str, limits: Dict[str, float]) -> None:
        unknown = set(limits) - set(NAMES)
        if unknown:
            raise ValueError(f"{sorted(unknown)[0]!r} is no limit: there are {', '.join(NAMES)}")
        self._load()[self.name_of(profile)] = dict(limits)

    def __delitem__(self, profile: str) -> None:
        raise TypeError("a profile cannot be removed")

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())

    def __repr__(self) -> str:
        return f"RESOURCE_LIMITS({self._now})"


RESOURCE_LIMITS = ResourceLimits()


def argument(option: str, value: Optional[str]) -> Optional[str]:
    """The platform's argument for a limit of the command line; None if it has no name of its own."""
    for name, (limit, unit) in NAMES.items():
        if limit == option:
            return f"{name}={_plain(round(number_of(value) / unit, 3))}" if value else name
    return None


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is a number, not {type(value).__name__}")
    if not 0 < value < float("inf"):
        raise ValueError(f"{name}: {value} is not above zero")
    return value


def of_numbers(numbers: Mapping[str, Any]) -> Dict[str, Limit]:
    """The platform's names as limits of an analysis; None says nothing."""
    made: Dict[str, Limit] = {}
    for name, value in numbers.items():
        if value is not None:
            limit, unit = NAMES[name]
            number = _number(name, value) * unit
            made[limit] = int(number) if limit in ("memory", "disk") else number
    return made


def of_metadata(metadata: Optional[Mapping[str, Any]]) -> Dict[str, Limit]:
    """The limits in an analysis's metadata: by the platform's names, at the top or in `limits`, `resource_limits` or
    `resources`; there also by cupel's own, as in an analysis file. Whatever else metadata say is not looked at."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata are a map, not {type(metadata).__name__}")
    made: Dict[str, Limit] = {}
    places: List[Mapping[str, Any]] = [metadata]
    for place in _PLACES:
        inner = metadata.get(place)
        if isinstance(inner, Mapping):
            places.append(inner)
    for place_at, found in enumerate(places):
        made.update(of_numbers({name: found.get(name) for name in NAMES}))
        for limit in ("memory", "cpus", "pids", "time", "cpu_time", "disk", "log") if place_at else ():
            if found.get(limit) is not None:
                made[limit] = found[limit]
    return made
