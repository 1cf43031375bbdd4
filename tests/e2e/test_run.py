"""Ways to say what is to be run, what the analysis then sees, and what comes back."""

import hashlib
import json
import os

import pytest

HASH = hashlib.sha256


def script(cupel, text, name="analysis.py", mode=0o755):
    path = cupel.dir / name
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return cupel.own(path)


def test_command_after_dashes(cupel):
    result = cupel.run("--", "sh", "-c", 'echo "$0" "$1"; echo bad >&2', "a", "b c")
    assert (result.status, result.stdout, result.stderr) == (0, "a b c\n", "bad\n")
    assert result.cause == "ok"


def test_options_after_the_command_belong_to_it(cupel):
    assert cupel.run("--", "echo", "--memory", "-q", "--").stdout == "--memory -q --\n"


@pytest.mark.parametrize("mask", ["000", "077", "777"])
def test_the_callers_umask_is_not_the_analysis_s(cupel, mask):
    """A hardened host has 077: what is made for the box must be there for its user all the same."""
    act = "umask; : > /tmp/a; : > /dev/shm/a; mkdir -p out; echo 1 > out/x; stat -c %a out/x; cat /etc/passwd > /dev/null"
    run_id = cupel.new_id()
    status, out, err = cupel.call(
        "/bin/sh", "-c", 'umask "$1"; shift; exec "$@"', "sh", mask,
        cupel.binary, "run", "--quiet", "--id", run_id, "--", "sh", "-c", act,
    )
    assert (status, out) == (0, "0022\n644\n"), err
    assert (cupel.run_dir(run_id) / "outputs/out/x").read_text() == "1\n"


@pytest.mark.parametrize("mode", [0o755, 0o644])
def test_python_script_with_arguments(cupel, mode):
    path = script(cupel, "import sys\nprint(sys.argv[1:], __file__)\n", mode=mode)
    result = cupel.run(path, "--one", "two")
    assert result.stdout.startswith("['--one', 'two'] "), result.stderr
    assert result.stdout.rstrip().endswith("/code/analysis.py")


def test_shell_script_by_its_first_line(cupel):
    path = script(cupel, "#!/bin/sh\necho shell $1\n", name="job")
    assert cupel.run(path, "x").stdout == "shell x\n"


def test_relative_script_is_found_from_the_current_directory(cupel):
    script(cupel, "print('here')\n")
    assert cupel.run("analysis.py").stdout == "here\n"
    assert cupel.run("./analysis.py").stdout == "here\n"


ANALYSIS = """\
name: all keys
quest: testing
runtime: base
id: {id}
code: [main.py, helper.py]
args: [one, two]
inputs:
  - numbers.txt
  - {{path: tables, name: renamed}}
outputs:
  - out/result.json
  - {{path: "out/*.csv", required: true, media_type: text/csv}}
env: {{GREETING: hello}}
labels: {{team: red}}
limits: {{memory: 256M, cpus: 1, pids: 50, time: 1m, disk: 64M, log: 1M, open_files: 99,
         file_size: 8M, output_size: 1M, output_count: 10, grace: 1s, warn: 10s, cpu_time: 50s,
         inodes: 500}}
network: none
profile: notebook
keep: never
warn_signal: USR2
allow_missing: []
"""

MAIN = """\
import json, os, sys, resource
import helper
open("out/a.csv", "w").write("x,y\\n1,2\\n")
json.dump({"args": sys.argv[1:], "greeting": os.environ["GREETING"], "helper": helper.VALUE,
           "input": open("data/numbers.txt").read(), "table": open("data/renamed/t.txt").read(),
           "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}, open("out/result.json", "w"))
open("out/not-asked-for", "w").write("x")
"""


@pytest.fixture
def analysis(cupel):
    folder = cupel.dir / "project-of-files"
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    (folder / "main.py").write_text(MAIN)
    (folder / "helper.py").write_text("VALUE = 7\n")
    (folder / "numbers.txt").write_text("1 2 3")
    (folder / "tables/t.txt").write_text("tabled")
    run_id = cupel.new_id()
    (folder / "analysis.yaml").write_text(ANALYSIS.format(id=run_id))
    return folder / "analysis.yaml", run_id


