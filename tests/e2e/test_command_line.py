"""The command line: words that people know from docker, Slurm and other programs, help, sizes, completion of names, colour."""

import json
import subprocess

import pytest

import cupel as lib
import terminals


def said(caller, *words, status=2):
    got, out, err = caller.call(caller.binary, *words)
    assert got == status, (got, out, err)
    return err


@pytest.mark.parametrize("word, here", [
    ("exec", "cupel logs -f ID"), ("shell", "cupel run -- sh"), ("stop", "cupel cancel ID"), ("rm", "cupel gc"), ("kill", "cupel cancel ID"),
    ("inspect", "cupel show ID"), ("status", "cupel ps"), ("pull", "cupel runtime create NAME --kind image"), ("scancel", "cupel cancel ID"),
    ("sbatch", "cupel submit"), ("squeue", "cupel ps"), ("images", "cupel runtime list"), ("cp", "cupel outputs ID --to DIR")])
def test_commands_of_others(root, word, here):
    err = said(root, word)
    assert err.startswith(f"cupel: there is no command '{word}': ") and here in err and "did you mean" not in err


@pytest.mark.parametrize("words, here", [
    (["--gpus", "all"], "devices:"), (["--gpus=1"], "devices:"), (["--gres", "gpu:1"], "devices:"), (["-v", "/a:/b"], "--data PATH[:NAME]"),
    (["--volume=/a:/b"], "--data PATH[:NAME]"), (["-it"], "no terminal"), (["--rm"], "not needed"), (["--mem", "2G"], "--memory SIZE"),
    (["--cpus-per-task", "2"], "--cpus N"), (["--partition", "x"], "-x NAME"), (["--array", "1-3"], "scatter:"), (["--detach"], "cupel submit")],
    ids=lambda value: value[0] if isinstance(value, list) else "")
def test_options_of_others(root, words, here):
    for command in ("run", "plan", "submit"):
        err = said(root, command, *words, "--", "true")
        assert err.startswith(f"cupel: there is no option {words[0]}: ") and here in err


def test_an_own_mistake_is_still_a_typing_mistake(root):
    assert "did you mean --memory?" in said(root, "run", "--memroy", "2G", "--", "true")
    assert "did you mean 'list'?" in said(root, "lsit")
    assert "--data" not in said(root, "list", "-v")


def test_every_foreign_word_is_free(root):
    """What cupel has itself is never called foreign."""
    text = (lib.TESTS.parent / "src/cli/foreign.c").read_text(encoding="utf-8")
    words = {word for row in text.split('{ "')[1:] for word in row.split('"')[0].split()}
    assert {"stop", "--gpus", "-v"} <= words
    status, out, _ = root.call(root.binary, "--help")
    own = {line.split()[0] for line in out.splitlines() if line.startswith("  ")}
    status, out, _ = root.call(root.binary, "submit", "--help")
    own |= {word.rstrip(",") for line in out.splitlines() for word in line.split()[:2] if word.startswith("-")}
    assert status == 0 and {"run", "--memory", "-m"} <= own and not words & own


def test_help_of_a_command(root):
    for words in (["run"], ["runtime"], ["runtime", "create"], ["list"]):
        status, out, _ = root.call(root.binary, "help", *words)
        assert status == 0 and out == root.call(root.binary, *words, "--help")[1] and out.startswith(f"usage: cupel {' '.join(words)} ")
    assert root.call(root.binary, "help")[1] == root.call(root.binary, "--help")[1]
    assert "there is no command 'nosuch'" in said(root, "help", "nosuch")
    assert "there is no command 'runtime nosuch'" in said(root, "help", "runtime", "nosuch")
    assert "cupel cancel ID" in said(root, "help", "stop")


@pytest.mark.parametrize("size", ["256M", "256m", "256MB", "256mb", "256Mi", "256MiB", "0.25G", "0.25g"])
def test_sizes_are_binary_however_they_are_written(root, size):
    status, out, err = root.call(root.binary, "plan", "--json", "--memory", size, "--", "true")
    assert status == 0, err
    assert json.loads(out)["plan"]["limits"]["memory"]["raw"] == 256 << 20


