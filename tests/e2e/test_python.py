"""The Python package, installed as people install it, with real analyses, by the program alone."""

import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess

import pytest

import cupel as lib
import platforms
import python_package

ROOT = lib.TESTS.parent
PYTHON = python_package.PYTHON


@pytest.fixture(scope="session")
def package():
    with python_package.installed() as place:
        yield place


@pytest.fixture
def python(package):
    return functools.partial(python_package.run, package)


def test_the_package_is_what_it_says(package):
    """Installed: typed, of the program's version, and with nothing but the standard library."""
    assert (package / "cupel/py.typed").exists() and (package / "cupel/platform/__init__.py").exists()
    version = subprocess.run([lib.BINARY, "version"], capture_output=True, text=True, check=True).stdout
    asked = subprocess.run([PYTHON, "-S", "-c", "import cupel, cupel.platform; print(cupel.__version__)"], check=True,
                           env={"PYTHONPATH": str(package)}, capture_output=True, text=True)
    assert asked.stdout.strip() in version
    assert (package / f"cupel-{asked.stdout.strip()}.dist-info").is_dir()


@pytest.mark.parametrize("how", ["editable", "sdist"])
def test_other_ways_to_install_it(package, tmp_path, how):
    """As developers do, and from an archive: what is imported is what `pip install ./python` has."""
    source = tmp_path / "source"
    shutil.copytree(ROOT / "python", source, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "LICENSE", tmp_path)
    before = sorted(source.rglob("*"))
    venv = tmp_path / "venv"
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", venv], check=True)
    pip = [PYTHON, "-m", "pip", "--python", venv / "bin/python3", "install", "-q", "--no-index"]
    if how == "sdist":
        made = subprocess.run([PYTHON, "-c", "import make_wheel, sys; print(make_wheel.build_sdist(sys.argv[1]))", tmp_path],
                              cwd=source, env={"PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, check=True)
        words = [tmp_path / made.stdout.strip()]
    else:
        words = ["-e", source]
    done = subprocess.run([*pip, *words], env={"PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(source.rglob("*")) == before, "nothing is written to the sources"
    asked = subprocess.run([venv / "bin/python3", "-c", "import cupel.platform, importlib.metadata as m; print(cupel.__file__);"
                            " print(m.version('cupel')); print(len(m.distribution('cupel').read_text('LICENSE')) > 1000)"],
                           cwd="/", env={"PYTHONDONTWRITEBYTECODE": "1"}, check=True, capture_output=True, text=True)
    place, version, licensed = asked.stdout.split()
    assert place.startswith(str(source if how == "editable" else venv)) and licensed == "True"
    assert (package / f"cupel-{version}.dist-info").is_dir()


def test_its_own_tests(package):
    """Those of values and of the client, which need no cupel."""
    done = subprocess.run([PYTHON, "-X", "dev", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--noconftest", "-c", "/dev/null",
                           "--rootdir", ROOT / "python/tests", ROOT / "python/tests"], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 100


# How an analysis ends is a value.

ENDS = {
    "ok": ("['sh', '-c', 'echo out; echo err >&2']", "", [0, "ok"]),
    "exit": ("'exit 7'", "", [7, "exit"]),
    "its own 137": ("'exit 137'", "", [137, "exit"]),
    "signal": ("'kill -SEGV $$'", "", [-11, "signal"]),
    "killed": ("'kill -9 $$'", "", [-9, "signal"]),
    "oom": ("['python3', '-c', 'x = bytearray(300_000_000)']", "memory_limit_mb=64", [-9, "oom"]),
    "deadline": ("['sleep', '60']", "timeout_seconds=0.5", [-1, "deadline"]),
    "disk": ("'dd if=/dev/zero of=out/x bs=1M count=64'", "disk_limit_mb=16, outputs=['out/none']", None),
    "pids": ("'for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; wait'", "pids_limit=4", None),
    "not found": ("['no-such-program']", "", [127, "exit"]),
    "missing": ("['true']", "outputs=[{'path': 'out/x', 'required': True}]", [1, "output-missing"]),
}


@pytest.mark.parametrize("end", ENDS)
def test_each_end_is_a_value(cupel, python, end):
    command, options, expected = ENDS[end]
    told = python(cupel, f"""
        result = isolated_run({command}, {options})
        tell(facts(result), result.stdout, result.stderr, result.completion_notes, result.duration, result.run_id,
             result.notes[0].code, result.ok, str(result.directory))
        """)
    verdict = json.loads((cupel.run_dir(told[5]) / "verdict.json").read_text(encoding="utf-8"))
    assert told[3].startswith(verdict["completion_notes"].partition("--")[0]) and "--" not in told[3] and told[6] == verdict["cause"] == told[0][1]
    assert abs(told[4] - verdict["usage"]["wall_usec"] / 1e6) < 1e-6 and told[8] == str(cupel.run_dir(told[5]))
    if expected:
        assert told[0] == expected, told
    else:
        assert told[0][1] == end and told[0][0] != 0, told
    if end == "ok":
        assert told[1:3] == ["out\n", "err\n"] and told[7] is True


@pytest.mark.parametrize("call", [
    "[]", "''", "['a\\0b']", "b'true'", "7", "['true'], timeout_seconds=0", "['true'], timeout_seconds='9'", "['true'], memory_limit_mb=-1",
    "['true'], cpu_quota=float('nan')", "['true'], cwd='/no/such/place'", "['true'], env={'A': 1}",
    "['true'], metadata=[]", "['true'], metadata={'timeout_seconds': 'long'}", "['true'], run_id='../x'", "['true'], nonsense=1",
    "['true'], outputs_to=True", "['\\udc80']"])
def test_a_misuse_is_told_by_an_exception(root, python, call):
    before = set(os.listdir(root.home / "runs")) if root.home.exists() else set()
    told = python(root, f"""
        try:
            isolated_run({call})
        except (ValueError, TypeError) as error:
            tell(type(error).__name__, str(error))
        """)
    assert told[1]
    assert (set(os.listdir(root.home / "runs")) if root.home.exists() else set()) == before


def test_a_cupel_that_is_not_there_or_refuses(root, python):
    """In the platform's module a value, elsewhere an error of cupel's own."""
    assert python(root, """
        refused = isolated_run(["true"], runtime="nosuch")
        twice = [isolated_run(["true"], run_id="same-name").returncode for _ in range(2)]
        try:
            cupel.run(["true"], runtime="nosuch")
        except cupel.Refused as error:
            told = str(error)
        little = isolated_run(["true"], memory_limit_mb=1)
        os.environ["CUPEL"] = "/no/cupel"
        missing = isolated_run(["true"])
        try:
            cupel.run(["true"])
        except cupel.Unavailable as error:
            told = [told, error.code]
        os.environ["CUPEL"] = "/bin/false"
        broken = isolated_run(["true"])
        tell(facts(refused), twice, facts(missing), facts(broken)[0], told[1], "nosuch" in told[0],
             "nosuch" in refused.completion_notes, "no program" in missing.completion_notes, missing.run_id,
             "/analysis.yaml" in little.completion_notes, "at least" in little.completion_notes)
        """) == [[125, "refused"], [0, 125], [125, "no-program"], 125, "no-program", True, True, True, None, False, True]


# What goes in.

def test_arguments_and_variables_are_what_they_were(cupel, python):
    words = ["", " ", "a b", "$HOME", "`id`", "'\"\\", "\u00e9\U0001f40d", "-x", "--", "a\nb\tc\r", "\x7f\x80\x85\u2028\ufeff\ufffe", "{{x}}", "a: b", "# c",
             "\x01\x1b[31m", "x" * 100_000, "true", "null", "1e3", "*", "~"]
    told = python(cupel, f"""
        words = {words!r}
        show = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['ODD'], os.environ.get('SECRET')]))"
        os.environ["SECRET"] = "of the caller"
        a = isolated_run(["python3", "-c", show, *words], env={{"ODD": words[9] + words[6]}})
        place = create_analysis_temp_dir("odd-" + cupel.new_id())
        b = isolated_run(["python3", "-c", show, *words], cwd=place, env={{"ODD": ""}})
        cleanup_analysis_temp_dir(place)
        tell(json.loads(a.stdout), json.loads(b.stdout))
        """)
    assert told == [[words, words[9] + words[6], None], [words, "", None]]


def test_cwd_is_shown_and_results_come_back(cupel, python):
    """By the same relative paths; read-only; without what is hidden, leads out, or is not for all."""
    told = python(cupel, """
        place = create_analysis_temp_dir("SDA-" + cupel.new_id())
        (place / "analysis.py").write_text(
            "import helper, os\\n"
            "open('out/result.txt', 'w').write(open('data/x').read() + open('x').read() + helper.word + open('docs/m').read())\\n"
            "os.makedirs('out/deep'); open('out/deep/y', 'w').write('y'); open('new.txt', 'w').write('beside it')\\n"
            "try:\\n    open('x', 'w')\\nexcept OSError as error:\\n    print(error.errno)\\n"
            "print([name for name in ('.env', 'key', 'leads', 'sub/z') if os.path.exists(name)])\\n")
        for name, text in (("helper.py", "word = 'helper '"), ("data/x", "data "), ("x", "top "), (".env", "secret"),
                           ("key", "secret"), ("out/old", "old")):
            (place / name).write_text(text)
        (place / "docs").mkdir(), (place / "sub").mkdir(mode=0o755)
        (place / "docs/m").write_text("manual"), (place / "sub/z").write_text("z")
        (place / "key").chmod(0o600)
        (place / "leads").symlink_to("/etc/hostname")
        first = isolated_run(["python3", "analysis.py"], cwd=place)
        as_named = isolated_run([sys.executable, str(place / "analysis.py")], cwd=str(place), outputs_to=False)
        other = place / "other"
        third = run_python_script("analysis.py", cwd=place, outputs_to=other, outputs=["out/**", "*.txt"])
        failed = isolated_run("echo half > out/half; exit 1", cwd=place)
        tell(facts(first), first.stdout, first.stderr, sorted(str(path.relative_to(place)) for path in first.copied),
             (place / "out/result.txt").read_text(), (place / "out/old").read_text(), (place / "x").read_text(),
             facts(as_named), len(as_named.copied), sorted(str(p.relative_to(other)) for p in other.rglob("*") if p.is_file()),
             [failed.outputs[0].partial, failed.copied, (place / "out/half").exists(), failed.has("partial")],
             first.has("not-shown"), first.read_output("out/deep/y").decode(), facts(third), str(place))
        cleanup_analysis_temp_dir(place)
        """)
    place = told.pop()
    hidden = ["key"] if cupel.who == "user" else []  # his runs have his rights
    assert told[:3] == [[0, "ok"], f"30\n{hidden + ['sub/z']}\n", ""]
    assert told[3] == ["out/deep/y", "out/result.txt"]
    assert told[4:7] == ["data top helper manual", "old", "top "]
    assert told[7:10] == [[0, "ok"], 0, ["new.txt", "out/deep/y", "out/result.txt"]]
    assert told[10:] == [[True, [], False, True], True, "y", [0, "ok"]]
    assert not os.path.exists(place)


def test_a_cwd_with_odd_names_and_with_many(root, python):
    told = python(root, """
        names = ["a b'c", "-x", "\u00e9\U0001f40d", "x:y", 'q"q', "$(id)", "back\\\\slash", "x" * 200, "*", "[a]", "{{x}}", "~", "--", "data/in side"]
        place = create_analysis_temp_dir("odd-" + cupel.new_id())
        for name in [*names, "new\\nline", "tab\\t", "\\x01"]:
            (place / name).write_text(name)
        read = "import os, json; print(json.dumps({n: open(n).read() for n in sorted(os.listdir('.')) + ['data/in side'] if os.path.isfile(n)}))"
        odd = isolated_run(["python3", "-c", read], cwd=place)
        for number in range(3900):
            (place / f"data/{number}").write_text("x")
        many = isolated_run("ls data | wc -l", cwd=place)
        for number in range(200):
            (place / f"more-{number}").write_text("x")
        beyond = isolated_run("ls data | wc -l", cwd=place)
        cleanup_analysis_temp_dir(place)
        tell(json.loads(odd.stdout) == {name: name for name in names}, odd.notes[-1].text.count("no name"), odd.stderr, int(many.stdout) >= 3901,
             facts(beyond), "4000" in beyond.completion_notes)
        """)
    assert told == [True, 3, "", True, [125, "refused"], True]


def test_limits_of_arguments_metadata_and_the_platform(root, python):
    root.configure("profiles: {tool: {time: 7m}}\nceilings: {memory: 8G}\n")
    told = python(root, """
        def limits(result):
            asked = json.loads((result.directory / "analysis.json").read_text())
            return {name: asked["limits"][name]["value"] for name in ("memory", "cpus", "pids", "time")}, asked.get("name"), asked["labels"]
        meta = {"memory_limit_mb": 128, "resources": {"cpu_quota": 0.5, "pids_limit": 99}, "timeout_seconds": 50,
                "title": "from metadata", "analysis_id": "SDA-9", "whatever": object()}
        by_meta = limits(isolated_run(["true"], metadata=meta))
        by_both = limits(isolated_run(["true"], metadata=meta, memory_limit_mb=256, limits={"time": "40s"}))
        tool = limits(run_tool_isolated("true"))
        before = dict(RESOURCE_LIMITS["tool"])
        RESOURCE_LIMITS["tool"]["memory_limit_mb"] = 333
        changed = limits(run_tool_isolated("true"))
        shared = CgroupManager(memory_limit_mb=77, cpu_quota=1, pids_limit=44)
        managed = limits(shared.run(["true"], timeout_seconds=11))
        beyond = isolated_run(["true"], memory_limit_mb=9000)
        tell(by_meta, by_both, tool, before, changed, managed, shared.available, sorted(RESOURCE_LIMITS), facts(beyond))
        """)
    assert told[0] == [{"memory": "128M", "cpus": "0.5", "pids": "99", "time": "50s"}, "from metadata", {"analysis_id": "SDA-9"}]
    assert told[1][0] == {"memory": "256M", "cpus": "0.5", "pids": "99", "time": "40s"}
    assert told[2][0]["time"] == "7m" and told[3] == {"memory_limit_mb": 2048, "cpu_quota": 1, "pids_limit": 512,
                                                      "timeout_seconds": 420, "disk_limit_mb": 4096}
    assert told[4][0] == {**told[2][0], "memory": "333M"}
    assert told[5][0] == {"memory": "77M", "cpus": "1", "pids": "44", "time": "11s"}
    assert told[6:] == [True, ["default", "notebook", "post_process", "tool"], [125, "refused"]]


def test_temporary_directories_are_ours_alone(cupel, python):
    told = python(cupel, """
        name = "T-" + cupel.new_id()
        place = create_analysis_temp_dir(name)
        (place / "data/kept").write_text("x")
        again = create_analysis_temp_dir(name)
        mode = oct(place.stat().st_mode & 0o777)
        removed = [cleanup_analysis_temp_dir(name), cleanup_analysis_temp_dir(name)]
        victim = pathlib.Path("victim")
        victim.mkdir()
        place.symlink_to(victim.absolute())
        said = []
        for act in (lambda: create_analysis_temp_dir(name), lambda: cleanup_analysis_temp_dir(name),
                    lambda: cleanup_analysis_temp_dir(victim.absolute()), lambda: create_analysis_temp_dir("../x"),
                    lambda: cleanup_analysis_temp_dir(""), lambda: cleanup_analysis_temp_dir("/tmp/scidex-analysis-/../x")):
            try:
                said.append(act())
            except (ValueError, cupel.CupelError) as error:
                said.append(type(error).__name__)
        place.unlink()
        tell(str(place).endswith("/scidex-analysis-" + name), place == again, mode, removed, said, victim.exists())
        victim.rmdir()
        """)
    assert told == [True, True, "0o755", [True, False],
                    ["CupelError", "CupelError", "ValueError", "ValueError", "ValueError", "ValueError"], True]


ADVICE = {
    "memory": ("['python3', '-c', 'x = bytearray(300_000_000)']", "memory_limit_mb=64", r"memory_limit_mb=\d+", r'limits=\{"memory": "\d+M"\}'),
    "time": ("['sleep', '60']", "timeout_seconds=0.5", "with timeout_seconds,", r'with limits\["time"\],'),
}


@pytest.mark.parametrize("limit", ADVICE)
def test_notes_name_the_arguments_of_python(root, python, limit):
    command, options, named, plain = ADVICE[limit]
    told = python(root, f"""
        by_name = isolated_run({command}, {options})
        plain = cupel.connect().show(by_name.run_id)
        tell(by_name.completion_notes, plain.completion_notes, by_name.run_id)
        """)
    recorded = json.loads((root.run_dir(told[2]) / "verdict.json").read_text(encoding="utf-8"))["completion_notes"]
    assert re.search(named, told[0]) and re.search(plain, told[1]) and f"--{limit}" in recorded
    assert "--" not in told[0] + told[1]


def test_the_callers_whole_environment_can_be_given(cupel, python):
    """Names that cupel sets itself are dropped, and said."""
    told = python(cupel, """
        os.environ.update({"CUPEL_RUN_ID": "not this", "CUPEL_X": "x", "OF_THE_CALLER": "y", "BASH_FUNC_f%%": "() { :; }"})
        result = isolated_run("echo $CUPEL_RUN_ID ${CUPEL_X-} $OF_THE_CALLER", env=os.environ.copy())
        other = isolated_run(["true"], env={"A": "1"})
        note = [note.text for note in result.notes if note.code == "env-dropped"]
        tell(facts(result), result.stdout == f"{result.run_id} y\\n", note, note[0] in result.completion_notes, other.has("env-dropped"))
        """)
    assert told[:2] == [[0, "ok"], True] and len(told[2]) == 1 and told[3:] == [True, False]
    assert all(name in told[2][0] for name in ("CUPEL_RUN_ID", "CUPEL_X", "BASH_FUNC_f%%"))


def test_an_older_name_of_a_profile(root, python):
    told = python(root, """
        same = RESOURCE_LIMITS["notebook_execution"] == RESOURCE_LIMITS["notebook"]
        RESOURCE_LIMITS["notebook_execution"]["memory_limit_mb"] = 345
        result = isolated_run(["true"], profile="notebook_execution")
        asked = json.loads((result.directory / "analysis.json").read_text())
        tell(same, "notebook_execution" in RESOURCE_LIMITS, sorted(RESOURCE_LIMITS), RESOURCE_LIMITS["notebook"]["memory_limit_mb"],
             asked["profile"], asked["limits"]["memory"]["value"], asked["limits"]["time"]["value"])
        """)
    assert told == [True, True, ["default", "notebook", "post_process", "tool"], 345, "notebook", "345M", "10m"]


# A directory of the caller at the path of the run's own.

def test_a_run_by_the_id_of_a_temporary_directory(cupel, python):
    """The working directory has that path, and the caller's files in it. The directory itself stays as it is."""
    told = python(cupel, """
        def state(place):
            return sorted((str(path.relative_to(place)), path.lstat().st_mode, path.lstat().st_ino, path.lstat().st_mtime_ns)
                          for path in [place, *place.rglob("*")])
        name = "T-" + cupel.new_id()
        place = create_analysis_temp_dir(name)
        (place / "a.py").write_text("import os, sys; print(os.getcwd()); print(open('data/x').read(), sys.argv[1:]); "
                                    "print(open(os.getcwd() + '/data/x').read()); open('out/y', 'w').write('y'); open('new', 'w').write('n')")
        (place / "data/x").write_text("of the caller")
        before = state(place)
        result = isolated_run(["python3", str(place / "a.py")], run_id=name, outputs_to=False)
        same = state(place) == before
        again = isolated_run(["true"], run_id=name)  # an id is used once
        given = run_python_script("a.py", ["z"], cwd=place, run_id=name + "-2")
        copied = (place / "out/y").read_text()
        removed = [event for event in map(json.loads, (result.directory / "events.jsonl").read_text().splitlines()) if event["event"] == "removed"]
        removed = [event["data"] for event in removed]
        gone = not pathlib.Path(removed[0]["path"]).exists()
        tell(facts(result), result.stdout.splitlines(), str(place), same, facts(again), place.exists(), given.stdout.splitlines()[1:], copied,
             removed[0]["path"] != str(place), removed[0]["remained"], gone, cleanup_analysis_temp_dir(name))
        """)
    assert told[0] == [0, "ok"], told
    assert told[1] == [told[2], "of the caller []", "of the caller"] and told[3] is True
    assert told[4][0] == 125 and told[5:8] == [True, ["of the caller ['z']", "of the caller"], "y"]
    assert told[8:] == [True, 0, True, True]


@pytest.mark.parametrize("kind", ["link", "file", "of another user"])
def test_only_a_directory_of_the_caller_is_taken(cupel, python, kind):
    """Not a link, even to one of the caller's own: nothing is followed, shown or changed."""
    run_id = cupel.new_id()
    place = cupel.work_dir(run_id)
    if kind == "link":
        victim = cupel.dir / f"{run_id}-victim"
        victim.mkdir()
        place.symlink_to(cupel.own(victim))
        cupel.own(place)
    elif kind == "file":
        place.write_text("x", encoding="utf-8")
        cupel.own(place)
    else:
        place.mkdir()
        os.chown(place, 65534 if cupel.uid == 0 else 0, 65534)
    before = place.lstat()
    try:
        told = python(cupel, f"""
            shown, placed = isolated_run(["true"], run_id="{run_id}"), isolated_run(["true"], run_id="{run_id}", cwd=".")
            tell(facts(shown), shown.completion_notes, facts(placed), placed.completion_notes)
            """)
        after = place.lstat()
        assert told[0] == [125, "not-ours"] and told[2] == [125, "setup"], told
        assert all(str(place) in note and "use another id" in note for note in (told[1], told[3])), told
        assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (before.st_ino, before.st_mode, before.st_mtime_ns)
    finally:
        (place.rmdir if kind == "of another user" else place.unlink)()


# The other calls.

def test_scripts_in_the_runtime_they_ask_for(root, python):
    (root.base / "runtimes.d").mkdir(exist_ok=True)
    (root.base / "runtimes.d/mine.yaml").write_text("name: mine\nkind: system\nsummary: a runtime of this host\n", encoding="utf-8")
    told = python(root, """
        pathlib.Path("s").mkdir()
        pathlib.Path("s/a.py").write_text('# /// script\\n# [tool.cupel]\\n# runtime = "mine"\\n# limits = { time = "33s" }\\n# ///\\n'
                                          "import os, sys, b; print(os.environ['CUPEL_RUNTIME'], b.word, sys.argv[1:])")
        pathlib.Path("s/b.py").write_text("word = 'imported'")
        plain = run_python_script("s/a.py", ["x", 1], files=["s/b.py"])
        there = run_python_script("a.py", ["y"], cwd="s")
        asked = json.loads((there.directory / "analysis.json").read_text())["limits"]["time"]["value"]
        try:
            run_python_script("s/none.py")
        except ValueError:
            tell(plain.stdout, there.stdout, asked, plain.runtime, plain.stderr)
        """)
    assert told == ["mine imported ['x', '1']\n", "mine imported ['y']\n", "33s", "mine", ""]


def test_notebooks(root, python):
    for name in ("nbclient", "ipykernel", "nbconvert"):
        if not importlib.util.find_spec(name):
            pytest.skip(f"science: python3-{name} is not installed")
    shutil.copytree(ROOT / "runtimes.d", root.base / "runtimes.d", dirs_exist_ok=True)
    told = python(root, """
        def book(name, *cells):
            made = [{"cell_type": "code", "source": text, "metadata": {"tags": tags}, "outputs": [], "execution_count": None}
                    for text, *tags in cells]
            pathlib.Path(name).write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
        book("good.ipynb", ("n = 1", "parameters"), ("print(n * 7); open('out/n', 'w').write(str(n))",))
        book("bad.ipynb", ("print('before')",), ("1 / 0",), ("print('after')",))
        good = run_notebook_isolated("good.ipynb", {"n": 6}, output_path="done.ipynb")
        bad = run_notebook_isolated("bad.ipynb", output_path="bad-done.ipynb")
        profile = json.loads((good.directory / "analysis.json").read_text())["limits"]["time"]["value"]
        tell(facts(good), sorted(output.path for output in good.outputs), good.read_output("out/n").decode(), profile,
             "42" in pathlib.Path("done.ipynb").read_text(), facts(bad), bad.completion_notes, bad.has("partial"),
             "ZeroDivisionError" in pathlib.Path("bad-done.ipynb").read_text())
        """)
    assert told[:6] == [[0, "ok"], ["out/good.html", "out/good.ipynb", "out/n"], "6", "10m", True, [1, "exit"]]
    assert told[6].startswith("Cell 2 of 3 raised ZeroDivisionError") and told[7:] == [True, True]


def test_what_is_done_with_results(cupel, python):
    told = python(cupel, """
        first = isolated_run("printf 'gene,score\\\\na,1\\\\nb,2\\\\n' > out/r.csv")
        second = run_post_process_isolated("cut -d, -f2 data/outputs/out/r.csv; touch data/outputs/x", first)
        pathlib.Path("sum.py").write_text("import sys; print(sum(int(line.split(',')[1]) for line in list(open('data/outputs/out/r.csv'))[1:]), sys.argv[1])")
        third = run_post_process_isolated(pathlib.Path("sum.py"), first.run_id, ["word"])
        failed = run_post_process_isolated("true", isolated_run("echo > out/x; exit 1"))
        never = run_post_process_isolated("true", isolated_run(["true"], runtime="nosuch"))
        tell(second.stdout, second.stderr, third.stdout, facts(failed), facts(never), failed.completion_notes,
             json.loads((third.directory / "analysis.json").read_text())["labels"] == {"post_process_of": first.run_id},
             json.loads((third.directory / "analysis.json").read_text())["limits"]["time"]["value"])
        """)
    assert told[0] == "score\n1\n2\n" and "Read-only file system" in told[1]
    assert told[2] == "3 word\n" and told[3][0] == told[4][0] == 125 and "ended as exit" in told[5] and told[6:] == [True, "5m"]


def test_a_step_of_the_host_takes_the_results(root, python):
    platform = platforms.Sqlite(root)
    platforms.declare(root, platform, args=["scores", "out/results.csv"])
    told = python(root, """
        result = isolated_run("printf 'gene,score\\\\na,1\\\\n' > out/results.csv", post_process="step")
        tell(facts(result), result.run_id)
        """)
    assert told[0] == [0, "ok"]
    assert platform.query("SELECT run_id, gene, score FROM scores") == [(told[1], "a", "1")]


# Many, long, large.

def test_ten_at_once_and_nothing_left_open(cupel, python):
    assert python(cupel, """
        async def main():
            return await asyncio.gather(*(isolated_run_async(["sh", "-c", f"echo {n}; exit {n}"]) for n in range(10)))
        isolated_run(["true"])
        before = open_things()
        results = asyncio.run(main())
        threads = [threading.Thread(target=isolated_run, args=(["true"],)) for _ in range(5)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        after = open_things()
        tell([[result.returncode, result.stdout] for result in results], after == before, after[1],
             [path.name for path in pathlib.Path("/tmp").glob("cupel-analysis-*") if path.stat().st_uid == os.getuid()])
        """) == [[[n, f"{n}\n"] for n in range(10)], True, [], []]


def test_a_caller_with_ways_of_its_own(root, python):
    """One that ignores SIGCHLD, has closed its streams, forks, or moves about."""
    assert python(root, """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        codes = [isolated_run("exit 3").returncode]
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir("/")
        codes.append(isolated_run("exit 4").returncode)
        pid = os.fork()
        if not pid:
            os._exit(isolated_run("exit 5").returncode)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        kept = os.dup(1)
        for number in (0, 1, 2):
            os.close(number)
        codes.append(isolated_run("echo out; echo err >&2; exit 6").returncode)
        os.dup2(kept, 1), os.dup2(kept, 2), os.close(kept)
        tell(codes)
        """) == [3, 4, 5, 6]


def test_a_cancelled_task_cancels_the_run(cupel, python):
    told = python(cupel, """
        ids = [cupel.new_id() for _ in range(2)]
        async def main():
            door = cupel.connect_async()
            tasks = [asyncio.ensure_future(isolated_run_async("trap 'echo told' TERM; echo up; sleep 100 & wait; sleep 100",
                                           run_id=ids[0], limits={"grace": "1s"})),
                     asyncio.ensure_future(cupel.run_async(["sleep", "100"], id=ids[1]))]
            while [run.state for run in await door.list(state="running")] != ["running"] * 2:
                await asyncio.sleep(0.05)
            async for text in door.logs(ids[0], follow=True):
                break
            ends = []
            for task in tasks:
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    ends.append("cancelled")
            return ends, text, [(await door.show(name)).cause for name in ids], [run.id for run in await door.list(state="running")]
        told = asyncio.run(main())
        tell(*told, cupel.connect().log(ids[0]).data.decode(), open_things()[1], ids)
        """)
    assert told[:4] == [["cancelled"] * 2, "up\n", ["cancelled"] * 2, []]
    assert told[4].endswith("told\n") and told[5] == []
    for run_id in told[6]:
        assert not cupel.work_dir(run_id).exists()


@pytest.mark.parametrize("hears", ["main", "other"])
def test_an_interrupted_call_cancels_its_run(root, python, hears):
    """Also if the signal does not wake the thread that waits: here since the kernel gives it to another one."""
    told = python(root, f"""
        name = cupel.new_id()
        def interrupt():
            for _ in cupel.Local().events(name, follow=True):
                if _["event"] == "started":
                    os.kill(os.getpid(), signal.SIGINT)
        def begin():
            while not (cupel.connect().program.home / "runs" / name).exists():
                time.sleep(0.01)
            interrupt()
        threading.Thread(target=begin, daemon=True).start()
        if {hears == "other"}:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            isolated_run(["sleep", "100"], run_id=name)
        except KeyboardInterrupt:
            tell(cupel.connect().show(name).cause)
        """)
    assert told == "cancelled"


def test_a_hundred_megabytes_of_output(root, python):
    told = python(root, """
        result = isolated_run(["sh", "-c", "head -c 104857600 /dev/zero | tr '\\\\0' x; printf '\\\\377\\\\376bad' >&2"], limits={"log": "40M"})
        small = isolated_run(["sh", "-c", "head -c 104857600 /dev/zero | tr '\\\\0' x"], capture_bytes=1000)
        whole = sum(len(text) for text in result.door.logs(result.run_id))
        import pathlib, re
        peak = int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
        tell(facts(result), len(result.stdout), set(result.stdout) == {"x"}, result.stderr, result.has("capture-cut"), result.has("log-dropped"),
             len(small.stdout), whole > 40 << 20, whole < 41 << 20, peak < 300_000)
        """)
    assert told == [[0, "ok"], 10 << 20, True, "\ufffd\ufffdbad", True, True, 1000, True, True, True]


def test_a_caller_that_is_gone_leaves_its_submission_running(root, python):
    """A run that was submitted ends as it would have, and another process sees it end."""
    run_id = python(root, """tell(cupel.connect().submit("sleep 1; echo done"))""")
    told = python(root, """
        door = cupel.Local()
        run = door.wait(sys.argv[1])
        tell(run.cause, door.log(run.id).data.decode())
        """, run_id)
    assert told == ["ok", "done\n"]


def test_rerun_takes_secret_variables(cupel, python):
    told = python(cupel, """
        door = cupel.connect()
        run = door.run(["sh", "-c", "echo $API_TOKEN"], env={"API_TOKEN": "hunter2"})
        try:
            door.rerun(run.id)
        except cupel.Refused as error:
            refused = str(error)
        again = door.wait(door.rerun(run.id, env={"API_TOKEN": "hunter2"}))
        tell(run.ok, "API_TOKEN" in refused, again.ok, door.log(again.id).data.decode())
        """)
    assert told == [True, True, True, "hunter2\n"]


def test_a_refusal_does_not_name_the_temporary_file(cupel, python):
    told = python(cupel, """
        try:
            cupel.run(["true"], limits={"memory": "900T"})
        except cupel.Refused as error:
            tell(str(error))
        """)
    assert told.startswith("memory 900T is more than all runs together may use"), told


# The one interface.

def test_local_has_all_of_the_interface(cupel, python):
    told = python(cupel, """
        door, quest = cupel.Local(), cupel.new_id()
        run = door.run("seq 1 3; echo x > out/a; echo y > out/b", quest=quest, name="n", limits={"memory": 64 << 20})
        follow = door.submit("for i in 1 2 3; do echo $i; sleep 0.1; done")
        live = "".join(door.logs(follow, follow=True))
        events = [event["event"] for event in door.events(follow, follow=True)]
        with door.open_output(run.id, "out/a") as file:
            opened = file.read().decode()
        again = door.wait(door.rerun(run.id))
        foreign = door.submit(["sleep", "100"])
        next(door.events(foreign, follow=True))
        stranger = cupel.Local()
        try:
            stranger.wait(foreign, 0.2)
        except cupel.WaitTimeout:
            stranger.cancel(foreign)
        try:
            door.show("nobody")
        except cupel.NotFound:
            listed = [run.name for run in door.list(quest=quest, limit=10, newest_first=False)]
        pathlib.Path("p.yaml").write_text("parameters: {k: 1}\\nsteps:\\n  a: {command: 'echo {{k}} > out/a'}\\n  b: {command: 'cat data/a', inputs: [{step: a, path: out/a}]}\\n")
        pipeline = door.run(pathlib.Path("p.yaml"), parameters={"k": "two words"})
        resumed = door.wait(door.resume(pipeline.id))
        with open("p.yaml", "a") as file:
            file.write("# changed\\n")
        try:
            door.wait(door.resume(pipeline.id))
        except cupel.Refused as error:
            assert "changed" in str(error), error
        else:
            raise AssertionError("a changed file")
        tell([run.ok, run.name, run.quest == quest, run.runtime, run.memory_peak_bytes > 0], live, [events[0], events[-1]],
             [output.path for output in door.outputs(run.id)], opened, [path.read_text() for path in door.download(run.id, "got")],
             again.cause, stranger.wait(foreign).cause, listed, [pipeline.kind, pipeline.cause, pipeline.returncode], resumed.cause,
             sorted({line["step"] for line in door.why(pipeline.id)}), door.plan(["true"])["plan"]["argv"],
             [runtime["name"] for runtime in door.runtimes()], quest in [row["quest"] for row in door.quests()], "level" in door.host()["health"],
             door.wait(foreign).returncode)
        """)
    assert told == [[True, "n", True, "base", True], "1\n2\n3\n", ["accepted", "verdict"], ["out/a", "out/b"], "x\n", ["x\n", "y\n"],
                    "ok", "cancelled", ["n", "n"], ["pipeline", "ok", 0], "ok", ["a", "b"], ["true"], ["base"], True, True, -15]


def test_async_local_has_the_same(root, python):
    told = python(root, """
        async def main():
            quest = cupel.new_id()
            async with cupel.AsyncLocal() as door:
                run = await door.run("seq 1 3; echo x > out/a", quest=quest)
                follow = await door.submit("for i in 1 2 3; do echo $i; sleep 0.1; done")
                live = "".join([text async for text in door.logs(follow, follow=True)])
                events = [event["event"] async for event in door.events(follow, follow=True)]
                opened = b"".join([piece async for piece in door.open_output(run.id, "out/a")])
                slow = await door.submit(["sleep", "100"])
                try:
                    await door.wait(slow, 0.2)
                except cupel.WaitTimeout:
                    await door.cancel(slow)
                other = cupel.AsyncLocal()
                return [run.ok, live, [events[0], events[-1]], opened.decode(), (await other.wait(slow)).cause, (await door.wait(slow)).cause,
                        [path.name for path in await door.download(run.id, "got")], (await other.wait(follow)).cause,
                        (await door.wait(await door.rerun(run.id))).cause, "".join([text async for text in door.logs(run.id)]),
                        len(await door.list(quest=quest)), quest in [row["quest"] for row in await door.quests()], len(await door.runtimes()),
                        (await door.plan(["true"]))["plan"]["argv"], "level" in (await door.host())["health"]]
        tell(asyncio.run(main()), open_things()[1])
        """)
    assert told == [[True, "1\n2\n3\n", ["accepted", "verdict"], "x\n", "cancelled", "cancelled", ["a"], "ok", "ok", "1\n2\n3\n", 2, True, 1,
                     ["true"], True], []]


def test_without_a_service_the_program_is_used(root, python):
    """Also where a dead service left its socket; one that is named outright has to be there."""
    assert python(root, """
        import socket
        kinds = [type(cupel.connect()).__name__, type(cupel.connect_async()).__name__]
        path = os.environ["CUPEL_HOME"] + "/cupel.sock"
        os.makedirs(os.environ["CUPEL_HOME"], mode=0o755, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        kinds.append(type(cupel.connect()).__name__)
        with socket.socket(socket.AF_UNIX) as alive:
            os.unlink(path)
            alive.bind(path), alive.listen()
            kinds += [type(cupel.connect()).__name__, type(cupel.connect_async()).__name__]
        os.unlink(path)
        os.environ["CUPEL_SERVICE"] = "/no/such/socket"
        result = isolated_run(["true"])
        os.environ["CUPEL_SERVICE"] = "none"
        kinds.append(type(cupel.connect()).__name__)
        tell(kinds, facts(result))
        """) == [["Local", "AsyncLocal", "Local", "Client", "AsyncClient", "Local"], [125, "no-service"]]


# Documents.

def test_the_example_runs_before_and_after(root, python, package):
    """They differ by the import, and print the same; only one of them leaves a record."""
    place = root.dir / root.new_id()
    shutil.copytree(ROOT / "examples/platform", place)
    texts = [(place / name).read_text(encoding="utf-8").splitlines() for name in ("before.py", "after.py")]
    differ = [pair for pair in zip(*texts) if len(set(pair)) == 2]
    assert [words[0].replace("plain_runtime", "cupel.platform") == words[1] for words in differ] == [True]
    said, runs = [], []
    for name in ("before.py", "after.py"):
        status, out, err = root.call(PYTHON, place / name, env={"PYTHONPATH": str(package), "CUPEL": str(root.binary)})
        assert status == 0, err
        said.append(out)
        runs.append(len(os.listdir(root.home / "runs")) if root.home.exists() else 0)
    assert said[0] == said[1] and "GC 52.4%" in said[0], said
    assert runs[1] == runs[0] + 1


def test_the_manual_shows_what_works(root, python):
    """Each block of Python in docs/PYTHON.md runs as it stands, in its order."""
    text = (ROOT / "docs/PYTHON.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(found) >= 4
    script = "print('hello')\nopen('out/result.csv', 'w').write('a,b\\n1,2\\n')\n"
    assert python(root, "\n".join([*found, "tell('done')"]), files={"analysis.py": script}) == "done"


def test_every_option_is_in_the_manual(package):
    options = subprocess.run([PYTHON, "-c", "import cupel.platform as p, dataclasses; print(*[f.name for f in dataclasses.fields(p.Options)])"],
                             env={"PYTHONPATH": str(package)}, capture_output=True, text=True, check=True).stdout.split()
    text = (ROOT / "docs/PYTHON.md").read_text(encoding="utf-8")
    assert len(options) > 15 and [name for name in options if f"`{name}`" not in text] == []
    names = subprocess.run([PYTHON, "-c", "import cupel.platform as p; print(*p.__all__)"], env={"PYTHONPATH": str(package)},
                           capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in names if not name.endswith("_async") and f"`{name}" not in text] == []
