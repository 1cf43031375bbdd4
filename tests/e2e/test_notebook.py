"""Notebooks: what came of each cell, on disk and in the verdict, however the run ended."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

import cupel as lib

pytestmark = pytest.mark.test_all

ROOT = lib.TESTS.parent
PACKAGES = ("nbclient", "ipykernel", "nbconvert", "matplotlib")


@pytest.fixture(autouse=True)
def packages():
    for name in PACKAGES:
        if not importlib.util.find_spec(name):
            pytest.skip(f"science: python3-{name} is not installed")


def shipped(caller):
    place = caller.base / "runtimes.d"
    if not place.exists():
        shutil.copytree(ROOT / "runtimes.d", place)
        for path in (place, *place.rglob("*")):
            caller.own(path)
            path.chmod(0o755 if path.is_dir() else 0o644)
    return caller


def cell(source, *tags, kind="code"):
    made = {"cell_type": kind, "source": source, "metadata": {"tags": list(tags)} if tags else {}}
    return {**made, "outputs": [], "execution_count": None} if kind == "code" else made


def write(caller, *cells, name="book.ipynb", **changes):
    """A notebook of these cells: (source, tags...) or the source alone."""
    made = [cell(*one) if isinstance(one, tuple) else cell(one) for one in cells]
    path = shipped(caller).dir / name
    path.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 4, **changes}),
                    encoding="utf-8")
    return caller.own(path)


def executed(result, name="book.ipynb"):
    place = "outputs" if result.verdict["cause"] == "ok" else "partial"
    return json.loads((result.run_dir / place / "out" / name).read_text(encoding="utf-8"))


def code_cells(book):
    return [one for one in book["cells"] if one["cell_type"] == "code"]


def states(book):
    return [one["metadata"]["cupel"]["status"] for one in code_cells(book)]


def said(one):
    """What a cell printed and returned."""
    texts = [out.get("text") or out.get("data", {}).get("text/plain", []) for out in one["outputs"]]
    return "".join("".join(text) for text in texts)


def words(result):
    return f"{result.stderr}{result.verdict}" + (result.log("stderr.log").decode() if result.verdict else "")


def test_cells_are_run_and_told_one_by_one(cupel):
    """Values, in the notebook and in the log: of cells, of what their processes write past Jupyter, of figures; and the page."""
    book = write(cupel, ("# A title", ), "import os, subprocess; print(6 * 7)", ("", ),
                 "os.write(1, b'raw\\n'); os.write(2, b'raw-err\\n'); _ = subprocess.run(['echo', 'child'])",
                 "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()", ("1 / 0", "raises-exception"),
                 ("print('never')", "skip-execution"), "'end'")
    content = json.loads(book.read_text())
    content["cells"][0] = cell("# A title", kind="markdown")
    book.write_text(json.dumps(content))
    result = cupel.run(book)
    assert result.cause == "ok", words(result)
    assert result.stdout.splitlines() == ["42", "raw", "child", "'end'"]
    log = result.log("stderr.log").decode()
    assert "raw-err" in log and "[1/7] ok " in log and "[7/7] ok " in log and "never" not in log
    made = executed(result)
    assert states(made) == ["ok", "skipped", "ok", "ok", "ok", "skipped", "ok"]
    cells = code_cells(made)
    assert [one["execution_count"] for one in cells] == [1, None, 2, 3, 4, None, 5]
    assert said(cells[0]) == "42\n" and "raw\n" in said(cells[2]) and "child\n" in said(cells[2])
    assert any("image/png" in out.get("data", {}) for out in cells[3]["outputs"])
    assert cells[4]["outputs"][0]["ename"] == "ZeroDivisionError"
    state = cells[0]["metadata"]["cupel"]
    assert state["started"].endswith("Z") and state["duration_s"] >= 0
    assert made["metadata"]["cupel"] == {"stopped_at_cell": None, "reason": "ok"}
    assert result.verdict["notebook"] == {"cell": None, "cells": 7, "done": 7, "execution_count": 5, "error": None}
    page = (result.run_dir / "outputs/out/book.html").read_text()
    assert "A title" in page and "data:image/png;base64," in page and "default-src" in page
    assert "https://" not in page.partition("<body")[0].replace("https://developer.mozilla.org", "").partition("<style")[0]
    record = json.loads((result.run_dir / "analysis.json").read_text())
    assert len(record["driver"]["sha256"]) == 64
    assert (record["limits"]["time"]["value"], record["limits"]["memory"]["raw"]) == ("10m", 2048 << 20)
    plan = json.loads(cupel.call(cupel.binary, "plan", "--json", "--profile", "default", book)[1])
    assert plan["plan"]["limits"]["time"]["value"] == "30m"  # the control: somebody said a profile


VALUES = {"text": "a'b\"c\\d\n\u00e9\U0001f40d", "number": 3, "big": 2**53, "real": 2.5e-7, "yes": True, "none": None,
          "many": [1, "two", [False, None]], "table": {"k": {"x y": [1.5]}}}


def test_parameters_of_each_type_go_over_the_defaults(root):
    """Behind the cell with the defaults; the value is what Python reads of it. One that it does not know is said."""
    book = write(root, "import json", ("text = number = big = real = yes = none = many = table = 0\nkept = 'kept'", "parameters"),
                 "print(json.dumps([text, number, big, real, yes, none, many, table, kept, extra]))")
    file = root.dir / "a.yaml"
    file.write_text("code: [book.ipynb]\nparameters: " + json.dumps({**VALUES, "number": 9}, ensure_ascii=False) + "\noutputs: [{path: out/none}]\n")
    result = root.run("--param", "number=3", "--param", "extra=as it stands", file)
    assert result.cause == "ok", words(result)
    made = executed(result)  # though the file names other outputs
    assert json.loads(said(code_cells(made)[3])) == [*VALUES.values(), "kept", "as it stands"]
    assert code_cells(made)[2]["metadata"]["tags"] == ["injected-parameters"]
    assert "no 'extra'" in words(result) and "no 'number'" not in words(result)
    again = root.dir / "again.ipynb"  # what was injected before gives way
    again.write_text(json.dumps(made))
    second = root.run("--param", "number=4", again)
    assert second.cause == "exit", words(second)
    cells = code_cells(executed(second, "again.ipynb"))
    assert len(cells) == 4 and "".join(cells[2]["source"]) == "# Parameters\nnumber = 4"
    assert second.verdict["notebook"]["error"] == "NameError: name 'extra' is not defined"


def test_a_cell_that_raises_ends_it_and_the_verdict_says_which(cupel):
    book = write(cupel, "x = 1", "print('before')", "def f():\n    raise ValueError('no\\nsuch \\x1b[31mthing')\nf()", "2", "3")
    result = cupel.run(book)
    assert (result.cause, result.status, result.verdict["exit_code"]) == ("exit", 1, 1)
    notes = result.verdict["completion_notes"]
    assert notes.startswith("Cell 3 of 5 raised ValueError: no such thing. "), notes
    assert result.verdict["notebook"] == {"cell": 3, "cells": 5, "done": 2, "execution_count": 2,
                                          "error": "ValueError: no such thing"}
    made = executed(result)
    assert states(made) == ["ok", "ok", "failed", "pending", "pending"]
    assert made["metadata"]["cupel"]["stopped_at_cell"] == 3
    assert not code_cells(made)[3]["outputs"]
    assert "ValueError" in (result.run_dir / "partial/out/book.html").read_text()
    log = result.log("stderr.log").decode()
    assert "[3/5] failed" in log and "raise ValueError" in log and "\x1b" not in log


def test_out_of_memory_names_the_cell(cupel):
    book = write(cupel, "print('one')", "print('two', flush=True)", "x = b'x' * (1 << 30)", "4")
    result = cupel.run("--memory", "256M", book)
    assert (result.cause, result.status) == ("oom", 137), words(result)
    assert result.verdict["completion_notes"].startswith("Out of memory at cell 3 of 4. ")
    assert (result.verdict["notebook"]["cell"], result.verdict["notebook"]["done"]) == (3, 2)
    made = executed(result)
    assert states(made)[:2] == ["ok", "ok"] and states(made)[2] in ("running", "interrupted") and states(made)[3] == "pending"
    assert [said(one) for one in code_cells(made)] == ["one\n", "two\n", "", ""]
    assert result.stdout == "one\ntwo\n"


def test_a_deadline_names_the_cell_and_the_file_is_whole_all_the_while(user):
    """Read again and again while it is written: valid each time, and it grows."""
    book = write(user, "print('x' * 300000)", "import time\nfor i in range(40):\n    print(i, flush=True); time.sleep(0.01)",
                 "print('deep', flush=True); time.sleep(1000)", "4")
    seen, reads = set(), 0
    for limit in (8, 30, 90):  # a busy host may not get to the third cell at first
        process, run_id = user.start("--time", f"{limit}s", book, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        live = user.work_dir(run_id) / "out/book.ipynb"
        while process.poll() is None:
            try:
                text = live.read_bytes()
            except OSError:
                time.sleep(0.01)  # not yet, or not any more
                continue
            seen.add(tuple(states(json.loads(text))))
            reads += 1
            time.sleep(0.003)
        result = lib.Result(process.returncode, "", "", user.run_dir(run_id))
        if ("ok", "ok", "running", "pending") in seen and reads > 100:
            break
    assert ("ok", "ok", "running", "pending") in seen and reads > 100, seen
    assert ("pending",) * 4 in seen or ("running", "pending", "pending", "pending") in seen, seen
    assert (result.cause, result.status) == ("deadline", 124), result.verdict
    assert result.verdict["completion_notes"].startswith("Deadline at cell 3 of 4. ")
    assert result.verdict["notebook"]["done"] == 2 and not result.verdict["evidence"]["killed_by_force"]
    made = executed(result)
    assert states(made) == ["ok", "ok", "interrupted", "pending"]
    assert said(code_cells(made)[2]) == "deep\n" and made["metadata"]["cupel"] == {"stopped_at_cell": 3, "reason": "deadline"}


def test_a_kernel_that_dies_is_said_with_its_last_words(root):
    book = write(root, "import os", "os.write(2, b'last words\\n'); os.kill(os.getpid(), 9)", "3")
    result = root.run(book)
    assert (result.cause, result.status) == ("exit", 1)
    assert result.verdict["completion_notes"].startswith("At cell 2 of 3 the kernel was killed by signal 9 (SIGKILL). ")
    assert "last words\n" in result.log("stderr.log").decode()
    made = executed(result)
    assert states(made) == ["ok", "interrupted", "pending"] and said(code_cells(made)[1]) == "last words\n"


def test_a_cancelled_one_keeps_what_it_had(user):
    book = write(user, "print('kept')", "import time; time.sleep(1000)")
    process, run_id = user.start(book, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    live = user.work_dir(run_id) / "out/book.ipynb"
    assert lib.wait_until(lambda: live.exists() and states(json.loads(live.read_bytes())) == ["ok", "running"])
    process.send_signal(signal.SIGINT)
    process.wait(lib.RUN_LIMIT_S)
    result = lib.Result(process.returncode, "", "", user.run_dir(run_id))
    assert result.cause == "cancelled" and result.verdict["completion_notes"].startswith("Stopped at cell 2 of 2. ")
    made = executed(result)
    assert states(made) == ["ok", "interrupted"] and said(code_cells(made)[0]) == "kept\n"
    assert made["metadata"]["cupel"]["reason"] == "terminated"


def test_a_notebook_may_end_itself_well(user):
    """SystemExit is an end, not a mistake; any other status is one."""
    for status, cause in ((0, "ok"), (3, "exit")):
        result = user.run(write(user, "import sys", f"sys.exit({status})", "print('not reached')"))
        assert (result.cause, result.stdout) == (cause, ""), words(result)
        assert states(executed(result)) == ["ok", "ok" if cause == "ok" else "failed", "pending"]
        if cause == "ok":  # what ran it is in the record, and still the same
            status, _, err = user.call(user.binary, "rerun", result.run_dir.name)
            assert status == 0, err


def test_what_a_cell_puts_in_its_place_gives_way(root):
    """A link, a file of its own, a lie about how far it came, a page with scripts from elsewhere: the notebook is an output all the same."""
    evil = ("import os, json\nos.remove('out/book.ipynb'); os.symlink('/etc/passwd', 'out/book.ipynb')\n"
            "os.rename('.notebook.json', 'old'); os.symlink('/etc/passwd', '.notebook.json')\n"
            "from IPython.display import HTML; display(HTML('<img src=http://127.0.0.1:1/x>'))")
    result = root.run(write(root, evil, "open('out/book.html', 'w').write('mine')"))
    assert result.cause == "ok", words(result)
    assert states(executed(result)) == ["ok", "ok"] and "notebook" not in result.verdict
    assert "default-src" in (result.run_dir / "outputs/out/book.html").read_text()
    lies = json.dumps({"cell": -3, "cells": 1e99, "done": [], "execution_count": "x", "error": "\x1b[2J" + "y" * 3000})
    result = root.run(write(root, f"import os\nopen('lie', 'w').write({lies!r}); os.rename('lie', '.notebook.json'); os._exit(3)"))
    assert result.cause == "exit" and "\x1b" not in result.verdict["completion_notes"]
    assert result.verdict["notebook"]["cell"] is None and len(result.verdict["notebook"]["error"]) < 410
    blocked = root.run(write(root, "import os, pathlib\nos.remove('out/book.ipynb'); pathlib.Path('out/book.ipynb/x').mkdir(parents=True)", "2"))
    assert blocked.cause == "exit" and "Is a directory" in blocked.verdict["notebook"]["error"]


def test_more_than_a_notebook_is_to_hold_is_left_out_and_said(root):
    flood = ("from IPython.display import display\nfor i in range(3000):\n    display({'text/plain': 'x'}, raw=True)\nprint('done')")
    result = root.run(write(root, flood, "for i in range(34):\n    print('y' * (2 << 20))", "'after'"), "--log", "1M")
    assert result.cause == "ok", words(result)
    made = executed(result)
    assert states(made) == ["ok"] * 3 and len(code_cells(made)[0]["outputs"]) <= 2001
    assert "[1001 outputs left out: " in said(code_cells(made)[0]) and "left out" in said(code_cells(made)[1])
    assert said(code_cells(made)[2]) == "'after'"
    assert (result.run_dir / "outputs/out/book.ipynb").stat().st_size < 100 << 20
    assert "no page was made of it" in words(result) or (result.run_dir / "outputs/out/book.html").exists()


@pytest.mark.parametrize("content, told", [
    ("{\"cells\": [", "not a notebook"),
    ("[]", "not a notebook"),
    (json.dumps({"nbformat": 99, "nbformat_minor": 0, "metadata": {}, "cells": []}), "can't be read as a notebook"),
    (json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [{"cell_type": "code", "source": 3}]}), "notebook"),
    (json.dumps({"nbformat": 4, "nbformat_minor": 4, "cells": [],
                 "metadata": {"kernelspec": {"name": "ir", "language": "R"}}}), "the kernel 'ir'"),
])
def test_what_can_not_be_run_is_said(user, content, told):
    book = write(user)
    book.write_text(content)
    result = user.run(book)
    if result.verdict is None:
        assert result.status == 2 and told in result.stderr
    else:
        assert (result.cause, result.status) == ("exit", 1)
        assert result.verdict["completion_notes"].startswith("The notebook was not run: ") and told in result.verdict["completion_notes"]


def test_old_ones_and_foreign_kernels_of_python_run(root):
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": "", "kernelspec": {"name": "my-env", "language": "python"}},
           "worksheets": [{"cells": [{"cell_type": "code", "input": "print(6 * 7)", "outputs": [], "language": "python",
                                      "collapsed": False, "metadata": {}}], "metadata": {}}]}
    book = write(root)
    book.write_text(json.dumps(old))
    result = root.run("-r", "notebook", book)
    assert (result.cause, result.stdout) == ("ok", "42\n"), words(result)
    assert executed(result)["nbformat"] == 4 and "no kernel 'my-env'" in words(result)


def test_a_runtime_without_jupyter_is_told_what_it_lacks(user):
    """Any Python can be asked for; one that has it is the control, in a venv whose own modules the kernel must see."""
    book = write(user, "import sys, own_module; print(own_module.VALUE, sys.prefix)")
    for name, options in (("bare", []), ("full", ["--system-site-packages"])):
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", *options, user.base / name], check=True)
        entry = user.base / "runtimes.d" / f"{name}.yaml"
        entry.write_text(f"name: {name}\nversion: \"1\"\nkind: venv\nprefix: {user.base / name}\n")
        user.own(entry)
    (next((user.base / "full/lib").glob("python3*")) / "site-packages/own_module.py").write_text("VALUE = 7\n")
    lacks = user.run("-r", "bare", book)
    assert (lacks.cause, lacks.status) == ("exit", 1)
    assert "has no nbformat, nbclient" in lacks.verdict["completion_notes"] and "-r notebook" in lacks.verdict["completion_notes"]
    runs = user.run("-r", "full", book)
    assert (runs.cause, runs.stdout) == ("ok", f"7 {user.base / 'full'}\n"), words(runs)
    for name in ("bare", "full"):
        (user.base / "runtimes.d" / f"{name}.yaml").unlink()


def test_a_kernel_that_does_not_start_is_an_error_at_once(root):
    """It dies, before its first answer, of a module beside the notebook; nothing waits for a minute."""
    book = write(root, "1")
    (root.dir / "ipykernel.py").write_text("raise SystemExit('broken on purpose')\n")
    file = root.dir / "a.yaml"
    file.write_text("code: [book.ipynb, ipykernel.py]\nlimits: {time: 10m}\n")
    result = root.run(file)
    assert (result.cause, result.status) == ("exit", 1), words(result)
    notes = result.verdict["completion_notes"]
    assert notes.startswith("The notebook was not run: the kernel 'python3' did not start: ") and "cupel runtime check notebook" in notes
    assert "broken on purpose" in result.log("stderr.log").decode()
    assert states(executed(result)) == ["pending"] and executed(result)["metadata"]["cupel"]["stopped_at_cell"] is None


def test_not_even_a_loopback_is_needed(user):
    """The driver alone, where the loopback is down; that it is down is the control."""
    book = write(user, "print(6 * 7)")
    driver = user.dir / "driver"
    shutil.copytree(ROOT / "src/runtime/notebook", driver, dirs_exist_ok=True)
    control = "import errno, socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept OSError as error: print(errno.errorcode[error.errno])"
    script = f"/usr/bin/python3 -c \"{control}\"; exec /usr/bin/python3 -B {driver} {book}"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(user.dir), "CUPEL_WORK_DIR": str(user.dir), "CUPEL_OUT_DIR": str(user.dir / "out"),
           "TMPDIR": str(user.dir / "tmp")}
    done = subprocess.run(["unshare", "-n", "--setgid", str(user.uid), "--setuid", str(user.uid), "sh", "-c", script], env=env, cwd=user.dir,
                          capture_output=True, text=True, check=False, timeout=lib.RUN_LIMIT_S)
    assert (done.returncode, done.stdout) == (0, "ENETUNREACH\n42\n"), done.stderr


def test_a_warning_reaches_the_kernel(user):
    """It goes to the main process, as cupel sends it; one that no cell asked for harms nobody."""
    wait = ("import os, signal, time\nfor number in (signal.SIGUSR2, signal.SIGUSR1):\n    os.kill(os.getppid(), number)\n"
            "while not heard:\n    time.sleep(0.01)\nprint(heard)")
    result = user.run("--time", "2m", write(
        user, "import signal\nheard = []\n_ = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))", wait))
    assert (result.cause, result.stdout) == ("ok", f"[{int(signal.SIGUSR1)}]\n"), words(result)


def test_parameters_become_literals_of_r(tmp_path):
    """Read again by R itself; no kernel is needed for that."""
    if not shutil.which("Rscript"):
        pytest.skip("science: r-base-core is not installed")
    script = tmp_path / "cell.R"
    made = subprocess.run(
        ["/usr/bin/python3", "-B", "-c", "import json, sys; from cupel_parameters import literal\n"
         "for name, value in json.loads(sys.argv[1]).items(): print(name, '<-', literal(value, 'r'))", json.dumps(VALUES)],
        env={"PYTHONPATH": str(ROOT / "src/runtime/notebook")}, capture_output=True, text=True, check=True).stdout
    script.write_text(made + """
