"""What is made of the record of a pipeline: show, list, the page, and the Provenance Run Crate."""

import base64
import copy
import datetime
import hashlib
import json
import os
import shutil
import signal
import subprocess
import zipfile

import pytest

import cupel as lib
import rocrate
from pages import Page, check_structure
from pipelines import Pipeline

FIGURE = r"""
import struct, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open("out/figure.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress((b"\0" + b"\xff\0\0" * 8) * 8)) + chunk(b"IEND", b""))
"""
STEPS = """
name: reads to variants
quest: q
labels: {license: CC-BY-4.0}
parameters: {quality: 20, mode: fast, deep: {a: 1}, many: [1, 2], ratio: 0.5, wanted: true}
limits: {memory: 64M, time: 1m}
steps:
  index:
    code: index.py
    inputs: [ref.fa]
    outputs: [{path: "out/index.bin", required: true}]
  align:
    scatter: {sample: [s1, s2, s3]}
    inputs: [{step: index, path: out/index.bin}]
    command: "cp data/index.bin out/{{sample}}.sam; [ {{sample}} != s2 ] || head -c 48M /dev/zero | tail -c 40M | wc -c"
    parameters: {quality: 30}
    limits: {memory: 24M}
    retries: {oom: {times: 2, factor: 4, max: 256M}}
  merge:
    inputs: [{step: align, path: "out/*.sam"}, {step: index, name: whole}]
    command: "cat data/align/*/out/*.sam data/whole/out/index.bin > out/all.sam; printf 'x,y\\n1,2\\n' > out/t.csv"
  figure:
    inputs: [{step: merge, path: out/all.sam}]
    code: figure.py
  publish:
    inputs: [{step: figure, path: out/figure.png}]
    command: "echo 'the server said no' >&2; exit STATUS"
  thanks:
    needs: [publish]
    command: "echo thanks > out/thanks.txt"
"""
HOSTILE = '</title></pre><script>document.title="owned"</script><img src=x onerror=void(0)>\'"&'


def write(caller, name, text):
    path = caller.dir / name
    path.write_text(text, encoding="utf-8")
    caller.own(path)
    return path


def ask(caller, *words, status=0):
    got, out, err = caller.call(caller.binary, *words)
    assert got == status, err
    return out


def ask_json(caller, *words):
    return json.loads(ask(caller, *words, "--json"))


def refused(caller, *words, status=2):
    got, out, err = caller.call(caller.binary, *words)
    assert (got, out) == (status, ""), err
    return err


@pytest.fixture
def made(root):
    """One that failed, and one that then succeeded and reuses what the first had done; for all tests of this file."""
    if not hasattr(root, "pipelines"):
        write(root, "index.py", "import shutil; shutil.copy('data/ref.fa', 'out/index.bin')\n")
        write(root, "figure.py", FIGURE)
        write(root, "ref.fa", ">a\nACGT\n" * 10)
        ids = {}
        for name, status in (("failed", 3), ("ok", 0)):
            file = write(root, "steps.yaml", STEPS.replace("STATUS", str(status)))
            ids[name] = f"{root.new_id()}-{name}"
            got, _, err = root.call(root.binary, "run", "--id", ids[name], file)
            assert got == status, err
        root.pipelines = ids
    return root.pipelines


@pytest.fixture
def crates(root, made):
    if not hasattr(root, "crates"):
        root.crates = {name: json.loads(ask(root, "export", made[name], "--metadata")) for name in made}
    return copy.deepcopy(root.crates)


def entity(crate, name):
    return next(e for e in crate["@graph"] if e["@id"] == name)


def of_type(crate, kind):
    return [e for e in crate["@graph"] if kind in rocrate.as_list(e["@type"])]


def refs(thing, key):
    return [ref["@id"] for ref in rocrate.as_list(thing.get(key, []))]


# cupel show, cupel list --pipelines.

