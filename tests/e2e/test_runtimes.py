"""Named runtimes in the box: conda, venv and rootfs, each by hand-made examples."""

import json
import os
import shutil
import signal
import subprocess

import pytest

import cupel as lib
import leftovers
from catalogs import Catalog, PYTHON, analysis, catalog, plan  # noqa: F401  (fixtures)


# conda


def test_a_conda_prefix_is_read_only_and_first_in_the_path(cupel, catalog):
    prefix = catalog.conda("sc", "env: {GREETING: hello}\n")
    result = cupel.run("-r", "sc", "--", "/bin/sh", "-c",
                       "tool; echo $GREETING $CONDA_SHLVL; touch $CONDA_PREFIX/x || echo closed; "
                       "ls /usr/bin/env",
                       env={"CONDA_PREFIX": "/leak", "CONDA_LEAK": "1"})
    assert result.cause == "ok", result.stderr
    assert result.stdout.splitlines() == [f"tool of {prefix}", "hello 1", "closed", "/usr/bin/env"]
    assert not (prefix / "x").exists()
    assert cupel.run("-r", "sc", "--", "env").stdout.count("leak") == 0


def test_a_script_gets_the_prefix_s_own_interpreter(cupel, catalog):
    prefix = catalog.conda("sc")
    script = catalog.write(cupel.dir / "a.py", "import sys; print(sys.argv[1])\n")
    assert cupel.run("-r", "sc", script, "word").stdout == "word\n"
    (prefix / "bin/python").unlink()
    result = cupel.run("-r", "sc", script, "word")
    assert result.status == 2 and "has no" in result.stderr and "bin/python" in result.stderr


ODD = "it's \"odd\" = \\ $HOME\n\tand two lines"


def test_activation_scripts_run_once_in_a_box(cupel, catalog):
    prefix = catalog.conda("act", "env: {ENTRY: wins}\n")
    catalog.write(prefix / "etc/conda/activate.d/10-first.sh", """\
        export ODD=$(printf '%s' "it's \\"odd\\" = \\\\ \\$HOME
        \tand two lines")
        export ENTRY=loses CACHE=$HOME/cache ORDER=1
        unset LANG
        echo noise
        """)
    catalog.write(prefix / "etc/conda/activate.d/20-second.sh",
                  'export ORDER=$ORDER-2 PATH=$CONDA_PREFIX/extra:$PATH\nfalse\n')
    catalog.own_all(prefix)
    before = set((cupel.home / "runs").iterdir()) if (cupel.home / "runs").exists() else set()

    status, foreseen, _ = plan(cupel, "-r", "act", "--", "env")
    assert status == 0
    assert any("have not been run yet" in text for text in foreseen["plan"]["warnings"])

    first = cupel.run("-r", "act", "--", "env", "-0")
    second = cupel.run("-r", "act", "--", "env", "-0")
    assert first.cause == second.cause == "ok", first.stderr
    for result in (first, second):
        env = dict(item.split("=", 1) for item in result.stdout.split("\0") if item)
        assert env["ODD"] == ODD.replace("\t", "\t")
        assert env["ENTRY"] == "wins" and env["ORDER"] == "1-2" and "LANG" not in env
        assert env["CACHE"] == f"{cupel.work_dir(result.run_dir.name)}/home/cache"
        assert env["PATH"].startswith(f"{prefix}/extra:{prefix}/bin:")
        assert "noise" not in result.stdout
    runs = [path.name for path in (cupel.home / "runs").iterdir() if path not in before]
    activations = [name for name in runs if name.startswith("activate-")]
    assert len(activations) == 1 and len(runs) == 3
    assert analysis(first)["runtime"]["activation"] == activations[0]
    _, foreseen, _ = plan(cupel, "-r", "act", "--", "env")
    assert foreseen["plan"]["warnings"] == []


