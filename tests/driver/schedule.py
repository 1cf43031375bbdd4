"""Jobs side by side: the long ones first, each after what it needs, and those that want the machine for themselves last."""

import dataclasses
import threading
import time
import traceback
import typing

from outcomes import Case
from programs import Ended


@dataclasses.dataclass(eq=False)
class Job:
    """`work` returns cases. It is not begun before the jobs of `needs` are over."""
    layer: str
    name: str
    work: typing.Callable
    priority: float = 1.0  # about how many seconds it takes
    alone: bool = False
    needs: tuple = ()


class Schedule:
    """Runs all jobs by `workers` threads; over(job, cases, began, ended) hears of each."""

    def __init__(self, jobs, workers, over):
        self.waiting = sorted(jobs, key=lambda job: (job.alone, -job.priority))
        self.workers = workers
        self.over = over
        self.running = set()
        self.done = set()
        self.unreported = []
        self.changed = threading.Condition()
        self.start = time.monotonic()

    def run(self):
        """Returns how many seconds it took."""
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(1)  # a signal is heard between
        for job in self.waiting + list(self.running) + self.unreported:
            self.over(job, [Case(job.name, "failed", "it did not run to its end: a mistake of the driver, see above")], self._now(), self._now())
        return self._now()

    def _now(self):
        return time.monotonic() - self.start

    def _next(self):
        """The job to begin with now; None: none yet."""
        if any(job.alone for job in self.running):
            return None
        for job in self.waiting:
            if job.alone and (self.running or any(not other.alone for other in self.waiting)):
                return None
            if all(need in self.done for need in job.needs):
                return job
        return None

    def _work(self):
        while True:
            with self.changed:
                while self.waiting and self._next() is None:
                    self.changed.wait(1)
                if not self.waiting:
                    return
                job = self._next()
                self.waiting.remove(job)
                self.running.add(job)
            began = self._now()
            try:
                cases = job.work()
            except Ended:
                return
            except Exception:  # pylint: disable=broad-except  # the driver's own mistake fails its layer, not all of them
                cases = [Case(job.name, "failed", traceback.format_exc())]
            with self.changed:
                self.running.remove(job)
                self.done.add(job)
                try:
                    self.over(job, cases, began, self._now())
                except Exception:  # pylint: disable=broad-except  # the others go on, and this one is missed at the end
                    traceback.print_exc()
                    self.unreported.append(job)
                self.changed.notify_all()
