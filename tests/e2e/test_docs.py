"""What the documents say is there: options, keys, causes, commands, files, tests."""

import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BUILD = os.environ.get("CUPEL_BUILD", str(ROOT / "build"))
CUPEL = os.environ.get("CUPEL", f"{BUILD}/cupel")
PAGES = sorted(path.name.removesuffix(".scd") for path in (DOCS / "man").glob("*.scd"))
PAGE_OF = {"doctor": "cupel-doctor.1", "ledger": "cupel-ledger.1", "run": "cupel-run.1", "plan": "cupel-plan.1", "config": "cupel-config.1",
           "list": "cupel-list.1", "show": "cupel-show.1", "logs": "cupel-logs.1",
           "ps": "cupel-ps.1", "top": "cupel-top.1", "diff": "cupel-diff.1", "rerun": "cupel-rerun.1", "resume": "cupel-resume.1", "why": "cupel-why.1",
           "gc": "cupel-gc.1", "outputs": "cupel-outputs.1", "export": "cupel-export.1", "report": "cupel-export.1", "audit": "cupel-audit.1", "verify": "cupel-verify.1", "protect": "cupel-protect.1", "health": "cupel-health.1", "runtime": "cupel-runtime.1", "executor": "cupel-executor.1", "serve": "cupel-serve.1", "token": "cupel-token.1", "submit": "cupel-submit.1", "wait": "cupel-wait.1", "cancel": "cupel-cancel.1", "completion": "cupel.1", "version": "cupel.1"}


def page(name):
    return (DOCS / "man" / f"{name}.scd").read_text(encoding="utf-8")


def call(*args, **env):
    return subprocess.run([CUPEL, *args], capture_output=True, text=True, check=False,
                          env={**os.environ, **env}, stdin=subprocess.DEVNULL)


def commands():
    return re.findall(r"^  (\w+) ", call("--help").stdout, re.MULTILINE)


def options(command):
    return set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", call(command, "--help").stdout
                          .split("options:")[1].replace(",", " ")))


def documented(name):
    """The options a page has an entry for."""
    heads = re.findall(r"^\*-.*$", page(name), re.MULTILINE)
    return set(re.findall(r"\*(--?[a-z][a-z-]*)\*", "\n".join(heads)))


def known(message):
    """The words of `unknown ...; known: a, b, c`."""
    assert "known: " in message, message
    return message.strip().split("known: ")[1].split(", ")


# The manual pages.

def test_every_command_has_a_page():
    assert set(commands()) == set(PAGE_OF)
    for command, name in PAGE_OF.items():
        assert re.search(rf"\*(cupel )?{command}\*", page(name)), command
        assert f"*{command}*" in page("cupel.1")


@pytest.mark.parametrize("command", ["run", "config", "list", "show", "logs", "ps", "top",
                                     "diff", "doctor", "rerun", "resume", "why", "gc", "export", "outputs", "verify", "health", "wait", "cancel"])
def test_every_option_is_in_its_page_and_no_other(command):
    assert options(command) == documented(PAGE_OF[command])


def test_every_option_of_runtime_is_in_its_page_and_no_other():
    words = re.findall(r"^  (\w+) ", call("runtime", "--help").stdout, re.MULTILINE)
    assert {"list", "show", "check", "lock"} <= set(words)
    told = {"cupel-runtime.1": set(), "cupel-runtime-create.1": set()}
    for word in words:
        assert f"*cupel runtime {word}*" in page("cupel-runtime.1")
        name = "cupel-runtime-create.1" if word in ("create", "remove") else "cupel-runtime.1"
        told[name] |= set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)",
                                     call("runtime", word, "--help").stdout.split("options:")[1]
                                     .replace(",", " ")))
    for name, options_told in told.items():
        assert options_told == documented(name), name


def test_every_option_of_executor_is_in_its_page_and_no_other():
    words = re.findall(r"^  (\w+) ", call("executor", "--help").stdout, re.MULTILINE)
    assert words == ["list", "check", "conformance"]
    told = "".join(call("executor", word, "--help").stdout.split("options:")[1].replace(",", " ") for word in words)
    assert all(f"*cupel executor {word}*" in page("cupel-executor.1") for word in words)
    assert set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", told)) == documented("cupel-executor.1")


def test_every_case_of_conformance_is_in_its_page():
    answer = call("executor", "conformance", "--only", "zzzzzzzz", "local")
    cases = answer.stderr.strip().split("they are: ")[1].split(", ")
    assert len(cases) >= 25
    for case in cases:
        assert f"_{case}_" in page("cupel-executor.1").split("# CASES")[1], case


