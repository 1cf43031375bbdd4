"""The executor `slurm` when jobs are preempted, nodes and the controller go away, or keepers are killed: nothing runs twice, and nothing
is left."""

import contextlib
import os
import signal

import pytest

import cupel as lib
from slurm_runs import SLEEPS, assert_swept, cluster, finish, gate, here, log_of, run, seen, stage, started, submitted, use  # noqa: F401  (fixtures)

pytestmark = pytest.mark.test_all


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_somebody_cancels_the_job_on_the_cluster(root, cluster, stage, state):
    use(root, cluster, stage, more=", flags: [--hold]" if state == "PENDING" else "")
    with started(root, cluster, *SLEEPS, until=state) as (process, result, number):
        cluster.call("scancel", number)
        finish(process, result)
    assert result.cause == "cancelled" and "somebody" in result.verdict["completion_notes"]
    assert result.verdict["executor"]["why"] == "cancelled" and seen(result)["state"] == "CANCELLED"


def test_a_job_that_slurm_starts_again_has_the_log_of_its_last_attempt(here, cluster, gate):
    script = f"echo started; date +%s%N; {gate.waits}; echo x >out/x"
    with started(here, cluster, "--", "sh", "-c", script) as (process, result, number):
        cluster.until(lambda: log_of(result).count(b"\n") == 2, "time of the first attempt")
        before = log_of(result)
        cluster.call("scontrol", "requeue", number)
        cluster.until(lambda: log_of(result).count(b"\n") == 2 and log_of(result) != before, "second attempt")
        gate.open()
        finish(process, result)
    assert result.cause == "ok" and result.outputs["count"] == 1
    assert result.verdict["executor"]["restarts"] == seen(result)["restarts"] == 1
    assert result.log().startswith(b"started\n") and result.log().count(b"\n") == 2
    assert "restarted" in [event["event"] for event in result.events]


def preempt(cluster):
    """A job that takes every node for itself, for a moment."""
    return cluster.call("sbatch", "--parsable", "-o", "/dev/null", "-p", "urgent", f"--nodes={len(cluster.nodes)}", "--exclusive",
                        "--wrap", "sleep 1").strip()


@pytest.mark.limit_s(600)
def test_a_job_that_had_to_make_room_is_started_again(here, cluster, gate):
    script = f"echo started; {gate.waits}; echo x >out/x"
    with started(here, cluster, "--", "sh", "-c", script) as (process, result, number):
        cluster.until(lambda urgent=preempt(cluster): cluster.is_done(urgent), "end of the urgent one")
        cluster.until(lambda: cluster.job(number)["JobState"] == "RUNNING", "second start", 300)
        gate.open()
        finish(process, result)
    assert result.cause == "ok" and result.outputs["count"] == 1
    assert seen(result)["restarts"] == 1


def test_a_job_that_had_to_make_room_for_good_is_lost(root, cluster, stage):
    use(root, cluster, stage, more=", flags: [--no-requeue]")
    with started(root, cluster, *SLEEPS) as (process, result, _):
        urgent = preempt(cluster)
        finish(process, result)
        cluster.until(lambda: cluster.is_done(urgent), "end of the urgent one")
    assert result.cause == "lost" and result.verdict["executor"]["why"] == "preempted", result.verdict
    assert seen(result)["state"] == "PREEMPTED"


@contextlib.contextmanager
def node_lost(cluster, number):
    """The power of the job's node is cut, until the end of the block."""
    node = cluster.job(number)["BatchHost"]
    cluster.lose_node(node)
    try:
        yield node
    finally:
        cluster.start_node(node)
        cluster.until(lambda: cluster.node_state(node) == "IDLE", f"return of {node}")


@pytest.mark.limit_s(900)
def test_a_lost_node_is_replaced_by_another(here, cluster, gate):
    script = f"echo started; {gate.waits}; echo x >out/x"
    with started(here, cluster, "--", "sh", "-c", script) as (process, result, number):
        with node_lost(cluster, number) as lost:
            cluster.until(lambda: cluster.job(number)["Restarts"] == "1", "word of the loss", 300)
            cluster.until(lambda: cluster.job(number)["JobState"] == "RUNNING", "second start", 300)
            gate.open()
            finish(process, result)
    assert result.cause == "ok" and result.outputs["count"] == 1
    assert seen(result)["node"] in set(cluster.nodes) - {lost} and seen(result)["restarts"] == 1


def test_a_lost_node_loses_a_run_that_is_not_to_be_started_again(root, cluster, stage):
    use(root, cluster, stage, more=", flags: [--no-requeue]")
    with started(root, cluster, *SLEEPS) as (process, result, number):
        with node_lost(cluster, number) as lost:
            cluster.call("scontrol", "update", f"nodename={lost}", "state=down", "reason=test")
            finish(process, result)
    assert result.cause == "lost" and result.verdict["executor"]["why"] == "node-failed"
    assert seen(result)["state"] == "NODE_FAIL" and not result.outputs
    # The node is back: what the run left there is swept by a job of ours.
    assert_swept(root, stage)


@contextlib.contextmanager
def controller_down(cluster):
    cluster.stop_controller()
    try:
        yield
    finally:
        cluster.start_controller()
        cluster.until(lambda: answers(cluster), "answer of the controller")


def answers(cluster):
    try:
        return "UP" in cluster.call("scontrol", "ping")
    except RuntimeError:
        return False


@pytest.mark.parametrize("status", [0, 7])
def test_a_verdict_needs_no_controller(here, cluster, stage, gate, status):
    script = f"echo started; {gate.waits}; exit {status}"
    with started(here, cluster, "--", "sh", "-c", script) as (process, result, _):
        with controller_down(cluster):
            gate.open()
            finish(process, result)
            assert (result.status, result.cause) == (status, "exit" if status else "ok")
            assert list(stage.iterdir())  # the job can't be removed now
    assert_swept(here, stage)


