"""The executor `slurm` on a real cluster of three nodes: the same verdicts as on this host, pipelines and arrays, refusals, and nothing
left."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

import cupel as lib
import faults
import slurm
from slurm_runs import SLEEPS, SMALL, assert_swept, cluster, finish, gate, has_event, here, run, seen, stage, started, use  # noqa: F401  (fixtures)

pytestmark = pytest.mark.test_all

NOBODY = 65534


def test_a_success_is_recorded_here_as_if_it_had_been_carried_out_here(here, cluster):
    script = "echo words; echo more >&2; echo 42 >out/answer; mkdir out/in; echo 42 >out/in/same"
    far, near = run(here, "--", "sh", "-c", script), here.run(*SMALL, "--", "sh", "-c", script)
    assert (far.status, far.cause, far.stdout, far.stderr) == (0, "ok", "words\n", "more\n")
    assert near.cause == "ok"
    assert [(f["path"], f["sha256"]) for f in far.outputs["files"]] == [(f["path"], f["sha256"]) for f in near.outputs["files"]]
    assert far.outputs["count"] == 2 and not far.outputs["refused_count"]
    assert (far.log(), far.log("stderr.log")) == (b"words\n", b"more\n")
    assert far.verdict["executor"]["kind"] == "slurm" and cluster.version() in far.verdict["executor"]["engine"]
    assert seen(far)["state"] in ("COMPLETED", "COMPLETING") and seen(far)["node"] in cluster.nodes
    assert far.verdict["usage"]["memory_peak_bytes"] > 0
    # The box of the node is the box of this host, by the kernel's own word.
    for layer in ("capabilities", "no_new_privs", "seccomp", "landlock", "cpus_visible"):
        assert far.receipt[layer] == near.receipt[layer]
    assert all(far.receipt["namespaces"][name]["own"] for name in ("user", "mnt", "pid", "net"))


@pytest.mark.parametrize("cause, args", [
    ("exit", ["--", "sh", "-c", "exit 7"]),
    ("signal", ["--", "sh", "-c", "kill -SEGV $$"]),
    ("oom", ["--", "/usr/bin/python3", "-c", "bytearray(200 << 20)"]),
    ("deadline", ["--time", "1s", "--", "sleep", "600"]),
    ("pids", ["--pids", "8", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 9 & done; wait"]),
    ("output-missing", ["a.yaml"]),
    ("exit", ["--", "/no/such/program"]),
])
def test_a_failure_has_the_same_verdict_as_here(here, cause, args):
    (here.dir / "a.yaml").write_text("command: ['true']\noutputs: [{path: out/never, required: true}]\n")
    far, near = run(here, *args), here.run(*SMALL, *args)
    assert far.cause == near.cause == cause
    assert (far.status, far.verdict["exit_code"], far.verdict["signal"]) == (
        near.status, near.verdict["exit_code"], near.verdict["signal"])
    assert far.verdict["executor"]["why"] == "none"


def test_the_analysis_decides_what_slurm_is_asked_for(root, cluster, stage):
    use(root, cluster, stage, more=", partition: main, flags: [--hold, --nice=7]")
    args = ("--time", "90s", "--memory", "100M", "--cpus", "1.5", "--", "true")
    with started(root, cluster, *args, until="PENDING") as (process, result, number):
        job = cluster.job(number)
        # 90 s, the grace, a minute; what the node's cupel needs beside the analysis; whole processors.
        assert (job["TimeLimit"], job["MinMemoryNode"], job["NumCPUs"]) == ("00:03:00", "132M", "2")
        assert (job["Partition"], job["Nice"], job["Requeue"]) == ("main", "7", "1")
        assert job["JobName"].endswith(f"-{result.run_dir.name}") and job["Reason"] == "JobHeldUser"
        process.send_signal(signal.SIGINT)
        assert finish(process, result).cause == "cancelled"
    assert seen(result)["state"] == "CANCELLED" and result.status == 130
    assert not result.verdict["usage"]["wall_usec"]


def test_gres_is_a_label(here, cluster):
    refused = run(here, "--label", "slurm.gres=no such;thing", "--", "true")
    assert refused.cause == "setup" and "slurm.gres" in refused.verdict["completion_notes"]
    unknown = run(here, "--label", "slurm.gres=gpu:1", "--", "true")
    assert unknown.cause == "setup" and "gres" in unknown.verdict["completion_notes"].lower()


def test_what_it_prints_is_seen_while_it_runs_and_a_cancel_is_gentle(here, cluster):
    script = "trap 'echo bye; exit 3' TERM; echo started; while :; do sleep 0.05; done"
    with started(here, cluster, "--", "sh", "-c", script) as (process, result, _):
        assert process.stdout.readline() == "started\n"
        assert here.call(here.binary, "cancel", result.run_dir.name)[0] == 0
        finish(process, result)
    assert result.cause == "cancelled" and result.log() == b"started\nbye\n", result.verdict


def test_slurms_own_time_limit_is_a_deadline(here, cluster):
    with started(here, cluster, *SLEEPS) as (process, result, number):
        soon = time.strftime("%FT%T", time.localtime(time.time() + 2))
        cluster.call("scontrol", "update", f"jobid={number}", f"EndTime={soon}")
        finish(process, result)
    assert result.cause == "deadline" and result.status == 124
    assert seen(result)["state"] == "TIMEOUT"


def test_a_node_without_cupel_says_so(root, cluster, stage):
    use(root, cluster, stage, more=", program: /no/such/cupel")
    result = run(root, "--", "true")
    assert result.cause == "setup" and "/no/such/cupel" in result.verdict["completion_notes"]


def test_slurms_refusal_is_told(root, cluster, stage):
    use(root, cluster, stage, more=", partition: nowhere")
    result = run(root, "--", "true")
    assert result.cause == "setup" and "nvalid partition" in result.verdict["completion_notes"]


def test_a_stage_that_others_can_change_is_refused(here, stage):
    stage.chmod(0o777)
    result = run(here, "--", "true")
    assert result.status == 125 and "sticky" in result.stderr and not result.run_dir.exists()
    stage.chmod(0o1777)
    assert run(here, "--", "true").cause == "ok"


def test_a_stage_may_be_behind_a_link(root, cluster, stage):
    link = root.base / "linked-stage"
    link.symlink_to(stage)
    result = run(use(root, cluster, link), "--", "sh", "-c", "echo x >out/x")
    assert result.cause == "ok" and result.outputs["count"] == 1, result.verdict


def test_a_submitters_job_is_his_own(here, cluster, gate, stage):
    """As the service starts it: root submits for somebody, whose job it is."""
    script = f"echo started; {gate.waits}; echo x >out/x"
    env = {"CUPEL_SUBMITTER": f"{NOBODY}:{NOBODY}"}
    allowed = ("--allow-missing", "memory", "--allow-missing", "cpu", "--allow-missing", "pids")
    with started(here, cluster, *allowed, "--", "sh", "-c", script, env=env) as (process, result, number):
        assert cluster.job(number)["UserId"] == f"nobody({NOBODY})"
        assert {at.lstat().st_uid for at in stage.glob("*/*")} == {NOBODY}
        gate.open()
        finish(process, result)
    assert result.cause == "ok" and result.outputs["count"] == 1
    assert (result.run_dir / "outputs/out/x").stat().st_uid == 0


PIPELINE = """
steps:
  far:
    executor: cluster
    command: mkdir -p out/deep; echo 1 >out/deep/a; echo 2 >out/b
    limits: &small {memory: 64M, cpus: 1, disk: 16M}
  near:
    inputs: [{step: far}]
    command: cat data/far/out/deep/a data/far/out/b >out/c
    limits: *small
  back:
    executor: cluster
    inputs: [{step: far, path: "out/b*", name: far}, {step: near}]
    command: cat data/far/out/b data/near/out/c >out/d
    limits: *small
