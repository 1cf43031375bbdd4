"""cupel runtime list, show, check, lock: health that is found by running things in the box."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess

import cupel as lib
import pytest

SUM = 'print(sum(i * i for i in range(1000)))'
SUM_DIGEST = "sha256:" + hashlib.sha256(b"332833500\n").hexdigest()


class Catalog:
    """Entries of the caller's own, beside a configuration of the user."""

    def __init__(self, caller):
        self.caller = caller
        self.base = caller.base / f"catalog-{caller.new_id()}"
        self.dir = self.base / "cupel/runtimes.d"
        self.dir.mkdir(parents=True)
        for path in (self.base, self.base / "cupel", self.dir):
            caller.own(path)
        self.env = {"XDG_CONFIG_HOME": str(self.base), "CUPEL_HOME": str(self.base / "home")}

    def put(self, name, text):
        path = self.dir / f"{name}.yaml"
        path.write_text(f"name: {name}\nversion: \"1\"\n{text}", encoding="utf-8")
        self.caller.own(path)
        return path

    def system(self, name, checks="", more=""):
        listed = f"checks:\n{checks}" if checks else ""
        return self.put(name, f"kind: system\ninterpreters: {{.py: python3}}\n{more}{listed}")

    def call(self, *words, env=None):
        return self.caller.call(
            self.caller.binary, "runtime", *words, env={**self.env, **(env or {})})

    def check(self, *words):
        """(status, result)"""
        status, out, err = self.call("check", "--json", *words)
        assert status in (0, 1), err
        return status, json.loads(out)

    def row(self, name):
        rows = json.loads(self.call("list", "--json")[1])
        return next(row for row in rows if row["name"] == name)

    def state(self, name):
        path = self.base / "home/runtimes" / name / "state.json"
        return json.loads(path.read_text(encoding="utf-8"))

    def records(self):
        """Runs of checks that are still there."""
        return sorted(path.name for path in (self.base / "home/runs").glob("*"))

    def close(self):
        assert lib.wait_until(lambda: not list((self.base / "home").glob("active/*")))
        shutil.rmtree(self.base, ignore_errors=True)  # somebody may be delivering


@pytest.fixture
def catalog(cupel):
    made = Catalog(cupel)
    yield made
    made.close()


def by_name(result):
    return {check["name"]: check for check in result["checks"]}


def failed(result):
    return {check["name"] for check in result["checks"] if check["ok"] is False}


def test_a_healthy_one(catalog):
    catalog.system("good", f"""\
  - import: json
  - version: {{command: [python3, --version], at_least: "3.9"}}
  - run: {{name: text, command: [python3, -c, "{SUM}"], expect: "332833500"}}
  - run: {{name: digest, command: [python3, -c, "{SUM}"], expect: "{SUM_DIGEST}"}}
""", more="summary: a good one\nlimits: {memory: 512M, time: 5m, warn: 2m}\n")
    before = catalog.row("good")
    assert (before["health"], before["verified"]) == ("unknown", None)
    status, result = catalog.check("good")
    assert (status, result["health"], result["reason"]) == (0, "healthy", None), result
    assert len(result["checks"]) == 5 and not failed(result)
    assert by_name(result)["import json"]["cause"] == "ok"
    assert "3." in by_name(result)["interpreter python3"]["text"]
    row = catalog.row("good")
    assert (row["health"], row["kind"], row["summary"]) == ("healthy", "system", "a good one")
    assert row["verified"] == result["verified"] == catalog.state("good")["verified_time"]
    assert row["fingerprint"]["identity"] == result["fingerprint"]["identity"]
    assert row["limits"]["memory"]["value"] == "512M"
    assert catalog.records() == []


def test_the_built_in_one(catalog):
    status, result = catalog.check("base")
    assert (status, result["health"]) == (0, "healthy"), result
    assert by_name(result)["interpreter /usr/bin/python3"]["ok"] is True
    for check in result["checks"]:  # used if it is installed
        assert check["ok"] in (True, None), check
        assert check["ok"] or "apt-get install" in check["text"], check


