"""CgroupManager: limits that several runs share, and a handle on those runs."""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional

from ..errors import CupelError
from ..select import connect
from ..spec import new_id
from .calls import Command, isolated_run, isolated_run_async
from .result import RuntimeResult


class CgroupManager:
    """Control groups are the keeper's of each run: made for it, read back from the kernel, and removed with it. What is
    left for a platform is to say limits, and to end what it started.

        with CgroupManager(memory_limit_mb=512, cpu_quota=1, pids_limit=64) as group:
            result = group.run(["python3", "analysis.py"], cwd=place)

    Leaving it, or close(), cancels runs of it that other threads have going.
    """

    def __init__(self, memory_limit_mb: Optional[float] = None, cpu_quota: Optional[float] = None,
                 pids_limit: Optional[int] = None, **options: Any) -> None:
        self._options: Dict[str, Any] = {"memory_limit_mb": memory_limit_mb, "cpu_quota": cpu_quota,
                                         "pids_limit": pids_limit, **options}
        self._lock = threading.Lock()
        self._active: Dict[str, None] = {}

    @staticmethod
    def missing() -> List[str]:
        """Limits that this host cannot give to a run; cupel refuses to run without them."""
        try:
            refused = connect().plan(["true"]).get("refused")
        except CupelError as error:
            return [str(error)]
        return [str(refused)] if refused else []

    @property
    def available(self) -> bool:
        return not self.missing()

    def _with(self, options: Dict[str, Any]) -> Dict[str, Any]:
        made = {**self._options, **options}
        made.setdefault("run_id", new_id())
        with self._lock:
            self._active[made["run_id"]] = None
        return made

    def _over(self, run_id: str) -> None:
        with self._lock:
            self._active.pop(run_id, None)

    def run(self, cmd: Command, **options: Any) -> RuntimeResult:
        """isolated_run with the limits of this manager; arguments go over them."""
        made = self._with(options)
        try:
            return isolated_run(cmd, **made)
        finally:
            self._over(made["run_id"])

    async def run_async(self, cmd: Command, **options: Any) -> RuntimeResult:
        made = self._with(options)
        try:
            return await isolated_run_async(cmd, **made)
        finally:
            self._over(made["run_id"])

    @property
    def active(self) -> List[str]:
        """The ids of runs that go on."""
        with self._lock:
            return list(self._active)

    def kill(self) -> None:
        """Cancels them. Their calls return with the cause `cancelled`."""
        for run_id in self.active:
            try:
                connect().cancel(run_id)
            except CupelError:
                continue  # it is over, or was not begun

    def close(self) -> None:
        self.kill()

    def __enter__(self) -> "CgroupManager":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