def test_variables_of_a_prefix_go_over_what_is_passed(cupel, catalog):
    """As where conda itself activates it; but not over what the analysis says. Odd values and a directory among the scripts do not
    make the runtime unusable."""
    prefix = catalog.conda("act")
    state = {"LANG": "state", "PATH": "/usr/bin:/state", "TZ": None, "LIST": [1, "a"], "REAL": 0.5}
    catalog.write(prefix / "conda-meta/state", json.dumps({"env_vars": state}))
    catalog.write(prefix / "etc/conda/activate.d/x.sh/y", "")
    catalog.write(prefix / "etc/conda/activate.d/a.sh", "export SEEN=$LANG:$PATH:${TZ-gone}\n")

    def variables(*options):
        result = cupel.run("-r", "act", *options, "--", "env", env={"LANG": "passed", "TZ": "UTC", "LC_ALL": "C"})
        assert result.status == 0, result.verdict
        return dict(line.split("=", 1) for line in result.stdout.splitlines())

    got = variables()
    assert {name: got.get(name) for name in state} == {"LANG": "state", "PATH": "/usr/bin:/state", "TZ": "", "LIST": "[1, 'a']", "REAL": "0.5"}
    assert got["LC_ALL"] == "C" and got["SEEN"] == "state:/usr/bin:/state:"
    assert got["__CONDA_SHLVL_0_LANG"] == "passed" and got["__CONDA_SHLVL_0_TZ"] == "UTC"
    assert "/usr/bin" in got["__CONDA_SHLVL_0_PATH"] and "/state" not in got["__CONDA_SHLVL_0_PATH"]
    said = variables("--env", "LANG=said", "--env", "PATH=/usr/bin")
    assert (said["LANG"], said["PATH"], said["TZ"]) == ("said", "/usr/bin", "")


def test_scripts_that_fail_make_the_runtime_broken(cupel, catalog):
    prefix = catalog.conda("act")
    catalog.write(prefix / "etc/conda/activate.d/a.sh", "exit 3\n")
    result = cupel.run("-r", "act", "--", "true")
    assert result.cause == "runtime-broken" and result.status == 125
    assert "status 3" in result.verdict["completion_notes"]


def test_activation_scripts_are_confined(cupel, catalog):
    """They are the runtime's, not ours: what they can do is what an analysis can."""
    prefix = catalog.conda("act")
    target = catalog.place / "target"
    catalog.write(prefix / "etc/conda/activate.d/a.sh",
                  f"touch {target} {prefix}/x 2>/dev/null; export SEEN=$(cat /etc/shadow 2>&1)\n")
    result = cupel.run("-r", "act", "--", "/bin/sh", "-c", "echo $SEEN")
    assert "No such file" in result.stdout
    assert not target.exists() and not (prefix / "x").exists()


def test_an_entry_that_changes_is_activated_anew(cupel, catalog):
    """What the scripts make of an entry's own words is kept only for those words."""
    prefix = catalog.conda("act", "env: {LEVEL: one}\n")
    catalog.write(prefix / "etc/conda/activate.d/a.sh", "export MADE=from-$LEVEL\n")
    say = lambda: cupel.run("-r", "act", "--", "/bin/sh", "-c", "echo $MADE $PATH").stdout.split()
    assert say()[0] == "from-one"
    catalog.add("act", f"kind: conda\nprefix: {prefix}\nenv: {{LEVEL: two}}\n")
    assert say()[0] == "from-two"
    catalog.write(prefix / "etc/conda/activate.d/a.sh", "export MADE=x PATH=$PATH:/last\n")
    assert say()[1].endswith("/sbin:/last")
    catalog.add("act", f"kind: conda\nprefix: {prefix}\npath: [/usr/bin, /new]\n")
    assert say()[1].endswith("/usr/bin:/new:/last")


def test_variables_are_not_read_through_a_link_to_the_host(cupel, catalog):
    prefix = catalog.conda("act")
    secret = catalog.write(catalog.place / "secret.json", '{"TOKEN": "hush"}\n')
    link = prefix / "etc/conda/env_vars.d/a.json"
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)
    catalog.own_all(prefix)
    result = cupel.run("-r", "act", "--", "env")
    assert result.cause == "runtime-broken" and "hush" not in result.stdout
    assert "out of the prefix" in result.verdict["completion_notes"]
    link.unlink()
    shutil.copy(secret, link)
    catalog.own_all(prefix)
    assert "TOKEN=hush" in cupel.run("-r", "act", "--", "env").stdout


