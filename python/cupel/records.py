"""Files of a record: JSON, times, logs."""

from __future__ import annotations

import codecs
import datetime
import json
import pathlib
from typing import Any, Iterable, Iterator

from .errors import CupelError

STREAMS = ("stdout", "stderr")
RECORD_BYTES = 64 << 20


def stream_name(stream: str) -> str:
    if stream not in STREAMS:
        raise ValueError(f"a run has stdout and stderr, not {stream!r}")
    return stream


def milliseconds(time_text: Any) -> float:
    """Of a time in a record, such as 2026-11-16T01:38:19.968Z; 0 if it is none."""
    try:
        when = datetime.datetime.strptime(str(time_text), "%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError:
        return 0
    return when.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000


def read_json(path: pathlib.Path) -> Any:
    """None if it is not there."""
    try:
        with open(path, "rb") as file:
            return json.loads(file.read(RECORD_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CupelError(f"{path} cannot be read: {error}", code="record") from error


def texts(pieces: Iterable[bytes]) -> Iterator[str]:
    """Pieces of a log as text; what is not UTF-8 is replaced, what is cut between two pieces is not."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        text = decoder.decode(piece)
        if text:
            yield text
    rest = decoder.decode(b"", True)
    if rest:
        yield rest
