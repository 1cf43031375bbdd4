"""One notebook in one kernel, cell by cell."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import pathlib
import re
import signal
import sys
import time
from typing import Any, Iterator

from cupel_book import ERROR_MAX, Book, Failure, Progress, log, tags

SAVE_EVERY_S = 5.0
START_S = 60  # for a kernel that lives but does not answer
WARNINGS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


class Stopped(Exception):
    """cupel asked for the end: a deadline, or somebody cancelled."""


def plain(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)


async def settle(value: Any) -> Any:
    """Whether a method of jupyter_client is a coroutine depends on its version."""
    return await value if inspect.isawaitable(value) else value


class Run:
    """One notebook in one kernel, from the first cell to the last or to where it ends."""

    def __init__(self, book: Book, progress: Progress, client: Any, code: pathlib.Path) -> None:
        self.book, self.progress, self.client, self.code = book, progress, client, code
        self.at = 0  # the cell that runs, among code cells, from 1; 0: none
        self.stopping = ""
        self.pipes: list[tuple[int, str]] = []

    def environment(self) -> dict[str, str]:
        env = dict(os.environ, PYDEVD_DISABLE_FILE_VALIDATION="1")
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(self.code), env.get("PYTHONPATH")]))  # the modules beside the notebook
        if env.get("MPLBACKEND") == "Agg":  # good for scripts; without it figures come into the notebook
            del env["MPLBACKEND"]
        return env

    async def start(self) -> None:
        """What the kernel and its children write to 1 and 2 is read here: it survives the kernel."""
        loop, client = asyncio.get_running_loop(), self.client
        manager = client.create_kernel_manager()
        if os.path.basename(manager.kernel_spec.argv[0]).startswith("python"):
            manager.kernel_spec.argv[0] = sys.executable  # the host's kernel would be found first, and be the wrong one
            client.extra_arguments = ["--IPKernelApp.capture_fd_output=False"]
        for number in WARNINGS:  # ignored by the kernel, unless a cell says otherwise, and passed on to it
            signal.signal(number, signal.SIG_IGN)
        ends = [os.pipe(), os.pipe()]
        try:
            await client.async_start_new_kernel(stdout=ends[0][1], stderr=ends[1][1], env=self.environment())
            for (end, _), name in zip(ends, ("stdout", "stderr")):
                os.set_blocking(end, False)
                self.pipes.append((end, name))
                loop.add_reader(end, self.pass_on, end, name)
            for _, end in ends:
                os.close(end)
            client.kc = manager.client()
            client.kc.context.rcvhwm = 0  # results wait in memory, which is limited, rather than get lost
            await settle(client.kc.start_channels())
            await settle(client.kc.wait_for_ready(timeout=START_S))
            client.kc.allow_stdin = False
        except (RuntimeError, OSError) as error:
            await asyncio.sleep(0)
            self.drain()
            raise Failure(f"the kernel '{client.kernel_name}' did not start: {error}; its own words are in the log: try it with "
                          f"`cupel runtime check {os.environ.get('CUPEL_RUNTIME', '')}`") from None
        for number in WARNINGS:
            loop.add_signal_handler(number, lambda number=number: asyncio.ensure_future(settle(manager.signal_kernel(number))))
        info = await client.async_wait_for_reply(await settle(client.kc.kernel_info()))
        self.book.book.metadata["language_info"] = info["content"].get("language_info", {})

    def pass_on(self, end: int, name: str) -> bool:
        try:
            data = os.read(end, 65536)
        except BlockingIOError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(end)
            return False
        os.write(2 if name == "stderr" else 1, data)
        if self.at:
            self.client.add_text(self.book.cells[self.at - 1].outputs, name, data.decode("utf-8", "replace"))
        return True

    def drain(self) -> None:
        for end, name in self.pipes:
            for _ in range(1000):  # whoever writes without end does not hold the notebook up
                if not self.pass_on(end, name):
                    break

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(SAVE_EVERY_S)
            if self.at:
                self.book.save(at_once=False)

    async def how_it_died(self) -> str:
        with contextlib.suppress(Exception):
            code = await settle(self.client.km.provisioner.poll())
            if code is not None:
                return f"the kernel was killed by signal {-code} ({signal.Signals(-code).name})" if code < 0 \
                    else f"the kernel ended itself with status {code}"
        return "the kernel died"

    @contextlib.contextmanager
    def cell_status(self, number: int, cell: Any) -> Iterator[dict[str, Any]]:
        from nbformat.v4 import new_output
        state, began = cell.metadata["cupel"], time.monotonic()
        state.update(status="running", started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        self.at, self.client.left_out, self.client.clear_before_next_output = number, 0, False
        self.book.stop(number, "running")
        self.progress.say(cell=number)
        self.book.save(at_once=False)
        try:
            yield state
        finally:
            self.drain()
            if self.client.left_out:
                text = f"[{self.client.left_out} outputs left out: more than a notebook is to hold]\n"
                log(text.rstrip())
                cell.outputs.append(new_output("stream", name="stderr", text=text))
            state["duration_s"] = round(time.monotonic() - began, 3)
            log(f"[{number}/{len(self.book.cells)}] {state['status']} {state['duration_s']:.1f} s")

    async def cell(self, number: int, index: int, cell: Any) -> bool:
        """False if the notebook ends itself here."""
        from nbclient.exceptions import CellExecutionError, DeadKernelError
        if not cell.source.strip() or self.client.skip_cells_with_tag in tags(cell):
            cell.metadata["cupel"]["status"] = "skipped"
            self.progress.say(done=number)
            return True
        goes_on = True
        with self.cell_status(number, cell) as state:
            try:
                await self.client.async_execute_cell(cell, index, execution_count=self.client.code_cells_executed + 1)
                state["status"] = "ok"
            except CellExecutionError as error:
                goes_on, ended = False, error.ename == "SystemExit" and error.evalue in ("", "0", "None")
                state["status"] = "ok" if ended else "failed"
                self.book.stop(number, "SystemExit" if ended else f"{error.ename}: {plain(error.evalue)}"[:ERROR_MAX])
                if not ended:
                    log(plain(str(error)))
                    raise Failure(f"{error.ename}: {plain(error.evalue)}") from None
            except (DeadKernelError, asyncio.CancelledError):
                state["status"] = "interrupted"
                if self.stopping:
                    raise Stopped(self.stopping) from None
                raise Failure(await self.how_it_died()) from None
        self.progress.say(done=number, execution_count=cell.execution_count)
        return goes_on

    async def cells(self) -> None:
        numbers = {id(cell): number for number, cell in enumerate(self.book.cells, 1)}
        for index, cell in enumerate(list(self.book.book.cells)):
            if cell.cell_type == "code":
                if not await self.cell(numbers[id(cell)], index, cell):
                    break
                self.book.save()
        else:
            self.book.stop(None, "ok")
        self.client.set_widgets_metadata()

    def asked_to_end(self, task: asyncio.Task[None]) -> None:
        late = time.time() >= float(os.environ.get("CUPEL_DEADLINE") or "inf")
        self.stopping = "deadline" if late else "terminated"
        task.cancel()

    async def run(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        loop.add_signal_handler(signal.SIGTERM, self.asked_to_end, task)
        loop.add_signal_handler(signal.SIGINT, lambda: asyncio.ensure_future(settle(self.client.km.interrupt_kernel())))
        ticks = asyncio.ensure_future(self.tick())
        done = False
        try:
            await self.start()
            await self.cells()
            done = True
        except asyncio.CancelledError:
            raise Stopped(self.stopping) from None
        finally:
            ticks.cancel()
            self.at = 0
            if self.client.km is not None:
                with contextlib.suppress(Exception, asyncio.CancelledError):
                    await settle(self.client.km.shutdown_kernel(now=not done))
                self.drain()
