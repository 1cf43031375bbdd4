"""Runs a notebook inside the box, from its first cell to its last: python3 /run/cupel/notebook FILE.ipynb. cupel shows this directory there,
read-only.

The notebook with its results, $CUPEL_OUT_DIR/NAME.ipynb, is whole at every moment: a new file takes its place when the run starts, when a
cell starts and ends, and every few seconds in between. What is printed goes to the log at once. A small file, .notebook.json in the working
directory, says at which cell it is: if the box is killed, that is all that can tell."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile
import traceback
from typing import NoReturn

from cupel_book import ERROR_MAX, Book, Failure, Progress, log, read, write_html
from cupel_client import check_packages, choose_kernel, make_client
from cupel_kernel import Run, Stopped
from cupel_parameters import inject


def leave(status: int) -> NoReturn:
    """At once: whatever threads a library has left are of no interest."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def execute(path: pathlib.Path, progress: Progress) -> None:
    check_packages()
    notebook = read(path)
    kernel, language = choose_kernel(notebook)
    inject(notebook, json.loads(os.environ.get("CUPEL_PARAMETERS") or "{}"), language)
    book = Book(notebook, pathlib.Path(os.environ["CUPEL_OUT_DIR"], path.name))
    progress.say(cells=len(book.cells))
    book.save()
    directory = tempfile.mkdtemp(prefix="k", dir="/tmp")
    run = Run(book, progress, make_client(notebook, directory, kernel), path.parent.absolute())
    try:
        asyncio.run(run.run())
    except Stopped as stop:
        book.stop(progress.now["cell"] or None, str(stop))
        book.save()
        leave(128 + signal.SIGTERM)
    except Failure as failure:
        progress.say(error=str(failure))
        book.stop(progress.now["cell"] or None, str(failure)[:ERROR_MAX])
        book.save()
        write_html(book, path.stem)
        raise
    progress.say(cell=0)
    book.save()
    write_html(book, path.stem)


def main() -> NoReturn:
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    progress = Progress(pathlib.Path(os.environ["CUPEL_WORK_DIR"], ".notebook.json"))
    try:
        execute(pathlib.Path(sys.argv[1]), progress)
    except Failure as error:
        progress.say(error=str(error))
        log(f"notebook: {'cell ' + str(progress.now['cell']) + ': ' if progress.now['cell'] else ''}{error}")
        leave(1)
    except Exception as error:
        why = f"the notebook could not be written: {error}" if isinstance(error, OSError) else f"the driver failed: {type(error).__name__}: {error}"
        progress.say(error=why)
        log(traceback.format_exc() + f"notebook: {why}")
        leave(1)
    leave(0)


if __name__ == "__main__":
    main()
