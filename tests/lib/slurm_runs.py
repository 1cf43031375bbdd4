"""Runs on a Slurm cluster for tests: the cluster of a file, a stage and a configuration for each test, and what is asked of such runs."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

import cupel as lib
import slurm

SMALL = ("--memory", "64M", "--cpus", "1", "--disk", "16M")


@pytest.fixture(scope="module")
def cluster():
    if os.geteuid() != 0:
        pytest.skip("root: slurmd starts jobs of other users")
    if why := slurm.missing():
        pytest.skip(f"slurm: {why}")
    with tempfile.TemporaryDirectory(prefix="cupel-slurm-") as place:
        with slurm.Slurm(place, 2, nodes=3, memory=2000) as made:
            yield made


@pytest.fixture
def stage(cluster):
    """Where its nodes see what they run; in the end nothing is there, and no job."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="cupel-stage-"))
    place.chmod(0o1777)
    yield place
    try:
        cluster.until(lambda: not cluster.jobs(), "end of all jobs")
        # A keeper that took over removes its job's directory when its verdict is known to whoever waits.
        assert lib.wait_until(lambda: not list(place.iterdir())), list(place.iterdir())
    finally:
        for number in cluster.jobs():
            cluster.call("scancel", number)
        shutil.rmtree(place)


@pytest.fixture
def here(root, cluster, stage):
    """Root with the executor `cluster`."""
    return use(root, cluster, stage)


def use(caller, cluster, stage, more=""):
    caller.configure(f"executors: {{cluster: {{kind: slurm, stage: {stage}, conf: {cluster.conf}{more}}}}}\n")
    return caller


def run(caller, *args, **options):
    return caller.run("-x", "cluster", *SMALL, *args, **options)


@contextlib.contextmanager
def started(caller, cluster, *args, until="RUNNING", **options):
    """A run that goes on: the process, the result to come, and its job's number; it prints `started` first."""
    process, run_id = caller.start("-x", "cluster", *SMALL, *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   **options)
    result = lib.Result(None, "", "", caller.run_dir(run_id))
    try:
        cluster.until(lambda: process.poll() is not None or submitted(result), "submission")
        number = submitted(result)
        assert number, process.communicate()
        cluster.until(lambda: cluster.job(number)["JobState"] == until, f"state {until}")
        if until == "RUNNING":
            cluster.until(lambda: b"started" in log_of(result), "sign of life")
        yield process, result, number
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate()


def submitted(result):
    try:
        return json.loads((result.run_dir / "executor.json").read_text())["handle"]["number"]
    except (OSError, KeyError):
        return None


def has_event(result, name):
    try:
        return name in [event["event"] for event in result.events]
    except (OSError, ValueError):  # it is being made
        return False


def log_of(result):
    try:
        return result.log()
    except OSError:
        return b""


def finish(process, result):
    result.stdout, result.stderr = process.communicate(timeout=lib.RUN_LIMIT_S)
    result.status = process.returncode
    return result


def seen(result):
    """What Slurm said in the end."""
    return result.verdict["executor"]["evidence"]


def assert_swept(caller, stage):
    """Slurm may still be ending a job when its run is over: whichever command comes later does the rest."""
    assert lib.wait_until(lambda: not caller.call(caller.binary, "list")[0] and not list(stage.iterdir()))


SLEEPS = ("--", "sh", "-c", "echo started; sleep 600")


class Gate:
    """An analysis that goes on until it is let go, wherever it runs: it is shown the data of its project."""

    waits = "until [ -e data/go ]; do sleep 0.05; done"

    def __init__(self, project):
        self.project = project
        (project / "cupel.yaml").write_text("{}\n", encoding="utf-8")
        (project / "data").mkdir()

    def open(self):
        (self.project / "data/go").touch()

    def remove(self):
        (self.project / "cupel.yaml").unlink()
        shutil.rmtree(self.project / "data")


@pytest.fixture
def gate(here):
    made = Gate(here.dir)
    yield made
    made.remove()
