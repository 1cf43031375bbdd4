"""Runs that Docker or Podman carries out, for tests: the engine of a file, and a caller whose runs go there."""

import os
import subprocess

import pytest

import cupel as lib
import engines

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
# Docker gives all but a namespace of users; Podman with groups of version 1 none of groups either.
LACKS = {"docker": ["user"], "podman": ["user"] if engines.IS_VERSION_2 else ["user", "cgroup"]}


@pytest.fixture(scope="module", params=engines.KINDS)
def engine(request):
    if os.geteuid() != 0:
        pytest.skip("root: engines are started by the tests")
    if missing := engines.Engine.missing(request.param):
        pytest.skip(f"engines: there is no {missing}")
    made = engines.Engine(request.param)
    yield made
    made.close()


@pytest.fixture
def far(root, engine):
    """Root, whose runs are the engine's unless they say otherwise."""
    engine.up()
    lacks = ", ".join(LACKS[engine.kind])
    root.configure(
        f"executors: {{there: {{kind: engine, socket: {engine.socket}, "
        f"allow_missing: [{lacks}], patience: 60s}}}}\ndefaults: {{executor: there}}\n"
    )
    yield root
    if engine.process:
        assert lib.wait_until(lambda: not engine.containers()), engine.containers()
        assert lib.wait_until(lambda: not engine.groups()), engine.groups()
    jobs = root.home / "jobs"
    assert lib.wait_until(lambda: not (jobs.exists() and list(jobs.iterdir()))), list(jobs.iterdir())


def job_of(engine):
    """The only container."""
    names = engine.containers()
    assert len(names) == 1, names
    return names[0].lstrip("/")


def wait_for_text(path, text):
    assert lib.wait_until(lambda: path.exists() and text in path.read_text(errors="replace")), path
