"""Commands that are one text: read by a strict shell of the runtime, or by the one that is said."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

BASH = ["/bin/bash", "-euo", "pipefail", "-c"]


def write(caller, text, name="a.yaml"):
    path = caller.dir / name
    path.write_text(text)
    caller.own(path)
    return path


def run(caller, text, **more):
    return caller.run(write(caller, text), **more)


def record(result):
    return json.loads((result.run_dir / "analysis.json").read_text())


def test_a_failure_in_a_pipeline_fails_the_run(cupel):
    asked = 'command: "false | gzip > out/x.gz"\noutputs: [{path: out/x.gz, required: true}]\n'
    result = run(cupel, asked)
    assert (result.status, result.cause) == (1, "exit")
    assert record(result)["command"] == [*BASH, "false | gzip > out/x.gz"] and record(result)["shell"] == BASH
    # the control: what 0.1 did
    result = run(cupel, asked + "shell: sh\n")
    assert (result.status, result.cause) == (0, "ok"), result.stderr
    assert record(result)["command"][:2] == ["/bin/sh", "-c"] and record(result)["shell"] == ["/bin/sh", "-c"]


@pytest.mark.parametrize("text, status, words", [
    ("echo $nothing", 1, "option -u"),
    ("yes | head -1 > out/x", 141, "pipefail"),
    ("grep x /dev/null; echo 1 > out/x", 1, "option -e"),
], ids=["unset", "sigpipe", "no-match"])
def test_the_verdict_names_the_option(cupel, text, status, words):
    result = run(cupel, f"command: '{text}'\n")
    assert result.status == status
    notes = result.verdict["completion_notes"]
    assert words in notes and "shell: sh" in notes, notes
    result = run(cupel, f"command: '{text}'\nshell: sh\n")
    assert result.status == 0 and "shell: sh" not in result.verdict["completion_notes"]


def test_lists_and_words_after_dashes_are_run_as_they_are(cupel):
    result = run(cupel, "command: [sh, -c, 'false; echo $nothing > out/x']\n")
    assert result.status == 0 and "shell" not in record(result)
    result = cupel.run("--", "sh", "-c", "false; true")
    assert result.status == 0 and "shell" not in record(result)


def test_a_list_of_words_is_the_shell(cupel):
    result = run(cupel, "command: 'import sys; print(sys.version_info[0])'\nshell: [/usr/bin/python3, -c]\n")
    assert (result.status, result.stdout) == (0, "3\n"), result.stderr
    result = run(cupel, "command: 'echo hi'\nshell: [bash, -c]\n")
    assert (result.status, result.stdout) == (0, "hi\n"), result.stderr


def test_a_shell_that_is_not_there_is_an_error(cupel):
    result = run(cupel, "command: x\nshell: no-such-shell\n")
    assert result.status == 2 and "has no no-such-shell" in result.stderr


def test_rerun_uses_the_recorded_words(cupel):
    """Also those that 0.1 recorded, which had no shell."""
    result = run(cupel, "command: 'false; echo 1 > out/x'\nshell: sh\n")
    assert result.status == 0
    again = cupel.new_id()
    status, _, err = cupel.call(cupel.binary, "rerun", "--verify", "--id", again, result.run_dir.name)
    assert status == 0, err
    new = json.loads((cupel.run_dir(again) / "analysis.json").read_text())
    assert new["command"] == record(result)["command"] and new["shell"] == ["/bin/sh", "-c"]


def test_a_submitted_text_stays_one(cupel):
    """What is sent to a service or to another host is the text and its shell."""
    status, out, err = cupel.call(cupel.binary, "plan", "--json", write(cupel, "command: 'echo 1'\nshell: bash\n"))
    assert status == 0, err
    assert json.loads(out)["plan"]["argv"] == ["bash", "-euo", "pipefail", "-c", "echo 1"]


PIPELINE = """
shell: sh
steps:
  all: {command: "false | cat > out/x"}
  own: {command: "true | cat > out/x", shell: bash}
  words: {command: [sh, -c, "false; true"]}
"""


def test_a_pipeline_says_it_for_all_its_steps(root):
    file = write(root, PIPELINE, "p.yaml")
    status, out, err = root.call(root.binary, "run", "--json", file)
    assert status == 0, err
    runs = {task["step"]: task["run"] for task in json.loads(out)["steps"]}
    said = {step: json.loads((root.run_dir(one) / "analysis.json").read_text()).get("shell")
            for step, one in runs.items()}
    assert said == {"all": ["/bin/sh", "-c"], "own": ["bash", "-euo", "pipefail", "-c"], "words": None}
    file.write_text(PIPELINE.replace("shell: sh", "shell: [/bin/sh, -e, -c]"))
    status, out, err = root.call(root.binary, "run", "--json", file)
    states = {task["step"]: task["state"] for task in json.loads(out)["steps"]}
    assert states["own"] == states["words"] == "reused" and states["all"] != "reused"
    again = next(task["run"] for task in json.loads(out)["steps"] if task["step"] == "all")
    assert "shell" in root.call(root.binary, "why", again)[1]


def test_a_runtime_without_bash_has_sh(root):
    """Which shell it has is seen in its files; nothing is run to find out."""
    place = root.base / "tree"
    for name in ("bin", "etc", "usr", "lib", "tmp"):
        (place / name).mkdir(parents=True)
    shutil.copy("/bin/dash", place / "bin/sh")
    for line in subprocess.check_output(["ldd", "/bin/dash"], text=True).splitlines():
        path = next((word for word in line.split() if word.startswith("/")), None)
        if path:
            to = pathlib.Path(f"{place}{path}")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), to)
    entries = root.base / "runtimes.d"
    entries.mkdir(exist_ok=True)
    (entries / "small.yaml").write_text(f"name: small\nversion: 1\nkind: rootfs\nroot: {place}\n")
    result = run(root, "runtime: small\ncommand: 'echo $nothing'\n")
    (entries / "small.yaml").unlink()
    assert record(result)["command"][:3] == ["/bin/sh", "-eu", "-c"], result.stderr
    assert result.status == 2 and "option -u" in result.verdict["completion_notes"]
