"""Mistakes in what is asked for: found before anything is made, with the place and the remedy."""

import json
import os
import re

import pytest

import cupel as lib

HEAD = "command: [true]\n"

MISTAKES = [
    # (file, line, column, words of the message)
    ("comand: [true]\n", 1, 1, "did you mean 'command'?"),
    (HEAD + "limits: {memroy: 1G}\n", 2, 10, "did you mean 'memory'?"),
    (HEAD + "outputs:\n  - {path: a, requried: true}\n", 3, 15, "did you mean 'required'?"),
    (HEAD + "name: a\nname: b\n", 3, 1, "name"),
    (HEAD + "limits: {memory: 1G, memory: 2G}\n", 2, 22, "memory"),
    (HEAD + "env: {A: 1, A: 2}\n", 2, 13, "A"),
    (HEAD + "limits: 3\n", 2, 9, "map"),
    (HEAD + "env: [A]\n", 2, 6, "map"),
    (HEAD + "inputs: {a: b}\n", 2, 9, "list"),
    (HEAD + "network: world\n", 2, 10, "none"),
    (HEAD + "limits:\n  memory: 0\n", 3, 11, "memory"),
    (HEAD + "limits:\n  memory: -1G\n", 3, 11, "-1G"),
    (HEAD + "limits:\n  cpus: .nan\n", 3, 9, "nan"),
    (HEAD + "limits:\n  cpus: .inf\n", 3, 9, "inf"),
    (HEAD + "limits:\n  time: 99999999999999999999h\n", 3, 9, "99999999999999999999h"),
    (HEAD + "limits:\n  memory: ~\n", 3, 3, "memory"),
    (HEAD + "id: ../escape\n", 2, 5, "run id"),
    (HEAD + "env: {CUPEL_RUN_ID: x}\n", 2, 7, "CUPEL_"),
    (HEAD + "outputs: [/etc/passwd]\n", 2, 11, "passwd"),
    (HEAD + "outputs: [../x]\n", 2, 11, ".."),
    (HEAD + "allow_missing: [mount]\n", 2, 17, "mount"),
    (HEAD + "code: x.py\n", 2, 7, "both code and command"),
    (HEAD + "args: [a]\n", 2, 7, "args"),
    ("name: nothing to do\n", 1, 1, "nothing to run"),
    ("- a\n- b\n", 1, 1, "map"),
    (HEAD + "name: [unclosed\n", None, None, ""),
    (HEAD + "---\n" + HEAD, 2, 1, "document"),
    ("a: &a [x]\nb: *a\n", None, None, ""),
    (HEAD + "name: !!python/object:os.system x\n", None, None, ""),
    (HEAD + 'name: "a\\0b"\n', 2, 7, ""),
]


def write(cupel, text, name="analysis.yaml"):
    path = cupel.dir / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return cupel.own(path)


def snapshot(cupel):
    return sorted(str(path) for path in cupel.base.rglob("*"))


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize("text, line, column, words", MISTAKES)
def test_a_mistake_has_its_place(fresh_of_module, command, text, line, column, words):
    cupel = fresh_of_module
    path = write(cupel, text)
    before = snapshot(cupel)
    status, out, err = cupel.call(cupel.binary, command, path)
    assert (status, out) == (2, ""), err
    place = re.match(rf"cupel: {re.escape(str(path))}:(\d+):(\d+): (.*)", err, re.DOTALL)
    assert place, err
    if line:
        assert (int(place[1]), int(place[2])) == (line, column), err
    assert words in place[3] and err.count("\n") == 1
    assert snapshot(cupel) == before, "something was made"
    assert not list(path.parent.parent.glob("home"))


@pytest.fixture(scope="module")
def fresh_of_module(callers):
    callers("root")
    caller = lib.Cupel("root", own_work=True)
    yield caller
    caller.close()