def test_show_tells_what_became_of_each_step(root, made):
    shown = ask_json(root, "show", made["ok"])
    assert (shown["kind"], shown["state"], shown["name"]) == ("pipeline", "ok", "reads to variants")
    assert shown["counts"]["total"] == 8 and shown["counts"]["reused"] == 6 and shown["counts"]["ok"] == 2
    steps = {step["name"]: step for step in shown["steps"]}
    assert steps["align"]["scattered"] and steps["align"]["needs"] == ["index"]
    assert [t["shard"] for t in steps["align"]["tasks"]] == ["s1", "s2", "s3"]
    assert all(t["run"].startswith(made["failed"]) for t in steps["align"]["tasks"]), "those of the first"
    assert steps["publish"]["tasks"][0]["why"] == "command changed"
    assert {t["why"] for t in steps["align"]["tasks"]} == {"nothing that it depends on changed"}
    text = ask(root, "show", made["ok"])
    assert "8 of 8 done: 2 ok, 6 reused" in text and "3 reused" in text
    assert ask_json(root, "show", steps["index"]["tasks"][0]["run"])["cause"] == "ok", "a run still is one"


def test_show_says_what_failed_and_where_its_log_is(root, made):
    shown = ask_json(root, "show", made["failed"])
    assert shown["state"] == "failed"
    (failed,) = shown["failed"]
    assert (failed["step"], failed["cause"]) == ("publish", "exit") and "status 3" in failed["notes"]
    with open(failed["log"], encoding="utf-8") as log:
        assert log.read() == "the server said no\n"
    attempts = [t for s in shown["steps"] for t in s["tasks"] if t["shard"] == "s2"][0]["attempts"]
    assert [a["cause"] for a in attempts] == ["oom", "ok"] and all(a["started"] for a in attempts)
    text = ask(root, "show", made["failed"])
    assert f"log      {failed['log']}" in text and "publish: exit" in text and "1 skipped" in text


def test_show_of_one_that_goes_on_and_of_one_that_was_killed(root):
    file = write(root, "wait.yaml", "steps:\n  first: {command: 'echo x > out/x'}\n"
                                    "  second: {needs: [first], command: 'sleep 1000'}\n")
    name = root.new_id()
    with root.popen(root.binary, "run", "--quiet", "--id", name, file) as process:
        events = root.home / "pipelines" / name / "steps.jsonl"
        assert lib.wait_until(lambda: events.exists() and '"second"' in events.read_text())
        shown = ask_json(root, "show", name)
        assert shown["state"] == "running" and "ended" not in shown
        assert [s["tasks"][0]["state"] for s in shown["steps"]] == ["ok", "running"]
        assert "1 of 2 done: 1 ok, 1 running" in ask(root, "show", name)
        assert "no result yet" in refused(root, "export", name)
        page = ask(root, "report", name, "--to", "-")
        assert '<span class="badge">running' in page and "no result yet" in page
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    assert lib.wait_until(lambda: not root.groups())
    assert ask_json(root, "show", name)["state"] == "lost?"
    assert f"cupel resume {name}" in ask(root, "show", name)


def test_a_pipeline_that_is_taken_for_a_run_is_called_one(root, made):
    for command in (["logs"], ["rerun"]):
        err = refused(root, *command, made["failed"])
        assert "is a pipeline" in err and f"cupel show {made['failed']}" in err
        assert "there is no run" in refused(root, *command, "none")


def test_an_attempt_that_was_killed_does_not_go_on_for_ever(root):
    """Whoever should have noted its end was killed too: its own record tells."""
    pipeline = Pipeline(root, {"a": {}})
    first, lost = f"{pipeline.id}-a-x1", f"{pipeline.id}-a-x2"
    root.run("--", "false", id=first)
    pipeline.event("a", None, "started", run=first)
    pipeline.event("a", None, "started", run=lost)
    pipeline.run("a", "--", "true")
    pipeline.finish()
    attempts = ask_json(root, "show", pipeline.id)["steps"][0]["tasks"][0]["attempts"]
    assert [a["cause"] for a in attempts] == ["exit", "lost", "ok"]
    page = ask(root, "report", pipeline.id, "--to", "-")
    assert ">running<" not in page and ">lost<" in page


