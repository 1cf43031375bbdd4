"""The benchmark works and its results are whole. How fast anything was is not looked at."""

import json
import os
import pathlib
import re
import signal
import subprocess
import xml.etree.ElementTree

import pytest

import cupel as lib

# The first of them waits for all of the benchmark.
pytestmark = [pytest.mark.limit_s(1500 * lib.SLOW), pytest.mark.test_all]
ROOT = pathlib.Path(__file__).resolve().parents[2]
ENV = {"CUPEL": str(lib.BINARY), "PYTHONDONTWRITEBYTECODE": "1"}


def call(*words):
    """To its end; returns the pid it had."""
    with subprocess.Popen(
        [*map(str, words)],
        env={**os.environ, **ENV},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _, err = process.communicate(timeout=300 * lib.SLOW)
    assert process.returncode == 0, err
    return process.pid


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A directory with everything that `make bench` makes, from a quick run, and the pid that run had."""
    if os.geteuid() != 0:
        pytest.skip("root: the limits of crun and runc need it")
    to = tmp_path_factory.mktemp("bench")
    pid = call("bench/run", "--quick", "--build", lib.BUILD, "--out", to / "bench.json")
    (to / "pid").write_text(str(pid), encoding="utf-8")
    call(
        "bench/overhead",
        "--quick",
        "--build",
        lib.BUILD,
        "--out",
        to / "overhead.json",
        "python_loop",
        "many_files",
        "forks",
    )
    call("bench/pipelines", "--quick", "--build", lib.BUILD, "--out", to / "bench-pipelines.json")
    call("bench/service", "--quick", "--build", lib.BUILD, "--out", to / "bench-service.json")
    call("bench/report", "--build", to, "--to", to)
    return to


def test_every_row_has_its_numbers(results):
    result = json.loads((results / "bench.json").read_text(encoding="utf-8"))
    names = [row["name"] for row in result["rows"]]
    assert {"floor", "spawn", "cupel run"} <= set(names)
    assert not set(names) & set(result["left_out"])
    assert set(names) | set(result["left_out"]) == {
        "floor",
        "spawn",
        "unshare",
        "bubblewrap",
        "crun",
        "runc",
        "cupel run",
    }
    for way in ("back_to_back", "spaced"):
        assert list(result[way]) == names
        for row in result[way].values():
            assert 0 < row["min_ms"] <= row["median_ms"] <= row["p95_ms"] and row["ratio"] > 0
    assert list(result["rates"]) == [*names, "cupel library"]
    assert all(rate > 0 for row in result["rates"].values() for rate in row.values())
    assert all(row["enforces"] for row in result["rows"])


def test_memory_is_that_of_the_supervisors(results):
    memory = json.loads((results / "bench.json").read_text(encoding="utf-8"))["memory"]
    assert [p["process"] for p in memory["cupel run"]] == ["cupel", "cupel-keeper", "cupel-init"]
    for processes in memory.values():
        assert processes and all(0 < p["private_kib"] <= p["rss_kib"] for p in processes)


def test_stages_are_those_of_timings(results):
    stages = json.loads((results / "bench.json").read_text(encoding="utf-8"))["stages"]
    assert {"resolve", "claim", "box", "run", "verdict", "total"} <= set(stages)


def test_the_plot_is_an_svg_with_a_bar_for_each(results):
    root = xml.etree.ElementTree.parse(results / "bench.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    rows = json.loads((results / "bench.json").read_text(encoding="utf-8"))["rows"]
    assert {row["name"] for row in rows} - {"floor"} <= set(words)


def test_pipelines_are_run_reused_and_gone_on_with(results):
    told = json.loads((results / "bench-pipelines.json").read_text(encoding="utf-8"))
    kinds = [row["what"] for row in told["rows"]]
    assert kinds == ["all new", "nothing to do", "nothing to do", "after a kill"]
    assert set(told["versions"]) | set(told["left_out"]) == {"cupel", "Snakemake"}
    for row in told["rows"]:
        assert set(row["engines"]) == set(told["versions"])
        assert all(0 < engine["best_s"] <= engine["median_s"] for engine in row["engines"].values())
    killed = told["rows"][-1]["engines"]["cupel"]
    assert 0 < killed["finished_before"] < told["rows"][-1]["steps"]
    assert killed["run_again"] == 0 and killed["run_after"] > 0
    page = (results / "BENCHMARK.md").read_text(encoding="utf-8")
    assert f"| after a kill | {told['rows'][-1]['steps']} |" in page


def test_the_service_takes_runs_and_tells(results):
    told = json.loads((results / "bench-service.json").read_text(encoding="utf-8"))
    assert set(told["versions"]) | set(told["left_out"]) == {"cupel", "Slurm"}
    for part in ("single", "command"):
        assert all(0 < row["min_ms"] <= row["median_ms"] <= row["p95_ms"] for row in told[part].values())
    assert ("sbatch" in told["command"]) == ("Slurm" in told["versions"]) == ("slurm" in told["many"])
    assert told["many"]["cupel"] > 0 and all(rate > 0 for rate in told["submissions"].values())
    assert all(row["rows"] > 0 and row["median_ms"] > 0 for row in told["pages"]["rows"])
    page = (results / "BENCHMARK.md").read_text(encoding="utf-8")
    assert "| cupel submit --wait |" in page and "| newest page | 50 |" in page


def test_the_page_says_nothing_of_where_it_was_made(results):
    text = (results / "BENCHMARK.md").read_text(encoding="utf-8")
    assert "A quick run" in text and "Python loop" in text
    assert os.uname().nodename not in re.findall(r"[\w.-]+", text)
    assert str(lib.BUILD) not in text and str(ROOT) not in text


def test_no_group_is_left(results):
    pid = (results / "pid").read_text(encoding="utf-8")
    # Groups of others may go while they are listed, which os.walk does not mind.
    assert not [name for _, names, _ in os.walk("/sys/fs/cgroup") for name in names if name.startswith(f"cupel-bench-{pid}-")]


def throughput(caller, *words, **options):
    return caller.popen(lib.BUILD / "bench/throughput", *words, **options)


def causes(caller):
    return [
        json.loads(verdict.read_text(encoding="utf-8"))["cause"]
        for verdict in (caller.home / "runs").glob("*/verdict.json")
    ]


def test_one_process_drives_several_runs_at_once(fresh):
    with throughput(fresh, "-n", "12", "-j", "4", "true", stdout=subprocess.PIPE) as process:
        told = json.loads(process.stdout.read())
    assert process.returncode == 0 and told["runs"] == 12
    assert causes(fresh) == ["ok"] * 12


def test_a_run_that_fails_is_not_counted(fresh):
    with throughput(
        fresh, "-n", "2", "-j", "2", "false", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        out, err = process.communicate()
    assert process.returncode == 1 and not out and b"status 1" in err


def test_all_runs_of_a_killed_process_are_cancelled(fresh):
    """No keeper holds the socket of another run: each sees the end of the process that asked for it, though the keeper that was
    started last is stopped and lets go of nothing."""

    def started():
        files = (fresh.home / "runs").glob("*/events.jsonl")
        return [file for file in files if b'"started"' in file.read_bytes()]

    with throughput(fresh, "-n", "3", "-j", "3", "sleep", "1000") as process:
        assert lib.wait_until(lambda: len(started()) == 3 or process.poll() is not None)
        assert process.poll() is None, "it gave up before all had started"
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(
            encoding="utf-8"
        )
        last = int(children.split()[-1])
        os.kill(last, signal.SIGSTOP)
        process.kill()
    try:
        assert lib.wait_until(lambda: causes(fresh) == ["cancelled"] * 2)
    finally:
        os.kill(last, signal.SIGCONT)
    assert lib.wait_until(lambda: causes(fresh) == ["cancelled"] * 3)
