"""Conda's activation against an independent one: the order that conda's own activator has, written
down here in Python, and a real bash that sources the scripts. Both must end in the same
environment, on prefixes that hold each case."""

import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CUPEL_BUILD", ROOT / "build"))
PROBE = BUILD / "tests/e2e/runtime-probe"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# What is set before anything is activated.
BEFORE = {"PATH": SYSTEM_PATH, "HOME": "/tmp", "LANG": "C.UTF-8"}
OF_BASH = {"_", "SHLVL", "PWD", "OLDPWD"}
ENDED_EARLY = 3


def probe(*args):
    return subprocess.run([PROBE, *args], capture_output=True, check=True, timeout=60).stdout


def parse(dump):
    """An `env -0` as a dict of bytes."""
    return dict(record.split(b"=", 1) for record in dump.split(b"\0")[:-1])


# conda's order, level 0: PATH, CONDA_*, env_vars.d sorted, conda-meta/state, the installation's.

def conda_variables(prefix):
    base = prefix.parent.parent if prefix.parent.name == "envs" else prefix
    if not (base / "condabin").exists() and not (base / "bin/conda").exists():
        base = None
    if base == prefix:
        name = "base"
    else:
        name = prefix.name if prefix.parent.name == "envs" else str(prefix)
    path = [f"{prefix}/bin"]
    if base and (base / "condabin").exists():
        path.append(f"{base}/condabin")
    variables = {"PATH": ":".join([*path, SYSTEM_PATH]), "CONDA_PREFIX": str(prefix),
                 "CONDA_SHLVL": "1", "CONDA_DEFAULT_ENV": name,
                 "CONDA_PROMPT_MODIFIER": f"({name}) "}
    if prefix.parent.parent.name == ".pixi":
        project = prefix.parents[2]
        variables |= {"PIXI_PROJECT_ROOT": str(project), "PIXI_ENVIRONMENT_NAME": prefix.name}
    own = {}
    folder = prefix / "etc/conda/env_vars.d"
    for file in sorted(os.listdir(folder)) if folder.exists() else []:
        own.update(json.loads((folder / file).read_text(encoding="utf-8")))
    if (prefix / "conda-meta/state").exists():
        state = json.loads((prefix / "conda-meta/state").read_text(encoding="utf-8"))
        own.update(state.get("env_vars", {}))
    own = {name: value for name, value in own.items()
           if value != "***unset***" and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name)}
    own |= {f"__CONDA_SHLVL_0_{name}": BEFORE[name] for name in own if name in BEFORE}
    empty = {name.upper(): "" for name, value in own.items() if value is None}
    for name, value in own.items():
        if value is not None:
            variables[name.upper()] = str(value)
    if base and (base / "bin/conda").exists():
        empty |= {"_CE_M": "", "_CE_CONDA": ""}
        variables |= {"CONDA_EXE": f"{base}/bin/conda", "_CONDA_EXE": f"{base}/bin/conda",
                      "CONDA_PYTHON_EXE": f"{base}/bin/python", "_CONDA_ROOT": str(base)}
    return empty | variables  # what has no value is written first, and what has one goes over it


def conda_environment(prefix, scratch):
    """Exports and sources as conda's shell function would evaluate them, quoted rightly."""
    folder = prefix / "etc/conda/activate.d"
    scripts = sorted(os.listdir(folder)) if folder.exists() else []
    lines = [f"export {name}={shlex.quote(value)}"
             for name, value in conda_variables(prefix).items()]
    lines += [f". {shlex.quote(str(folder / name))}" for name in scripts
              if name.endswith(".sh") and (folder / name).is_file()]
    dump = scratch / "reference"
    lines.append(f"/usr/bin/env -0 >{shlex.quote(str(dump))}")
    subprocess.run(["/bin/bash", "--noprofile", "--norc", "-c", "\n".join(lines)], check=True,
                   env=BEFORE, cwd="/tmp", timeout=60,
                   stdin=subprocess.DEVNULL, capture_output=True)
    return {name: value for name, value in parse(dump.read_bytes()).items()
            if name.decode() not in OF_BASH}


# cupel's way: variables, then the program in a shell, then the difference.

