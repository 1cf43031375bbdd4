"""Files: the analysis writes its working directory and the box's own /tmp and /dev/shm, reads
its runtime and its inputs, and nothing else is even there."""

import json
import os
import re
import subprocess

import pytest

# Inside: what is there is not writable, what is elsewhere is not there.
CLOSED = {
    "create=/x": "EROFS",
    "create=/usr/x": "EROFS",
    "create=/usr/lib/x": "EROFS",
    "create=/etc/x": "EROFS",
    "create=/dev/x": "EROFS",
    "create=/run/x": "EROFS",
    "create=/home/x": "EROFS",
    "create=/var/lib/x": "EROFS",
    "create=/sys/x": "EROFS",
    "create=data/x": "EROFS",
    "mkdir=/x": "EROFS",
    "mkdir=/usr/x": "EROFS",
    "write=/usr/bin/env": "EACCES",
    "append=/etc/passwd": "EACCES",
    "touch=/usr/bin/env": "EROFS",
    "chmod=/usr": "EROFS",
    "chown=/usr/bin/env": "EROFS",
    "mknod=x": "EACCES",
    "mknod=/tmp/x": "EACCES",
    "mknod-block=x": "EACCES",
    "chown-root=.": "EINVAL",
    "chmod=/dev/null": "EPERM",
    "read=/etc/shadow": "ENOENT",
    "read=/etc/gshadow": "ENOENT",
    "read=/etc/sudoers": "ENOENT",
    "list=/root": "ENOENT",
    "list=/boot": "ENOENT",
    "list=/mnt": "ENOENT",
    "list=/opt": "ENOENT",
    "list=/srv": "ENOENT",
    "list=/home": "[]",
    "list=/var/lib": "[]",
    "list=/dev/shm": "[]",
    "read=/dev/kmsg": "ENOENT",
    "read=/dev/mem": "ENOENT",
    "read=/dev/ptmx": "ENOENT",
    "read=/dev/loop-control": "ENOENT",
    "read=/dev/fuse": "ENOENT",
    "read=/dev/vsock": "ENOENT",
    "read=/dev/kvm": "ENOENT",
    "read=/dev/userfaultfd": "ENOENT",
    "create=/tmp/x": "ok",
    "create=/var/tmp/x": "ok",
    "create=/dev/shm/x": "ok",
    "create=x": "ok",
    "create=out/x": "ok",
    "create=tmp/x": "ok",
    "create=home/x": "ok",
    "write=/dev/null": "ok",
}


@pytest.mark.parametrize("act", CLOSED)
def test_inside(inside, act):
    assert inside(CLOSED)[act] == CLOSED[act]


def test_the_same_acts_succeed_outside(callers):
    """The control: root in a directory of its own, and the host's secrets."""
    root = callers("root")
    place = root.base / "place"
    place.mkdir()
    (place / "file").write_text("text", encoding="utf-8")
    acts = [f"{act}={place}/x" for act in ("create", "mkdir", "mknod", "mknod-block")]
    acts += [
        f"{act}={place}/file"
        for act in ("write", "append", "touch", "chmod", "chown", "chown-root", "truncate")
    ]
    acts += ["read=/etc/shadow"]
    answers = root.outside(*acts)
    assert answers == {act: "ok" for act in acts}
    assert root.outside("list=/root")["list=/root"] != "ENOENT"
    assert root.outside("list=/tmp")["list=/tmp"].count(" ") >= 1


def test_the_hosts_tmp_is_not_seen(cupel):
    """Neither /tmp, /var/tmp and /dev/shm nor what the caller has beside its configuration."""
    secret = cupel.base / "secret"
    secret.write_text("not for analyses", encoding="utf-8")
    secret.chmod(0o644)
    shared = f"/dev/shm/{cupel.name}"
    with open(shared, "w", encoding="utf-8") as file:
        file.write("x")
    try:
        acts = [f"read={secret}", f"read={shared}", f"read={cupel.config}"]
        assert cupel.outside(*acts) == {act: "ok" for act in acts}
        run_id = cupel.new_id()
        own = f"[scidex-analysis-{run_id}]"
        answers, _ = cupel.probed(*acts, "list=/tmp", "list=/var/tmp", id=run_id)
        assert answers == {
            **{act: "ENOENT" for act in acts},
            "list=/tmp": own,
            "list=/var/tmp": own,
        }
    finally:
        os.unlink(shared)
        secret.unlink()


