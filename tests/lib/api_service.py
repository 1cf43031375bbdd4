"""A service for tests of the HTTP interface: on its socket alone (`service`), or with a TCP door too (`outside`)."""

import contextlib

import pytest

import cupel as lib
import services

JSON = {"Content-Type": "application/json"}


def needs_service():
    if not services.SERVE.exists():
        pytest.skip("service: cupel was built without libmicrohttpd or libsystemd")


@contextlib.contextmanager
def serving(caller, **more):
    needs_service()
    made = services.Service(caller, **more).start()
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            for run in made.get("/v1/runs?state=queued,running&limit=500").json["runs"]:
                made.post(f"/v1/runs/{run['id']}/cancel")
            lib.wait_until(lambda: not made.get("/v1/runs?state=queued,running").json["runs"])
        made.stop()


@pytest.fixture(name="service")
def _service(fresh):
    with serving(fresh) as made:
        yield made


@pytest.fixture(name="outside")
def _outside(fresh):
    """With a TCP door."""
    with serving(fresh, tcp=True) as made:
        yield made


def bearer(token):
    return {"Authorization": f"Bearer {token}"}