def test_analysis_file_with_every_key(cupel, analysis):
    path, run_id = analysis
    status, _, err = cupel.call(cupel.binary, "run", "--json", path)
    assert status == 0, err
    run_dir = cupel.run_dir(run_id)
    made = json.loads((run_dir / "outputs/out/result.json").read_text())
    assert made == {
        "args": ["one", "two"],
        "greeting": "hello",
        "helper": 7,
        "input": "1 2 3",
        "table": "tabled",
        "files": 99,
    }
    manifest = json.loads((run_dir / "outputs.json").read_text())
    assert {f["path"]: f["media_type"] for f in manifest["files"]} == {
        "out/result.json": "application/json",
        "out/a.csv": "text/csv",
    }
    recorded = json.loads((run_dir / "analysis.json").read_text())
    assert recorded["name"] == "all keys" and recorded["quest"] == "testing"
    assert recorded["labels"] == {"team": "red"}
    assert recorded["limits"]["memory"] == {
        "value": "256M",
        "raw": 256 << 20,
        "origin": f"{path}:15",
    }
    verdict = json.loads((run_dir / "verdict.json").read_text())
    assert verdict["name"] == "all keys" and verdict["quest"] == "testing"


def test_options_win_over_the_file(cupel, analysis):
    path, _ = analysis
    result = cupel.run(
        "--memory", "128M", "--env", "GREETING=bye", "--out", "out/result.json", path
    )
    assert result.status == 0, result.stderr
    recorded = json.loads((result.run_dir / "analysis.json").read_text())
    assert recorded["limits"]["memory"]["origin"] == "--memory"
    assert recorded["limits"]["memory"]["value"] == "128M"
    assert [f["path"] for f in result.outputs["files"]] == ["out/result.json"]
    assert json.loads((result.run_dir / "outputs/out/result.json").read_text())["greeting"] == "bye"


def test_command_as_a_string_goes_to_the_shell(cupel):
    path = cupel.dir / "string.yaml"
    path.write_text("command: echo $((1 + 1)) | tr 2 3\n")
    assert cupel.run(path).stdout == "3\n"


def test_outputs_are_collected_with_their_sha256(cupel):
    result = cupel.run(
        "--",
        "sh",
        "-c",
        "mkdir -p out/deep; printf abc > out/deep/x.txt; : > out/empty;" "echo no > elsewhere",
    )
    files = {f["path"]: f for f in result.outputs["files"]}
    assert set(files) == {"out/deep/x.txt", "out/empty"}
    assert files["out/deep/x.txt"]["sha256"] == HASH(b"abc").hexdigest()
    assert files["out/empty"]["sha256"] == HASH(b"").hexdigest()
    for path, entry in files.items():
        content = (result.run_dir / "outputs" / path).read_bytes()
        assert HASH(content).hexdigest() == entry["sha256"] and len(content) == entry["size"]


def test_chosen_outputs(cupel):
    result = cupel.run(
        "--out",
        "kept/**/*.txt",
        "--",
        "sh",
        "-c",
        "mkdir -p kept/a/b; touch kept/a/b/1.txt kept/a/2.dat kept/3.txt out/4.txt",
    )
    assert sorted(f["path"] for f in result.outputs["files"]) == ["kept/3.txt", "kept/a/b/1.txt"]


def variables(cupel, *options, env=None):
    result = cupel.run(*options, "--", "env", "-0", env=env)
    assert result.status == 0, result.stderr
    return dict(line.split("=", 1) for line in result.stdout.split("\0") if line), result


def test_environment_is_made_not_inherited(cupel):
    seen, result = variables(
        cupel, "--env", "MINE=1", env={"SECRET": "x", "TZ": "UTC", "LD_PRELOAD": ""}
    )
    work = str(cupel.work_dir(result.run_dir.name))
    assert "SECRET" not in seen and "LD_PRELOAD" not in seen and "CUPEL_CONFIG" not in seen
    assert seen["MINE"] == "1" and seen["TZ"] == "UTC"
    assert seen["HOME"] == work + "/home" and seen["TMPDIR"] == work + "/tmp"


def test_cupels_own_variables(cupel):
    seen, result = variables(cupel, "--memory", "300M", "--cpus", "1.5", "--time", "1h")
    work = str(cupel.work_dir(result.run_dir.name))
    assert seen["CUPEL_RUN_ID"] == result.run_dir.name
    assert (seen["CUPEL_WORK_DIR"], seen["CUPEL_OUT_DIR"], seen["CUPEL_DATA_DIR"]) == (
        work,
        work + "/out",
        work + "/data",
    )
    assert seen["CUPEL_RUNTIME"] == "base" and seen["CUPEL_CPUS"] == "1.5"
    assert seen["CUPEL_MEMORY_BYTES"] == str(300 << 20)
    started = int(seen["CUPEL_DEADLINE"]) - 3600
    assert abs(started - os.stat(result.run_dir / "stdout.log").st_mtime) < 600


