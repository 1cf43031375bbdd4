"""The same analysis again: from its record, refused if it would not be the same, and compared."""

import json
import shutil
import subprocess

import pytest

import cupel as lib

CODE = """
import json, sys
x = len(open("data/in.txt").read())
y = x + DRIFT
open("out/t.csv", "w").write(f'name,"a, b"\\nk,{y}\\n')
open("out/t.tsv", "w").write(f'name\\tv\\nk\\t{y}\\n')
json.dump({"a": [1, {"b": y}]}, open("out/j.json", "w"))
open("out/raw", "w").write("const\\n" * 3 + str(y))
print(sys.argv[1:])
"""


@pytest.fixture
def first(cupel):
    def make(drift="0", *words):
        (cupel.dir / "in.txt").write_text("12345", encoding="utf-8")
        script = cupel.dir / "a.py"
        script.write_text(CODE.replace("DRIFT", drift), encoding="utf-8")
        result = cupel.run("--data", cupel.dir / "in.txt", "--memory", "96M", "--quest", "q",
                           "--env", "K=v", *words, script, "one", "two words")
        assert result.status == 0, result.stderr
        return result.run_dir.name
    return make


def rerun(caller, *words):
    return caller.call(caller.binary, "rerun", *words)


UNSTABLE = "__import__('time').time_ns()"


def test_the_same_again(cupel, first):
    run = first()
    status, out, err = rerun(cupel, "--id", f"{run}-again", run)
    assert (status, out) == (0, "['one', 'two words']\n"), err
    records = [json.loads((cupel.run_dir(name) / "analysis.json").read_text())
               for name in (run, f"{run}-again")]
    assert records[1].pop("rerun_of") == run
    for record in records:
        for own in ("id", "work_dir"):
            record.pop(own)
        record["runtime"].pop("selection")
        record["runtime"].pop("rule")
        record["limits"] = {key: one["raw"] for key, one in record["limits"].items()}
    assert records[0] == records[1]


def test_it_is_delivered_like_any_other_run(cupel, first):
    run = first()
    assert rerun(cupel, "--verify", "--id", f"{run}-again", run)[0] == 0
    assert lib.wait_until(lambda: not (cupel.home / "undelivered" / f"{run}-again").exists())
    assert (cupel.run_dir(f"{run}-again") / "ro-crate-metadata.json").exists()


def test_verify(cupel, first):
    run = first()
    status, out, err = rerun(cupel, "--verify", run)
    assert status == 0 and "4 the same, 0 different" in out, err
    result = json.loads(rerun(cupel, "--verify", "--json", run)[1])
    assert (result["rerun_of"], result["equal"], result["outputs"]["same"]) == (run, True, 4)
    assert result["verdict"]["cause"] == "ok"


def test_verify_says_where_it_differs(cupel, first):
    run = first(UNSTABLE)
    status, out, err = rerun(cupel, "--verify", "--json", run)
    assert status == 1, err
    result = json.loads(out)
    found = {one["path"]: one["detail"] for one in result["outputs"]["differences"]}
    assert result["equal"] is False and set(found) == {
        "out/j.json", "out/raw", "out/t.csv", "out/t.tsv"}
    assert found["out/t.csv"].startswith("row 2, column 2 ('a, b'): '")
    assert found["out/t.tsv"].startswith("row 2, column 2 ('v'): '")
    assert found["out/j.json"].startswith("'a[1].b': '")
    assert "line 4" in found["out/raw"]


def test_verify_within_a_tolerance(cupel, first):
    """Numbers that are near; the control is a tolerance that they are not within. What is no table stays different."""
    run = first(UNSTABLE)
    result = json.loads(rerun(cupel, "--verify", "--json", "--tolerance", "1e-3", run)[1])
    assert result["outputs"]["near"] == 3 and result["equal"] is False
    result = json.loads(rerun(cupel, "--verify", "--json", "--tolerance", "0,1e-9", run)[1])
    assert result["outputs"]["near"] == 0


def test_an_output_that_is_missing_or_new(cupel):
    """It depends on the id, which an analysis knows."""
    script = cupel.dir / "n.sh"
    script.write_text("echo x > out/$CUPEL_RUN_ID\n", encoding="utf-8")
    run = cupel.run(script).run_dir.name
    status, out, _ = rerun(cupel, "--verify", "--json", run)
    assert status == 1
    assert sorted(one["what"] for one in json.loads(out)["outputs"]["differences"]) == [
        "only in A", "only in B"]


@pytest.mark.parametrize("change, word", [
    (lambda d: (d / "in.txt").write_text("other"), "in.txt has changed"),
    (lambda d: (d / "a.py").write_text("print(1)"), "a.py has changed"),
    (lambda d: (d / "in.txt").unlink(), "in.txt"),
])
def test_refused_if_it_would_not_be_the_same(cupel, first, change, word):
    run = first()
    change(cupel.dir)
    before = sorted(path.name for path in (cupel.home / "runs").iterdir())
    status, out, err = rerun(cupel, run)
    assert status == 2 and word in err and not out
    assert sorted(path.name for path in (cupel.home / "runs").iterdir()) == before


