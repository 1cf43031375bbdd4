"""`cupel runtime create` of venv and conda environments, and `remove`: real tools, and nothing half-done whatever happens in
between."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import zipfile

import pytest

import cupel as lib
from makers import maker  # noqa: F401  (fixtures)

pytestmark = pytest.mark.test_all


@pytest.fixture
def wheels(maker):
    """A directory with one small wheel, which is a zip file of a few texts."""
    place = maker.tmp / "wheels"
    place.mkdir()
    files = {
        "tinymod.py": "def answer():\n    return 42\n\ndef main():\n    print(answer())\n",
        "tinymod-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tinymod\nVersion: 1.0\n",
        "tinymod-1.0.dist-info/WHEEL":
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tinymod-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny = tinymod:main\n",
    }
    record = "tinymod-1.0.dist-info/RECORD"
    files[record] = "".join(f"{name},,\n" for name in [*files, record])
    with zipfile.ZipFile(place / "tinymod-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return place


def python(prefix, code):
    return subprocess.run([f"{prefix}/bin/python3", "-c", code], capture_output=True, text=True,
                          check=True, env={}).stdout.strip()


# venv

def test_venv_of_wheels_works_and_needs_no_network(maker, wheels):
    made = maker.make("tiny", "--kind", "venv", "--wheels", wheels)
    assert python(made["place"], "import tinymod; print(tinymod.answer())") == "42"
    # Its scripts name the place where it stays.
    script = pathlib.Path(made["place"], "bin/tiny")
    assert script.read_text(encoding="utf-8").splitlines()[0] == f"#!{made['place']}/bin/python"
    assert subprocess.run([script], capture_output=True, text=True, check=True).stdout == "42\n"
    text = maker.entry("tiny").read_text(encoding="utf-8")
    assert "name: \"tiny\"\n" in text and "kind: venv\n" in text
    assert f"prefix: \"{made['place']}\"\n" in text
    assert made["entry"] == str(maker.entry("tiny"))
    assert made["next"] == ["cupel", "runtime", "check", "tiny"]
    # A run has another uid: everybody may read it, nobody else may write it.
    for folder, _, files in os.walk(made["place"]):
        for path in [folder] + [os.path.join(folder, name) for name in files]:
            seen = os.lstat(path)
            assert seen.st_uid == maker.caller.uid
            assert os.path.islink(path) or seen.st_mode & 0o022 == 0, path
            assert os.path.islink(path) or seen.st_mode & 0o004, path


def test_venv_of_requirements(maker, wheels):
    wanted = maker.tmp / "requirements.txt"
    wanted.write_text("tinymod == 1.0\n", encoding="utf-8")
    made = maker.make("tiny", "--kind", "venv", "--requirements", "requirements.txt",
                      "--wheels", "wheels", "--python", "/usr/bin/python3")
    assert python(made["place"], "import tinymod; print(tinymod.answer())") == "42"
    created = json.loads((pathlib.Path(made["place"]).parent / "created.json").read_text())
    assert created["command"][:4] == ["cupel", "runtime", "create", "tiny"]
    assert created["directory"] == str(maker.tmp)


def test_broken_requirements_leave_nothing_but_the_log(maker, wheels):
    wanted = maker.tmp / "requirements.txt"
    wanted.write_text("tinymod\nthere-is-no-such-thing==9\n", encoding="utf-8")
    status, out, err = maker.do("create", "broken", "--kind", "venv", "--requirements", wanted,
                                "--wheels", wheels)
    assert (status, out) == (125, "")
    assert "there-is-no-such-thing" in err and "create.log" in err
    maker.assert_nothing("broken")
    log = (maker.home / "runtimes/broken/create.log").read_text(encoding="utf-8")
    assert "there-is-no-such-thing" in log and "--no-index" in log


def test_the_callers_variables_do_not_bend_it(maker, wheels):
    bent = {"PYTHONHOME": "/nonexistent", "PYTHONPATH": str(maker.tmp), "PIP_TARGET": "/nonexistent",
            "PIP_INDEX_URL": "http://127.0.0.1:9/", "VIRTUAL_ENV": "/nonexistent"}
    assert subprocess.run(["/usr/bin/python3", "-c", ""], env=bent, capture_output=True,
                          check=False).returncode != 0  # the control: they would
    made = maker.make("tiny", "--kind", "venv", "--wheels", wheels, env=bent)
    assert python(made["place"], "import tinymod; print(tinymod.answer())") == "42"


def test_a_name_is_taken_once_and_replaced_in_one_step(maker, wheels):
    first = maker.make("tiny", "--kind", "venv")
    status, _, err = maker.do("create", "tiny", "--kind", "venv")
    assert status == 2 and "--replace" in err
    # One that fails leaves the old one as it was, and alive.
    before = maker.entry("tiny").read_bytes()
    wanted = maker.tmp / "wanted.txt"
    wanted.write_text("nobody-has-made-this==1\n", encoding="utf-8")
    status, _, _ = maker.do("create", "tiny", "--kind", "venv", "--replace", "--requirements", wanted,
                            "--wheels", maker.tmp)
    assert status == 125
    assert maker.entry("tiny").read_bytes() == before
    assert python(first["place"], "print(1)") == "1"
    second = maker.make("tiny", "--kind", "venv", "--replace", "--wheels", wheels)
    assert second["place"] != first["place"] and not os.path.exists(first["place"])
    assert python(second["place"], "import tinymod; print(tinymod.answer())") == "42"
    assert len(maker.left("tiny")) == 1


# Interruptions. A slow interpreter holds the moment; it is what --python names, and nothing else of it is used.

def slow_python(maker, body):
    program = maker.tmp / "slow-python"
    program.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    marks = maker.tmp / "marks"
    marks.mkdir(mode=0o777)
    marks.chmod(0o777)
    return program, marks / "started"


def start(maker, name, program, started):
    process = maker.caller.popen(maker.caller.binary, "runtime", "create", name, "--kind", "venv",
                                 "--python", program, cwd=maker.tmp, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
    assert lib.wait_until(started.exists)
    assert lib.wait_until(lambda: started.read_text(encoding="utf-8").endswith("\n"))
    return process, int(started.read_text(encoding="utf-8"))


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_kill_9_leaves_nothing_after_the_next_command(maker):
    program, started = slow_python(maker, f"mkdir -p ${{@: -1}}/half; echo $$ > {maker.tmp}/marks/started; "
                                          "exec sleep 1000")
    process, tool = start(maker, "slow", program, started)
    process.kill()
    process.communicate()
    assert lib.wait_until(lambda: is_gone(tool))  # it ends with us
    assert len(maker.left("slow")) == 1  # the control: there is something to sweep
    assert maker.caller.call(maker.caller.binary, "gc")[0] == 0
    maker.assert_nothing("slow")


def test_nothing_is_swept_from_under_a_tool_that_lives_on(maker):
    program, started = slow_python(
        maker, f"trap '' TERM; echo $$ > {maker.tmp}/marks/started; while :; do sleep 0.2; done")
    process, tool = start(maker, "stubborn", program, started)
    process.kill()
    process.communicate()
    assert maker.caller.call(maker.caller.binary, "gc")[0] == 0
    assert len(maker.left("stubborn")) == 1
    status, _, err = maker.do("create", "stubborn", "--kind", "venv")
    assert status == 2 and "another process" in err
    os.kill(tool, signal.SIGKILL)

    def swept():
        maker.caller.call(maker.caller.binary, "gc")
        return not maker.left("stubborn")

    assert lib.wait_until(swept)  # the shell's sleep holds the lock for a moment longer
    maker.assert_nothing("stubborn")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_cancelled_leaves_nothing(maker, number):
    program, started = slow_python(maker, f"echo $$ > {maker.tmp}/marks/started; exec sleep 1000")
    process, tool = start(maker, "slow", program, started)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"cancelled" in err
    assert is_gone(tool)
    maker.assert_nothing("slow")


# conda

def test_conda_says_what_is_missing(maker):
    status, _, err = maker.do("create", "sc", "--kind", "conda", "--packages", "numpy",
                              env={"PATH": "/usr/bin:/bin"})
    assert status == 125 and "micromamba, mamba and conda" in err
    maker.assert_nothing("sc")


STAND_IN = """#!/usr/bin/python3
# Not a conda: it makes an empty prefix where it is told to, and writes down how it was called.
import json, os, sys
prefix = sys.argv[sys.argv.index("--prefix") + 1]
os.makedirs(prefix + "/conda-meta")
with open(prefix + "/conda-meta/history", "w") as out:
    json.dump([sys.argv[1:], sorted(k for k in os.environ if k.startswith("CONDA"))], out)