stopifnot(identical(text, "a'b\\"c\\\\d\\n\u00e9\U0001f40d"), number == 3, big == 2^53, real == 2.5e-7, isTRUE(yes), is.null(none),
          identical(many, list(1, "two", list(FALSE, NULL))), identical(table$k[["x y"]], list(1.5)))
cat("right")
""", encoding="utf-8")
    done = subprocess.run(["Rscript", "--vanilla", script], capture_output=True, text=True, check=False, env={**os.environ, "LANG": "C.UTF-8"})
    assert done.stdout == "right", done.stderr


def test_the_page_opens_without_a_network(root, tmp_path):
    """In a browser that can reach nothing: text and figure are there, and a script of a cell that wants elsewhere gets nowhere."""
    program = shutil.which("chromium")
    if not program:
        pytest.skip("chromium: not installed")
    outside = "from IPython.display import HTML; HTML('<script src=\"http://127.0.0.1:9/x.js\" onerror=\"document.title+=\\' refused\\'\"></script>')"
    result = root.run(write(root, "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()", "print('seen ' * 3)", outside))
    assert result.cause == "ok", words(result)
    page = tmp_path / "book.html"
    shutil.copy(result.run_dir / "outputs/out/book.html", page)
    env = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        ["unshare", "-n", program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=False, env=env)
    assert "seen seen seen" in done.stdout and "data:image/png;base64," in done.stdout, done.stderr[-2000:]
    assert "book refused" in done.stdout