@pytest.mark.parametrize("check, name, words", [
    ("import: nosuchmodule", "import nosuchmodule", "No module named 'nosuchmodule'"),
    ('version: {command: [python3, --version], at_least: "3.100"}', None, "older than 3.100"),
    ("version: {command: [echo, none], at_least: \"1\"}", None, "holds no version"),
    ("version: {command: [nosuchtool], at_least: \"1\"}", None, "not found"),
    (f'run: {{name: x, command: [python3, -c, "{SUM}"], expect: "41"}}', "x", "expected '41'"),
    (f'run: {{name: x, command: [python3, -c, "{SUM}"], expect: "sha256:{"0" * 64}"}}', "x",
     SUM_DIGEST),
    ("run: {name: x, command: [sh, -c, 'echo why >&2; exit 3']}", "x", "exit status 3: why"),
    ("run: {name: x, command: [sh, -c, 'kill -SEGV $$']}", "x", "SIGSEGV"),
], ids=["import", "older", "no-version", "no-command", "text", "digest", "exit", "signal"])
def test_a_failing_check_is_broken(catalog, check, name, words):
    catalog.system("bad", f"  - {check}\n  - import: json\n", more="packages: [python3-x, tool]\n")
    status, result = catalog.check("bad")
    assert (status, result["health"]) == (1, "broken")
    only = failed(result)
    assert len(only) == 1 and (name is None or only == {name}), result
    assert words in by_name(result)[only.pop()]["text"]
    assert words in result["reason"]
    assert "apt-get install python3-x tool" in result["reason"]
    assert by_name(result)["import json"]["ok"] is True  # the control: the others ran
    assert catalog.row("bad")["health"] == catalog.state("bad")["health"] == "broken"
    assert catalog.records() == []


def test_limits_of_its_own(catalog):
    catalog.system("greedy", """\
  - run: {name: hang, command: [sleep, "600"]}
  - run: {name: eat, command: [python3, -c, "x = b'x' * (1 << 30)"]}
  - run: {name: fits, command: [python3, -c, "x = b'x' * (1 << 20)"]}
""", more="limits: {memory: 4G, time: 20m}\ncheck_limits: {memory: 64M, time: 5s}\n")
    status, result = catalog.check("greedy")
    assert (status, result["health"], failed(result)) == (1, "broken", {"hang", "eat"})
    checks = by_name(result)
    assert checks["hang"]["cause"] == "deadline" and "5.00 s" in checks["hang"]["text"]
    assert checks["eat"]["cause"] == "oom" and "64.0 MiB" in checks["eat"]["text"]
    assert "deadline" in result["reason"] and "oom" in result["reason"]
    assert checks["fits"]["ok"] is True


def test_a_missing_interpreter_is_broken(catalog):
    catalog.put("half", "kind: system\ninterpreters: {.py: python3, .R: no-such-rscript}\n"
                "checks:\n  - import: json\n  - import: {r: stats}\n")
    status, result = catalog.check("half")
    assert (status, result["health"]) == (1, "broken")
    assert failed(result) == {"interpreter no-such-rscript", "import stats"}
    assert "not found" in by_name(result)["interpreter no-such-rscript"]["text"]


def test_without_checks_its_interpreters_must_start(catalog):
    catalog.system("plain")
    status, result = catalog.check("plain")
    assert status == 0 and [check["kind"] for check in result["checks"]] == ["interpreter"]


def test_checks_run_in_the_box(catalog):
    """What a check sees is a box: a file of the host is not there, and the network is empty."""
    secret = catalog.base / "secret"
    secret.write_text("x", encoding="utf-8")
    secret.chmod(0o644)
    assert os.access(secret, os.R_OK)
    catalog.system("boxed", f"""\
  - run: {{name: file, command: [cat, {secret}]}}
  - run: {{name: user, command: [id, -u], expect: "1000"}}
  - run: {{name: net, command: [sh, -c, "ls /sys/class/net 2>/dev/null | wc -l"], expect: "0"}}
""")
    _, result = catalog.check("boxed")
    assert failed(result) == {"file"}, result
    assert "No such file" in by_name(result)["file"]["text"]