def run_program(environment, scripts, scratch):
    before, after = scratch / "before", scratch / "after"
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", probe("program"), "bash", before, after,
         *scripts], env=environment, cwd="/tmp", stdin=subprocess.DEVNULL, capture_output=True,
        timeout=60, check=False)
    return done, before, after


def cupel_environment(prefix, scratch, status=0):
    records = probe("activation", prefix).split(b"\0")[:-1]
    end = records.index(b"")
    after = records.index(b"", end + 1)
    names, scripts = records[end + 1:after], records[after + 1:]
    environment = {name.encode(): value.encode() for name, value in BEFORE.items()}
    environment |= {b"__CONDA_SHLVL_0_" + name.upper(): environment[name] for name in names if name in environment}
    environment |= dict(r.split(b"=", 1) for r in records[2:end])
    environment[b"PATH"] = records[0] + (b"" if records[1] == b"whole" else b":" + SYSTEM_PATH.encode())
    done, before, after = run_program(environment, scripts, scratch)
    assert done.returncode == status, done.stderr
    for record in probe("difference", before, after).split(b"\0")[:-1]:
        if record.startswith(b"+"):
            name, value = record[1:].split(b"=", 1)
            environment[name] = value
        else:
            del environment[record[1:]]
    return environment


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def make(root, where="prefix", scripts=None, state=None, packages=None):
    prefix = root / where
    (prefix / "conda-meta").mkdir(parents=True)
    for name, text in (scripts or {}).items():
        write(prefix / "etc/conda/activate.d" / name, text)
    for name, variables in (packages or {}).items():
        write(prefix / "etc/conda/env_vars.d" / name, json.dumps(variables))
    if state is not None:
        write(prefix / "conda-meta/state", json.dumps({"version": 1, "env_vars": state}))
    return prefix


HOSTILE_VALUES = {
    "SINGLE": "it's", "DOUBLE": 'say "x"', "LINES": "a\nb\n\nc\n", "EQUALS": "a=b=c", "EMPTY": "",
    "DOLLAR": "$HOME ${HOME} $(id) `id`", "BACKSLASH": "\\ \\n \\\\", "BLANKS": "  a  b\t",
    "UTF8": "é ✓ \U0001f600", "GLOB": "* ? [a-z]", "SEMICOLON": "; exit 1 #", "TAB": "\t",
    "QUOTED": "'; export INJECTED=1; '", "NUMBER": 7, "NEGATIVE": -3, "FLAG": False,
    "ESCAPE": "\x1b[31m", "REAL": 1.5, "WHOLE": 3.0, "TENTH": 0.1, "THIRD": 1 / 3, "TINY": 5e-324, "SMALL": 0.0001, "SMALLER": 0.00001,
    "LARGE": 1e15, "LARGER": 1e16, "LARGEST": 1.7976931348623157e308, "MINUS": -2.5e-9, "ZERO": 0.0, "MANY": 123456789.123456789,
    "LIST": [1, 2.5, "a", "it's", 'a"b', "'\"", None, True, [], {}], "MAP": {"k": ["v\n\t\\"], "é": -1}, "BOX": ["\x7f\x01"],
}

