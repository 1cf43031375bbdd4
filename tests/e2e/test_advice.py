"""Common mistakes: each gets one message that names the mistake and the remedy."""

import pytest



def refused(caller, *words, command="run", status=2):
    got, out, err = caller.call(caller.binary, command, *words)
    assert got == status and not out, (got, out, err)
    assert err.count("\n") == 1, err
    return err


@pytest.fixture
def files(cupel):
    made = {
        "ok.py": "import sys; print(sys.argv[1:])\n",
        "plain": "echo hi\n",
        "with-shebang": "#!/bin/sh\necho hi\n",
        "prog.c": "int puts(const char *); int main(void) { puts(\"compiled\"); return 0; }\n",
        "data.csv": "a,b\n",
    }
    for name, text in made.items():
        (cupel.dir / name).write_text(text, encoding="utf-8")
        (cupel.dir / name).chmod(0o644)
        cupel.own(cupel.dir / name)
    (cupel.dir / "folder").mkdir(exist_ok=True)
    return cupel


def write(caller, name, text):
    path = caller.dir / name
    path.write_text(text, encoding="utf-8")
    caller.own(path)
    return name


def test_an_option_behind_the_script_is_warned_of(files):
    run_id = files.new_id()
    status, out, err = files.call(files.binary, "run", "--id", run_id, "ok.py", "--memory", "2G")
    assert status == 0 and out == "['--memory', '2G']\n"
    assert "warning: --memory comes after ok.py and is passed to it" in err and "come before" in err
    for words in (["ok.py", "--memory=2G"], ["ok.py", "x", "--time", "1"]):
        status, _, err = files.call(files.binary, "plan", *words)
        assert status == 0 and "is passed to it" in err
    for words in (["ok.py", "--unknown"], ["ok.py", "memory"], ["--", "./ok.py", "--memory", "2G"], ["-q", "ok.py", "--memory", "2G"]):
        status, _, err = files.call(files.binary, "plan", *words)
        assert status == 0 and "is passed to it" not in err, err


@pytest.mark.parametrize("option", [["--jobs", "2"], ["--force", "x"], ["--keep-going"]], ids=lambda words: words[0])
def test_options_of_pipelines_are_refused_for_one_analysis(files, option):
    one = write(files, "one.yaml", "command: ['true']\n")
    for command in ("run", "plan"):
        for last in (["ok.py"], [one], ["--", "true"]):
            err = refused(files, *option, *last, command=command)
            assert f"{option[0]} is for pipelines" in err and "leave the option out" in err


def test_mistakes_in_code_and_runtime_have_their_place(files):
    for text, place, words in (
        ("name: x\ncode: nosuch.py\n", "2:7", "No such file"),
        ("code: [ok.py,\n  nosuch.py]\n", "2:3", "No such file"),
        ("runtime: nosuch\ncode: ok.py\n", "1:10", "there is no runtime 'nosuch'"),
        ("runtime: docker://ubuntu\ncode: ok.py\n", "1:10", "cupel-runtime-create(1)"),
        ("code: folder\n", "1:7", "is a directory"),
        ("runtime: base\ncode: folder\n", "2:7", "is a directory"),
        ("code: prog.c\n", "1:7", "must be compiled"),
        ("code: data.csv\n", "1:7", "nothing says which program runs"),
    ):
        err = refused(files, write(files, "wrong.yaml", text))
        assert err.startswith(f"cupel: wrong.yaml:{place}: ") and words in err, err


@pytest.mark.parametrize("words, mistake, remedy", [
    (["echo", "hi"], "no script 'echo'", "cupel run -- echo hi"),
    (["plain"], "nothing says which program runs", "chmod +x"),
    (["folder"], "is a directory", "--data"),
    (["prog.c"], "is C source code", "cc data/source.c"),
    (["docker://ubuntu"], "is a container image", "skopeo copy docker://ubuntu oci:image && cupel runtime create NAME --kind image --layout image"),
    (["ubuntu:22.04"], "is a container image", "skopeo copy docker://ubuntu:22.04"),
    (["https://example.org/x.py"], "is an address", "download it"),
    (["-r", "docker://ubuntu", "--", "true"], "is not the name of a runtime", "cupel-runtime-create(1)"),
], ids=lambda value: value[0] if isinstance(value, list) else "")
def test_what_is_no_script_is_named(files, words, mistake, remedy):
    err = refused(files, *words)
    assert mistake in err and remedy in err, err


