"""Where systemd owns the control groups: a scope is asked of it over D-Bus, for root and for a user with a manager of his own."""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import socket
import sqlite3
import subprocess
import time

import pytest

import cupel as lib
import doors

pytestmark = pytest.mark.systemd

EATER = "x = bytearray(200 << 20); print(0)"


def show(unit, name, *manager):
    done = subprocess.run(["systemctl", *manager, "show", "-p", name, "--value", unit], capture_output=True,
                          text=True, check=False)
    return done.stdout.strip()


@pytest.fixture
def by_root(tmp_path):
    """Root without a configured group: what a fresh host offers."""
    tmp_path.chmod(0o711)
    env = {"PATH": os.environ["PATH"], "HOME": "/root", "CUPEL_HOME": str(tmp_path / "home")}

    def run(*words):
        return subprocess.run([lib.BINARY, "run", "--json", *words], env=env, cwd="/", capture_output=True,
                              text=True, timeout=lib.RUN_LIMIT_S, check=False)
    run.home = tmp_path / "home"
    run.env = env
    return run


def verdict(done):
    assert done.stdout.strip(), done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def scopes(*manager):
    done = subprocess.run(["systemctl", *manager, "list-units", "--all", "--no-legend", "--plain", "cupel-*.scope"],
                          capture_output=True, text=True, check=False)
    return done.stdout.split()


def test_root_gets_a_scope_with_the_limits(by_root):
    found = verdict(by_root("--id", "scoped", "--memory", "96M", "--", "/bin/true"))
    receipt = json.loads((by_root.home / "runs/scoped/receipt.json").read_text())
    assert found["cause"] == "ok"
    assert receipt["budget"]["mechanism"] == "cgroup2-systemd"
    values = {value["file"]: value["kernel"] for value in receipt["budget"]["values"]}
    assert values["memory.max"] == str(96 << 20)
    assert values["memory.oom.group"] == "1"
    assert int(show("cupel.slice", "MemoryMax")) > 0  # the cap of all runs together
    assert show("cupel.slice", "CPUWeight") == "10"  # the default of cpu_weight: runs yield to the host's own work
    assert lib.wait_until(lambda: not scopes()), scopes()


def test_slice_has_the_configured_weight(by_root):
    """A changed cpu_weight reaches the slice, and the default returns once the setting is gone."""
    config = by_root.home.with_name("cupel.yaml")
    by_root.env["CUPEL_CONFIG"] = str(config)
    for text, weight in (("cpu_weight: 250\n", "250"), ("", "10")):
        config.write_text(text, encoding="utf-8")
        assert verdict(by_root("--", "/bin/true"))["cause"] == "ok"
        assert show("cupel.slice", "CPUWeight") == weight
    assert lib.wait_until(lambda: not scopes()), scopes()


def test_memory_limit_ends_the_whole_box(by_root):
    found = verdict(by_root("--memory", "64M", "--", "/bin/sh", "-c", f"sleep 60 & /usr/bin/python3 -c '{EATER}'; sleep 60"))
    assert found["cause"] == "oom"
    assert found["evidence"]["oom_kills"] >= 1
    assert lib.wait_until(lambda: not scopes()), scopes()


def test_killed_keeper_leaves_nothing(by_root):
    with subprocess.Popen([lib.BINARY, "run", "--id", "killed", "--", "/bin/sleep", "1000"], cwd="/",
                          env={"PATH": os.environ["PATH"], "CUPEL_HOME": str(by_root.home)}) as run:
        assert lib.wait_until(lambda: "started" in (by_root.home / "runs/killed/events.jsonl").read_text()
                              if (by_root.home / "runs/killed/events.jsonl").exists() else False)
        keeper = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()[0]
        os.kill(int(keeper), 9)
        run.wait(lib.RUN_LIMIT_S)
    assert json.loads((by_root.home / "runs/killed/verdict.json").read_text())["cause"] == "lost"
    assert lib.wait_until(lambda: not scopes()), scopes()


def test_a_user_with_a_manager_gets_a_scope(tmp_path):
    """user@.service gives a delegated subtree; its bus is where the scope is asked for."""
    name = "cupeluser"
    binary = pathlib.Path("/tmp/cupel-for-user")  # the build may be where he can't go
    shutil.copy(lib.BINARY, binary)
    binary.chmod(0o755)
    subprocess.run(["useradd", "--create-home", name], check=True)
    try:
        user = pwd.getpwnam(name)
        subprocess.run(["loginctl", "enable-linger", name], check=True)
        bus = pathlib.Path(f"/run/user/{user.pw_uid}/bus")
        assert lib.wait_until(bus.exists), "no user manager came up"
        env = {"PATH": os.environ["PATH"], "HOME": user.pw_dir, "XDG_RUNTIME_DIR": str(bus.parent)}
        done = subprocess.run([binary, "run", "--json", "--memory", "64M", "--", "/usr/bin/python3", "-c", EATER],
                              env=env, cwd=user.pw_dir, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                              capture_output=True, text=True, timeout=lib.RUN_LIMIT_S, check=False)
        found = verdict(done)
        receipt = json.loads((pathlib.Path(found["directory"]) / "receipt.json").read_text())
        assert found["cause"] == "oom"
        assert receipt["budget"]["mechanism"] == "cgroup2-systemd"
        assert receipt["user"]["uid_host"] == user.pw_uid
    finally:
        binary.unlink()
        subprocess.run(["loginctl", "disable-linger", name], check=False)
        subprocess.run(["userdel", "--remove", "--force", name], check=False, capture_output=True)