"""


def test_a_pipeline_goes_there_and_back(here, cluster):
    pipeline = here.new_id()
    (here.dir / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    status, _, err = here.call(here.binary, "run", "--quiet", "--id", pipeline, "pipeline.yaml")
    assert status == 0, err
    kinds = {}
    for name in ("far", "near", "back"):
        verdict = json.loads((here.run_dir(f"{pipeline}-{name}-1") / "verdict.json").read_text(encoding="utf-8"))
        kinds[name] = (verdict.get("executor") or {}).get("kind", "local")
    assert kinds == {"far": "slurm", "near": "local", "back": "slurm"}
    assert (here.run_dir(f"{pipeline}-back-1") / "outputs/out/d").read_text(encoding="utf-8") == "2\n1\n2\n"


SHARDS = 6
U = f"t{os.getpid()}-"  # working directories are the host's: others may have runs of the same name
SCATTERED = """
steps:
  each:
    executor: cluster
    scatter: {n: {range: [1, %d]}}
    command: %s
    limits: {memory: 64M, cpus: 1, disk: 16M}
"""


def scattered(caller, script, name, *args, binary=None, **options):
    """(status, what it said on stderr)"""
    script = f": {name}; {script}"  # what another test made is not reused
    (caller.dir / "pipeline.yaml").write_text(SCATTERED % (SHARDS, json.dumps(script)), encoding="utf-8")
    status, _, err = caller.call(binary or caller.binary, "run", "--quiet", "--id", U + name, *args, "pipeline.yaml", **options)
    return status, err


def shards(caller, name, attempt=1):
    """Their results, in order."""
    return [lib.Result(None, "", "", caller.run_dir(f"{U}{name}-each-{i + 1}-{attempt}")) for i in range(SHARDS)]


def handles(results):
    return [next(event["data"]["handle"] for event in result.events if event["event"] == "submitted") for result in results]


def test_shards_of_a_step_are_one_array(here, cluster):
    status, err = scattered(here, "echo {{n}} >out/n", "scattered")
    assert status == 0, err
    results = shards(here, "scattered")
    assert [(result.run_dir / "outputs/out/n").read_text() for result in results] == [f"{i + 1}\n" for i in range(SHARDS)]
    told = handles(results)
    assert len({one["number"] for one in told}) < SHARDS / 2, told
    assert [one["index"] for one in told] == [*range(1, SHARDS + 1)]
    assert all("scattered-each+" in one["array"] for one in told)
    assert [seen(result)["array_index"] for result in results] == [*range(1, SHARDS + 1)]
    alone = run(here, "--", "true")
    assert "array" not in handles([alone])[0]


def test_a_stage_may_give_its_group(root, cluster, stage):
    """Directories made there are another group's then."""
    os.chown(stage, 0, NOBODY)
    stage.chmod(0o3777)
    use(root, cluster, stage)
    status, err = scattered(root, "echo {{n}} >out/n", "grouped")
    assert status == 0, err
    assert all("array" in one for one in handles(shards(root, "grouped")))