def test_the_same_content_written_anew_is_the_same(cupel, first):
    run = first()
    (cupel.dir / "in.txt").unlink()
    (cupel.dir / "in.txt").write_text("12345", encoding="utf-8")
    assert rerun(cupel, "--verify", run)[0] == 0


def change_record(cupel, run, **changes):
    path = cupel.run_dir(run) / "analysis.json"
    record = json.loads(path.read_text())
    for key, value in changes.items():
        record[key] = value(record.get(key))
    path.write_text(json.dumps(record))


@pytest.mark.parametrize("changes, word", [
    ({"runtime": lambda r: {**r, "fingerprint": {"identity": "0" * 64}}}, "runtime 'base' has changed"),
    ({"code_contents": lambda c: None}, "not what cupel writes|does not say"),
    ({"later": lambda _: 1}, "'later', which this cupel does not know"),
    ({"args": lambda _: ["\ufffd"]}, "not UTF-8"),
    ({"limits": lambda _: {"memory": {"value": "-1"}}}, "memory"),
    ({"inputs": lambda _: [{"path": "relative", "name": "x"}]}, "inputs"),
    ({"network": lambda _: "moon"}, "network"),
])
def test_a_record_that_does_not_tell(cupel, first, changes, word):
    run = first()
    change_record(cupel, run, **changes)
    status, _, err = rerun(cupel, run)
    assert status == 2 and any(one in err for one in word.split("|")), err


@pytest.mark.parametrize("file, words", [
    ("analysis.json", []), ("outputs.json", []), ("verdict.json", []),
    ("outputs/out/raw", ["--verify"]),
])
def test_a_record_that_was_changed(cupel, first, file, words):
    """What is run and compared is what was recorded, not what somebody has made of it."""
    run = first()
    path = cupel.run_dir(run) / file
    text = path.read_text()
    path.chmod(0o644)
    path.write_text(text.replace("two words", "other words").replace('"size": ', '"size": 1')
                    .replace("const", "CONST").replace("succeeded", "was fine"))
    assert path.read_text() != text
    status, out, err = rerun(cupel, *words, run)
    assert status == 2 and out == "" and "was changed" in err and file in err, err
    path.write_text(text)
    assert rerun(cupel, *words, run)[0] == 0


def test_a_runtime_that_changed(root):
    """A tree with one more package than it had; the control is the tree as it was."""
    tree = root.dir / "tree"
    subprocess.run(["mkdir", "-p", tree / "bin", tree / "var/lib/dpkg"], check=True)
    shutil.copy("/bin/busybox", tree / "bin/sh")
    status = tree / "var/lib/dpkg/status"
    status.write_text("Package: a\nStatus: install ok installed\nVersion: 1\n\n", encoding="utf-8")
    catalog = root.config.parent / "runtimes.d"
    catalog.mkdir(exist_ok=True)
    (catalog / "tree.yaml").write_text(f"name: tree\nkind: rootfs\nroot: {tree}\n", encoding="utf-8")
    result = root.run("-r", "tree", "--", "/bin/sh", "-c", "exit 0")
    assert result.status == 0, result.verdict
    run = result.run_dir.name
    assert rerun(root, run)[0] == 0
    status.write_text(status.read_text() + "Package: b\nStatus: install ok installed\nVersion: 2\n\n",
                      encoding="utf-8")
    code, _, err = rerun(root, run)
    assert code == 2 and "the runtime 'tree' has changed" in err
    (catalog / "tree.yaml").unlink()
    code, _, err = rerun(root, run)
    assert code == 2 and "tree" in err


def test_verify_needs_a_first_run_that_succeeded(cupel):
    run = cupel.run("--", "sh", "-c", "exit 3").run_dir.name
    status, _, err = rerun(cupel, "--verify", run)
    assert status == 2 and "cause exit" in err
    assert rerun(cupel, run)[0] == 3


def test_verify_of_a_second_run_that_fails(cupel):
    script, first = cupel.dir / "odd.sh", cupel.new_id()
    script.write_text(f'test "$CUPEL_RUN_ID" = {first} || exit 7\n', encoding="utf-8")
    assert cupel.run(script, id=first).status == 0
    status, out, _ = rerun(cupel, "--verify", "--json", first)
    assert status == 7 and json.loads(out)["equal"] is False


@pytest.mark.parametrize("words", [[], ["a", "b"], ["no-such-run"], ["../x"],
                                   ["--tolerance", "1e-6", "x"],
                                   ["--verify", "--tolerance", "-1", "x"],
                                   ["--verify", "--tolerance", "nan", "x"]])
def test_usage(cupel, words):
    status, _, err = rerun(cupel, *words)
    assert status == 2 and err.startswith("cupel: ")