UNIT = lib.BUILD / "systemd/cupel.service"


@pytest.fixture
def unit(tmp_path):
    """The service under its own unit, with a home of the test's; its socket is in there too."""
    if not UNIT.exists():
        pytest.skip("service: it was not built")
    home = tmp_path / "home"
    tmp_path.chmod(0o711)
    lines = [line for line in UNIT.read_text(encoding="utf-8").splitlines() if "cupel.socket" not in line]
    text = "\n".join(f"ExecStart={lib.BUILD}/src/cli/cupel-serve\nEnvironment=CUPEL_HOME={home}"
                     if line.startswith("ExecStart=") else line for line in lines)
    path = pathlib.Path("/run/systemd/system/cupel-tested.service")
    path.write_text(text + "\n", encoding="utf-8")
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    yield home
    subprocess.run(["systemctl", "stop", path.name], check=False)
    path.unlink()
    subprocess.run(["systemctl", "daemon-reload"], check=True)


def submissions(home):
    with contextlib.closing(sqlite3.connect(home / "cupel.db")) as db:
        return dict(db.execute("SELECT id, coalesce(cause, state) FROM submissions"))


def test_the_unit_keeps_runs_apart_from_the_service(unit):
    """They survive a restart and a kill of the service, have scopes of their own, and are adopted."""
    caller = lib.Cupel("root")
    caller.home = unit
    caller.configure()
    caller.config.write_text("", encoding="utf-8")  # what a fresh host offers
    door = doors.Door(caller).ready()
    # It goes on until it is let go: restarts take their time.
    waits = ["sh", "-c", "until test -e go; do sleep 0.5; done"]
    run = door.accepted(doors.sleeper(command=waits), not_before=time.time_ns() + 10**9)
    door.drain()
    name = "cupel-tested.service"
    subprocess.run(["systemctl", "start", name], check=True, timeout=60)  # returns once it is ready
    record = unit / "runs" / run / "events.jsonl"
    assert lib.wait_until(lambda: record.exists() and '"started"' in record.read_text())
    assert any(run in scope for scope in scopes()), scopes()
    first = show(name, "MainPID")
    subprocess.run(["systemctl", "restart", name], check=True, timeout=120)
    second = show(name, "MainPID")
    assert second not in ("0", first)
    os.kill(int(second), 9)
    assert lib.wait_until(lambda: show(name, "MainPID") not in ("0", second) and show(name, "ActiveState") == "active")
    assert not (unit / "runs" / run / "verdict.json").exists(), "the control: it went on all the time"
    (caller.work_dir(run) / "go").touch()
    assert lib.wait_until(lambda: submissions(unit)[run] == "ok")
    assert lib.wait_until(lambda: not scopes()), scopes()
    caller.close()


@pytest.fixture
def door(tmp_path):
    """Both units as they are installed, with a home and a socket of the test's: (path of the socket, names of the units)."""
    if not UNIT.exists():
        pytest.skip("service: it was not built")
    tmp_path.chmod(0o711)
    socket_unit = (lib.TESTS.parent / "systemd/cupel.socket").read_text(encoding="utf-8")
    texts = {
        "cupel-doored.socket": socket_unit.replace("ListenStream=/run/cupel.sock", f"ListenStream={tmp_path}/door"),
        "cupel-doored.service": UNIT.read_text(encoding="utf-8").replace("cupel.socket", "cupel-doored.socket"),
    }
    for name, text in texts.items():
        lines = [f"ExecStart={lib.BUILD}/src/cli/cupel-serve\nEnvironment=CUPEL_HOME={tmp_path}/home" if line.startswith("ExecStart=") else line
                 for line in text.splitlines()]
        pathlib.Path("/run/systemd/system", name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", *(f"/run/systemd/system/{name}" for name in texts)], capture_output=True,
                             text=True, check=False)
    assert "cupel-doored" not in checked.stderr, checked.stderr
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    yield tmp_path / "door", *texts
    subprocess.run(["systemctl", "stop", *texts], check=False)
    for name in texts:
        pathlib.Path("/run/systemd/system", name).unlink()
    subprocess.run(["systemctl", "daemon-reload"], check=True)


def who(door):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60 * lib.SLOW)
        s.connect(str(door))
        s.sendall(b"GET /v1 HTTP/1.1\r\nHost: cupel\r\nConnection: close\r\n\r\n")
        answer = b""
        while part := s.recv(65536):
            answer += part
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])["identity"]["name"]


def test_whoever_opens_the_socket_starts_the_service(door):
    """It is the manager's: nobody is turned away while the service begins, or between two of them."""
    path, socket_name, service_name = door
    subprocess.run(["systemctl", "start", socket_name], check=True, timeout=60)
    assert show(service_name, "ActiveState") == "inactive" and path.stat().st_mode & 0o777 == 0o600
    assert who(path) == "root"
    assert lib.wait_until(lambda: show(service_name, "ActiveState") == "active")
    subprocess.run(["systemctl", "stop", service_name], check=True, timeout=120)
    assert show(service_name, "ActiveState") == "inactive" and show(service_name, "Result") == "success"
    assert path.exists() and who(path) == "root"