# venv


def test_a_venv_is_itself_in_the_box(cupel, catalog):
    prefix = catalog.venv("web", module={"marker": "VALUE = 41\n"})
    script = catalog.write(cupel.dir / "a.py", """\
        import marker, os, sys
        print(marker.VALUE, sys.prefix, os.environ["VIRTUAL_ENV"], "PYTHONHOME" in os.environ)
        """)
    result = cupel.run("-r", "web", script, env={"PYTHONHOME": "/nowhere"})
    assert result.stdout == f"41 {prefix} {prefix} False\n", result.stderr


def test_the_base_interpreter_of_a_venv_is_shown(cupel, catalog):
    """A python outside /usr: its prefix is named by pyvenv.cfg only."""
    base = catalog.place / "own python"
    (base / "bin").mkdir(parents=True)
    shutil.copy(os.path.realpath(PYTHON), base / "bin/python3")
    (base / "lib").mkdir()
    version = os.path.basename(os.path.realpath(PYTHON))
    (base / f"lib/{version}").symlink_to(f"/usr/lib/{version}")
    catalog.own_all(base)
    catalog.venv("own", python=base / "bin/python3")
    result = cupel.run("-r", "own", "--", "python", "-c", "import sys; print(sys.base_prefix)")
    assert result.stdout == f"{base}\n", result.stderr
    shutil.rmtree(base)
    result = cupel.run("-r", "own", "--", "python", "-c", "1")
    assert result.cause == "runtime-broken" and "Remedy" in result.verdict["completion_notes"]


@pytest.mark.parametrize("named", ["", "/bin"])
def test_a_venv_shows_only_a_python_beside_itself(cupel, catalog, named):
    """pyvenv.cfg is the runtime's word, not the entry's: it does not open the host."""
    prefix = catalog.venv("web")
    other = catalog.place / "diary"
    catalog.write(other / "bin/page", "hush\n")
    cfg = prefix / "pyvenv.cfg"
    cfg.write_text(cfg.read_text(encoding="utf-8").replace("home = /usr/bin",
                                                           f"home = {other}{named}"),
                   encoding="utf-8")
    look = ("-r", "web", "--", "/bin/cat", f"{other}/bin/page")
    result = cupel.run(*look)
    assert result.stdout == "" and result.cause == "runtime-broken", result.stderr
    assert "no Python" in result.verdict["completion_notes"]
    # The control: what the entry itself says is shown.
    catalog.add("web", f"kind: venv\nprefix: {prefix}\nread_only: [{other}]\n")
    assert cupel.run(*look).stdout == "hush\n"


def test_conflicting_versions_at_the_same_moment(cupel, catalog):
    for number in ("1", "2"):
        catalog.venv(f"lib{number}", module={"library": f"VERSION = '{number}.0'\n"})
    script = catalog.write(cupel.dir / "a.py", """\
        import library, pathlib, sys, time
        print(library.VERSION, flush=True)
        while True:
            time.sleep(1)
        """)
    started = [cupel.start("-r", f"lib{number}", script, stdout=subprocess.PIPE)
               for number in ("1", "2")]
    try:
        assert [process.stdout.readline() for process, _ in started] == [b"1.0\n", b"2.0\n"]
        assert all(process.poll() is None for process, _ in started)
    finally:
        for process, _ in started:
            process.send_signal(signal.SIGINT)
            process.wait()
            process.stdout.close()


# rootfs


LOOK = """\
cat /etc/os-release /etc/deep/file /etc/link /var/lib/own/file /opt/app/data
cat /etc/passwd | while read line; do echo "${line%%:*}"; done
readlink /bin
test -e /usr/bin/python3 && echo host
touch /usr/x /etc/x /var/x /opt/x 2>/dev/null || echo closed
touch /tmp/x /var/tmp/y out/z && echo open
echo $0
"""
SEEN = ["NAME=Tiny", "deep", "deep", "var", "opt", "root", "analysis", "nobody", "usr/bin",
        "closed", "open", "sh"]