def test_inputs_cannot_be_changed(cupel):
    """Not even by their owner, with every right on them."""
    data = cupel.base / "input"
    data.mkdir()
    file = data / "file"
    file.write_text("original", encoding="utf-8")
    for path in (data, file):
        path.chmod(0o777)
        cupel.own(path)
    control = [f"{act}={file}" for act in ("write", "append", "touch", "chmod")]
    control += [f"create={data}/new", f"mkdir={data}/new"]
    assert cupel.outside(*control) == {act: "ok" for act in control}
    file.chmod(0o777)
    expected = {
        **{
            f"{act}=data/in/file": "EROFS"
            for act in (
                "write",
                "append",
                "truncate",
                "touch",
                "setxattr",
                "chmod",
                "chown",
                "unlink",
            )
        },
        "create=data/in/new": "EROFS",
        "mkdir=data/in/new": "EROFS",
        "rename=data/in/file,data/in/other": "EROFS",
        "rename=data/in/file,out/file": "EXDEV",
        "rename=out,data/in/out": "EXDEV",
        "rename=data,other": "EBUSY",
        "rename=data/in,data/other": "EROFS",
        "link=data/in/file,out/link": "EXDEV",
        "link=/usr/bin/env,out/env": "EXDEV",
        "read=data/in/file": "ok",
    }
    answers, result = cupel.probed(*expected, options=["--data", f"{data}:in"])
    assert result.cause == "ok"
    if result.receipt["mounts"]["id_mapped"]:  # files are nobody's there, which the kernel looks at first
        expected.update({f"{act}=data/in/file": "EACCES" for act in ("write", "append", "truncate")})
    assert answers == expected
    assert file.read_text(encoding="utf-8") == "original"
    assert sorted(os.listdir(data)) == ["file"]


def test_a_link_among_the_inputs_leads_nowhere(cupel):
    secret = cupel.base / "beside"
    secret.write_text("not an input", encoding="utf-8")
    data = cupel.base / "links"
    data.mkdir()
    (data / "absolute").symlink_to(secret)
    (data / "relative").symlink_to("../beside")
    (data / "shadow").symlink_to("/etc/shadow")
    (data / "magic").symlink_to("/proc/1/root/etc/hostname")
    acts = [f"read={data}/absolute", f"read={data}/relative"]
    assert cupel.outside(*acts) == {act: "ok" for act in acts}
    expected = {
        "read=data/d/absolute": "ENOENT",
        "read=data/d/relative": "ENOENT",
        "read=data/d/shadow": "ENOENT",
        "read=data/d/magic": "EACCES",
    }
    answers, _ = cupel.probed(*expected, options=["--data", f"{data}:d"])
    assert answers == expected


def test_other_runs_and_records_are_not_seen(cupel):
    """While another run is there, with its working directory, its record and its secret."""
    other, other_id = cupel.start(
        "--", "/bin/sh", "-c", "echo secret >out/s; echo up; sleep 600", stdout=subprocess.PIPE
    )
    try:
        assert other.stdout.readline() == b"up\n"
        work, record = cupel.work_dir(other_id), cupel.run_dir(other_id)
        # Root's runs have a disk of their own, which is mounted: seen from outside all the same.
        control = [f"read={work}/out/s", f"read={record}/analysis.json", f"list={cupel.home}/runs"]
        answers = cupel.outside(*control)
        assert answers[control[0]] == answers[control[1]] == "ok"
        assert other_id in answers[control[2]]
        expected = {
            act: "ENOENT"
            for act in control + [f"list={work}", f"list={cupel.home}", f"open-path={work}"]
        }
        assert cupel.probed(*expected)[0] == expected
    finally:
        other.terminate()
        other.wait()
        other.stdout.close()