def test_every_question_and_word_of_the_protocol_is_in_its_page():
    """Of cupel-executor(7): what the program asks, and what it understands."""
    source = (ROOT / "src/executor/program.c").read_text(encoding="utf-8")
    words = (ROOT / "src/executor/executor.c").read_text(encoding="utf-8")
    text = page("cupel-executor.7")
    asked = set(re.findall(r'ask(?:_handle)?\(x, "(\w+)"', source))
    assert {"probe", "submit", "find", "poll", "logs", "signal", "cancel", "collect", "reap"} == asked
    for op in asked:
        assert re.search(rf"^\*{op}\*$", text, re.MULTILINE), op
    for key in re.findall(r'(?:json_object_get|count_of|word_of)\(\w+, "(\w+)"', source):
        assert re.search(rf'"{key}"|_{key}_', text), key
    for word in re.findall(r'= "([a-z-]+)"', words.split("job_why_names[]")[0] + words.split("job_why_names[]")[1].split("};")[0]):
        assert word in ("unknown", "none") or re.search(rf"\*{word}\*", text), word


def test_every_key_of_an_executor_is_in_the_page(tmp_path):
    text = page("cupel.yaml.5").split("*executors*:")[1].split("*post_processes*:")[0]
    for kind in ("oci", "engine", "slurm", "program"):
        (tmp_path / "c.yaml").write_text(f"executors: {{a: {{kind: {kind}, zzzzzzzz: 1}}}}\n", encoding="utf-8")
        told = call("config", CUPEL_CONFIG=str(tmp_path / "c.yaml")).stderr
        keys = told.strip().split("it has: ")[1].split(", ")
        assert len(keys) >= 4
        for key in keys:
            assert f"*{key}*" in text.split(f"_{kind}_:")[1].split("\n\n")[0] or key in ("kind", "allow_missing", "patience") and f"*{key}*:" in text, key


def test_every_option_of_report_and_audit_is_in_its_page():
    assert options("report") < documented("cupel-export.1")
    told = call("audit", "verify", "--help").stdout.split("options:")[1].replace(",", " ")
    assert set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", told)) == documented("cupel-audit.1")


def test_every_option_of_protect_is_in_its_page():
    told = "".join(call("protect", word, "--help").stdout.split("options:")[1].replace(",", " ")
                   for word in ("status", "check", "accept"))
    assert set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", told)) == documented("cupel-protect.1")


def test_plan_has_the_options_of_run():
    assert options("plan") == options("run")
    assert "Those of *cupel-run*(1)" in page("cupel-plan.1")


def test_submit_has_the_options_of_run_and_its_own():
    own = {"--priority", "--key", "--not-before", "--wait"}
    assert options("submit") == options("run") - {"--timings", "--raw"} | own
    assert documented("cupel-submit.1") >= own and documented("cupel-submit.1") <= options("submit")
    assert "Those of *cupel-run*(1) but *--timings*" in page("cupel-submit.1")


def test_short_options_stand_beside_their_long_ones():
    for letter, name in re.findall(r"^  -(\w), --([a-z-]+)", call("run", "--help").stdout,
                                   re.MULTILINE):
        assert f"*-{letter}*, *--{name}*" in page("cupel-run.1")


def keys_of_analysis(tmp_path, text):
    file = tmp_path / "a.yaml"
    file.write_text(text, encoding="utf-8")
    return known(call("plan", str(file)).stderr)


def test_every_key_of_an_analysis_is_in_its_page(tmp_path):
    text = page("cupel-analysis.5")
    for key in keys_of_analysis(tmp_path, "zzzzzzzz: 1"):
        assert re.search(rf"^\*{key}\*:", text, re.MULTILINE), key
    for kind in ("inputs", "outputs"):
        for key in keys_of_analysis(tmp_path, f"{kind}: [{{zzzzzzzz: 1}}]"):
            assert f"*{key}*: " in text, key


def test_every_key_of_a_runtime_is_in_its_page(tmp_path):
    text = page("cupel-runtimes.5")
    (tmp_path / "runtimes.d").mkdir()
    (tmp_path / "c.yaml").write_text("{}\n", encoding="utf-8")
    (tmp_path / "runtimes.d/x.yaml").write_text("zzzzzzzz: 1\n", encoding="utf-8")
    answer = call("plan", "-r", "x", "--", "true", CUPEL_CONFIG=str(tmp_path / "c.yaml"))
    assert len(known(answer.stderr)) > 10
    for key in known(answer.stderr):
        assert re.search(rf"^\*{key}\*:", text, re.MULTILINE), key


def test_every_limit_is_in_the_page_with_its_built_in_value(tmp_path):
    said = dict(re.findall(r"^\*(\w+)\* \((.*)\)$", page("cupel-analysis.5"), re.MULTILINE))
    assert list(said) == keys_of_analysis(tmp_path, "limits: {zzzzzzzz: 1}")
    empty = tmp_path / "empty.yaml"
    empty.touch()
    shown = call("config", "--json", CUPEL_CONFIG=str(empty), XDG_CONFIG_HOME=str(tmp_path))
    for value in json.loads(shown.stdout):
        if value["key"].startswith("profiles.default."):
            assert said.pop(value["key"].split(".")[2]) == value["value"]
    assert set(said) <= {"cpu_time", "file_size", "warn"}


def keys_of_configuration(tmp_path, text):
    file = tmp_path / "c.yaml"
    file.write_text(text, encoding="utf-8")
    return known(call("config", CUPEL_CONFIG=str(file)).stderr)