def completed(caller, line):
    """What bash offers at the end of the line."""
    script = (
        f"source <({caller.binary} completion bash); COMP_WORDS=({line}); [[ $LINE == *' ' ]] && COMP_WORDS+=('');"
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _cupel; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    status, out, err = caller.call("bash", "-c", script, env={"LINE": line, "PATH": f"{caller.base}:/usr/bin:/bin"})
    assert status == 0, err
    return set(out.split())


def test_names_are_completed_in_bash(fresh):
    fresh.configure("executors:\n  far: {kind: program, command: [/bin/true]}\n")
    place = fresh.base / "runtimes.d"
    place.mkdir()
    (place / "mine.yaml").write_text("name: mine\nkind: system\n", encoding="utf-8")
    assert fresh.run("--", "true", id="run-one").status == 0
    assert fresh.run("--", "true", id="run-two").status == 0
    assert {"base", "mine"} <= completed(fresh, "cupel run -r ")
    assert completed(fresh, "cupel run --runtime mi") == {"mine"}
    assert completed(fresh, "cupel run --runtime = mi") == {"mine"}
    assert completed(fresh, "cupel runtime check m") == {"mine"}
    assert completed(fresh, "cupel run -x ") == {"local", "far"}
    assert completed(fresh, "cupel executor check f") == {"far"}
    assert completed(fresh, "cupel show run-") == {"run-one", "run-two"}
    assert completed(fresh, "cupel logs -f run-t") == {"run-two"}
    assert completed(fresh, "cupel help li") == {"list"}
    assert completed(fresh, "cupel run --mem") == {"--memory"}
    (fresh.dir / "script.py").write_text("", encoding="utf-8")
    assert completed(fresh, "cupel run scr") == {"script.py"}


def test_a_name_cannot_act_on_the_shell_that_completes_it(fresh):
    """compgen expands its words: a file in a project's runtimes.d can have any name."""
    place = fresh.base / "runtimes.d"
    place.mkdir()
    (place / "$(touch pwned).yaml").write_text("name: '$(touch pwned)'\nkind: system\n", encoding="utf-8")
    assert "base" in completed(fresh, "cupel run -r ")
    assert not (fresh.dir / "pwned").exists() and "pwned" not in fresh.call(fresh.binary, "completion", "--names", "runtimes")[1]


def test_scripts_for_other_shells_ask_for_names(root):
    for shell, words in (("zsh", "_cupel_names runtimes"), ("fish", "(cupel completion --names executors)")):
        status, out, _ = root.call(root.binary, "completion", shell)
        assert status == 0 and words in out and "--names runs" in out.replace("_cupel_names runs", "--names runs")
    assert "runs, runtimes or executors" in said(root, "completion", "--names", "x")


def test_several_runtimes_are_checked(fresh):
    place = fresh.base / "runtimes.d"
    place.mkdir()
    for name in ("one", "two", "three"):
        (place / f"{name}.yaml").write_text(f"name: {name}\nkind: system\n", encoding="utf-8")
    status, out, err = fresh.call(fresh.binary, "runtime", "check", "one", "three")
    assert status == 0 and [line for line in out.splitlines() if ": healthy" in line] == ["one: healthy", "three: healthy"], (out, err)
    status, out, _ = fresh.call(fresh.binary, "runtime", "check", "--json", "two", "one")
    assert status == 0 and [row["name"] for row in json.loads(out)] == ["one", "two"]
    status, out, _ = fresh.call(fresh.binary, "runtime", "check", "--json", "two")
    assert status == 0 and json.loads(out)["name"] == "two"
    status, out, err = fresh.call(fresh.binary, "runtime", "check", "one", "nosuch")
    assert status == 2 and out == "" and "there is no runtime 'nosuch'" in err


def test_the_next_command_of_create_works(fresh):
    words = ["runtime", "create", "made", "--kind", "venv", "--to", fresh.dir / "else where"]
    status, out, err = fresh.call(fresh.binary, *words)
    assert status == 0, err
    next_command = out.splitlines()[-1].removeprefix("next: ")
    env = {"PATH": f"{fresh.base}:/usr/bin:/bin"}
    status, out, err = fresh.call("sh", "-c", next_command, env=env)
    assert status == 0 and out.startswith("made: healthy"), (next_command, out, err)
    status, out, err = fresh.call(fresh.binary, "runtime", "create", "other", "--kind", "venv", "--json")
    assert status == 0 and json.loads(out)["next"] == ["cupel", "runtime", "check", "other"]
    assert fresh.call(*json.loads(out)["next"], env=env)[0] == 0


PIPELINE = """
steps:
  one: {command: [sh, -c, "mkdir -p out/d; echo 1 > out/d/a.txt"]}
  two:
    scatter: {x: [p, q]}
    command: [sh, -c, "echo {{x}} > out/b.txt"]
  three: {needs: [one, two], command: ["false"]}
"""


def test_outputs_of_a_pipeline(fresh):
    (fresh.dir / "p.yaml").write_text(PIPELINE, encoding="utf-8")
    status, _, err = fresh.call(fresh.binary, "run", "-q", "--id", "pipe", "p.yaml")
    assert status == 1, err
    paths = ["one/out/d/a.txt", "two/p/out/b.txt", "two/q/out/b.txt"]
    status, out, err = fresh.call(fresh.binary, "outputs", "pipe")
    assert status == 0 and [line.split()[0] for line in out.splitlines()[1:]] == paths, (out, err)
    assert fresh.call(fresh.binary, "outputs", "pipe", paths[1])[1] == "p\n"
    shown = json.loads(fresh.call(fresh.binary, "outputs", "pipe", "--json")[1])
    assert shown["pipeline"] == "pipe" and [(f["step"], f.get("shard")) for f in shown["files"]] == [("one", None), ("two", "p"), ("two", "q")]
    assert {f["run"] for f in shown["files"]} <= {path.name for path in (fresh.home / "runs").iterdir()}
    only = json.loads(fresh.call(fresh.binary, "outputs", "pipe", "two/**", "--json")[1])
    assert [f["path"] for f in only] == paths[1:]
    assert fresh.call(fresh.binary, "outputs", "pipe", "--to", "copies")[:2] == (0, "")
    assert [(fresh.dir / "copies" / path).read_text() for path in paths] == ["1\n", "p\n", "q\n"]
    assert "has no output 'nosuch'" in said(fresh, "outputs", "pipe", "nosuch")


def test_colour_is_for_terminals_that_want_it(fresh):
    assert fresh.run("--", "true", id="good").status == 0
    assert fresh.run("--", "false", id="bad").status == 1
    coloured = {"list": [b"\033[32mok", b"\033[31mexit"], "show good": [b"\033[32mok\033[m"]}
    for words, parts in coloured.items():
        _, seen = terminals.seen_on(fresh, *words.split())
        assert all(part in seen for part in parts), seen
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            _, seen = terminals.seen_on(fresh, *words.split(), env=env)
            assert b"\033" not in seen
        with fresh.popen(fresh.binary, *words.split(), stdout=subprocess.PIPE, env={"TERM": "xterm"}) as process:
            assert b"\033" not in process.communicate(timeout=60)[0]
    _, seen = terminals.seen_on(fresh, "run", "--", "false")
    assert b"\033[31mexit\033[m" in seen
    _, seen = terminals.seen_on(fresh, "run", "nosuch.py")
    assert seen.startswith(b"\033[31mcupel:\033[m ")
    _, seen = terminals.seen_on(fresh, "list", env={"NO_COLOR": ""})
    assert b"\033[32m" in seen, "no-color.org: an empty value does not count"
