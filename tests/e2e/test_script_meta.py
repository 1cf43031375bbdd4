"""Inline script metadata against the reference: the regular expression of PEP 723 and Python's own
TOML reader, on scripts made of parts and then damaged."""

import json
import os
import pathlib
import random
import re
import subprocess
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CUPEL_BUILD", ROOT / "build"))
PROBE = BUILD / "tests/e2e/runtime-probe"
# The canonical one of the PEP, but that a block may be empty, which its text allows.
BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)*)^# ///$")
ROUNDS = int(os.environ.get("SCRIPT_META_ROUNDS", "2000"))


def reference(script):
    """What the block says; None if it must be refused, Ellipsis if only tomllib minds: keys said
    twice outside of what cupel reads."""
    found = [m for m in BLOCK.finditer(script) if m["type"] == "script"]
    if len(found) > 1:
        return None
    content = "".join(line[2:] if line.startswith("# ") else line[1:]
                      for line in found[0]["content"].splitlines(keepends=True)) if found else ""
    try:
        toml = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        twice = re.search("overwrite|declare|mutate|Duplicate|immutable", str(error))
        return ... if twice else None
    cupel = toml.get("tool", {}).get("cupel", {}) if isinstance(toml.get("tool", {}), dict) else {}
    python, needs = toml.get("requires-python"), toml.get("dependencies", [])
    if not isinstance(cupel, dict) or set(cupel) - {"runtime", "limits"} \
            or not isinstance(needs, list) or not isinstance(python, str | None) \
            or not re.fullmatch(r"(?!\.{1,2}$)[^/\0-\x1f\x7f]+", str(cupel.get("runtime", "x"))) \
            or not isinstance(cupel.get("runtime"), str | None) \
            or any(not isinstance(need, str) or not re.match("[A-Za-z0-9]", need)
                   for need in needs):
        return None
    return python, needs, cupel.get("runtime")


class Maker:
    """Scripts from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def scalar(self):
        return self.random.choice([
            '"a"', "'a'", '"a # b"', "'[tool.cupel]'", '"\\"]"', "'\\'", '"\\u00e9\\t\\\\"', '""',
            "''", '"""a"""', '"""\na\n"b" ""\n"""', "'''\n# ]\n'''", '"""a\\\n   b"""',
            '""""x"""""', "1", "-1_0",
            "0x1F", "1.5e3", "inf", "true", "1979-05-27", "1979-05-27 07:32:00Z", "07:32:00.5",
            '"""\n/// x\n///\n"""'])

    def value(self, depth=0):
        kind = self.random.random()
        if depth > 3 or kind < 0.6:
            return self.scalar()
        items = [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        if kind < 0.85:
            return self.random.choice(["[%s]", "[\n  %s # ]\n]", "[ %s, ]" if items else "[%s]"]) \
                % self.random.choice([", ", ",\n  "]).join(items)
        return "{%s}" % ", ".join(f"k{i}.x = {item}" for i, item in enumerate(items)
                                  if "\n" not in item or item.startswith(('"""', "'''")))

    def content(self):
        parts = ["", "# a comment", f"x = {self.value()}", f"y.z = {self.value()}  # c"]
        if self.random.random() < 0.7:
            parts.append("requires-python = " + self.random.choice(['">=3.8"', "3"]))
        if self.random.random() < 0.7:
            parts.append("dependencies = %s" % self.random.choice(
                ["[]", '["a", "b>=1"]', "[\n  'a', # x\n\n  \"b[c]; d == 'e'\",\n]", "['-e .']",
                 "3"]))
        self.random.shuffle(parts)
        tables = [f"[tool.other]\nruntime = {self.value()}", f"[[list]]\nx = {self.value()}"]
        if self.random.random() < 0.7:
            tables.append(self.random.choice(
                ['[tool.cupel]\nruntime = "r-1"', "[tool]\ncupel.runtime = 'r-1'",
                 "[ tool . 'cupel' ]\n\"runtime\" = '''r-1'''", "[tool]\ncupel = {runtime = 'r-1'}",
                 "[tool.cupel]\nruntime = 3", "[tool.cupel]\nrun-time = 'x'", "[[tool.cupel]]"]))
        self.random.shuffle(tables)
        return "\n".join([*parts, *tables])

    def damage(self, text):
        at = self.random.randrange(len(text))
        return text[:at] + self.random.choice(["", *"\"'[]{}=,.#\\\n -_a0/"]) \
            + text[at + self.random.randrange(3):]

    def script(self):
        content = self.content()
        if self.random.random() < 0.5:
            content = self.damage(content)
        block = "\n".join(f"# {line}" if line else "#" for line in content.split("\n"))
        text = "#!/usr/bin/python3\n# text\n" + self.random.choice(["", "\n"]) \
            + f"# /// script\n{block}\n# ///\n" + self.random.choice(["", "\n", "# more\n"]) \
            + self.random.choice(["", "import x\n", "# /// other\n# x = (\n# ///\n",
                                  "\n# /// script\n# x = 1\n# ///\n", "\n# /// script\n# open\n"])
        return self.damage(text) if self.random.random() < 0.3 else text


def ask(scripts, folder):
    files = []
    for number, script in enumerate(scripts):
        files.append(folder / f"{number}.py")
        files[-1].write_text(script, encoding="utf-8", newline="")
    done = subprocess.run([PROBE, "metadata", *files], capture_output=True, check=True, timeout=250)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("seed", range(4))
def test_same_as_the_reference(seed, tmp_path):
    maker = Maker(seed)
    scripts = [maker.script() for _ in range(ROUNDS // 4)]
    seen = {"accepted": 0, "refused": 0, "runtime": 0}
    for script, told in zip(scripts, ask(scripts, tmp_path), strict=True):
        wanted = reference(script)
        if wanted is ...:
            continue
        if wanted is None:
            seen["refused"] += 1
            assert "error" in told, f"accepted {told}:\n{script}"
            assert re.match(r"/.*\.py:\d+: ", told["error"])
            continue
        seen["accepted"] += 1
        seen["runtime"] += wanted[2] is not None
        assert "error" not in told, f"{told['error']}:\n{script}"
        assert (told["requires-python"], told["dependencies"], told["runtime"]) == wanted, script
    # The comparison is worth something only if it met all of them.
    assert min(seen.values()) > ROUNDS // 100, seen


def test_example_of_the_specification(tmp_path):
    script = ('# /// script\n# requires-python = ">=3.11"\n# dependencies = [\n#   "requests<3",\n'
              '#   "rich",\n# ]\n# ///\n\nimport requests\n')
    (told,) = ask([script], tmp_path)
    assert (told["requires-python"], told["dependencies"]) == (">=3.11", ["requests<3", "rich"])
    assert reference(script) == (">=3.11", ["requests<3", "rich"], None)