def test_what_an_analysis_is_told_of_itself(cupel):
    """Enough to say in an output what it was made of; nothing of the host, and nothing to change."""
    data = cupel.dir / "told.txt"
    data.write_text("told\n", encoding="utf-8")
    data.chmod(0o644)
    result = cupel.run("--data", str(data), "--quest", "q1", "--label", "who=me", "--env",
                       "SECRET=hush", "--", "sh", "-c",
                       'cat "$CUPEL_PROVENANCE_PATH"; echo x >> "$CUPEL_PROVENANCE_PATH"')
    told = json.loads(result.stdout)
    assert result.status != 0, "it can't be written"
    assert told["run"] == result.run_dir.name and told["quest"] == "q1"
    assert told["labels"] == {"who": "me"} and told["runtime"]["name"] == "base"
    work = str(cupel.work_dir(result.run_dir.name))
    assert [(i["path"], i["sha256"]) for i in told["inputs"]] == [
        (f"{work}/data/told.txt", hashlib.sha256(b"told\n").hexdigest())]
    assert told["left_out"] == [] and told["limits"]["memory"] > 0
    assert "hush" not in result.stdout and str(data) not in result.stdout
    big = cupel.run("-q", "--", "sh", "-c", 'wc -c < "$CUPEL_PROVENANCE_PATH"; grep -o '
                    '"left_out.*]" "$CUPEL_PROVENANCE_PATH"', *["x" * 100000] * 11)
    size, left_out = big.stdout.splitlines()
    assert int(size) < 1 << 20 and '"inputs","command"' in left_out, big.stdout


@pytest.mark.parametrize("name", ["CUPEL_RUN_ID", "1X", "A-B", ""])
def test_a_variable_that_is_none_is_refused(cupel, name):
    result = cupel.run("--env", f"{name}=x", "--", "true")
    assert result.status == 2 and not result.run_dir.exists()


@pytest.mark.parametrize("cpus, count", [("0.5", 1), ("1", 1), ("2", 2)])
def test_threads_follow_the_cpu_budget(root, cpus, count):
    if count > os.cpu_count():
        pytest.skip(f"cpus: the host has {os.cpu_count()}")
    seen, _ = variables(root, "--cpus", cpus)
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "RAYON_NUM_THREADS",
    ):
        assert seen[name] == str(count), name
    result = root.run(
        "--cpus",
        cpus,
        "--",
        "sh",
        "-c",
        "nproc; python3 -c 'import os; print(os.cpu_count(), len(os.sched_getaffinity(0)))';"
        "getconf _NPROCESSORS_ONLN; cat /sys/devices/system/cpu/online",
    )
    online = "0" if count == 1 else f"0-{count - 1}"
    assert result.stdout.split() == [str(count)] * 4 + [online]


@pytest.fixture
def project(cupel):
    folder = cupel.dir / cupel.new_id()
    for name in ("data", "docs", "sub/deeper", "extra"):
        (folder / name).mkdir(parents=True)
    (folder / "cupel.yaml").write_text("project: {}\n")
    (folder / "data/table.csv").write_text("table")
    (folder / "docs/guide.md").write_text("guide")
    (folder / "extra/more.txt").write_text("more")
    for path in [folder, *folder.rglob("*")]:
        cupel.own(path)
    return folder


def test_project_data_and_docs_are_there_read_only(cupel, project):
    result = cupel.run(
        "--",
        "sh",
        "-c",
        "cat data/table.csv docs/guide.md; touch data/x; touch docs/x;" "echo y > data/table.csv",
        cwd=project / "sub/deeper",
    )
    assert result.stdout == "tableguide"
    assert result.stderr.count("Read-only file system") == 3
    assert sorted(os.listdir(project / "data")) == ["table.csv"]
    assert (project / "data/table.csv").read_text() == "table"


def test_inputs_stand_beside_the_projects_data(cupel, project):
    result = cupel.run(
        "--data",
        "extra",
        "--data",
        "extra/more.txt:single",
        "--",
        "sh",
        "-c",
        "cat data/table.csv data/extra/more.txt data/single; ls data;"
        "echo z > data/single; touch data/new",
        cwd=project,
    )
    assert result.stdout == "tablemoremoreextra\nsingle\ntable.csv\n"
    assert result.stderr.count("Read-only file system") == 2
    assert (project / "extra/more.txt").read_text() == "more"


