"""What can go wrong on the way to an analysis. How an analysis ended is never one of these: that is a value."""

from __future__ import annotations

import re
from typing import Optional


class CupelError(Exception):
    """cupel could not do what was asked.

    code: a word to branch on; remedy: what would help, if anybody knows; status: of HTTP, or the exit status.
    """

    def __init__(self, message: str, *, code: str = "error", remedy: Optional[str] = None,
                 status: Optional[int] = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.remedy = remedy
        self.status = status

    def __str__(self) -> str:
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class Refused(CupelError):
    """What was asked for is wrong or not allowed here; nothing was started."""


class NotFound(CupelError):
    """There is no such run, output or runtime."""


class Unavailable(CupelError):
    """Neither the program nor a service could be reached, or it stopped answering."""


class WaitTimeout(CupelError, TimeoutError):
    """Waiting took longer than the caller wanted to wait. The run itself goes on."""


def from_http(status: int, code: str, message: str, remedy: Optional[str]) -> CupelError:
    """The error that an answer of the service stands for."""
    kind = CupelError
    if status == 404:
        kind = NotFound
    elif status in (429, 502, 503, 504):
        kind = Unavailable
    elif 400 <= status < 500:
        kind = Refused
    return kind(message, code=code, remedy=remedy, status=status)


def from_exit(status: int, said: str) -> CupelError:
    """The error that a command of the program ended with. `said` is what it wrote on standard error."""
    lines = [line[7:] if line.startswith("cupel: ") else line for line in said.strip().splitlines()]
    message = "; ".join(lines[-3:]) or f"cupel ended with status {status} and said nothing"
    if status == 2 and re.match("there is no (run|pipeline|output) ", message):
        return NotFound(message, code="not-found", status=status)
    if status == 2:
        return Refused(message, code="refused", status=status)
    return CupelError(message, code="host", status=status)