def wake(seconds):
    """Ends the one `sleep` of that length, if it is there."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.joinpath("cmdline").read_bytes() == f"sleep\0{seconds}\0".encode():
                os.kill(int(entry.name), signal.SIGKILL)
                return True
    return False


def test_a_task_of_an_array_ends_as_itself(here, cluster, stage):
    """One fails, one is ended on the cluster, one by us, while the others go on."""
    base = 10_000_000 + os.getpid()
    script = f"[ {{{{n}}}} != 1 ] || exit 7; r=0; sleep {{{{n}}}}{base} || r=$?; [ $r = 137 ] || exit 9; echo {{{{n}}}} >out/n"
    (here.dir / "pipeline.yaml").write_text(SCATTERED % (SHARDS, json.dumps(script)), encoding="utf-8")
    process, _ = here.start("--keep-going", "pipeline.yaml", id=U + "apart", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    results = shards(here, "apart")
    try:
        cluster.until(lambda: results[0].verdict and all(has_event(result, "submitted") for result in results), "end of the first")
        told = handles(results)
        assert all("array" in one for one in told)
        cluster.until(lambda: all(cluster.job(f"{told[i]['number']}_{told[i]['index']}")["JobState"] == "RUNNING" for i in (1, 2)),
                      "start of two", 120)
        cluster.call("scancel", f"{told[1]['number']}_{told[1]['index']}")
        os.kill(results[2].events[0]["data"]["keeper_pid"], signal.SIGTERM)
        cluster.until(lambda: results[1].verdict and results[2].verdict, "end of the other two", 120)
        assert not any(result.verdict for result in results[3:])
        cluster.until(lambda: all([wake(f"{i + 1}{base}") or result.verdict for i, result in enumerate(results)][3:]) and
                      all(result.verdict for result in results), "end of all", 120)
    finally:
        process.terminate()
        process.communicate(timeout=300)
    assert [result.cause for result in results] == ["exit", "cancelled", "cancelled", "ok", "ok", "ok"]
    assert results[0].verdict["exit_code"] == 7
    assert not list((here.home / "arrays").glob("[!l]*"))


@pytest.mark.parametrize("phase", ["array-noted", "array-submitted"])
def test_whoever_submits_an_array_is_killed(here, cluster, stage, phase):
    """Before it was submitted: those it was for are submitted by another, or run when asked for again. After: another finds it. Nothing runs twice."""
    script = "echo {{n}} >out/n"
    before = cluster.n_done()
    status, err = scattered(here, script, phase, binary=faults.BINARY, env={"CUPEL_FAULT": f"abort:{phase}"}, limit_s=300)
    results = shards(here, phase)
    if phase == "array-submitted":
        assert status == 0, err
        assert [result.cause for result in results] == ["ok"] * SHARDS
        assert lib.wait_until(lambda: cluster.n_done() >= before + SHARDS)
        assert cluster.n_done() == before + SHARDS, "one job for each, and no other"
        assert any("taken-over" in [event["event"] for event in result.events] for result in results)
    else:
        causes = {result.cause for result in results if result.verdict}
        assert causes <= {"ok", "lost", "cancelled"} and (status == 0) == (causes == {"ok"}), err
    status, err = scattered(here, script, f"{phase}-again", limit_s=300)
    assert status == 0, err
    assert_swept(here, stage)
    assert not list((here.home / "arrays").glob("[!l]*"))


def test_a_slurm_without_arrays_is_given_single_jobs(root, cluster, stage):
    """sbatch refuses the array and nothing else."""
    commands = root.base / "no-arrays"
    commands.mkdir()
    for name in slurm.PROGRAMS:
        (commands / name).symlink_to(shutil.which(name))
    (commands / "sbatch").unlink()
    (commands / "sbatch").write_text("#!/bin/sh\ncase \"$*\" in *--array=*) echo 'sbatch: error: Invalid job array specification' >&2; exit 1;; esac\n"
                                     f'exec {shutil.which("sbatch")} "$@"\n')
    (commands / "sbatch").chmod(0o755)
    use(root, cluster, stage, more=f", commands: {commands}")
    status, err = scattered(root, "echo {{n}} >out/n", "singles")
    assert status == 0, err
    assert not any("array" in one for one in handles(shards(root, "singles")))


@pytest.mark.limit_s(900)
def test_it_passes_the_test_of_every_executor(here):
    status, out, err = here.call(here.binary, "executor", "conformance", "cluster", "--json", limit_s=800)
    assert status == 0, out + err
    told = json.loads(out)
    assert told["failed"] == 0 and told["passed"] >= 20
