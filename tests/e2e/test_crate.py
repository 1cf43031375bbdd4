"""A run as an RO-Crate: what is in it is what was recorded, and it is what its profile asks for."""

import copy
import hashlib
import json
import os
import signal
import zipfile

import pytest

import cupel as lib
import rocrate

HOSTILE = """
import os
open("out/a b#?%.csv", "w").write("a,b\\n1,2\\n")
open(b"out/\\xff\\xfe.txt", "w").write("bytes\\n")
open('out/"><script>alert(1)<\\\\u003c.json', "w").write("{}")
os.makedirs("out/deep/er"); open("out/deep/er/file:x", "w").write("x")
open("out/\\u00e9\\u202e.txt", "w").write("x")
"""


def export(caller, run_id, *args):
    return caller.call(caller.binary, "export", run_id, *args)


def metadata(caller, run_id, *args):
    status, out, err = export(caller, run_id, "--metadata", *args)
    assert (status, err) == (0, ""), err
    return json.loads(out)


def entity(crate, name):
    return next(e for e in crate["@graph"] if e["@id"] == name)


def action(crate):
    return next(e for e in crate["@graph"] if e["@type"] == "CreateAction")


def in_directory(path):
    def read(name):
        try:
            with open(os.path.join(os.fsencode(path), name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
    return read


@pytest.fixture
def script(cupel):
    code, data = cupel.dir / "count.py", cupel.dir / "in put.csv"
    code.write_text("import shutil; shutil.copy('data/in put.csv', 'out/copy.csv'); print('done')\n")
    data.write_text("x,y\n1,2\n")
    for path in (code, data):
        cupel.own(path)
    result = cupel.run("--name", "count", "--quest", "q", "--label", "license=CC-BY-4.0",
                       "--data", data, code)
    assert result.cause == "ok"
    yield result.run_dir.name, code, data
    for path in (code, data):
        path.unlink()


def test_a_run_directory_is_a_crate_itself(cupel, script):
    """Soon after the end, by whoever delivers to the ledger: with what is there, and what it names elsewhere."""
    run_id, code, _ = script
    path = cupel.run_dir(run_id) / "ro-crate-metadata.json"
    assert lib.wait_until(path.exists)
    crate = json.loads(path.read_text(encoding="utf-8"))
    assert rocrate.check(crate) == []
    assert action(crate)["result"] == [{"@id": "outputs/out/copy.csv"}]
    assert action(crate)["instrument"] == {"@id": f"file://{code}"}
    files = {e["@id"]: e for e in crate["@graph"] if e["@type"] == "File" and "://" not in e["@id"]}
    assert set(files) > {"analysis.json", "verdict.json", "outputs/out/copy.csv"}
    for name, described in files.items():
        content = (cupel.run_dir(run_id) / name).read_bytes()
        assert described["sha256"] == hashlib.sha256(content).hexdigest(), name
    status, _, err = cupel.call(cupel.binary, "audit", "verify", run_id)
    assert status == 0, err


def test_of_a_script_is_what_the_profile_asks_for(cupel, script, tmp_path):
    run_id, code, data = script
    crate = metadata(cupel, run_id)
    assert rocrate.check(crate) == []
    run = action(crate)
    assert run["instrument"] == {"@id": "code/count.py"} and "error" not in run
    assert run["result"] == [{"@id": "outputs/out/copy.csv"}]
    assert run["object"] == [{"@id": f"file://{str(data).replace(' ', '%20')}"}]
    assert entity(crate, "./")["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    assert entity(crate, "outputs/out/copy.csv")["encodingFormat"] == "text/csv"
    memory = entity(crate, "#limit-memory")
    assert memory["value"] == str(2048 << 20) and memory["unitCode"].endswith("/BYTE")
    assert entity(crate, "#runtime")["runtimeFingerprint"]
    assert {"@id": "#env-OMP_NUM_THREADS"} in run["environment"]


def test_the_check_finds_what_is_wrong(cupel, script):
    """It is a control of the tests around it."""
    crate = metadata(cupel, script[0])

    def wrong(change):
        bad = copy.deepcopy(crate)
        change(bad)
        return rocrate.check(bad)

    assert wrong(lambda c: entity(c, "./")["hasPart"].pop(0))
    assert wrong(lambda c: entity(c, "./").pop("license"))
    assert wrong(lambda c: action(c).pop("instrument"))
    assert wrong(lambda c: action(c).update(endTime="2026-01-01T00:00:00Z"))
    assert wrong(lambda c: action(c).update(error="but it is completed"))
    assert wrong(lambda c: action(c).update(agent={"@type": "Person", "name": "nested"}))
    assert wrong(lambda c: action(c).update(noSuchTerm="x"))
    assert wrong(lambda c: entity(c, "#usage-wall_usec").pop("propertyID"))
    assert wrong(lambda c: entity(c, "code/count.py").update({"@id": "code/count .py"}))
    assert wrong(lambda c: c["@graph"].append(c["@graph"][3]))


def test_of_a_failure_says_so(cupel):
    result = cupel.run("--", "sh", "-c", "echo x > out/x; exit 3")
    crate = metadata(cupel, result.run_dir.name)
    assert rocrate.check(crate) == []
    run = action(crate)
    assert run["actionStatus"] == "http://schema.org/FailedActionStatus"
    assert run["error"] == result.verdict["completion_notes"]
    assert entity(crate, "#exit-cause")["value"] == "exit"
    assert entity(crate, "#exit-exit_code")["value"] == "3"
    assert entity(crate, "./")["license"] == {"@id": "#license"}


def test_a_directory_holds_what_was_recorded(cupel, script):
    run_id, code, data = script
    place = cupel.dir / f"{run_id}-crate"
    status, out, err = export(cupel, run_id, "--to", place, "--json")
    assert status == 0, err
    crate = json.loads((place / "ro-crate-metadata.json").read_text())
    assert crate == metadata(cupel, run_id)
    assert rocrate.check_files(crate, in_directory(place)) == []
    found = [path for path in place.rglob("*") if path.is_file()]
    told = json.loads(out)
    assert told["path"] == str(place) and told["files"] == len(found)
    assert told["bytes"] == sum(path.stat().st_size for path in found)
    assert (place / "code/count.py").read_bytes() == code.read_bytes()
    assert not (place / "data").exists(), "inputs only if they are asked for"
    (place / "outputs/out/copy.csv").unlink()
    assert rocrate.check_files(crate, in_directory(place)), "the check can fail"


def test_inputs_are_in_it_if_asked_for(cupel, script):
    run_id, _, data = script
    place = cupel.dir / f"{run_id}-with"
    assert export(cupel, run_id, "--with-inputs", "--to", place)[0] == 0
    crate = json.loads((place / "ro-crate-metadata.json").read_text())
    assert rocrate.check(crate) == []
    assert rocrate.check_files(crate, in_directory(place)) == []
    assert action(crate)["object"] == [{"@id": "data/in%20put.csv"}]
    assert (place / "data" / data.name).read_bytes() == data.read_bytes()


def test_code_that_was_changed_since_is_named_but_not_in_it(cupel, script):
    run_id, code, _ = script
    ran = hashlib.sha256(code.read_bytes()).hexdigest()
    code.write_text("print('another')\n")
    crate = metadata(cupel, run_id)
    assert rocrate.check(crate) == []
    assert action(crate)["instrument"] == {"@id": f"file://{code}"}
    assert "code/count.py" not in {e["@id"] for e in crate["@graph"]}
    assert entity(crate, f"file://{code}")["sha256"] == ran, "what was run, not what is there now"


def test_code_with_the_same_content_is_the_code_that_was_run(cupel, script):
    """Whatever its times say: a clock may have been set back, and a file written anew."""
    run_id, code, data = script
    text = code.read_text()
    code.unlink()
    code.write_text(text)
    cupel.own(code)
    crate = metadata(cupel, run_id)
    assert action(crate)["instrument"] == {"@id": "code/count.py"}
    assert entity(crate, f"file://{data}".replace(" ", "%20"))["contentSize"] == "8"


def test_a_zip_file_is_the_same_crate(cupel):
    result = cupel.run("--", "python3", "-c", HOSTILE)
    assert result.cause == "ok"
    run_id = result.run_dir.name
    first, second = cupel.dir / f"{run_id}.zip", cupel.dir / f"{run_id}-2.zip"
    assert export(cupel, run_id)[0] == 0
    assert export(cupel, run_id, "--to", second, )[0] == 0
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as file:
        assert file.testzip() is None
        names = {info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437"): info
                 for info in file.infolist()}
        crate = json.loads(file.read("ro-crate-metadata.json"))
        assert rocrate.check(crate) == []
        assert rocrate.check_files(
            crate, lambda name: file.read(names[name]) if name in names else None) == []
    assert {b"outputs/out/\xff\xfe.txt", "outputs/out/\u00e9\u202e.txt".encode()} <= set(names)
    assert len(action(crate)["result"]) == 5


def test_an_output_that_was_changed_is_not_exported(cupel, script):
    run_id, _, _ = script
    output = cupel.run_dir(run_id) / "outputs/out/copy.csv"
    output.chmod(0o644)
    output.write_text("x,y\n1,3\n")
    place = cupel.dir / f"{run_id}-bad"
    for to in (place, f"{place}.zip"):
        status, _, err = export(cupel, run_id, "--to", to)
        assert status == 125 and "copy.csv" in err and "SHA-256" in err
    assert not [p for p in cupel.dir.iterdir() if "-bad" in p.name], "nothing half-made"


@pytest.mark.parametrize("name", ["verdict.json", "stdout.log", "outputs.json"])
def test_a_record_that_was_changed_is_not_exported(cupel, script, name):
    run_id, _, _ = script
    path = cupel.run_dir(run_id) / name
    text = path.read_text()
    path.write_text(text.replace("succeeded", "was well").replace("done", "made") + " ")
    place = cupel.dir / f"{run_id}-changed"
    for words in (["--to", place], ["--metadata"]):
        status, out, err = export(cupel, run_id, *words)
        assert (status, out) == (2, "") and "was changed" in err and name in err
    assert not place.exists()
    path.write_text(text)
    assert export(cupel, run_id, "--to", place)[0] == 0


def test_nothing_is_overwritten(cupel, script):
    run_id, _, _ = script
    place = cupel.dir / f"{run_id}.zip"
    place.write_text("mine")
    status, _, err = export(cupel, run_id, "--to", place)
    assert status == 2 and "already" in err and place.read_text() == "mine"
    place.unlink()
    assert export(cupel, run_id)[0] == 0, "control"


@pytest.mark.parametrize("name", ["crate", "crate.zip"])
def test_what_is_not_its_own_is_not_removed(cupel, script, name):
    """In a directory that others write to, the name it would use on the way may be somebody's."""
    there = cupel.dir / f"shared-{cupel.new_id()}"
    there.mkdir()
    cupel.own(there)
    status, _, err = cupel.call(
        "/bin/sh", "-c", f'mkdir .new-$$-{name} && echo x > .new-$$-{name}/kept && exec "$@"', "sh",
        cupel.binary, "export", script[0], "--to", name, cwd=there)
    assert status == 125 and "File exists" in err
    assert [str(p.relative_to(there)).split("/")[1] for p in there.glob(".new-*/*")] == ["kept"]
    assert export(cupel, script[0], "--to", there / name)[0] == 0


def test_of_a_lost_run(cupel):
    process, run_id = cupel.start("--", "sleep", "1000")
    with process:
        started = cupel.run_dir(run_id) / "events.jsonl"
        assert lib.wait_until(lambda: started.exists() and "started" in started.read_text())
        status, _, err = export(cupel, run_id, "--metadata")
        assert status == 2 and "no verdict yet" in err
        keeper = json.loads(started.read_text().splitlines()[0])["data"]["keeper_pid"]
        os.kill(keeper, signal.SIGKILL)
        process.wait(60)
    crate = metadata(cupel, run_id)
    assert rocrate.check(crate) == []
    assert entity(crate, "#exit-cause")["value"] == "lost"


@pytest.mark.parametrize("args, status", [((), 2), (("a", "b"), 2), (("../x",), 2), (("none",), 2),
                                          (("none", "--to", ""), 2), (("--help",), 0)])
def test_usage(root, args, status):
    for command in ("export", "report"):
        assert root.call(root.binary, command, *args)[0] == status