def test_an_input_may_not_hide_the_projects_data(cupel, project):
    result = cupel.run("--data", "extra/more.txt:table.csv", "--", "true", cwd=project)
    assert result.status == 2 and "table.csv" in result.stderr and not result.run_dir.exists()


def test_without_a_project_data_is_empty(cupel):
    result = cupel.run("--", "sh", "-c", "pwd; ls data docs out")
    assert result.stdout == f"{cupel.work_dir(result.run_dir.name)}\ndata:\n\ndocs:\n\nout:\n"


def test_an_input_that_is_not_there(cupel):
    result = cupel.run("--data", "/no/such/file", "--", "true")
    assert result.status == 2 and "/no/such/file" in result.stderr and not result.run_dir.exists()


@pytest.mark.parametrize("path", ["/", "{home}", "{home}/runs"])
def test_cupels_own_records_are_no_input(cupel, path):
    cupel.run("--", "true")
    result = cupel.run("--data", path.format(home=cupel.home) + ":x", "--", "true")
    assert result.status == 2 and "records" in result.stderr


def test_a_runs_outputs_are_the_next_ones_input(cupel):
    first = cupel.run("--", "sh", "-c", "echo 42 > out/answer")
    second = cupel.run("--data", first.run_dir / "outputs/out/answer", "--", "cat", "data/answer")
    assert second.stdout == "42\n", second.stderr


def test_protected_paths_are_no_input(cupel, project):
    (project / "cupel.yaml").write_text("protect: [extra/more.txt]\n")
    result = cupel.run("--data", "extra", "--", "true", cwd=project)
    assert result.status == 2 and "protected" in result.stderr and not result.run_dir.exists()


EXITS = [
    ("exit 0", 0, "ok"),
    ("exit 1", 1, "exit"),
    ("exit 77", 77, "exit"),
    ("exit 255", 255, "exit"),
    ("exit 124", 124, "exit"),
    ("exit 137", 137, "exit"),
    ("exit 125", 125, "exit"),
    ("kill -TERM $$", 143, "signal"),
    ("kill -9 $$", 137, "signal"),
    ("kill -SEGV $$", 139, "signal"),
    ("kill -INT $$", 130, "signal"),
]


@pytest.mark.parametrize("command, status, cause", EXITS)
def test_exit_status_is_the_analysis_own(cupel, command, status, cause):
    result = cupel.run("--", "sh", "-c", command)
    assert (result.status, result.cause) == (status, cause)
    verdict = result.verdict
    assert verdict["exit_status"] == status
    if cause == "signal":
        assert verdict["signal"] == status - 128 and verdict["exit_code"] is None
    else:
        assert verdict["exit_code"] == status and verdict["signal"] is None
    assert verdict["evidence"]["oom_kills"] == 0


def test_not_found_is_127(cupel):
    result = cupel.run("--", "no-such-program-at-all")
    assert (result.status, result.cause) == (127, "exit")
    assert "no-such-program-at-all" in result.verdict["completion_notes"]
    assert cupel.run("--", "/no/such/path").status == 127


def test_not_executable_is_126(cupel):
    result = cupel.run("--", "/etc/passwd")
    assert (result.status, result.cause) == (126, "exit")
    assert "Permission denied" in result.verdict["completion_notes"]


def test_a_script_that_is_not_there_is_the_callers_mistake(cupel):
    result = cupel.run("no-such-script.py")
    assert result.status == 2 and "no-such-script.py" in result.stderr
    assert not result.run_dir.exists()


def test_a_runtime_that_is_not_there(cupel):
    result = cupel.run("-r", "no-such-runtime", "--", "true")
    assert result.status == 2 and "no-such-runtime" in result.stderr
    assert not result.run_dir.exists()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--",),
        ("--no-such-option", "--", "true"),
        ("--memory",),
        ("--json=yes", "--", "true"),
        ("--keep", "sometimes", "--", "true"),
        ("--network", "world", "--", "true"),
        ("--allow-missing", "walls", "--", "true"),
    ],
)
def test_usage_is_2(cupel, words):
    result = cupel.run(*words)
    assert result.status == 2 and result.stderr.startswith("cupel: ")
    assert not result.run_dir.exists()


def test_a_mistyped_option_gets_its_neighbour(cupel):
    assert "did you mean --memory?" in cupel.run("--memroy", "1G", "--", "true").stderr


def test_a_network_the_policy_forbids(cupel):
    result = cupel.run("--network", "host", "--", "true")
    assert result.status == 2 and "policy" in result.stderr and not result.run_dir.exists()
