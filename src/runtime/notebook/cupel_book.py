"""The notebook as a file that is whole at every moment, the page made of it, and the small file that says at which cell it is."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile
import time
from typing import Any

PROGRESS_BYTES = 4096  # the keeper reads no more
ERROR_MAX = 400
HTML_MAX = 32 << 20
# Nothing of a page is fetched from elsewhere, whatever a cell has put into it.
POLICY = ('<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data: blob:; media-src data:; font-src data:; '
          'style-src \'unsafe-inline\'; script-src \'unsafe-inline\' \'unsafe-eval\'">')


class Failure(Exception):
    """Why the notebook can't be run or did not get to its end, as one sentence for a person."""


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Progress:
    """One page, written in place: its room is taken at the start, so that it can be told even when the disk is full."""

    def __init__(self, path: pathlib.Path) -> None:
        self.fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self.now: dict[str, Any] = {"cell": 0, "cells": 0, "done": 0, "execution_count": None, "error": None}
        self.say()

    def say(self, **changes: Any) -> None:
        self.now.update(changes)
        if self.now["error"]:
            self.now["error"] = " ".join(self.now["error"].split())[:ERROR_MAX]
        with contextlib.suppress(OSError):
            os.pwrite(self.fd, json.dumps(self.now).encode().ljust(PROGRESS_BYTES), 0)


def tags(cell: Any) -> list[str]:
    found = cell.metadata.get("tags", [])
    return [tag for tag in found if isinstance(tag, str)] if isinstance(found, list) else []


def read(path: pathlib.Path) -> Any:
    """The notebook without results, in format 4, with every field that is used later."""
    import nbformat
    try:
        book = nbformat.read(path, as_version=4)
        for cell in book.cells:
            if not (isinstance(cell.source, str) and isinstance(cell.metadata, dict) and isinstance(cell.cell_type, str)):
                raise ValueError("a cell is not one")
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        if not isinstance(book.metadata, dict) or not isinstance(book.metadata.get("kernelspec", {}), dict):
            raise ValueError("its metadata are none")
    except Exception as error:
        raise Failure(f"{path.name} can't be read as a notebook: {type(error).__name__}: {error}") from None
    return book


def write_whole(path: pathlib.Path, content: bytes) -> None:
    """Takes the place of whatever has that name. What a kill leaves is in tmp/, which nobody collects."""
    directory = pathlib.Path(os.environ.get("TMPDIR", path.parent))
    directory.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(prefix=".notebook-", dir=directory)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
            os.fchmod(fd, 0o644)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


class Book:
    """The notebook on its way, and the file that has it."""

    def __init__(self, book: Any, path: pathlib.Path) -> None:
        self.book, self.path = book, path
        self.cells = [cell for cell in book.cells if cell.cell_type == "code"]
        self.saved, self.cost = 0.0, 0.0
        for cell in self.cells:
            cell.metadata["cupel"] = {"status": "pending", "started": None, "duration_s": None}
        self.stop(None, "pending")

    def stop(self, cell: int | None, reason: str) -> None:
        self.book.metadata["cupel"] = {"stopped_at_cell": cell, "reason": reason}

    def save(self, at_once: bool = True) -> None:
        """Where that takes long, for its size or the disk, a cell's start waits for the next time."""
        from nbformat.v4 import writes_json
        began = time.monotonic()
        if not at_once and self.cost > 0.5 and began - self.saved < 10 * self.cost:
            return
        # A lone surrogate has no UTF-8, but an escape that JSON knows too.
        write_whole(self.path, (writes_json(self.book) + "\n").encode("utf-8", "backslashreplace"))
        self.saved = time.monotonic()
        self.cost = self.saved - began


def write_html(book: Book, name: str) -> None:
    """The same as a page that needs nothing from elsewhere."""
    try:
        from nbconvert.exporters import HTMLExporter
    except ImportError:
        log("notebook: no page was made of it: the runtime has no nbconvert")
        return
    if book.path.stat().st_size > HTML_MAX:
        log(f"notebook: no page was made of it: it is larger than {HTML_MAX >> 20} MiB")
        return
    try:
        page, _ = HTMLExporter(embed_images=True).from_notebook_node(book.book, resources={"metadata": {"name": name}})
        head, body, rest = page.partition("<body")
        head = re.sub(r'<script[^>]*\ssrc="https?:[^"]*"[^>]*>\s*</script>', "", head).replace("<head>", "<head>" + POLICY, 1)
        write_whole(book.path.with_suffix(".html"), (head + body + rest).encode("utf-8", "backslashreplace"))
    except Exception as error:
        log(f"notebook: no page was made of it: {type(error).__name__}: {error}")
