"""The requests of the service's API, one function each, for the blocking and the asynchronous client alike."""

from __future__ import annotations

import uuid
from typing import Any, Dict, List, Mapping, Optional
from urllib.parse import quote

from .spec import Moment, What, analysis, moment_text, option_id
from .errors import CupelError
from .records import stream_name
from .wire import Request

STREAM = {"Accept": "text/event-stream"}


def _run(run_id: str) -> str:
    return f"/v1/runs/{option_id(run_id)}"


def _keyed() -> Dict[str, str]:
    """Sent with a request that makes something, each time it is tried: it is made once."""
    return {"Idempotency-Key": str(uuid.uuid4())}


def info() -> Request:
    return Request("GET", "/v1")


def submit(what: What, run_id: Optional[str], priority: int, retries: Optional[Mapping[str, Any]], keys: Dict[str, Any],
           not_before: Optional[Moment] = None, idempotency_key: Optional[str] = None) -> Request:
    """An id is made here, so that the caller knows it whatever becomes of the answer; but with a key of the caller's the first
    submission says it, and a second one must be the same to the byte."""
    body: Dict[str, Any] = {"analysis": analysis(what, **keys)}
    if run_id is not None or idempotency_key is None:
        body["id"] = option_id(run_id)
    if priority:
        body["priority"] = priority
    if retries:
        body["retries"] = dict(retries)
    if not_before is not None:
        body["not_before"] = moment_text(not_before)
    headers = _keyed() if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    return Request("POST", "/v1/runs", body=body, headers=headers)


def show(run_id: str) -> Request:
    return Request("GET", _run(run_id))


def pipeline(run_id: str) -> Request:
    return Request("GET", f"/v1/pipelines/{option_id(run_id)}")


def runs(limit: int, newest_first: bool, **query: Optional[str]) -> Request:
    return Request("GET", "/v1/runs", {**query, "limit": limit, "order": "newest" if newest_first else "oldest"})


def cancel(run_id: str) -> Request:
    return Request("POST", f"{_run(run_id)}/cancel")


def rerun(run_id: str, env: Optional[Mapping[str, str]] = None) -> Request:
    return Request("POST", f"{_run(run_id)}/rerun", body={"env": dict(env)} if env else None, headers=_keyed())


def resume(run_id: str) -> Request:
    return Request("POST", f"/v1/pipelines/{option_id(run_id)}/resume", headers=_keyed())


def why(run_id: str) -> Request:
    return Request("GET", f"{_run(run_id)}/why")


def why_pipeline(run_id: str) -> Request:
    return Request("GET", f"/v1/pipelines/{option_id(run_id)}/why")


def log(run_id: str, stream: str, offset: int, limit: int) -> Request:
    return Request("GET", f"{_run(run_id)}/log/{stream_name(stream)}",
                   headers={"Accept": "*/*", "Range": f"bytes={offset}-{offset + limit - 1}"})


def follow_log(run_id: str, stream: str, offset: int) -> Request:
    return Request("GET", f"{_run(run_id)}/log/{stream_name(stream)}", {"offset": offset}, headers=STREAM)


def events(run_id: str) -> Request:
    return Request("GET", f"{_run(run_id)}/events")


def follow_events(run_id: str) -> Request:
    return Request("GET", f"{_run(run_id)}/events", headers=STREAM)


def watch() -> Request:
    return Request("GET", "/v1/events", headers=STREAM)


def outputs(run_id: str) -> Request:
    return Request("GET", f"{_run(run_id)}/outputs")


def output(run_id: str, path: str) -> Request:
    return Request("GET", f"{_run(run_id)}/outputs/{quote(path)}", headers={"Accept": "*/*"})


def plan(what: What, keys: Dict[str, Any]) -> Request:
    return Request("POST", "/v1/plan", body={"analysis": analysis(what, **keys)})


def runtimes() -> Request:
    return Request("GET", "/v1/runtimes")


def quests() -> Request:
    return Request("GET", "/v1/quests")


def host() -> Request:
    return Request("GET", "/v1/host")


def rows(said: Any, key: str) -> List[Dict[str, Any]]:
    """The list in an answer, with or without an object around it."""
    found = said.get(key) if isinstance(said, dict) else said
    if not isinstance(found, list):
        raise CupelError(f"the service's answer has no {key}", code="protocol")
    return found


def text_of(data: Any) -> str:
    """The text of an event of a log."""
    return str(data.get("text", "")) if isinstance(data, dict) else ""
