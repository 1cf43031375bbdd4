"""Named runtimes in the box: each kind by hand-made examples, who may say one, and when a run in one
is refused."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import textwrap
import time

import cupel as lib
import leftovers
import pytest

PYTHON = "/usr/bin/python3"


class Catalog:
    """Runtimes of one caller, beside its configuration; everything is gone afterwards."""

    def __init__(self, caller):
        self.caller = caller
        self.directory = caller.base / "runtimes.d"
        self.place = caller.base / "places"
        for path in (self.directory, self.place):
            path.mkdir(exist_ok=True)
            caller.own(path)

    def close(self):
        for path in (self.directory, self.place, self.caller.home / "runtimes"):
            shutil.rmtree(path, ignore_errors=True)

    def write(self, path, text, mode=0o644):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        path.chmod(mode)
        self.own_all(path.parent)
        return path

    def own_all(self, top):
        for folder, folders, files in os.walk(top):
            for name in [folder, *(os.path.join(folder, n) for n in folders + files)]:
                self.caller.own(name)

    def add(self, name, text, directory=None):
        return self.write((directory or self.directory) / f"{name}.yaml",
                          f"name: {name}\n" + textwrap.dedent(text))

    def conda(self, name, more=""):
        prefix = self.place / name
        self.write(prefix / "conda-meta/history", "")
        self.write(prefix / "bin/tool", "#!/bin/sh\necho tool of $CONDA_PREFIX\n", 0o755)
        self.write(prefix / "bin/python", f'#!/bin/sh\nexec {PYTHON} "$@"\n', 0o755)
        self.own_all(prefix)
        self.add(name, f"kind: conda\nprefix: {prefix}\n" + textwrap.dedent(more))
        return prefix

    def venv(self, name, python=PYTHON, module=None, directory=None, prefix=None):
        prefix = prefix or self.place / name
        subprocess.run([python, "-m", "venv", "--without-pip", prefix], check=True)
        site = next(prefix.glob("lib/python3*/site-packages"))
        for key, value in (module or {}).items():
            (site / f"{key}.py").write_text(value, encoding="utf-8")
        self.own_all(prefix)
        self.add(name, f"kind: venv\nprefix: {prefix}\n", directory)
        return prefix

    def rootfs(self, name):
        """A small system of one static program, that differs from the host where it can."""
        root = self.place / name
        for folder in ("usr/bin", "etc/deep", "var/lib/own", "var/tmp", "opt/app", "tmp", "dev"):
            (root / folder).mkdir(parents=True)
        shutil.copy("/bin/busybox", root / "usr/bin/busybox")
        for tool in ("sh", "cat", "ls", "echo", "env", "touch", "readlink", "sleep", "test", "id"):
            (root / "usr/bin" / tool).symlink_to("busybox")
        (root / "bin").symlink_to("usr/bin")
        self.write(root / "etc/passwd", "intruder:x:0:0::/:/bin/sh\n")
        self.write(root / "etc/os-release", "NAME=Tiny\n")
        self.write(root / "etc/deep/file", "deep\n")
        self.write(root / "var/lib/own/file", "var\n")
        self.write(root / "opt/app/data", "opt\n")
        (root / "etc/link").symlink_to("deep/file")
        self.own_all(root)
        return root


@pytest.fixture
def catalog(cupel):
    made = Catalog(cupel)
    yield made
    made.close()


def analysis(result):
    return json.loads((result.run_dir / "analysis.json").read_text(encoding="utf-8"))


def plan(caller, *args):
    status, out, err = caller.call(caller.binary, "plan", "--json", *args)
    return status, json.loads(out) if out else None, err


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


# Who may say what.


def test_the_nearest_entry_counts(cupel, catalog):
    user = cupel.dir / ".config/cupel/runtimes.d"
    project = cupel.dir / "project"
    catalog.add("who", "kind: system\nenv: {WHO: system}\n")
    say = lambda: cupel.run("-r", "who", "--", "/bin/sh", "-c", "echo $WHO", cwd=project).stdout
    try:
        catalog.write(project / "cupel.yaml", "{}\n")
        assert say() == "system\n"
        catalog.add("who", "kind: system\nenv: {WHO: user}\n", user)
        catalog.own_all(cupel.dir)
        assert say() == "user\n"
        catalog.add("who", "kind: system\nenv: {WHO: project}\n", project / "runtimes.d")
        catalog.own_all(cupel.dir)
        assert say() == "project\n"
        catalog.add("who", "kind: sytem\n", project / "runtimes.d")
        result = cupel.run("-r", "who", "--", "true", cwd=project)
        assert result.status == 2
        assert "project/runtimes.d/who.yaml:2:7" in result.stderr and "'system'" in result.stderr
    finally:
        shutil.rmtree(cupel.dir / ".config", ignore_errors=True)
        shutil.rmtree(project, ignore_errors=True)


def test_a_project_shows_nothing_from_outside(cupel, catalog):
    """By its text, by a link, and by what a virtual environment names."""
    project = cupel.dir / "project"
    secret = catalog.place / "secret"
    catalog.write(secret / "conda-meta/history", "")
    try:
        catalog.write(project / "cupel.yaml", "{}\n")
        place = project / "runtimes.d"
        catalog.add("text", f"kind: conda\nprefix: {secret}\n", place)
        (project / "link").symlink_to(secret)
        catalog.add("link", "kind: conda\nprefix: ../link\n", place)
        catalog.venv("venv", directory=place, prefix=project / "venv")
        catalog.write(secret / "lib/python3.99/os.py", "")
        cfg = project / "venv/pyvenv.cfg"
        cfg.write_text(cfg.read_text(encoding="utf-8").replace("home = /usr/bin",
                                                               f"home = {secret}/bin"))
        catalog.own_all(project)
        result = cupel.run("-r", "text", "--", "true", cwd=project)
        assert result.status == 2 and "outside the project" in result.stderr
        for name in ("link", "venv"):
            result = cupel.run("-r", name, "--", "true", cwd=project)
            assert result.cause == "runtime-broken", result.stderr
            assert "outside the project" in result.verdict["completion_notes"]
        # The control: the same entry is fine where the user himself says it.
        catalog.add("link", f"kind: conda\nprefix: {project}/link\n")
        assert cupel.run("-r", "link", "--", "true").cause == "ok"
    finally:
        shutil.rmtree(project, ignore_errors=True)


def test_a_runtime_shows_neither_protected_paths_nor_records(cupel, catalog):
    prefix = catalog.conda("sc")
    cupel.configure(f"protect: [{prefix}/conda-meta]\n")
    result = cupel.run("-r", "sc", "--", "true")
    assert result.status == 2 and "protected path" in result.stderr
    cupel.configure()
    catalog.add("all", f"kind: system\nread_only: [{cupel.base}]\n")
    result = cupel.run("-r", "all", "--", "true")
    assert result.status == 2 and "own records" in result.stderr


def test_limits_of_a_runtime_lie_below_those_of_an_analysis(cupel, catalog):
    catalog.add("small", "kind: system\nlimits: {memory: 100M, pids: 33}\n")
    result = cupel.run("-r", "small", "--pids", "44", "--", "true")
    limits = analysis(result)["limits"]
    assert limits["memory"]["value"] == "100M" and "small.yaml:3" in limits["memory"]["origin"]
    assert limits["pids"]["value"] == "44"


def test_a_device_of_a_runtime_is_there(cupel, catalog):
    devices = [path for path in ("/dev/fuse", "/dev/net/tun", "/dev/ptmx", "/dev/kvm", "/dev/tty")
               if os.path.exists(path) and not os.path.islink(path)]
    if not devices:
        pytest.skip("device: the host has none of those that are tried")
    catalog.add("with", f"kind: system\ndevices: [{devices[0]}]\n")
    catalog.add("without", "kind: system\n")
    look = ("--", "/bin/sh", "-c", f"test -c {devices[0]} && echo there")
    assert cupel.run("-r", "with", *look).stdout == "there\n"
    assert cupel.run("-r", "without", *look).stdout == ""
    catalog.add("with", "kind: system\ndevices: [/dev/no-such]\n")
    assert cupel.run("-r", "with", *look).cause == "runtime-broken"


def test_a_home_of_others_is_not_even_used_as_a_cache(cupel, catalog):
    """It is refused before anything is read from it, or written through a link in it."""
    prefix = catalog.conda("sc")
    for path in (prefix / "conda-meta", prefix):
        for entry in [path, *path.iterdir()]:
            os.utime(entry, (0, 0))
    home, target = catalog.place / "home", catalog.place / "target"
    for path in (home, target):
        path.mkdir()
        cupel.own(path)
    (home / "cache").symlink_to(target)
    run = lambda: cupel.call(cupel.binary, "run", "-q", "-r", "sc", "--", "true",
                             env={"CUPEL_HOME": str(home)})
    home.chmod(0o777)
    assert lib.wait_until(lambda: time.time() - (prefix / "bin").stat().st_ctime > 3)
    status, _, err = run()
    assert status == 2 and "writable for nobody else" in err
    assert list(target.iterdir()) == []
    home.chmod(0o755)  # the control
    run()
    assert (target / "identity").is_dir()


# Refusal.


def test_a_runtime_that_is_gone_is_refused_and_recorded(cupel, catalog):
    prefix = catalog.conda("sc")
    shutil.rmtree(prefix)
    for more in ((), ("--allow-drift",)):
        result = cupel.run(*more, "-r", "sc", "--", "true")
        assert result.status == 125 and result.cause == "runtime-broken"
        assert str(prefix) in result.stderr and "Remedy" in result.stderr
        assert analysis(result)["runtime"]["selection"]["rule"] == "option"
        assert not (result.run_dir / "receipt.json").exists()
        assert "started" not in [event["event"] for event in result.events]
    status, _, err = cupel.call(cupel.binary, "plan", "-r", "sc", "--", "true")
    assert status == 125 and "runtime-broken" in err
    status, out, _ = cupel.call(cupel.binary, "show", result.run_dir.name)
    assert status == 0 and "runtime-broken" in out


def set_health(caller, name, health, identity):
    state = caller.home / "runtimes" / name / "state.json"
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text(json.dumps({"health": health, "reason": "a library has one byte changed",
                                 "fingerprint": {"identity": identity}}), encoding="utf-8")
    for path in (state, state.parent, state.parent.parent):
        caller.own(path)


@pytest.mark.parametrize("health", ["degraded", "broken"])
def test_a_runtime_known_to_be_unfit_is_refused_unless_allowed(cupel, catalog, health):
    catalog.conda("sc")
    _, foreseen, _ = plan(cupel, "-r", "sc", "--", "true")
    identity = foreseen["runtime"]["fingerprint"]["identity"]
    set_health(cupel, "sc", health, identity)

    result = cupel.run("-r", "sc", "--", "true")
    assert result.status == 125 and result.cause == "runtime-broken"
    for words in (health, "one byte changed", "--allow-drift"):
        assert words in result.verdict["completion_notes"]
    status, foreseen, err = plan(cupel, "-r", "sc", "--", "true")
    assert status == 125 and foreseen["refused"] and "runtime-broken" in err

    file = catalog.write(cupel.dir / "a.yaml",
                         "runtime: sc\ncommand: [tool]\nallow_drift: true\n")
    for args in (("--allow-drift", "-r", "sc", "--", "tool"), (file,)):
        result = cupel.run(*args)
        assert result.cause == "ok" and "tool of" in result.stdout
        for record in (result.receipt["runtime"], result.verdict["runtime_state"]):
            assert "one byte changed" in record["allowed_drift"]
            assert record["fingerprint"]["identity"] == identity
        assert "as was allowed" in result.verdict["completion_notes"]
    status, foreseen, _ = plan(cupel, "--allow-drift", "-r", "sc", "--", "true")
    assert status == 0 and "one byte changed" in foreseen["plan"]["warnings"][0]

    # It was another one that was unfit: nobody knows anything of what is there now.
    set_health(cupel, "sc", health, "0" * 64)
    result = cupel.run("-r", "sc", "--", "tool")
    assert result.cause == "ok" and result.verdict["runtime_state"]["allowed_drift"] is None
    set_health(cupel, "sc", "healthy", identity)
    assert cupel.run("-r", "sc", "--", "tool").cause == "ok"


def test_packages_that_are_not_installed(cupel, catalog):
    catalog.add("deb", "kind: system\npackages: [python3, no-such-package-anywhere]\n")
    result = cupel.run("-r", "deb", "--", "true")
    assert result.cause == "runtime-broken"
    assert "apt-get install no-such-package-anywhere" in result.verdict["completion_notes"]
    catalog.add("deb", "kind: system\npackages: [python3, libc6]\n")
    assert cupel.run("-r", "deb", "--", "true").cause == "ok"


def test_the_plan_says_who_chose_and_what_was_found(cupel, catalog):
    catalog.conda("sc")
    file = catalog.write(cupel.dir / "a.yaml", "runtime: sc\ncommand: [tool]\n")
    status, out, _ = cupel.call(cupel.binary, "plan", file)
    assert status == 0
    assert "runtime    sc (conda, 0)" in out and "chosen     by analysis" in out
    _, foreseen, _ = plan(cupel, file)
    assert foreseen["runtime"]["fingerprint"]["identity"] in out
    assert foreseen["runtime"]["origin"].endswith("sc.yaml:1")
    result = cupel.run(file)
    assert analysis(result)["runtime"]["selection"]["rule"] == "analysis"
    assert analysis(result)["runtime"]["fingerprint"] == foreseen["runtime"]["fingerprint"]
