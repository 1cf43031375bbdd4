"""Keys with real runs: what was done is found again, and only while it is what it was."""

import json
import os

import pytest

import cupel as lib

PROGRAM = lib.BUILD / "tests/e2e/keyed-run"
ANALYSIS = """\
name: sorted
runtime: base
code: sort.sh
inputs: [reads]
outputs: [{path: out/sorted, required: true}]
"""


class Keyed:
    def __init__(self, caller):
        self.caller = caller
        self.dir = caller.dir / "keyed"
        self.dir.mkdir(mode=0o755)
        self.file = self.put("analysis.yaml", ANALYSIS)
        self.put("sort.sh", "sort data/reads > out/sorted\n")
        self.put("reads", "b\na\n")

    def put(self, name, text):
        path = self.dir / name
        path.write_text(text)
        path.chmod(0o644)
        if self.caller.uid:
            os.chown(path, self.caller.uid, self.caller.uid)
        return path

    def run(self, *words, env=None):
        status, out, err = self.caller.call(PROGRAM, self.file, *words, env=env)
        assert status == 0, err
        return json.loads(out)

    def output(self, run_id):
        return self.caller.run_dir(run_id) / "outputs/out/sorted"


@pytest.fixture
def keyed(fresh):
    return Keyed(fresh)


def changed(one, other):
    names = one["parts"].keys() | other["parts"].keys()
    return sorted(n for n in names if one["parts"].get(n) != other["parts"].get(n))


def test_done_once(keyed):
    first = keyed.run()
    assert (first["reused"], first["put"], first["status"]) == (False, "ok", 0)
    record = json.loads((keyed.caller.run_dir(first["run"]) / "analysis.json").read_text())
    assert record["key"] == {"sha256": first["key"], "parts": first["parts"]}
    again = keyed.run()
    assert again["reused"] and again["run"] == first["run"] and again["key"] == first["key"]
    assert keyed.output(again["run"]).read_text() == "a\nb\n"
    entry = keyed.caller.home / "keys" / first["key"][:2] / first["key"][2:]
    assert entry.stat().st_mode & 0o7777 == 0o600
    contents = list((keyed.caller.home / "runtimes/base").glob("content-*.json"))
    assert len(contents) == 1 and json.loads(contents[0].read_text())["content"]


@pytest.mark.parametrize("name, text, part", [
    ("sort.sh", "sort -r data/reads > out/sorted\n", "code sort.sh"),
    ("reads", "b\nc\n", "input data/reads"),
    ("analysis.yaml", ANALYSIS + "args: [x]\n", "args"),
    ("analysis.yaml", ANALYSIS + "env: {X: 'y'}\n", "env X"),
    ("analysis.yaml", ANALYSIS + "parameters: {q: 1}\n", "parameter q"),
])
def test_what_it_depends_on_means_another_run(keyed, name, text, part):
    first = keyed.run()
    keyed.put(name, text)
    second = keyed.run()
    assert not second["reused"] and second["run"] != first["run"] and second["put"] == "ok"
    assert changed(first, second) == [part]
    assert keyed.run()["run"] == second["run"]


def test_what_it_does_not_depend_on_means_none(keyed):
    first = keyed.run()
    os.utime(keyed.dir / "reads", (1, 1))
    keyed.put("analysis.yaml", ANALYSIS.replace("sorted\n", "other words\n", 1) + "limits: {memory: 300M}\n")
    assert keyed.run(env={"UNASKED": "1"})["run"] == first["run"]
    keyed.dir = keyed.dir.rename(keyed.dir.parent / "elsewhere")
    keyed.file = keyed.dir / "analysis.yaml"
    assert keyed.run()["run"] == first["run"]


def test_a_damaged_output_means_another_run(keyed):
    first = keyed.run()
    output = keyed.output(first["run"])
    before = output.stat()
    output.chmod(0o644)
    output.write_text("a\nB\n")
    os.utime(output, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = keyed.run()
    assert not second["reused"] and second["why"] == "output out/sorted is damaged"
    assert keyed.output(second["run"]).read_text() == "a\nb\n"
    assert keyed.run()["run"] == second["run"]


def test_a_failed_run_stands_for_nothing(keyed):
    keyed.put("sort.sh", "sort data/reads > out/sorted; exit 3\n")
    first = keyed.run()
    assert first["status"] == 3 and "cause is not ok" in first["put"]
    assert not keyed.run()["reused"]


@pytest.mark.parametrize("name, word", [("reads", "an input"), ("sort.sh", "its code")])
def test_what_changed_before_the_run_began_is_not_put(keyed, name, word):
    """Else the old key would have the result of the new content."""
    result = keyed.run(keyed.dir / name)
    assert not result["reused"] and result["status"] == 0 and word in result["put"]
    assert not list((keyed.caller.home / "keys").glob("*/*"))
    assert not keyed.run()["reused"]
