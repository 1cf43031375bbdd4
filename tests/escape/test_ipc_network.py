"""IPC and network: a real PostgreSQL beside the box, on loopback and on its sockets, which the
caller reaches and the analysis does not."""

import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile

import pytest

import cupel as lib

PSQL = "/usr/lib/postgresql/15/bin/psql"


def _loopback6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


class Postgres:
    """A cluster of its own in a temporary directory, as the user postgres, gone afterwards."""

    def __init__(self):
        self.port = lib.free_port()
        self.has_v6 = _loopback6()
        self.base = pathlib.Path(tempfile.mkdtemp(prefix="cupel-pg-"))
        self.usual = pathlib.Path("/run/postgresql")
        self.account = pwd.getpwnam("postgres")
        os.chown(self.base, self.account.pw_uid, self.account.pw_gid)
        self.base.chmod(0o755)
        self.folders = [self.base] + ([self.usual] if self.usual.is_dir() else [])
        password = self.base / "pw"
        password.write_text("secret", encoding="utf-8")
        subprocess.run(
            [
                f"{os.path.dirname(PSQL)}/initdb",
                "-D",
                self.base / "data",
                "-U",
                "app",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
                f"--pwfile={password}",
                "--no-sync",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
            ],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            preexec_fn=self._become,
            timeout=300 * lib.SLOW,
        )
        listen = "127.0.0.1" + (",::1" if self.has_v6 else "")
        self.log = open(self.base / "log", "wb")
        self.process = subprocess.Popen(
            [
                f"{os.path.dirname(PSQL)}/postgres",
                "-D",
                self.base / "data",
                "-p",
                str(self.port),
                "-c",
                f"listen_addresses={listen}",
                "-c",
                "fsync=off",
                "-c",
                "shared_buffers=16MB",
                "-c",
                f"unix_socket_directories={','.join(map(str, self.folders))}",
            ],
            stdout=self.log,
            stderr=self.log,
            cwd="/",
            preexec_fn=self._become,
        )
        assert lib.wait_until(lambda: self.reached(self.base)), (self.base / "log").read_text()

    def _become(self):
        os.setgroups([])
        os.setresgid(*[self.account.pw_gid] * 3)
        os.setresuid(*[self.account.pw_uid] * 3)

    def ways(self):
        """Every address it has, as psql takes them."""
        return (
            ["127.0.0.1"] + (["::1"] if self.has_v6 else []) + [str(path) for path in self.folders]
        )

    def query(self, way):
        return [
            PSQL,
            "-h",
            str(way),
            "-p",
            str(self.port),
            "-U",
            "app",
            "-d",
            "postgres",
            "-w",
            "-Atc",
            "select 41 + 1",
        ]

    def reached(self, way):
        return (
            subprocess.run(
                self.query(way), capture_output=True, check=False, env={"PGPASSWORD": "secret"}
            ).stdout
            == b"42\n"
        )

    def close(self):
        self.process.send_signal(2)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.base)


@pytest.fixture(scope="module")
def postgres():
    if not os.path.exists(PSQL):
        pytest.skip("postgres: PostgreSQL 15 is not installed")
    server = Postgres()
    yield server
    server.close()


def test_postgresql_is_not_reached(cupel, postgres):
    """By TCP over v4 and v6 and by each of its sockets; the client inside is the one that works
    outside."""
    assert cupel.outside(f"tcp4={postgres.port}")[f"tcp4={postgres.port}"] == "ok"
    for way in postgres.ways():
        status, out, _ = cupel.call(*postgres.query(way), env={"PGPASSWORD": "secret"})
        assert (status, out) == (0, "42\n"), way
        inside = cupel.run("--env", "PGPASSWORD=secret", "--", *postgres.query(way))
        assert (inside.status, inside.cause, inside.stdout) == (2, "exit", ""), way
        reason = "No such file or directory" if way.startswith("/") else "Connection refused"
        assert reason in inside.stderr


def test_postgresql_by_bare_connections(cupel, postgres):
    name = f".s.PGSQL.{postgres.port}"
    expected = {
        f"tcp4={postgres.port}": "ECONNREFUSED",
        f"tcp6={postgres.port}": "ECONNREFUSED",
        **{f"unix={folder}/{name}": "ENOENT" for folder in postgres.folders},
    }
    assert cupel.probed(*expected)[0] == expected
    if not postgres.has_v6:
        del expected[f"tcp6={postgres.port}"]
    assert cupel.outside(*expected) == {act: "ok" for act in expected}


def test_a_socket_shown_as_input_is_refused(cupel, postgres):
    """An input is a file or a directory, never a way to a service."""
    path = postgres.base / f".s.PGSQL.{postgres.port}"
    result = cupel.run("--data", f"{path}:s", "--", "/bin/true")
    assert result.status == 2 and result.verdict is None
    assert f"--data: {path} is a socket; an input is a file or a directory" in result.stderr


def test_a_fifo_shown_as_input_is_refused(cupel):
    path = cupel.base / "input-fifo"
    os.mkfifo(path)
    path.chmod(0o666)
    result = cupel.run("--data", f"{path}:s", "--", "/bin/true")
    assert result.status == 2 and result.verdict is None
    assert f"--data: {path} is a FIFO; an input is a file or a directory" in result.stderr


def test_abstract_sockets_are_not_reached(cupel):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{cupel.name}")
        server.listen()
        act = f"abstract={cupel.name}"
        assert cupel.outside(act)[act] == "ok"
        assert cupel.probed(act)[0][act] == "ECONNREFUSED"


def test_there_is_no_route_out(cupel):
    """Loopback only: no interface, no neighbour, no route."""
    result = cupel.run(
        "--", "/bin/sh", "-c", "tail -n +3 /proc/net/dev | cut -d: -f1; tail -n +2 /proc/net/route"
    )
    assert result.stdout.split() == ["lo"]
    assert cupel.probed("route", "own-loopback")[0] == {
        "route": "ENETUNREACH",
        "own-loopback": "ok",
    }


def test_names_are_not_resolved_outside(cupel):
    result = cupel.run(
        "--",
        "/usr/bin/python3",
        "-c",
        """
import socket
try:
    print(socket.getaddrinfo("example.org", 80))
except OSError as error:
    print(type(error).__name__)
print(socket.getaddrinfo("localhost", 80)[0][4][0] in ("127.0.0.1", "::1"))
""",
    )
    assert result.stdout.split() == ["gaierror", "True"]


def test_system_v_and_posix_objects_are_not_found(cupel):
    key, name = 0x0C0FFEE0 + os.getpid() % 4096, f"/{cupel.name}"
    acts = [f"shm={key}", f"sem={key}", f"msg={key}", f"mq={name}", f"posix-shm={name}"]
    maker = f"ipc-make={key},{name}"
    try:
        assert cupel.outside(maker)[maker] == "ok"
        assert cupel.outside(*acts) == {act: "ok" for act in acts}
        answers, _ = cupel.probed(*acts)
        # POSIX queues are not there at all; everything else is looked for in a namespace that has none
        assert answers == {act: "ENOSYS" if act.startswith("mq=") else "ENOENT" for act in acts}
    finally:
        cupel.outside(f"ipc-remove={key},{name}")
    cupel.probed(maker)  # what the box makes of the same names is not the host's
    assert cupel.outside(*acts) == {act: "ENOENT" for act in acts}


def test_the_hosts_network_is_a_matter_of_policy(cupel):
    result = cupel.run("--network", "host", "--", "/bin/true")
    assert (result.status, result.verdict) == (2, None)
    assert "not allowed here" in result.stderr