BOMBS = {
    "aliases": "a: &a [x,x]\n"
    + "".join(f"{b}: &{b} [*{a},*{a},*{a}]\n" for a, b in zip("abcdefghijklmn", "bcdefghijklmno")),
    "depth": "labels: " + "[" * 100000,
    "depth of maps": "labels: " + "{a: " * 20000,
    "size": "name: " + "x" * (2 << 20),
    "one string": HEAD + "name: " + "x" * 200000,
    "many keys": HEAD + "env: {" + ", ".join(f"A{i}: 1" for i in range(5000)) + "}\n",
    "many inputs": HEAD + "inputs: [" + ", ".join(f"/etc/{i}" for i in range(5000)) + "]\n",
    "bytes": b"\xff\xfe\x00",
    "nul": b"command: [true]\x00\nname: x\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_little_memory(fresh_of_module, name):
    cupel = fresh_of_module
    path = write(cupel, BOMBS[name])
    status, out, err, peak_kb = cupel.measured(5 * lib.SLOW, cupel.binary, "run", path)
    assert (status, out) == (2, ""), err
    assert peak_kb < lib.memory_limit_kb(64 << 10)
    assert len(err) < 2000 and not cupel.home.exists()


QUANTITIES = {
    "--memory": [
        "0",
        "67108864",
        "-1",
        "1X",
        "G",
        "1 G",
        "1.G",
        "",
        "0x10",
        "1e3",
        "nan",
        "inf",
        "infinity",
        "18446744073709551616",
        "99999999999T",
        "1GG",
        "+1G",
        " 1G",
        "1G ",
        "0.0G",
    ],
    "--cpus": [
        "0",
        "-1",
        "nan",
        "inf",
        "1,5",
        "",
        "0.0",
        "1e1",
        "99999999999999999999",
        "0.0000001",
    ],
    "--time": ["0", "90", "-5s", "5x", "nan", "", "1m1", "99999999999999d", "0s", "inf"],
    "--pids": ["0", "-1", "1.5", "", "4k", "99999999999999999999"],
    "--disk": ["0", "-1", "nan"],
    "--log": ["0", "-1"],
    "--cpu-time": ["0", "-1s"],
    "--grace": ["-1s", "0"],
}


@pytest.mark.parametrize(
    "option, value", [(o, v) for o, values in QUANTITIES.items() for v in values]
)
def test_a_quantity_never_means_unlimited(fresh_of_module, option, value):
    cupel = fresh_of_module
    status, out, err = cupel.call(cupel.binary, "plan", option, value, "--", "true")
    assert (status, out) == (2, "") and option in err, (out[:200], err)


@pytest.mark.parametrize(
    "option, value, key, raw",
    [
        ("--memory", "2G", "memory", 2 << 30),
        ("--memory", "512M", "memory", 512 << 20),
        ("--memory", "1.5G", "memory", 3 << 29),
        ("--disk", "5G", "disk", 5 << 30),
        ("--cpus", "1.5", "cpus", 1500),
        ("--time", "30m", "time", 1800 * 10**9),
        ("--time", "90s", "time", 90 * 10**9),
        ("--time", "500ms", "time", 5 * 10**8),
        ("--time", "1h", "time", 3600 * 10**9),
        ("--pids", "7", "pids", 7),
    ],
)
def test_a_quantity_has_units(fresh_of_module, option, value, key, raw):
    cupel = fresh_of_module
    status, out, err = cupel.call(cupel.binary, "plan", "--json", option, value, "--", "true")
    assert status == 0, err
    limit = json.loads(out)["plan"]["limits"][key]
    assert (limit["raw"], limit["origin"]) == (raw, option)


HOSTILE = [
    "..",
    ".",
    "../x",
    "a/b",
    "/abs",
    "",
    " ",
    "a b",
    "a\nb",
    "-x",
    "_x",
    ".hidden",
    "a..b",
    "x" * 65,
    "x" * 5000,
    "\u0430nalysis",
    "a\x1b[31m",
    "caf\u00e9",
    "a;b",
    "$(id)",
    "a*",
    "{id}",
    "a\\b",
    "%s%n",
]


@pytest.mark.parametrize("run_id", HOSTILE)
@pytest.mark.parametrize("command", ["run", "show", "logs"])
def test_a_hostile_id_is_refused_before_anything_is_touched(fresh_of_module, command, run_id):
    cupel = fresh_of_module
    before = snapshot(cupel)
    words = ["run", f"--id={run_id}", "--", "true"] if command == "run" else [command, "--", run_id]
    status, out, err = cupel.call(cupel.binary, *words)
    assert (status, out) == (2, ""), err
    assert "\x1b" not in err and len(err) < 500 and err.count("\n") == 1
    assert snapshot(cupel) == before


def test_generated_ids_are_short_sortable_and_all_different(cupel):
    made = []
    for _ in range(5):
        status, out, err = cupel.call(cupel.binary, "run", "--json", "--", "true")
        assert status == 0, err
        made.append(json.loads(out.splitlines()[-1])["id"])
    assert made == sorted(set(made)) and all(re.fullmatch(r"[0-9a-z]{13}", one) for one in made)


@pytest.mark.parametrize("run_id", ["a", "A-1_b.c", "0", "x" * 64])
def test_ids_that_are_fine(fresh_of_module, run_id):
    result = fresh_of_module.run("--", "true", id=run_id)
    assert result.status == 0 and result.verdict["id"] == run_id


def test_an_id_used_before_is_refused(cupel):
    first = cupel.run("--", "true")
    kept = (first.run_dir / "verdict.json").read_bytes()
    second = cupel.run("--", "false", id=first.run_dir.name)
    assert (
        second.status == 2
        and "used before" in second.stderr
        and str(first.run_dir) in second.stderr
    )
    assert (first.run_dir / "verdict.json").read_bytes() == kept


def test_an_id_in_use_is_refused_and_the_run_goes_on(cupel):
    with cupel.start("--", "sh", "-c", "echo up; sleep 60", stdout=-1)[0] as process:
        assert process.stdout.readline() == b"up\n"
        run_id = os.listdir(cupel.home / "active")[0]
        second = cupel.run("--", "true", id=run_id)
        assert second.status == 2 and "in use" in second.stderr
        assert cupel.call(cupel.binary, "gc", "--json")[1].startswith('{"lost":0')
        process.terminate()
        assert process.wait(60) == 143


def test_plan_is_for_people_and_touches_nothing(fresh):
    (fresh.dir / "input.txt").write_text("x")
    before = snapshot(fresh)
    status, out, err = fresh.call(
        fresh.binary,
        "plan",
        "--id",
        "planned",
        "--memory",
        "64M",
        "--data",
        "input.txt",
        "--env",
        "A=b",
        "--out",
        "out/*.csv",
        "--name",
        "Title",
        "--",
        "touch",
        "out/ran",
    )
    assert (status, err) == (0, "")
    work = fresh.work_dir("planned")
    assert snapshot(fresh) == before and not work.exists()
    for words in (
        r"run +planned",
        r"command +touch out/ran",
        r"memory +64M +--memory",
        r"time +30m +built-in",
        r"bind +/usr \(read-only\)",
        rf"bind +{work}/data/input.txt from .* \(read-only(, id-mapped)?\)",
        rf"work +{work} \(writable\)",
        r"out/\*\.csv",
        r"A=b",
        r"network +none but its own loopback",
        r"name +Title",
    ):
        assert re.search(words, out), words


def test_plan_as_json_has_everything(fresh):
    status, out, _ = fresh.call(fresh.binary, "plan", "--json", "--id", "planned", "--", "true")
    assert status == 0 and out.count("\n") == 1
    both = json.loads(out)
    plan = both["plan"]
    assert both["analysis"]["command"] == ["true"] and plan["argv"] == ["true"]
    assert plan["work_dir"] == str(fresh.work_dir("planned")) and plan["network"] == "none"
    writable = [
        step["target"]
        for step in plan["steps"]
        if step.get("writable") and step["kind"] in ("bind", "work")
    ]
    assert writable == [str(fresh.work_dir("planned"))]
    assert plan["limits"]["memory"]["raw"] == 2048 << 20
    assert plan["limits"]["time"]["raw"] == 1800 * 10**9
    assert plan["rlimits"]["core"] <= 1  # 1 byte: not even a core handler is started, see core(5)
    assert any(line.startswith("CUPEL_RUN_ID=planned") for line in plan["env"])
    assert not fresh.home.exists()


def test_the_recorded_plan_is_the_printed_one(cupel):
    """But for what the moment decides."""
    run_id = cupel.new_id()
    _, out, _ = cupel.call(cupel.binary, "plan", "--json", "--id", run_id, "--", "true")
    result = cupel.run("--", "true", id=run_id)
    printed, recorded = json.loads(out)["plan"], json.loads(
        (result.run_dir / "plan.json").read_text()
    )
    for plan in (printed, recorded):
        plan["env"] = [line for line in plan["env"] if not line.startswith("CUPEL_DEADLINE=")]
    assert printed == recorded


def test_no_word_of_an_analysis_reaches_the_terminal_as_a_command(root):
    evil = "/\x1b]0;owned\x07"
    for command in (["plan", "-e", f"A={evil}", "-o", f"out/{evil[1:]}", "--", evil], ["run", "--", evil]):
        _, out, err = root.call(root.binary, *command)
        assert "owned" in out + err
        assert "\x1b" not in out + err and "\x07" not in out + err


def test_an_empty_layer_is_no_layer(root):
    status, _, err = root.call(root.binary, "plan", "--allow-missing", "", "--", "true")
    assert status == 2 and "--allow-missing is empty" in err