def test_the_remedies_work(files):
    assert files.run("--", "echo", "hi").stdout == "hi\n"
    result = files.run("--data", f"{files.dir}/prog.c:source.c", "--", "sh", "-c", "cc data/source.c -o program && ./program")
    assert result.stdout == "compiled\n", result.stderr
    assert files.run("--data", f"{files.dir}/plain", "--", "sh", "data/plain").stdout == "hi\n"


def test_a_script_without_shebang(files):
    (files.dir / "plain").chmod(0o755)
    result = files.run("plain")
    assert result.status == 126 and "it has no '#!' line" in result.verdict["completion_notes"]
    assert "cupel run --data SCRIPT -- sh data/SCRIPT" in result.verdict["completion_notes"]
    (files.dir / "with-shebang").chmod(0o755)
    assert files.run("with-shebang").stdout == "hi\n"


PIPELINE = """
parameters: {{sample: a}}
steps:
  one:
    command: "echo {text}"
  two:
    scatter: {scatter}
    command: [sh, -c, "echo {{{{x}}}}"]
"""


def test_mistakes_of_pipelines_are_named(files):
    def mistake(text="x", scatter="{x: [1]}"):
        write(files, "p.yaml", PIPELINE.format(text=text, scatter=scatter))
        return refused(files, "p.yaml", command="plan")

    assert "p.yaml:5:14: {{samle}}: there is no variable or parameter 'samle'; did you mean {{sample}}?" in mistake("{{samle}}")
    err = mistake("{{other}}")
    assert "{{other}}: there is no variable or parameter 'other'; known here: sample" in err and "write \\{{other}}" in err
    assert "p.yaml:7:15: the variable is missing: write scatter: {VARIABLE: {of: one}}" in mistake(scatter="{of: one}")
    assert "the variable is missing: write scatter: {VARIABLE: {range: ...}}" in mistake(scatter="{range: [1, 2]}")
    assert "the variable is missing: write scatter: {VARIABLE: {glob: *.py}}" in mistake(scatter="{glob: '*.py'}")
    assert "the step 'one' has no 'scatter'" in mistake(scatter="{x: {of: one}}")
    write(files, "p.yaml", PIPELINE.format(text="x", scatter="{of: [1], x: [2]}"))
    assert files.call(files.binary, "plan", "p.yaml")[0] == 0, "'of' is a name like any other where a list says so"


def test_a_verdict_says_what_helps(files):
    notes = files.run("--", "python3", "-c", "import nosuchmodule").verdict["completion_notes"]
    assert "The runtime 'base' has no Python module 'nosuchmodule'" in notes and "cupel runtime create" in notes
    notes = files.run("--", "sh", "-c", "echo 'curl: (6) Could not resolve host: x' >&2; exit 6").verdict["completion_notes"]
    assert "a box has none" in notes and "--data" in notes and "administrator to allow --network host" in notes
    files.configure("policy: {network: [none, host]}\n")
    notes = files.run("--", "sh", "-c", "echo 'Could not resolve host: x' >&2; exit 6").verdict["completion_notes"]
    assert "ask for the network: --network host" in notes
    notes = files.run("--", "sh", "-c", "echo 'Could not resolve host: x' >&2").verdict["completion_notes"]
    assert "network" not in notes, "it succeeded"
    notes = files.run("--network", "host", "--", "sh", "-c", "echo 'Could not resolve host: x' >&2; exit 6").verdict["completion_notes"]
    assert "a box has none" not in notes
    files.configure()


def test_a_runtime_that_provides_the_module_is_named(files):
    place = files.base / "runtimes.d"
    place.mkdir(exist_ok=True)
    (place / "other.yaml").write_text("name: other\nkind: system\ninterpreters: {.py: /usr/bin/python3}\nprovides: [nosuchmodule]\n", encoding="utf-8")
    for path in (place, place / "other.yaml"):
        files.own(path)
    notes = files.run("--", "python3", "-c", "import nosuchmodule").verdict["completion_notes"]
    assert "choose one that provides it with -r (other)" in notes, notes
    (place / "other.yaml").unlink()