def test_a_controller_that_restarts_is_waited_for(here, cluster, gate):
    script = f"echo started; {gate.waits}; echo x >out/x"
    with started(here, cluster, "--", "sh", "-c", script) as (process, result, _):
        with controller_down(cluster):
            assert lib.wait_until(lambda: "unreachable" in [event["event"] for event in result.events])
            assert process.poll() is None
        gate.open()
        finish(process, result)
    assert result.cause == "ok" and result.outputs["count"] == 1, result.verdict
    assert "reached-again" in [event["event"] for event in result.events]


def test_without_a_controller_nothing_is_started(here, cluster, stage):
    with controller_down(cluster):
        refused = run(here, "--", "true")
        assert refused.status == 125 and "does not answer" in refused.stderr
        assert not refused.run_dir.exists() and not list(stage.iterdir())
    assert run(here, "--", "true").cause == "ok"


def kill_all(process, result):
    """Whoever waits, and the keeper that attends it: none of them can say or do anything more."""
    process.send_signal(signal.SIGSTOP)
    os.kill(result.events[0]["data"]["keeper_pid"], signal.SIGKILL)
    process.kill()
    process.communicate()


@pytest.mark.parametrize("state", ["PENDING", "RUNNING"])
def test_another_keeper_takes_over_and_nothing_runs_twice(root, cluster, stage, gate, state):
    use(root, cluster, stage, more=", flags: [--hold]" if state == "PENDING" else "")
    script = f"echo started; echo x >out/$(date +%N); {gate.waits}"
    with started(root, cluster, "--", "sh", "-c", script, until=state) as (process, result, number):
        name = cluster.job(number)["JobName"]
        kill_all(process, result)
        assert result.verdict is None and cluster.job(number)["JobState"] == state
        assert root.call(root.binary, "list")[0] == 0  # any command will do
        if state == "PENDING":
            cluster.call("scontrol", "release", number)
        gate.open()
        assert lib.wait_until(lambda: result.verdict)
    assert result.cause == "ok" and result.outputs["count"] == 1
    assert "taken-over" in [event["event"] for event in result.events]
    assert cluster.jobs("--states=all", f"--name={name}") == [str(number)]
    assert lib.wait_until(lambda: not list(stage.iterdir()))


def test_whoever_waits_does_not_notice_that_another_keeper_attends(here, cluster, gate):
    script = f"echo started; echo x >out/x; {gate.waits}; exit 5"
    with started(here, cluster, "--", "sh", "-c", script) as (process, result, _):
        os.kill(result.events[0]["data"]["keeper_pid"], signal.SIGKILL)
        assert lib.wait_until(lambda: "taken-over" in [event["event"] for event in result.events])
        gate.open()
        finish(process, result)
    assert (result.status, result.cause) == (5, "exit")


def test_a_job_that_slurm_forgot_is_judged_by_its_record(here, cluster, stage, gate):
    script = f"echo started; {gate.waits}; echo x >out/x"
    with started(here, cluster, "--", "sh", "-c", script) as (process, result, number):
        kill_all(process, result)
        gate.open()
        cluster.until(lambda: cluster.is_done(number), "end of the job")
        cluster.stop_controller()
        cluster.start_controller("-c")
        cluster.until(lambda: answers(cluster) and all(cluster.node_state(n) == "IDLE" for n in cluster.nodes), "idle nodes")
        while int(cluster.submit()) < number:  # the number is somebody else's now
            pass
        assert here.call(here.binary, "list")[0] == 0
        assert lib.wait_until(lambda: result.verdict)
    assert result.cause == "ok" and result.outputs["count"] == 1
    assert lib.wait_until(lambda: not list(stage.iterdir()))


def test_two_jobs_of_one_name_run_it_once(here, cluster, stage, gate):
    script = f"echo started; echo x >>out/x; {gate.waits}"
    with started(here, cluster, "--", "sh", "-c", script) as (process, result, number):
        name = cluster.job(number)["JobName"]
        again = cluster.call("sbatch", "--parsable", f"--job-name={name}", "--output=/dev/null",
                             stage / name / "script").strip()
        cluster.until(lambda: cluster.is_done(again), "end of the second")
        assert [at.name for at in (stage / name).glob("home.*")] == ["home.0"]
        assert process.poll() is None
        gate.open()
        finish(process, result)
    assert result.cause == "ok" and submitted(result) == number
    assert result.outputs["files"][0]["size"] == 2


@pytest.mark.parametrize("more", ["", " UserId=root(0) x"])
def test_a_job_of_that_name_is_somebody_elses(here, cluster, stage, more):
    """Anybody may give a job any name: it is not taken for ours, whether by its name or by its number, and it is not ended."""
    next_id = here.new_id()
    with started(here, cluster, *SLEEPS) as (process, result, number):
        name = cluster.job(number)["JobName"]
        theirs = [cluster.submit("--uid=nobody", "--hold", f"--job-name={taken}{more}")
                  for taken in (name, name.replace(result.run_dir.name, next_id))]
        (stage / name / "owner").unlink()
        (stage / name / "owner").symlink_to(theirs[0])
        assert finish(process, result).cause == "lost", result.verdict
    result = run(here, "--", "sh", "-c", "echo x >out/x", id=next_id)
    assert result.cause == "ok" and result.outputs["count"] == 1
    for other in theirs:
        assert "JobState=PENDING" in cluster.call("scontrol", "show", "job", other)
        cluster.call("scancel", other)
