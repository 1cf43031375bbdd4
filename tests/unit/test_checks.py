"""The checks of the sources find what they are for, and nothing in a clean tree."""

import pathlib
import shutil
import subprocess

import pytest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
CLEAN = '/* A file. */\n#include "base/err.h"\n\nint spec_do(void)\n{\n\treturn 0;\n}\n'


@pytest.fixture
def tree(tmp_path):
    """A function that writes files, given by path, below src/ of a tree with our tools."""
    shutil.copytree(TOOLS, tmp_path / "tools")

    def write(**files):
        for name, text in files.items():
            path = tmp_path / "src" / name.replace("__", "/").replace("_c", ".c")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


def check(root, tool):
    done = subprocess.run([root / "tools" / tool], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("tool", ["check-layout", "check-size"])
def test_clean_tree_passes(tree, tool):
    assert check(tree(spec__a_c=CLEAN), tool) == (0, "")


@pytest.mark.parametrize("place, text, fault", [
    ("base__a_c", '#include "spec/id.h"\n', "base may not include spec"),
    ("box__a_c", '#include "budget/budget.h"\n', "box may not include budget"),
    ("budget__a_c", '#include "box/plan.h"\n', "budget may not include box"),
    ("collect__a_c", '#include "runtime/runtime.h"\n', "collect may not include runtime"),
    ("spec__a_c", '#include "id.h"\n', "lacks its folder"),
    ("spec__a_c", "#include <yaml.h>\n", "belongs in spec/yaml.c only"),
    ("keeper__a_c", "#include <linux/landlock.h>\n", "belongs in box/landlock.c"),
    ("cli__a_c", "#include <systemd/sd-bus.h>\n", "belongs in budget/bus.h"),
    ("health__a_c", "int f(void)\n{\n\treturn fork();\n}\n", "src/health/a.c:3: fork"),
    ("health__a_c", "int f(void)\n{\n\treturn syscall(SYS_clone3, 0, 0);\n}\n", "SYS_clone3"),
    ("other__a_c", "\n", "none of the folders"),
])
def test_layout_faults_are_found(tree, place, text, fault):
    status, output = check(tree(**{place: text}), "check-layout")
    assert status == 1
    assert fault in output


def test_layout_is_not_fooled_by_comments_and_strings(tree):
    text = '/* fork() would be wrong\n#include "cli/x.h" */\nconst char *s = "fork()";\n'
    assert check(tree(run__a_c=text), "check-layout") == (0, "")


def function(lines):
    return "static int f(const char *s)\n{\n" + '\tputs("}{");\n' * (lines - 3) + "}\n"


@pytest.mark.parametrize("lines", [60, 61])
def test_long_functions_are_warned_about(tree, lines):
    text = "struct s {\n\tint a;\n};\n\n" + function(lines)
    status, output = check(tree(base__a_c=text), "check-size")
    assert status == 0
    assert ("src/base/a.c:5: 61 lines, at most 60" in output) == (lines > 60)


def test_a_long_table_is_no_function(tree):
    rows = "static const int table[] = {\n" + "\tsizeof(int),\n" * 100 + "};\n"
    assert check(tree(base__a_c=rows), "check-size") == (0, "")


@pytest.mark.parametrize("lines, warning", [
    (600, ""), (601, "src/base/a.c: 601 lines, at most 600\n")])
def test_long_files_are_warned_about(tree, lines, warning):
    assert check(tree(base__a_c="\n" * lines), "check-size") == (0, warning)