PREFIXES = {
    "empty": {},
    "hostile values": {"state": HOSTILE_VALUES},
    "hostile values of packages": {"packages": {"a.json": HOSTILE_VALUES}},
    "packages in order": {"packages": {"b.json": {"X": "b", "B": "1"}, "a.json": {"X": "a"},
                                       "C.json": {"X": "C"}, "no-ending": {"N": "1"}}},
    "state wins": {"packages": {"a.json": {"X": "package", "Y": "y"}}, "state": {"X": "state"}},
    "unset is skipped": {"packages": {"a.json": {"X": "package"}},
                         "state": {"X": "***unset***", "Y": "***unset***", "Z": None}},
    "capitals": {"state": {"lower": "1", "Mixed_2": "2", "foo": "a", "FOO": "b", "Foo": "c"}},
    "replaced keys keep their place": {"packages": {"a.json": {"foo": "1", "FOO": "2"}},
                                       "state": {"foo": "3"}},
    "PATH is replaced": {"state": {"PATH": "/mine/bin"}},
    "what was set before is saved": {"state": {"LANG": "de_DE", "HOME": "/elsewhere", "lang": "no", "NEW": "1"}},
    "null": {"packages": {"a.json": {"X": "package", "LANG": "C"}}, "state": {"X": None, "LANG": None, "CONDA_PREFIX": None,
                                                                             "_CE_M": None, "foo": None, "FOO": "b", "BAR": "c", "bar": None}},
    "a directory among the scripts": {"scripts": {"a.sh": "export A=1\n", "x.sh/y": "export Y=1\n", "z.sh": "export Z=1\n"}},
    "names no shell takes": {"state": {"A-B": "1", "1A": "2", "": "3", "A B": "4", "A=B": "5",
                                       "é": "6", "A;id": "7", "OK": "8"}},
    "conda's own replaced": {"state": {"CONDA_DEFAULT_ENV": "mine", "CONDA_EXE": "/mine"}},
    "scripts see the variables": {
        "state": {"FROM_STATE": "it's"},
        "scripts": {"a.sh": 'export SEEN="$FROM_STATE $CONDA_PREFIX $CONDA_SHLVL"\n'}},
    "scripts in order": {"scripts": {
        "b.sh": "export ORDER=$ORDER:b\n", "a.sh": "export ORDER=$ORDER:a\n",
        "B.sh": "export ORDER=$ORDER:B\n", "10.sh": "export ORDER=$ORDER:10\n",
        "9.sh": "export ORDER=$ORDER:9\n", ".h.sh": "export ORDER=$ORDER:h\n",
        "c.csh": "setenv ORDER no\n", "d.sh.bak": "export ORDER=no\n"}},
    "odd script names": {"scripts": {
        "a b.sh": "export A=1\n", "c'd\".sh": "export B=1\n", "$(id).sh": "export C=1\n",
        "-n.sh": "export D=1\n", "new\nline.sh": "export E=1\n", "*.sh": "export F=1\n"}},
    "scripts print": {"scripts": {"a.sh": "echo out; echo err >&2; printf 'X=1\\0'\n",
                                  "b.sh": "export B=1\n"}},
    "scripts fail": {"scripts": {"a.sh": "false\nexport A=1\nreturn 7\n", "b.sh": "export B=$A\n",
                                 "c.sh": "if then\n", "d.sh": "no-such-command\nexport D=1\n"}},
    "scripts change values": {
        "state": {"X": "1", "GONE": "1", "LIST": "a"},
        "scripts": {"a.sh": "export X=2 LIST=$LIST:b\nunset GONE\nnot_exported=1\n"
                            "export MULTI=$'a\\nb=c\\'d' PATH=$CONDA_PREFIX/opt:$PATH\n"}},
    "scripts change the shell": {"scripts": {
        "a.sh": "cd /\nset -f\nIFS=:\nexport A=1\nexec 3>&1\ntrap 'echo debug' DEBUG\n",
        "b.sh": "shopt -s nullglob\nexport B=\"$#\"\nset -- 1 2 3\n", "c.sh": "export C=$#\n"}},
    "scripts take PATH away": {"scripts": {"a.sh": "export PATH=\n", "b.sh": "export B=1\n"}},
    "scripts export functions": {"scripts": {"a.sh": "f() { echo 'x'; }\nexport -f f\n"}},
    "scripts with bytes": {"scripts": {"a.sh": b"export BYTES=$'\\xff\\xfe'\"\xe9\"\n"}},
    "scripts with carriage returns": {"scripts": {"a.sh": "export CR=1\r\n"}},
    "script reads stdin": {"scripts": {"a.sh": "read -r line\nexport LINE=\"[$line]\"\n"}},
    "micromamba": {"where": "root/envs/name"},
    "pixi": {"where": "project/.pixi/envs/default"},
    "named": {"where": "base/envs/sc", "state": {"CONDA_EXE": "/mine", "_CE_M": "-m"}},
    "odd place": {"where": "a b'c\"$(id)/envs/x y", "state": {"X": "1"},
                  "scripts": {"a.sh": "export P=$CONDA_PREFIX\n"}},
}


@pytest.mark.parametrize("case", PREFIXES)
def test_same_as_conda(case, tmp_path):
    prefix = make(tmp_path, **PREFIXES[case])
    if case == "micromamba":
        (tmp_path / "root/condabin").mkdir()
    if case == "named":
        write(tmp_path / "base/bin/conda", "")
        write(tmp_path / "base/condabin/conda", "")
    assert cupel_environment(prefix, tmp_path) == conda_environment(prefix, tmp_path)