def test_an_entry_that_cannot_be_read_is_listed(catalog):
    path = catalog.put("fault", "kind: system\nchekcs: []\n")
    catalog.system("good")
    row = catalog.row("fault")
    assert row["health"] == "broken" and f"{path}:4:1" in row["reason"]
    assert "did you mean 'checks'" in row["reason"]
    status, result = catalog.check("fault")
    assert (status, result["health"]) == (1, "broken") and "did you mean" in result["reason"]
    status, out, _ = catalog.call("list")
    assert status == 0 and f"fault is broken: {path}:4:1" in out
    status, _, err = catalog.call("show", "fault")
    assert status == 2 and "did you mean" in err


@pytest.fixture
def venv(catalog):
    """A prefix of the caller's own."""
    prefix = catalog.base / "env"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", prefix], check=True)
    for folder, _, names in os.walk(prefix):
        for path in [folder, *(os.path.join(folder, name) for name in names)]:
            catalog.caller.own(path)
    catalog.put("venv", f"kind: venv\nprefix: {prefix}\ninterpreters: {{.py: python3}}\n")
    return prefix


def test_drift_from_the_lock_is_degraded(catalog, venv):
    assert catalog.check("venv")[0] == 0
    status, out, _ = catalog.call("lock", "venv", "--json")
    assert status == 0 and json.loads(out)["files"] > 3
    assert catalog.check("venv", "--deep")[0] == 0
    assert catalog.row("venv")["locked"] is True
    script = venv / "bin/activate"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace("e", "E", 1), encoding="utf-8")
    status, result = catalog.check("venv", "--deep")
    assert (status, result["health"], result["depth"]) == (1, "degraded", "content"), result
    assert "bin/activate" in result["reason"] and "cupel runtime lock venv" in result["reason"]
    assert "bin/activate" in json.dumps(result["drift"])
    assert not failed(result)
    assert catalog.row("venv")["health"] == "degraded"
    assert "bin/activate" in catalog.call("show", "venv")[1]
    # A look that is not as deep does not make it good.
    status, result = catalog.check("venv")
    assert (status, result["health"]) == (1, "degraded")
    # What is accepted is no drift; whether it works is for the next check to say.
    assert catalog.call("lock", "venv")[0] == 0
    assert catalog.row("venv")["health"] == "unknown"
    assert catalog.check("venv", "--deep")[0] == 0


def test_a_failed_check_outweighs_drift(catalog, venv):
    assert catalog.call("lock", "venv")[0] == 0
    (venv / "bin/activate").unlink()
    catalog.put("venv", f"kind: venv\nprefix: {venv}\ninterpreters: {{.py: python3}}\n"
                "checks:\n  - import: nosuchmodule\n")
    status, result = catalog.check("venv", "--deep")
    assert (status, result["health"]) == (1, "broken")
    assert "nosuchmodule" in result["reason"] and "bin/activate" in json.dumps(result["drift"])


def test_what_changed_since_its_check_is_not_healthy(catalog, venv):
    assert catalog.check("venv")[0] == 0
    assert catalog.row("venv")["health"] == "healthy"
    with open(venv / "pyvenv.cfg", "a", encoding="utf-8") as file:
        file.write("prompt = another\n")
    row = catalog.row("venv")
    assert row["health"] == "unknown" and "cupel runtime check venv" in row["reason"]
    assert catalog.check("venv")[0] == 0


def test_a_lock_can_be_removed(catalog, venv):
    assert catalog.call("lock", "venv")[0] == 0
    lock = json.loads(catalog.call("show", "--json", "venv")[1])["lock"]
    assert lock["exists"] and os.path.exists(lock["file"]) and os.path.exists(lock["manifest"])
    status, out, _ = catalog.call("lock", "--remove", "--json", "venv")
    assert status == 0 and json.loads(out)["removed"] is True
    assert not os.path.exists(lock["file"]) and not os.path.exists(lock["manifest"])
    assert json.loads(catalog.call("lock", "--remove", "--json", "venv")[1])["removed"] is False
    assert catalog.row("venv")["locked"] is False