def test_a_result_that_was_gone_on_from_is_none(root):
    """Whoever resumes a pipeline leaves the result of the time before until it has another."""
    pipeline = Pipeline(root, {"a": {}})
    pipeline.run("a", "--", "false")
    pipeline.finish()
    assert ask_json(root, "show", pipeline.id)["state"] == "failed"
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=5)
    pipeline.event("a", None, "started", run=f"{pipeline.id}-a-0-2",
                   time=later.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
    assert ask_json(root, "show", pipeline.id)["state"] == "lost?"


def test_list_of_pipelines(fresh):
    fresh.configure()
    assert ask_json(fresh, "list", "--pipelines") == []
    made = [Pipeline(fresh, {"a": {}, "b": {"needs": ["a"]}}, name=f"n{i}") for i in range(3)]
    made[0].run("a", "--", "true")
    made[0].run("b", "--", "true")
    made[0].finish()
    made[2].dir.joinpath("pipeline.json").write_text("{")
    told = {p["id"]: p for p in ask_json(fresh, "list", "--pipelines")}
    assert [told[p.id]["state"] for p in made] == ["ok", "lost?", "unreadable"]
    assert (told[made[0].id]["done"], told[made[0].id]["total"], told[made[0].id]["name"]) == (2, 2, "n0")
    assert "pipeline.json" in told[made[2].id]["error"]
    table = ask(fresh, "list", "--pipelines").splitlines()
    assert table[0].split() == ["PIPELINE", "STATE", "DONE", "STARTED", "TIME", "NAME"]
    assert ["2/2"] == [line.split()[2] for line in table if line.split()[0] == made[0].id]
    ids = [p["id"] for p in ask_json(fresh, "list", "--pipelines")]
    assert ids[2] == made[2].id, "nothing says when it was made"
    assert [told[run]["created"] for run in ids[:2]] == sorted((told[run]["created"] for run in ids[:2]), reverse=True)
    assert [p["id"] for p in ask_json(fresh, "list", "--pipelines", "--limit", "2")] == ids[:2]
    assert [p["id"] for p in ask_json(fresh, "list", "--pipelines", "--after", ids[1])] == ids[2:]
    assert [p["id"] for p in ask_json(fresh, "list", "--pipelines", "--reverse", "-n", "1")] == ids[2:]
    assert "no pipeline 'nosuch' to go on after" in refused(fresh, "list", "--pipelines", "--after", "nosuch")
    assert "--pipelines goes with" in refused(fresh, "list", "--pipelines", "--cause", "ok")


# A record that somebody has written.

@pytest.mark.parametrize("name, text", [("pipeline.json", "[]"), ("pipeline.json", '{"steps": []}'),
                                        ("pipeline.json", "{"), ("result.json", "{")])
def test_a_damaged_record_is_refused(root, name, text):
    pipeline = Pipeline(root, {"a": {}}).finish()
    assert ask(root, "show", pipeline.id), "control"
    pipeline.dir.joinpath(name).write_text(text)
    for command in ("show", "report", "export"):
        status, out, err = root.call(root.binary, command, pipeline.id)
        assert status in (2, 125) and out == "" and "pipeline" in err, command


def test_names_of_runs_lead_nowhere_else(root):
    """A record may name any run; what is no id is none, and nothing outside of the runs is read."""
    secret = root.home / "runs" / ".." / "secret"
    secret.resolve().mkdir(exist_ok=True)
    (secret / "stderr.log").write_text("the secret\n")
    (secret / "verdict.json").write_text('{"completion_notes": "the secret"}')
    pipeline = Pipeline(root, {"a": {}, "b": {}, "ring": {"needs": ["ring", "b"]}})
    for i, run in enumerate(("../secret", f"{root.home}/secret", "x/../../secret", "..", "", 7, None)):
        pipeline.event("a", None, "started", run=run, attempt=i, key=3, parts=[1])
        pipeline.event("a", None, "ended", run=run, cause=["x"], wall_ms="1", memory_peak_bytes=-5)
        pipeline.event("none", None, "started", run="x")
    pipeline.note("a", None, "failed", "../secret", "exit", ["../secret", "..", 9])
    pipeline.note("b", "no shard of it", "no-such-state", ["x"])
    pipeline.tasks["odd"] = {"step": "b", "shard": {"x": 1}, "state": 7, "attempts": "x"}
    with open(pipeline.dir / "steps.jsonl", "ab") as file:
        file.write(b'\n[]\n{"step": "a", \xff}\n{"step": 7}\n{"step": "b", "event": "ended"')
    pipeline.finish()
    for words in (["show", pipeline.id], ["show", "--json", pipeline.id],
                  ["report", pipeline.id, "--to", "-"], ["export", pipeline.id, "--metadata"]):
        assert "secret" not in ask(root, *words).replace("/secret", ""), words
    assert rocrate.check_provenance(json.loads(ask(root, "export", pipeline.id, "--metadata"))) == []
    shutil.rmtree(secret.resolve())


# The Provenance Run Crate.

def without(kind, key, where=lambda e: True):
    """Takes a property from the first entity of that kind that has it."""
    def change(crate):
        next(e for e in of_type(crate, kind) if key in e and where(e)).pop(key)
    return change


def instead(kind, key, value):
    def change(crate):
        next(e for e in of_type(crate, kind) if key in e)[key] = value
    return change


# What makes each MUST not hold: a check that finds none of these is none.
BREAKS = {
    "must_root_conforms_to_the_versioned_profiles": lambda c: entity(c, "./")["conformsTo"].pop(2),
    "must_main_entity_is_a_workflow_of_these_types": lambda c: of_type(c, "HowTo")[0]["@type"].remove("HowTo"),
    "must_workflow_has_a_language": without("ComputationalWorkflow", "programmingLanguage"),
    "must_workflow_has_its_tools_as_parts": without("ComputationalWorkflow", "hasPart"),
    "must_run_of_the_workflow_is_an_action":
        lambda c: next(e for e in of_type(c, "CreateAction") if e["@id"].startswith("#pipeline/")).update(
            instrument={"@id": "#tool/merge"}),
    "must_runs_of_tools_are_actions_with_tools_of_the_workflow":
        lambda c: next(e for e in of_type(c, "CreateAction") if "#run/" in e["@id"]).update(
            instrument={"@id": "#cupel"}),
    "must_steps_are_named_by_the_workflow_and_name_their_tool": without("HowToStep", "workExample"),
    "must_positions_grow_with_what_a_step_needs": lambda c: entity(c, "#step/merge").update(position="0"),
    "must_control_actions_name_step_and_runs": without("ControlAction", "object"),
    "must_engine_organizes_steps_into_the_run": lambda c: of_type(c, "OrganizeAction")[0]["object"].pop(),
    "must_formal_parameters_have_an_additional_type": without("FormalParameter", "additionalType"),
    "must_what_fills_a_slot_fills_one_of_a_tool_or_workflow":
        instead("File", "exampleOfWork", [{"@id": "#tool/merge"}]),
    "must_connections_join_two_parameters": without("ParameterConnection", "targetParameter"),
    "must_usage_has_a_property_id":
        without("PropertyValue", "propertyID", lambda e: e["@id"].startswith("#usage-")),
    "must_not_have_an_error_and_not_have_failed":
        lambda c: of_type(c, "ControlAction")[0].update(error="but it did well"),
}


@pytest.mark.parametrize("must", rocrate.PROVENANCE_MUSTS, ids=lambda must: must.__name__)
def test_provenance_run_crate_0_5(crates, must):
    assert rocrate.check_must(crates["ok"], must) == []
    assert rocrate.check_must(crates["failed"], must) == []
    BREAKS[must.__name__](crates["ok"])
    assert rocrate.check_must(crates["ok"], must), "the check can fail"


@pytest.mark.parametrize("name", ["ok", "failed"])
def test_is_a_process_run_crate_too(crates, name):
    assert rocrate.check(crates[name]) == []


def test_the_crate_says_what_was_run_on_what(root, made, crates):
    crate = crates["ok"]
    run = entity(crate, f"#pipeline/{made['ok']}")
    assert run["actionStatus"].endswith("/CompletedActionStatus")
    values = {entity(crate, name)["name"]: entity(crate, name) for name in refs(run, "object")}
    assert values["quality"]["value"] == "20" and values["mode"]["value"] == "fast"
    kinds = {key: entity(crate, refs(values[key], "exampleOfWork")[0])["additionalType"] for key in values}
    assert kinds == {"quality": "Integer", "mode": "Text", "deep": "PropertyValue", "many": "Text",
                     "ratio": "Float", "wanted": "Boolean", "ref.fa": "File"}
    results = [name.rpartition("/")[2] for name in refs(run, "result")]
    assert sorted(results) == ["t.csv", "thanks.txt"], "what no step took"
    merge = next(a for a in of_type(crate, "CreateAction") if refs(a, "instrument") == ["#tool/merge"])
    assert sorted(name.rpartition("/")[2] for name in refs(merge, "object") if "#" not in name) == [
        "index.bin", "s1.sam", "s2.sam", "s3.sam"], "the very files that other steps made"
    assert all(name in refs(merge, "object") or entity(crate, name)["@type"] == "File"
               for name in refs(merge, "object"))
    assert {entity(crate, name)["name"] for name in refs(entity(crate, "#tool/merge"), "input")} >= {
        "data/align", "data/whole"}
    assert entity(crate, refs(entity(crate, "#tool/index"), "mainEntity")[0])["name"] == "index.py"
    assert entity(crate, "./")["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    assert entity(crate, "#cupel")["softwareVersion"]


def test_the_crate_has_every_attempt_and_whence_it_was_reused(made, crates):
    control = entity(crates["failed"], "#control/align/s2")
    attempts = [entity(crates["failed"], name) for name in refs(control, "object")]
    assert [a["actionStatus"].rpartition("/")[2] for a in attempts] == [
        "FailedActionStatus", "CompletedActionStatus"]
    assert "memory" in attempts[0]["error"] and "error" not in control
    memory = [[entity(crates["failed"], name)["value"] for name in refs(a, "limit")
               if "#limit-memory/" in name] for a in attempts]
    assert memory == [[str(24 << 20)], [str(96 << 20)]]
    for action in attempts:
        used = {entity(crates["failed"], name)["name"] for name in refs(action, "resourceUsage")}
        assert {"wall time", "cpu time", "peak memory"} <= used
        keys = {entity(crates["failed"], name)["name"] for name in refs(action, "taskKey")}
        assert {"key", "command", "input data/index.bin"} <= keys
    again = entity(crates["ok"], "#control/align/s2")
    assert again["stepState"] == "reused"
    assert refs(again, "object") == [attempts[1]["@id"]], "the one whose outputs were used"


def test_an_attempt_that_saved_its_state_is_neither_a_success_nor_a_failed_step(root):
    """provenance/0.5: what has no actionStatus counts as completed, which it was not."""
    file = write(root, "saves.yaml", "steps:\n  train:\n    checkpoint: ckpt\n    checkpoint_exit_code: 85\n"
                 "    command: 'if [ -e ckpt/n ]; then echo x > out/x; else echo 1 > ckpt/n; exit 85; fi'\n")
    name = root.new_id()
    ask(root, "run", "--quiet", "--id", name, file)
    attempts = ask_json(root, "show", name)["steps"][0]["tasks"][0]["attempts"]
    assert [a["cause"] for a in attempts] == ["checkpointed", "ok"]
    crate = json.loads(ask(root, "export", name, "--metadata"))
    assert rocrate.check_provenance(crate) == []
    first, second = (entity(crate, ref) for ref in refs(entity(crate, "#control/train"), "object"))
    assert first["actionStatus"].endswith("/FailedActionStatus") and "saved its state" in first["error"]
    assert second["actionStatus"].endswith("/CompletedActionStatus")
    assert entity(crate, "#control/train")["stepState"] == "ok"
    assert '<span class="state waiting">checkpointed' in report(root, name)


def test_a_failure_is_in_the_crate_as_one(made, crates):
    crate = crates["failed"]
    run = entity(crate, f"#pipeline/{made['failed']}")
    assert run["actionStatus"].endswith("/FailedActionStatus") and run["error"] == "publish: exit"
    assert of_type(crate, "OrganizeAction")[0]["actionStatus"] == run["actionStatus"]
    assert entity(crate, "#control/publish")["error"] == "exit"
    assert entity(crate, "#step/thanks") and "#control/thanks" not in {e["@id"] for e in crate["@graph"]}
    logs = [e for e in of_type(crate, "File") if e["@id"].endswith("-publish-1/stderr.log")]
    assert logs[0]["contentSize"] == "19" and refs(logs[0], "about")


def in_directory(path):
    def read(name):
        try:
            with open(os.path.join(os.fsencode(path), name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
    return read


def test_the_files_are_those_that_were_recorded(root, made, crates):
    place = root.dir / f"{made['ok']}-crate"
    told = ask_json(root, "export", made["ok"], "--with-inputs", "--to", place)
    crate = json.loads((place / "ro-crate-metadata.json").read_text())
    assert rocrate.check_provenance(crate) == []
    assert rocrate.check_files(crate, in_directory(place)) == []
    found = [path for path in place.rglob("*") if path.is_file()]
    assert told["files"] == len(found) and told["bytes"] == sum(p.stat().st_size for p in found)
    assert (place / "workflow/pipeline.yaml").read_text() == STEPS.replace("STATUS", "0")
    assert (place / "data/ref.fa").exists() and (place / "code/index.py").exists()
    assert (place / "pipeline/result.json").exists()
    assert [p.name for p in place.glob("runs/*-figure-1/outputs/out/*")] == ["figure.png"]
    shutil.rmtree(place)
    first, second = root.dir / "a.zip", root.dir / "b.zip"
    for zipped in (first, second):
        ask(root, "export", made["ok"], "--to", zipped)
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as file:
        assert file.testzip() is None
        assert json.loads(file.read("ro-crate-metadata.json")) == crates["ok"]
    first.unlink()
    second.unlink()


def test_the_file_in_the_crate_is_the_one_that_was_run(made, crates):
    """It was edited between the two."""
    digests = [of_type(crates[name], "ComputationalWorkflow")[0]["sha256"] for name in ("failed", "ok")]
    assert digests == [hashlib.sha256(STEPS.replace("STATUS", text).encode()).hexdigest() for text in "30"]


def test_hostile_names_and_scripts_of_one_name(cupel):
    for name in ("one", "two"):
        (cupel.dir / name).mkdir(exist_ok=True)
        write(cupel, f"{name}/run.py", f"open(b'out/{name} \\xff#?%.txt', 'w').write('{name}')\n")
    pipeline = Pipeline(cupel, {"one": {}, HOSTILE: {"needs": ["one"], "shards": ["../../x", HOSTILE]}},
                        name=HOSTILE)
    assert pipeline.run("one", cupel.dir / "one/run.py").cause == "ok"
    for i, shard in enumerate(("../../x", HOSTILE)):
        result = cupel.run(cupel.dir / "two/run.py")
        pipeline.event(HOSTILE, shard, "started", run=result.run_dir.name, attempt=1, parts={HOSTILE: HOSTILE})
        pipeline.note(HOSTILE, shard, "ok", result.run_dir.name, "ok", [result.run_dir.name], key=HOSTILE)
    pipeline.finish()
    place = cupel.dir / f"{pipeline.id}-crate"
    ask(cupel, "export", pipeline.id, "--to", place)
    crate = json.loads((place / "ro-crate-metadata.json").read_text())
    assert rocrate.check_provenance(crate) == []
    assert rocrate.check_files(crate, in_directory(place)) == []
    scripts = sorted(path.read_text() for path in place.glob("code/**/run.py"))
    assert len(scripts) == 2 and scripts[0] != scripts[1], "each once, and beside each other"
    text = (place / "ro-crate-preview.html").read_text()
    data = text.split('<script type="application/ld+json">')[1].split("</script>")[0]
    assert json.loads(data) == crate and text.count("<script") == 1
    shutil.rmtree(place)


def test_what_was_changed_is_not_exported_and_what_is_gone_is_named(root):
    pipeline = Pipeline(root, {"a": {}, "b": {}})
    a, b = (pipeline.run(step, "--", "sh", "-c", "echo x > out/x") for step in "ab")
    pipeline.finish()
    place = root.dir / f"{pipeline.id}-crate"
    output = a.run_dir / "outputs/out/x"
    output.chmod(0o644)
    output.write_text("y\n")
    assert "SHA-256" in refused(root, "export", pipeline.id, "--to", place, status=125)
    output.write_text("x\n")
    verdict = (a.run_dir / "verdict.json").read_text()
    (a.run_dir / "verdict.json").write_text(verdict.replace("succeeded", "was well"))
    assert "was changed" in refused(root, "export", pipeline.id, "--to", place)
    (a.run_dir / "verdict.json").write_text(verdict)
    analysis = (a.run_dir / "analysis.json").read_text()
    (a.run_dir / "analysis.json").write_text("{")
    assert "whose record can't be read" in ask(root, "report", pipeline.id, "--to", "-")
    assert "analysis.json" in refused(root, "export", pipeline.id, "--to", place)
    (a.run_dir / "analysis.json").write_text(analysis)
    shutil.rmtree(b.run_dir)
    assert not place.exists()
    ask(root, "export", pipeline.id, "--to", place)
    crate = json.loads((place / "ro-crate-metadata.json").read_text())
    assert rocrate.check_provenance(crate) == []
    assert "not there any more" in entity(crate, f"#run/{b.run_dir.name}")["description"]
    assert "whose record can't be read" in ask(root, "report", pipeline.id, "--to", "-")
    shutil.rmtree(place)


# The page.

def report(caller, name):
    return ask(caller, "report", name, "--to", "-")


def test_the_page_tells_all_of_it(root, made):
    text = report(root, made["failed"])
    page = Page(text)
    check_structure(page)
    assert "6 of 8 done" in page.text and "6 ok, 1 failed, 1 skipped" in page.text
    assert "the server said no" in page.text and "status 3" in page.text, "log and notes of the failure"
    assert "a step it needs did not succeed" in page.text
    assert "24.0 MiB of 24.0 MiB" in page.text, "memory against the limit of that attempt"
    assert "out/s1.sam 80 B" in page.text and "out/t.csv" in page.text
    assert "96.0 MiB" in page.text and "quality: 20" in page.text
    assert text.count('<g><title>') == 6 and text.count('class="edge"') >= 6
    assert sum(name == "src" for _, name, _ in page.attributes) == 1, "the figure"
    targets = {value for tag, name, value in page.attributes if name == "id"}
    assert {value[1:] for _, name, value in page.attributes if name == "href"} <= targets
    assert "command changed" in Page(report(root, made["ok"])).text
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert page.policy == (f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
                           "base-uri 'none'; form-action 'none'")


def test_hostile_words_stay_words(root):
    pipeline = Pipeline(root, {HOSTILE: {"summary": HOSTILE, "runtime": HOSTILE, "shards": [HOSTILE]},
                               "next": {"needs": [HOSTILE]}},
                        name=HOSTILE, labels={HOSTILE: HOSTILE}, parameters={HOSTILE: HOSTILE}, quest=HOSTILE)
    pipeline.event(HOSTILE, HOSTILE, "ended", run="x", cause=HOSTILE, error=HOSTILE, key=HOSTILE)
    pipeline.note(HOSTILE, HOSTILE, "failed", None, HOSTILE, key=HOSTILE)
    pipeline.finish()
    page = Page(report(root, pipeline.id))
    check_structure(page)
    assert page.text.count(HOSTILE) >= 5


def synthetic(caller, steps):
    """A record alone, without the runs that it names."""
    pipeline = Pipeline(caller, steps)
    lines = []
    for name, said in steps.items():
        for i, shard in enumerate(said.get("shards", [None])):
            run = f"{pipeline.id}-{name}-{i}-1"
            cause = "oom" if i % 500 == 499 else "ok"
            for event, at in (("started", i), ("ended", i + 3)):
                time = datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=at)
                lines.append({"time": time.isoformat() + ".000Z", "step": name, "shard": shard,
                              "event": event, "run": run, "cause": cause, "wall_ms": 3000})
            pipeline.note(name, shard, "ok" if cause == "ok" else "failed", run, cause, [run])
    (pipeline.dir / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return pipeline.finish()


def test_ten_thousand_shards_are_a_page_that_can_be_shown(root):
    steps = {"split": {}, "map": {"needs": ["split"], "shards": [f"shard {i}" for i in range(10000)]},
             "reduce": {"needs": ["map"]}}
    pipeline = synthetic(root, steps)
    page = report(root, pipeline.id)
    check_structure(Page(page))
    assert len(page) < 2 << 20
    assert "9980 ok, 20 failed" in page and "and 9988 more shards" in page and "and 10 more" in page
    assert page.count("oom</span>") == 12, "those that failed are told first"
    assert len(ask_json(root, "show", pipeline.id)["steps"][1]["tasks"]) == 10000
    assert len(ask(root, "show", pipeline.id).splitlines()) < 100
    crate = json.loads(ask(root, "export", pipeline.id, "--metadata"))
    assert rocrate.check_provenance(crate) == [] and len(of_type(crate, "ControlAction")) == 10002


def test_of_too_many_steps_the_table_is_left(root):
    steps = {f"s{i}": {"needs": [f"s{i - 1}"] if i else []} for i in range(600)}
    page = report(root, synthetic(root, steps).id)
    check_structure(Page(page))
    assert "600 steps are too many to draw" in page and "and 100 more steps" in page


def chromium(page, *args):
    program = shutil.which("chromium")
    if not program:
        pytest.skip("chromium: not installed")
    return subprocess.run(
        [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--disable-background-networking", f"--user-data-dir={page.parent}/profile", *args, page.as_uri()],
        capture_output=True, text=True, check=True, timeout=120 * lib.SLOW).stdout


def test_a_browser_runs_nothing_of_it(root, tmp_path):
    pipeline = Pipeline(root, {HOSTILE: {"summary": HOSTILE}}, name=HOSTILE)
    pipeline.skip(HOSTILE)
    pipeline.finish()
    page = tmp_path / "page.html"
    page.write_text(report(root, pipeline.id))
    assert f"<title>pipeline {pipeline.id}: ok</title>" in chromium(page, "--dump-dom")
    page.write_text(f"<!DOCTYPE html><title>a</title><body>{HOSTILE}")
    assert "<title>owned</title>" in chromium(page, "--dump-dom"), "control"