def test_every_key_of_the_configuration_is_in_its_page(tmp_path):
    text = page("cupel.yaml.5")
    for key in keys_of_configuration(tmp_path, "zzzzzzzz: 1"):
        assert re.search(rf"^\*{key}[.*]", text, re.MULTILINE), key
        if key in ("project", "work", "uids", "defaults", "policy", "cgroup", "disk"):
            for inner in keys_of_configuration(tmp_path, f"{key}: {{zzzzzzzz: 1}}"):
                assert f"*{key}.{inner}*" in text


def test_every_cause_and_layer_is_in_the_page_of_run():
    text = page("cupel-run.1")
    verdict = (ROOT / "src/keeper/cause.c").read_text(encoding="utf-8")
    causes = re.findall(r'\[CAUSE_\w+\] = "([a-z-]+)"', verdict)
    assert len(causes) > 10
    for cause in causes:
        assert re.search(rf"^\*{cause}\* \(", text, re.MULTILINE), cause
    layers = known(call("plan", "--allow-missing", "zzzzzzzz", "--", "true").stderr)
    for layer in layers:
        assert layer in ("mount", "pid") or f"_{layer}_" in text, layer


@pytest.mark.parametrize("name", PAGES)
def test_page_is_built_and_clean(name):
    assert f"'{name}'" in (DOCS / "meson.build").read_text(encoding="utf-8")
    made = subprocess.run(["scdoc"], input=page(name), capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    plain = re.sub(r"\\([^f])", r"\1", made.stdout)
    assert not re.findall(r"\\f[IB][^\\]*\n", plain), "an emphasis that nobody closed"


def test_every_file_of_a_home_is_in_the_page(fresh):
    assert fresh.run("--", "sh", "-c", "echo > out/x").status == 0
    for words in (["doctor"], ["verify"], ["rerun", "--quiet", os.listdir(fresh.home / "runs")[0]]):
        assert fresh.call(fresh.binary, *words)[0] in (0, 1)
    entries = {path.name.removesuffix("-wal").removesuffix("-shm") for path in fresh.home.iterdir()}
    assert {"runs", "store", "health", "verify.json", "chain.jsonl"} <= entries
    told = page("cupel.1").split("# FILES")[1]
    for entry in entries:
        assert re.search(rf"_CUPEL_HOME/({re.escape(entry)}[_/]|{entry.split('.')[0]}\.\\\*_)", told), entry


# README and docs/.

def blocks(path):
    """Commands of the console blocks with what they print: [(command, output)]."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", path.read_text(encoding="utf-8"),
                            re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command.split("  #")[0].strip(), output))
    return found


def test_readme_names_commands_options_and_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    seen = set()
    for command, _ in blocks(ROOT / "README.md"):
        words = shlex.split(command.split(" | ")[0])
        seen.add(words[0])
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), command
            continue
        assert words[0] == "cupel" and words[1] in commands(), command
        before = words[2:words.index("--")] if "--" in words else words[2:]
        assert {word for word in before if word.startswith("-")} <= options(words[1]), command
        for word in before:
            assert not word.startswith("examples/") or (ROOT / word).exists(), command
    assert seen == {"make", "cupel"}


def test_readme_shows_what_really_happens(callers):
    """Each `cupel run` of the README again: the same words, but for times and sizes."""
    def plain(text):
        text = re.sub(r"/\S+/runs/", "RUNS/", text)
        text = re.sub(r" It waited for a CPU for .* in cupel\.yaml\.", "", text)  # where this host is busy
        return re.sub(r"\b\d+(\.\d+)? (us|ms|s|KiB|MiB)\b", "N", text).split()

    def lines(text):
        """Two streams have no common order."""
        return sorted(text.splitlines(), key=lambda line: line.split()[:3])

    caller = callers("root")
    for command, output in blocks(ROOT / "README.md"):
        if not command.startswith("cupel run") or "|" in command:
            continue
        words = [str(caller.binary), *shlex.split(command)[1:]]
        _, out, err = caller.call(*words, cwd=ROOT)
        assert [plain(line) for line in lines(out + err)] == [plain(line) for line in lines(output)]


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md",
                                  *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("executors/*.md"))], ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target


def test_architecture_has_the_table_of_folders_that_is_enforced():
    text = (DOCS / "ARCHITECTURE.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \| .* \| ([a-z ]*)\|$", text, re.MULTILINE))
    layout = (ROOT / "tools/check-layout").read_text(encoding="utf-8")
    table = layout.split("MAY_INCLUDE = {")[1].split("}")[0]
    assert {key: value.strip() for key, value in told.items()} == dict(
        re.findall(r'"(\w+)": "([a-z ]*)"', table))


def test_threats_names_tests_that_exist():
    """`folder/file.py::test_name`, or ::test_name* for several of that beginning."""
    named = re.findall(r"`([\w/]+\.(?:py|c))::(\w+)(\*?)`",
                       (DOCS / "THREATS.md").read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, name, star in named:
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"\b{name}{'' if star else r'(?=[(])'}", text), f"{file}::{name}"