def test_a_prefix_that_is_gone_is_broken(catalog, venv):
    assert catalog.check("venv")[0] == 0
    shutil.rmtree(venv)
    assert catalog.row("venv")["health"] == "broken"
    status, result = catalog.check("venv")
    assert (status, result["health"]) == (1, "broken")


def test_show_tells_all_of_it(catalog):
    first = catalog.caller.base / "runtimes.d"  # beside the host's configuration
    first.mkdir()
    try:
        below = catalog.caller.own(first) / "mine.yaml"
        below.write_text('name: mine\nversion: "0"\nkind: system\ninterpreters: {.py: python3}\n',
                         encoding="utf-8")
        catalog.caller.own(below)
        path = catalog.system("mine", "  - import: json\n", more="""\
summary: mine alone
env: {MY_SETTING: "a b"}
packages: [python3-numpy, samtools]
provides: [numpy]
limits: {memory: 1G}
check_limits: {time: 10s}
""")
        assert catalog.check("mine")[0] == 0
        out = catalog.call("show", "mine")[1]
        told = json.loads(catalog.call("show", "mine", "--json")[1])
    finally:
        shutil.rmtree(first)
    for words in (f"{path}:", str(below), "healthy", "python3", "MY_SETTING=a b", "mine alone",
                  "apt-get install python3-numpy samtools", "1G", "10s", "import json"):
        assert words in out, words
    assert told["overrides"] == [str(below)] and told["origin"].startswith(f"{path}:")
    assert told["install"] == "apt-get install python3-numpy samtools"
    assert told["interpreters"][0]["argv"][0].endswith("python3")
    assert {check["name"] for check in told["results"]} == {"interpreter python3", "import json"}
    assert told["checks"][0]["command"][-1] == "json" and told["lock"]["exists"] is False


def test_all_of_them(catalog):
    catalog.system("good")
    assert catalog.check("good")[0] == 0
    catalog.system("bad", "  - import: nosuchmodule\n")
    catalog.put("fault", "knid: system\n")
    status, results = catalog.check("--all")
    health = {result["name"]: result["health"] for result in results}
    assert status == 1 and health["good"] == health["base"] == "healthy"
    assert health["bad"] == health["fault"] == "broken"
    status, out, _ = catalog.call("list")
    rows = [line.split() for line in out.split("\n\n")[0].splitlines()]
    assert rows[0][:2] == ["NAME", "KIND"]
    assert [row[0] for row in rows[1:]] == sorted(row[0] for row in rows[1:])
    good = next(row for row in rows if row[0] == "good")
    assert "healthy" in good and ("just" in good or "ago" in good)


def test_an_interrupted_check_changes_nothing(catalog):
    catalog.system("slow")
    assert catalog.check("slow")[0] == 0
    before = catalog.state("slow")
    catalog.system("slow", "  - run: {name: hang, command: [sleep, \"600\"]}\n",
                   more="check_limits: {time: 10m}\n")
    for number in (signal.SIGINT, signal.SIGKILL):
        process = catalog.caller.popen(catalog.caller.binary, "runtime", "check", "slow",
                                       env=catalog.env, stderr=subprocess.PIPE)
        log = catalog.base / "home/runs"

        def hangs():
            """The second run of the two has begun: the interpreter's is over, and may go while we look."""
            with contextlib.suppress(FileNotFoundError):
                return any("sleep" in path.read_text(encoding="utf-8")
                           for path in log.glob("check-*/analysis.json") if (path.parent / "receipt.json").exists())
            return False

        assert lib.wait_until(hangs)
        process.send_signal(number)
        _, err = process.communicate(timeout=60 * lib.SLOW)
        assert process.returncode == (125 if number == signal.SIGINT else -number), err
        assert catalog.state("slow") == before
    # What the killed one left is its record, and that until the next check.
    assert lib.wait_until(lambda: list(log.glob("check-*/verdict.json")))
    assert lib.wait_until(lambda: not list((catalog.base / "home/active").iterdir()))
    catalog.system("slow")
    mine = f"check-{catalog.caller.new_id()}"
    other = catalog.caller.call(catalog.caller.binary, "run", "--quiet", "--id", mine,
                                "--", "true", env=catalog.env)
    assert other[0] == 0
    assert catalog.check("slow")[0] == 0
    assert catalog.records() == [mine]  # whose name only looks like it


