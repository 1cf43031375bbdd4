"""Writes an output where the caller wants it: whole and verified, or not at all; through no link."""

from __future__ import annotations

import hashlib
import os
import pathlib
import secrets
from typing import List, Optional, Sequence

from .errors import CupelError, NotFound, Refused
from .model import Output

CHUNK = 1 << 20


def chosen(outputs: List[Output], paths: Optional[Sequence[str]]) -> List[Output]:
    """The outputs of these paths, or all."""
    if paths is None:
        return outputs
    by_path = {output.path: output for output in outputs}
    missing = [path for path in paths if path not in by_path]
    if missing:
        raise NotFound(f"the run has no output {missing[0]!r}", code="not-found")
    return [by_path[path] for path in paths]


class Copy:
    """A file below `root` that gets its name by `commit`. Close it in any case."""

    def __init__(self, root: pathlib.Path, output: Output, *, overwrite: bool = False) -> None:
        parts = output.path.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise CupelError(f"{output.path!r} is no path of an output", code="protocol")
        self.output = output
        self.place = root.joinpath(*parts)
        self._overwrite = overwrite
        self._digest, self._size = hashlib.sha256(), 0
        self._dir_fd = self._fd = -1
        root.mkdir(parents=True, exist_ok=True)
        try:
            self._dir_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
            for part in parts[:-1]:
                self._enter(part)
            self._name = parts[-1]
            self._temporary = f".{self._name[:200]}.{secrets.token_hex(8)}"
            self._fd = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644,
                               dir_fd=self._dir_fd)
        except BaseException:
            self.close()
            raise

    def _enter(self, name: str) -> None:
        try:
            os.mkdir(name, 0o755, dir_fd=self._dir_fd)
        except FileExistsError:
            pass
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._dir_fd)
        os.close(self._dir_fd)
        self._dir_fd = inner

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        self._size += len(data)
        if self._size > self.output.bytes:
            raise CupelError(f"{self.output.path} is longer than the {self.output.bytes} bytes that were recorded",
                             code="damaged")
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view):]

    def commit(self) -> pathlib.Path:
        if self._size != self.output.bytes or self._digest.hexdigest() != self.output.sha256:
            raise CupelError(f"{self.output.path} is not what was recorded: {self._size} bytes, SHA-256 "
                             f"{self._digest.hexdigest()}", code="damaged")
        os.fsync(self._fd)
        if self._overwrite:
            os.replace(self._temporary, self._name, src_dir_fd=self._dir_fd, dst_dir_fd=self._dir_fd)
        else:
            try:
                os.link(self._temporary, self._name, src_dir_fd=self._dir_fd, dst_dir_fd=self._dir_fd)
            except FileExistsError:
                raise Refused(f"{self.place} is there already", code="exists",
                              remedy="overwrite=True replaces it") from None
            os.unlink(self._temporary, dir_fd=self._dir_fd)
        self._temporary = ""
        return self.place

    def close(self) -> None:
        """Without a commit nothing is left."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            if self._temporary:
                os.unlink(self._temporary, dir_fd=self._dir_fd)
        if self._dir_fd >= 0:
            os.close(self._dir_fd)
            self._dir_fd = -1

    def __enter__(self) -> "Copy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