def test_two_runs_of_root_are_strangers(callers):
    """A uid each, neither of them root's or anybody's."""
    root = callers("root")

    def uid_of(run_id):
        path = root.run_dir(run_id) / "events.jsonl"
        started = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [event["data"]["uid"] for event in started if event["event"] == "started"][0]

    runs = [
        root.start("--", "/bin/sh", "-c", "echo up; sleep 600", stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    try:
        for process, _ in runs:
            assert process.stdout.readline() == b"up\n"
        first, second = (uid_of(run_id) for _, run_id in runs)
        assert first != second
        assert min(first, second) >= 65536
        assert {os.stat(root.work_dir(run_id)).st_uid for _, run_id in runs} == {first, second}
    finally:
        for process, _ in runs:
            process.terminate()
            process.communicate()


def test_its_working_directory_is_gone_afterwards(cupel):
    result = cupel.run("--", "/bin/sh", "-c", "mkdir -p a/b && echo x >a/b/c && chmod 0 a && pwd")
    work = result.stdout.strip()
    assert re.fullmatch(r"/tmp/scidex-analysis-[\w.-]+", work)
    assert not os.path.lexists(work)
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        assert work not in file.read()


def refused(cupel, *args):
    """Nothing was started, and the caller is told which path."""
    result = cupel.run(*args, "--", "/bin/true")
    assert (result.status, result.verdict) == (2, None), result.stderr
    return result.stderr


def test_protected_paths_are_refused_as_inputs(cupel):
    project = cupel.base / "project"
    for name in ("db", "db2", "site"):
        (project / name).mkdir(parents=True)
        (project / name / "file").write_text("x", encoding="utf-8")
    (project / "innocent").symlink_to("db/file")
    (project / "protected-link").symlink_to("site")
    cupel.configure(f"protect: [{project}/db, {project}/protected-link]\n")
    # The path itself, what is below, what is above, and by way of a link on either side.
    for path in (
        "db",
        "db/file",
        "",
        "innocent",
        "../project/db",
        "site",
        "site/file",
        "protected-link",
    ):
        assert "protected path" in refused(cupel, "--data", f"{project / path}:d"), path
    # A name that only begins the same is another path (CVE-2026-48785).
    result = cupel.run("--data", f"{project}/db2:d", "--", "/bin/cat", "data/d/file")
    assert (result.cause, result.stdout) == ("ok", "x")


def test_cupels_own_records_are_refused_as_inputs(cupel):
    """But for the outputs of a run, which may be the input of another."""
    first = cupel.run("--", "/bin/sh", "-c", "echo result >out/r", id=f"outputs-{cupel.new_id()}")
    assert first.cause == "ok"
    link = cupel.base / "way-in"
    link.unlink(missing_ok=True)
    link.symlink_to(first.run_dir)
    for path in (
        cupel.home,
        cupel.home / "runs",
        first.run_dir,
        first.run_dir / "verdict.json",
        first.run_dir / "outputs/../verdict.json",
        link,
        cupel.base,
    ):
        assert "own records" in refused(cupel, "--data", f"{path}:d"), path
    result = cupel.run("--data", f"{first.run_dir}/outputs/out/r:r", "--", "/bin/cat", "data/r")
    assert (result.cause, result.stdout) == ("ok", "result\n")


def test_cupels_home_behind_a_link_is_its_home(cupel):
    link = cupel.base / "home-link"
    link.unlink(missing_ok=True)
    link.symlink_to(cupel.home)
    assert cupel.run("--", "/bin/true").cause == "ok"
    status, _, err = cupel.call(
        cupel.binary,
        "run",
        "--data",
        f"{cupel.home}/runs:d",
        "--",
        "/bin/true",
        env={"CUPEL_HOME": str(link)},
    )
    assert (status, "own records" in err) == (2, True), err


def test_an_input_that_is_no_file_is_refused(cupel):
    fifo = cupel.base / "fifo"
    if not fifo.exists():
        os.mkfifo(fifo)
    for path in (fifo, "/dev/null", "/proc/self/ns/net"):
        result = cupel.run("--data", f"{path}:d", "--", "/bin/true")
        assert result.status in (2, 125), path
