"""Which door: the service that is named, the service that is there, or none."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import threading
from typing import Any, Dict, Optional, Tuple

from .spec import What
from .client import Client
from .client_async import AsyncClient
from .door import AsyncDoor, Door
from .errors import CupelError
from .local import Local
from .local_async import AsyncLocal
from .model import Run
from .program import Program

_ENVIRONMENT = ("CUPEL", "CUPEL_HOME", "CUPEL_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME", "PATH")
_lock = threading.Lock()
_sockets: Dict[Tuple[Optional[str], ...], str] = {}
_doors: Dict[Tuple[Optional[str], ...], Door] = {}


def _key(*more: Optional[str]) -> Tuple[Optional[str], ...]:
    return (*more, *(os.environ.get(name) for name in _ENVIRONMENT), str(os.getpid()))


def default_socket() -> Optional[str]:
    """Where a service of this caller would listen. None if there is no program to ask."""
    key = _key()
    if key not in _sockets:
        try:
            settings = Program().settings
        except CupelError:
            return None
        named = settings.get("service.socket", "")
        home = settings.get("home", "")
        shared = os.geteuid() == 0 and home == "/var/lib/cupel"
        _sockets[key] = named if named.startswith("/") else "/run/cupel.sock" if shared else f"{home}/cupel.sock"
    return _sockets[key]


def listening(path: Optional[str]) -> bool:
    """Whether somebody answers there. The file alone may be what a dead service left."""
    if not path or not os.path.exists(path):
        return False
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
        probe.settimeout(5)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True  # with so many before us that its queue is full
        except OSError:
            return False
    return True


def service() -> Optional[str]:
    """$CUPEL_SERVICE, or the default socket if a service listens there; None: there is none, or `none` was said."""
    named = os.environ.get("CUPEL_SERVICE")
    if named:
        return None if named == "none" else named
    path = default_socket()
    return path if listening(path) else None


def connect() -> Door:
    """The service of $CUPEL_SERVICE, or the one at the default socket, or the program."""
    named = service()
    key = _key(named, os.environ.get("CUPEL_TOKEN"))
    with _lock:
        if key not in _doors:
            _doors[key] = Client(named) if named else Local()
            atexit.register(_doors[key].close)
        return _doors[key]


def connect_async() -> AsyncDoor:
    """The same for asyncio; runs that were submitted by one are known to the other."""
    named = service()
    if named:
        return AsyncClient(named)
    door = connect()
    return AsyncLocal(door if isinstance(door, Local) else None)


def run(what: What, *, id: Optional[str] = None, **keys: Any) -> Run:
    """Runs an analysis to its end; see Door.run."""
    return connect().run(what, id=id, **keys)


async def run_async(what: What, *, id: Optional[str] = None, **keys: Any) -> Run:
    """The same for asyncio. If the task is cancelled, so is the run."""
    return await connect_async().run(what, id=id, **keys)