def test_a_directory_replaces_the_host_s_usr(cupel, catalog):
    root = catalog.rootfs("tiny")
    catalog.add("tiny", f"kind: rootfs\nroot: {root}\n")
    result = cupel.run("-r", "tiny", "--", "sh", "-c", LOOK, "sh")
    assert result.stdout.splitlines() == SEEN, result.stderr
    assert result.receipt["runtime"]["kind"] == "rootfs"
    assert not list(root.rglob("x"))


def squashfs(catalog, name):
    root = catalog.rootfs(name + "-tree")
    file = catalog.place / f"{name}.squashfs"
    subprocess.run(["mksquashfs", root, file, "-quiet", "-no-progress"], check=True,
                   stdout=subprocess.DEVNULL)
    shutil.rmtree(root)
    catalog.caller.own(file)
    catalog.add(name, f"kind: rootfs\nroot: {file}\n")
    return file


def test_a_squashfs_file_is_a_root_too(cupel, catalog):
    """As root it is mounted and nothing stays; as a user it is unpacked once."""
    file = squashfs(catalog, "packed")
    for _ in range(2):
        result = cupel.run("-r", "packed", "--", "sh", "-c", LOOK, "sh")
        assert result.stdout.splitlines() == SEEN, result.stderr
    cache = cupel.home / "cache/squashfs"
    if cupel.who == "root":
        assert not cache.exists()
        seen = cupel.run("-r", "packed", "--", "sh", "-c", "cat /proc/self/mountinfo; ls /run/cupel")
        assert " - squashfs " in seen.stdout and "/run/cupel/root" not in seen.stdout
    else:
        trees = list(cache.glob("sha256-*"))
        assert len(trees) == 1
        before = trees[0].stat().st_ino
        os.utime(file)  # looked at again, and found to be the same
        assert cupel.run("-r", "packed", "--", "true").status == 127  # it has no such program
        assert [path.stat().st_ino for path in cache.glob("sha256-*")] == [before]
        assert not list(cache.glob(".*"))


def test_a_squashfs_file_is_what_its_lock_says_however_it_is_brought_in(cupel, catalog):
    """Mounted or unpacked, the file is what is locked and what is looked at before a run."""
    file = squashfs(catalog, "packed")
    status, _, err = cupel.call(cupel.binary, "runtime", "lock", "packed")
    assert status == 0, err
    assert cupel.run("-r", "packed", "--", "sh", "-c", ":").cause == "ok"
    with open(file, "r+b") as opened:  # the modification time in the superblock, which nothing else depends on
        opened.seek(8)
        opened.write(b"\1")
    assert cupel.run("-r", "packed", "--", "sh", "-c", ":").cause == "runtime-broken"


def test_no_loop_device_outlives_a_killed_keeper(root):
    catalog = Catalog(root)
    try:
        squashfs(catalog, "packed")
        process, run_id = root.start("-r", "packed", "--", "sh", "-c", "echo up; sleep 1000",
                                     stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"up\n"
        assert [line for line in leftovers.leftovers(root) if line.startswith("loop")]
        keeper = int(next(event for event in events(root, run_id)
                          if event["event"] == "accepted")["data"]["keeper_pid"])
        os.kill(keeper, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        loops = lambda: [line for line in leftovers.leftovers(root) if line.startswith("loop")]
        assert lib.wait_until(lambda: not loops()), loops()
    finally:
        catalog.close()


def events(caller, run_id):
    lines = (caller.run_dir(run_id) / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_root_mounts_only_what_root_has_written(root):
    catalog = Catalog(root)
    try:
        file = squashfs(catalog, "packed")
        os.chown(file, lib.USER_ID, lib.USER_ID)
        result = root.run("-r", "packed", "--", "sh", "-c", "true")
        assert result.cause == "runtime-broken"
        assert "others than root" in result.verdict["completion_notes"]
        os.chown(file, 0, 0)
        assert root.run("-r", "packed", "--", "sh", "-c", "true").cause == "ok"
    finally:
        catalog.close()