def test_base_itself(tmp_path):
    prefix = make(tmp_path, state={"X": "1"})
    write(prefix / "bin/conda", "")
    write(prefix / "condabin/conda", "")
    ours = cupel_environment(prefix, tmp_path)
    assert ours == conda_environment(prefix, tmp_path)
    assert ours[b"CONDA_DEFAULT_ENV"] == b"base"


def test_the_comparison_can_fail(tmp_path):
    """The control: an environment that differs in one variable is told apart."""
    prefix = make(tmp_path, scripts={"a.sh": "export X=1\n"})
    ours = cupel_environment(prefix, tmp_path)
    write(prefix / "etc/conda/activate.d/a.sh", "export X=2\n")
    reference = conda_environment(prefix, tmp_path)
    assert ours != reference
    assert {name for name in ours if ours[name] != reference[name]} == {b"X"}


# What conda would not survive, the shell's end: there is no reference, the user's shell is gone.

@pytest.mark.parametrize("text", ["export A=1\nexit 5\n", "export A=1\nset -e\nfalse\n",
                                  "export A=1\nset -u\n: $no_such_variable\n",
                                  "export A=1\nset -o posix\n. /no/such/file\n",
                                  "export A=1\nexit\n", "export A=1\nf() { exit 1; }\nf\n"])
def test_a_script_that_ends_the_shell(text, tmp_path):
    prefix = make(tmp_path, scripts={"a.sh": "export FIRST=1\n", "b.sh": text,
                                     "c.sh": "export NEVER=1\n"})
    ours = cupel_environment(prefix, tmp_path, ENDED_EARLY)
    assert (ours[b"FIRST"], ours[b"A"]) == (b"1", b"1")
    assert b"NEVER" not in ours
    script = prefix / "etc/conda/activate.d/b.sh"
    done, _, _ = run_program({"PATH": SYSTEM_PATH}, [script], tmp_path)
    assert b"b.sh ended the shell" in done.stderr


def test_options_of_one_script_do_not_end_the_next(tmp_path):
    """Conda would leave `set -e` to the user's shell; here it ends with its script."""
    prefix = make(tmp_path, scripts={"a.sh": "set -eu\nset -C\nset -a\nset -o posix\n",
                                     "b.sh": "false\n: $no_such_variable\nUNMARKED=1\n"
                                             "export B=1\n"})
    ours = cupel_environment(prefix, tmp_path)
    assert ours[b"B"] == b"1"
    assert b"UNMARKED" not in ours


@pytest.mark.parametrize("text", ["exec /bin/true\n", "kill -9 $$\n", "set -n\n",
                                  "trap 'exit 9' EXIT\nexit 0\n"])
def test_a_shell_that_is_gone_leaves_nothing_to_believe(text, tmp_path):
    script = tmp_path / "a.sh"
    write(script, text)
    done, before, after = run_program({"PATH": SYSTEM_PATH}, [script], tmp_path)
    assert before.exists()
    assert not after.exists() or done.returncode not in (0, ENDED_EARLY)
    told = subprocess.run([PROBE, "difference", before, after], capture_output=True, check=False,
                          timeout=60)
    assert told.returncode == 1, told.stdout


def test_no_variable_of_the_program_is_left(tmp_path):
    prefix = make(tmp_path, scripts={"a.sh": "set -a\n", "b.sh": "set -a\nX=1\n"})
    ours = cupel_environment(prefix, tmp_path)
    assert ours[b"X"] == b"1"
    assert not [name for name in ours if name.startswith(b"__cupel")]


@pytest.mark.parametrize("broken", ["{", "[]", '{"env_vars": 3}'])
def test_a_state_that_is_broken_is_refused(broken, tmp_path):
    prefix = make(tmp_path)
    probe("activation", prefix)  # the control
    write(prefix / "conda-meta/state", broken)
    told = subprocess.run([PROBE, "activation", prefix], capture_output=True, text=True,
                          check=False, timeout=60)
    assert told.returncode == 1
    assert "conda-meta/state" in told.stderr
