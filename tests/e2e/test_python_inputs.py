"""What the Python package gives an analysis: arguments, variables, a working directory, limits and results that come back."""

import json
import os
import re

import pytest



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