"""


@pytest.mark.parametrize("program", ["micromamba", "mamba", "conda"])
def test_conda_is_called_as_it_wants_to_be(maker, program):
    """Only the calling convention, with a stand-in: no conda can be had from Debian."""
    place = maker.tmp / "bin"
    place.mkdir()
    (place / program).write_text(STAND_IN, encoding="utf-8")
    (place / program).chmod(0o755)
    env = {"PATH": f"{place}:/usr/bin:/bin", "CONDA_PREFIX": "/nonexistent"}
    yml, explicit = maker.tmp / "environment.yml", maker.tmp / "explicit.txt"
    yml.write_text("dependencies: [numpy]\n", encoding="utf-8")
    explicit.write_text("# a comment\n@EXPLICIT\nhttp://example.org/x.conda\n", encoding="utf-8")
    head = ["create"] if program == "micromamba" else ["env", "create"]
    yes = ["--yes"] if program == "micromamba" else []
    cases = [
        (["--packages", "numpy>=1.20,pip", "--channel", "conda-forge"],
         lambda at: ["create", "--yes", "--prefix", at, "--channel", "conda-forge", "numpy>=1.20",
                     "pip"]),
        (["--file", "explicit.txt"],
         lambda at: ["create", "--yes", "--prefix", at, "--file", str(explicit)]),
        (["--file", "environment.yml"],
         lambda at: [*head, *yes, "--prefix", at, "--file", str(yml)]),
    ]
    for words, expected in cases:
        made = maker.make("sc", "--kind", "conda", "--replace", *words, env=env)
        called, variables = json.loads(
            pathlib.Path(made["place"], "conda-meta/history").read_text(encoding="utf-8"))
        assert called == expected(made["place"])
        assert variables == ["CONDA_ALWAYS_YES"]
        assert made["notes"]["made_by"] == program
    assert "kind: conda\n" in maker.entry("sc").read_text(encoding="utf-8")


# remove

def test_remove_says_what_goes_and_how_to_make_it_again(maker, wheels):
    made = maker.make("tiny", "--kind", "venv", "--wheels", "wheels")
    status, out, _ = maker.do("remove", "tiny", "--dry-run")
    assert status == 0 and f"would remove {maker.entry('tiny')}\n" in out
    assert os.path.exists(made["place"]) and maker.entry("tiny").exists()
    status, out, _ = maker.do("remove", "tiny")
    assert status == 0
    assert "to make tiny again: cupel runtime create tiny --kind venv --wheels wheels\n" in out
    assert not (maker.home / "runtimes/tiny").exists()
    maker.assert_nothing("tiny")
    status, _, err = maker.do("remove", "tiny")
    assert status == 2 and "nothing to remove" in err


def test_what_cupel_did_not_make_stays(maker):
    prefix = maker.tmp / "own"
    (prefix / "bin").mkdir(parents=True)
    maker.entries.mkdir(parents=True, exist_ok=True)
    text = f"name: own\nkind: venv\nprefix: {prefix}\n"
    maker.entry("own").write_text(text, encoding="utf-8")
    for path in (maker.entries, *maker.entries.parents):
        if maker.caller.dir in path.parents:
            maker.caller.own(path)
    for words in ([], ["--replace"]):
        status, _, err = maker.do("create", "own", "--kind", "venv", *words)
        assert status == 2 and "was not made by" in err
    assert maker.entry("own").read_text(encoding="utf-8") == text
    status, out, _ = maker.do("remove", "own", "--json")
    assert status == 0 and json.loads(out)["entry_text"] == text
    assert not maker.entry("own").exists() and (prefix / "bin").is_dir()


@pytest.mark.parametrize("who", ["root"])
def test_the_line_that_tells_why_is_shown(maker):
    """apt names the package, and mmdebstrap then says that it failed."""
    tool = maker.tmp / "tool"
    tool.write_text("#!/bin/sh\necho 'an Error on the way'; echo 'E: no package x'; echo 'E: failed to run'; exit 25\n")
    tool.chmod(0o755)
    maker.caller.own(tool)
    status, _, err = maker.do("create", "x", "--kind", "venv", "--python", str(tool))
    assert status == 125 and "status 25: E: no package x; all it said" in err, err
    assert (maker.home / "runtimes/x/create.log").read_text().endswith("E: failed to run\n")
    shutil.rmtree(maker.home / "runtimes/x")


def test_remove_takes_the_lock_along_and_says_what_stays(maker):
    entry = maker.entry("base")
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text("name: base\nkind: system\n", encoding="utf-8")
    maker.caller.own(entry)
    status, _, err = maker.do("lock", "base")
    assert status == 0, err
    assert sorted(path.suffix for path in entry.parent.glob("base.*")) == [".lock", ".manifest", ".yaml"]
    stale = entry.parent / f"base.lock.{16 * '0'}.manifest"  # of a lock that is of another place now
    stale.touch()
    other = entry.parent / "base.lock.mine.manifest"
    other.touch()
    for path in (stale, other):
        maker.caller.own(path)
    assert maker.do("lock", "base")[0] == 0 and not stale.exists()
    other.unlink()
    status, out, _ = maker.do("remove", "base", "--json")
    removed = json.loads(out)
    assert (status, removed["lock"], removed["remaining"]) == (0, str(entry.with_suffix(".lock")), "built-in")
    assert not list(entry.parent.glob("base.*"))
    # A lock that stayed would refuse every run of whatever gets the name next.
    assert maker.caller.run("-r", "base", "--", "true").cause == "ok"


def test_nothing_is_removed_under_a_run(maker):
    maker.entries.mkdir(parents=True, exist_ok=True)
    maker.entry("base").write_text("name: base\nkind: system\n", encoding="utf-8")
    process, run_id = maker.caller.start("--", "sleep", "1000")
    assert lib.wait_until((maker.caller.run_dir(run_id) / "receipt.json").exists)
    status, _, err = maker.do("remove", "base")
    assert status == 2 and run_id in err and maker.entry("base").exists()
    process.terminate()
    process.wait()
    assert maker.do("remove", "base")[0] == 0 and not maker.entry("base").exists()


# The command line.

def test_every_option_is_in_the_manual_and_no_other(maker):
    page = (lib.TESTS.parent / "docs/man/cupel-runtime-create.1.scd").read_text(encoding="utf-8")
    heads = "\n".join(re.findall(r"^\*-.*$", page, re.MULTILINE))
    said = set()
    for command in ("create", "remove"):
        said |= set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)",
                               maker.do(command, "--help")[1].split("options:")[1].replace(",", " ")))
    assert said == set(re.findall(r"\*(--?[a-z][a-z-]*)\*", heads))


@pytest.mark.parametrize("words, told", [
    (["create"], "usage: cupel runtime create NAME"),
    (["create", "x"], "--kind venv|rootfs|conda|image"),
    (["create", "x", "--kind", "tree"], "no kind 'tree'"),
    (["create", "x", "--kind", "system"], "nothing to make"),
    (["create", "x", "y", "--kind", "venv"], "usage"),
    (["create", "x", "--kind", "venv", "--layout", "y"], "--layout is not for --kind venv"),
    (["create", "x", "--kind", "image"], "--layout PATH"),
    (["create", "x", "--kind", "conda"], "--file FILE"),
    (["create", "x", "--kind", "rootfs", "--packages", "a,--option"], "not a package's name"),
    (["create", "x", "--kind", "venv", "--requirement", "y"], "did you mean --requirements"),
    (["create", "x", "--kind", "venv", "--requirements", "nowhere.txt"], "--requirements nowhere.txt: No such file"),
    (["create", "x", "--kind", "venv", "--wheels", "nowhere"], "--wheels nowhere: No such file"),
    (["create", "../x", "--kind", "venv"], "the runtime's name '../x'"),
    (["remove"], "usage: cupel runtime remove NAME"),
    (["remove", "../x"], "../x"),
])
def test_mistakes_are_told_before_anything_is_made(maker, words, told):
    status, _, err = maker.do(*words)
    assert status == 2 and told in err, err
    assert not (maker.home / "runtimes/x").exists()
