"""Where the working directory is: asked for by option, file or configuration, shown by plan, and part of no key."""

import json

import pytest


@pytest.fixture
def mine(cupel):
    cupel.configure()
    yield cupel
    cupel.configure()


def write(caller, name, text):
    path = caller.dir / name
    path.write_text(text, encoding="utf-8")
    return caller.own(path)


def plan(caller, *args):
    status, out, err = caller.call(caller.binary, "plan", "--json", *args)
    assert status == 0, err
    steps = json.loads(out)["plan"]["steps"]
    return next(step for step in steps if step["kind"] == "work")


def test_the_plan_shows_it(mine):
    step = plan(mine, "--scratch", "memory", "--disk", "24M", "--inodes", "900", "--", "true")
    assert (step["size_bytes"], step["inodes"], step["writable"]) == (24 << 20, 900, True)
    assert "source" not in step
    assert "size_bytes" not in plan(mine, "--", "true")
    _, out, _ = mine.call(mine.binary, "plan", "--scratch", "memory", "--disk", "24M", "--", "true")
    assert "in memory: 24576 KiB" in out


def test_the_default_is_the_configuration_s(mine):
    mine.configure("defaults: {scratch: memory}\n")
    assert mine.run("--", "true").receipt["disk"]["mechanism"] == "memory"
    on_disk = mine.run("--scratch", "disk", "--", "true").receipt["disk"]
    assert on_disk["mechanism"] == ("watched" if mine.uid else "image")
    assert on_disk["hard"] is (mine.uid == 0)


def test_a_file_says_it_and_rerun_has_it_again(mine):
    file = write(mine, "a.yaml", "command: [sh, -c, 'echo 1 > out/x']\nscratch: memory\n")
    result = mine.run(file)
    assert (result.cause, result.receipt["disk"]["mechanism"]) == ("ok", "memory")
    again = mine.new_id()
    status, _, err = mine.call(mine.binary, "rerun", "--id", again, result.run_dir.name)
    assert status == 0, err
    receipt = json.loads((mine.run_dir(again) / "receipt.json").read_text(encoding="utf-8"))
    assert receipt["disk"]["mechanism"] == "memory"


def test_it_is_no_part_of_a_key(mine):
    text = "steps:\n  one:\n    command: [sh, -c, 'echo 1 > out/x']\n    outputs: [out/x]\n"
    file = write(mine, "p.yaml", text)
    status, _, err = mine.call(mine.binary, "run", file)
    assert status == 0, err
    write(mine, "p.yaml", f"scratch: memory\n{text}")
    status, out, err = mine.call(mine.binary, "run", file)
    assert status == 0 and "reused" in out + err, out + err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--scratch", "ram"), "--scratch takes disk or memory, not 'ram'"),
        (("--scratch", "memory", "--executor", "box"), "the executor box has working directories on disk only"),
    ],
)
def test_what_cannot_be_had(mine, args, words):
    mine.configure("executors: {box: {kind: oci, program: /usr/bin/true}}\n")
    status, _, err = mine.call(mine.binary, "run", *args, "--", "true")
    assert status == 2 and words in err, err


def test_another_executor_is_not_asked_for_the_default(mine):
    """It is for runs that can have it: what the executor says then is another matter."""
    mine.configure("defaults: {scratch: memory}\nexecutors: {box: {kind: oci, program: /usr/bin/true}}\n")
    _, _, err = mine.call(mine.binary, "run", "--executor", "box", "--", "true")
    assert "scratch" not in err


@pytest.mark.parametrize(
    "name", ["with a blank", "a/" + "/".join(["long" * 25] * 6)], ids=["blank", "long"]
)
def test_a_place_for_working_directories(cupel, name):
    place = cupel.base / "places" / name
    place.mkdir(parents=True)
    cupel.own(place)
    cupel.configure(f"work: {{root: '{place}'}}\n")
    result = cupel.run("--", "sh", "-c", "pwd; echo x > out/x")
    assert (result.status, result.cause) == (0, "ok"), result.stderr
    assert (
        result.stdout
        == f"{place}/scidex-analysis-{result.run_dir.name}\n"
        == result.receipt["cwd"] + "\n"
    )
    assert list(place.iterdir()) == [] and [f["path"] for f in result.outputs["files"]] == ["out/x"]