def test_two_checks_at_once(catalog):
    catalog.system("twice", "  - import: json\n  - import: math\n")
    started = [catalog.caller.popen(catalog.caller.binary, "runtime", "check", "twice",
                                    env=catalog.env, stdout=subprocess.DEVNULL)
               for _ in range(4)]
    assert [process.wait(60 * lib.SLOW) for process in started] == [0] * 4
    assert catalog.state("twice")["health"] == "healthy" and catalog.records() == []


def test_a_host_that_can_run_no_box_makes_nothing_healthy_and_nothing_broken(catalog):
    catalog.system("good")
    assert catalog.check("good")[0] == 0
    config = catalog.base / "cupel/cupel.yaml"
    config.write_text("work: {root: /no/such/place}\n", encoding="utf-8")
    catalog.caller.own(config)
    status, out, err = catalog.call("check", "good")
    assert (status, out) == (125, "") and "/no/such/place" in err
    row = catalog.row("good")
    assert row["health"] == "unknown" and "/no/such/place" in row["reason"]
    config.unlink()
    assert catalog.check("good")[0] == 0


def test_one_that_can_have_no_box_is_broken(catalog):
    """The control is the host's own runtime, which has one."""
    catalog.system("greedy", "  - import: json\n", more="check_limits: {memory: 1G}\n")
    config = catalog.base / "cupel/cupel.yaml"
    config.write_text("ceilings: {memory: 512M}\n", encoding="utf-8")
    catalog.caller.own(config)
    status, result = catalog.check("greedy")
    assert (status, result["health"], len(result["checks"])) == (1, "broken", 1)
    assert "1G" in result["reason"] and "512M" in result["reason"]
    assert catalog.check("base")[0] == 0


@pytest.mark.parametrize("words, said", [
    ([], "needs a command"),
    (["chekc"], "did you mean 'check'?"),
    (["check"], "name a runtime, or say --all"),
    (["check", "--all", "base"], "name a runtime, or say --all"),
    (["check", "--deeep", "base"], "did you mean --deep?"),
    (["check", "base", "more"], "no runtime 'more'"),
    (["check", "nosuch"], "no runtime 'nosuch'"),
    (["show"], "usage: cupel runtime show"),
    (["show", "../../etc"], "runtime"),
    (["show", "nosuch"], "no runtime 'nosuch'"),
    (["lock"], "usage: cupel runtime lock"),
    (["lock", "nosuch"], "no runtime 'nosuch'"),
    (["list", "more"], "usage: cupel runtime list"),
])
def test_usage(root, words, said):
    status, out, err = root.call(root.binary, "runtime", *words)
    assert (status, out) == (2, "") and said in err and err.startswith("cupel: ")


def test_help_and_completion(root):
    status, out, _ = root.call(root.binary, "runtime", "--help")
    assert status == 0
    for word in ("list", "show", "check", "lock"):
        assert f"  {word} " in out
        status, told, _ = root.call(root.binary, "runtime", word, "--help")
        assert status == 0 and told.startswith(f"usage: cupel runtime {word} ")
    ask = (
        'source /dev/stdin; COMP_WORDS=(cupel runtime ch); COMP_CWORD=2; _cupel; '
        'echo "${COMPREPLY[@]}"; COMP_WORDS=(cupel runtime check --d); COMP_CWORD=3; _cupel; '
        'echo "${COMPREPLY[@]}"'
    )
    script = root.call(root.binary, "completion", "bash")[1]
    said = subprocess.run(
        ["bash", "-c", ask], input=script, text=True, capture_output=True, check=True
    )
    assert said.stdout == "check\n--deep\n"
