"""How others were broken, tried on us. One test a class of docs/THREATS.md, named after the
best known case."""

import os
import re
import socket
import stat
import subprocess

import pytest


def test_cve_2024_28185_output_written_through_a_planted_link(cupel):
    """Judge0 wrote, and with the fix (28189) still chowned, through a link in the box's
    directory."""
    victim = cupel.base / "victim"
    victim.write_text("untouched", encoding="utf-8")
    cupel.own(victim)
    victim.chmod(0o600)
    before = victim.stat()
    names = ("stdout.log", "verdict.json", "outputs.json", "out/result", "tmp/x", "home/.profile")
    result = cupel.run(
        "--keep",
        "always",
        "--",
        "/bin/sh",
        "-c",
        "; ".join(f"ln -sf {victim} {name}" for name in names) + "; echo said",
    )
    assert result.cause == "ok"
    assert victim.read_text(encoding="utf-8") == "untouched"
    after = victim.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (
        before.st_mode,
        before.st_uid,
        before.st_mtime_ns,
    )


def test_cve_2018_15664_path_swapped_between_check_and_use(cupel):
    """docker cp. Here the box is dead when its files are looked at: nobody is there to swap."""
    result = cupel.run(
        "--",
        "/bin/sh",
        "-c",
        "mkdir out/d; echo x >out/d/f; "
        "(while :; do mv out/d out/e; ln -s /etc out/d; rm out/d; mv out/e out/d; done) & "
        "sleep 0.2",
    )
    assert result.cause == "ok"
    assert {file["path"] for file in result.outputs["files"]} <= {"out/d/f", "out/e/f"}


def test_cve_2021_30465_setup_path_is_a_link(cupel):
    """runc mounted over a path that had become a link. Ours is made, never taken as found."""
    target = cupel.base / "elsewhere"
    target.mkdir()
    cupel.own(target)
    run_id = cupel.new_id()
    work = cupel.work_dir(run_id)
    work.symlink_to(target)
    try:
        result = cupel.run("--", "/bin/sh", "-c", "echo x >out/x", id=run_id)
        assert result.status == 125
        assert "exists already" in result.stderr + (result.verdict or {}).get(
            "completion_notes", ""
        )
        assert os.listdir(target) == []
        assert work.is_symlink()
    finally:
        work.unlink()
        target.rmdir()


def test_cve_2021_44731_directory_made_by_someone_else(cupel):
    """snapd: a predictable name in /tmp that another user made first is not used, and not
    removed."""
    run_id = cupel.new_id()
    work = cupel.work_dir(run_id)
    work.mkdir(0o777)
    (work / "theirs").write_text("x", encoding="utf-8")
    os.chown(work, 65534, 65534)
    try:
        result = cupel.run("--", "/bin/true", id=run_id)
        assert result.status == 125
        assert [path.name for path in work.iterdir()] == ["theirs"]
    finally:
        (work / "theirs").unlink()
        work.rmdir()


@pytest.mark.parametrize("kind", ["link", "directory"])
def test_the_place_beside_the_callers_own_directory_is_made_too(cupel, kind):
    """The caller's own directory is left alone, and the run works beside it: that name is as predictable, and is made, never taken."""
    run_id = cupel.new_id()
    work, target = cupel.work_dir(run_id), cupel.base / f"target-{run_id}"
    aside = work.with_name(f".{work.name}")
    for path in (work, target):
        path.mkdir()
        cupel.own(path)
    if kind == "link":
        aside.symlink_to(target)
    else:
        aside.mkdir(0o777)
        os.chown(aside, 65534, 65534)
    try:
        result = cupel.run("--", "/bin/sh", "-c", "echo x >out/x", id=run_id)
        assert result.status == 125 and str(aside) in result.verdict["completion_notes"]
        assert os.listdir(target) == os.listdir(aside) == os.listdir(work) == []
        (aside.unlink if kind == "link" else aside.rmdir)()
        control = cupel.new_id()
        cupel.own(work.rename(cupel.work_dir(control)))
        work = cupel.work_dir(control)
        assert cupel.run("--", "/bin/sh", "-c", "echo x >out/x", id=control).status == 0
        assert os.listdir(work) == []
    finally:
        work.rmdir()
        target.rmdir()


def test_cve_2024_21626_leaked_directory(cupel):
    """Leaky Vessels: a directory descriptor of the host left open leads out, as does the
    current directory."""
    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    try:
        acts = [f"chdir=/proc/self/fd/{fd}" for fd in range(3, 40)] + [
            f"list=/proc/self/fd/{folder}/etc"
        ]
        answers, _ = cupel.probed(*acts, pass_fds=[folder], cwd="/")
        assert set(answers.values()) == {"ENOENT"}
        act = f"chdir=/proc/self/fd/{folder}"
        assert cupel.outside(act, pass_fds=[folder])[act] == "ok"
    finally:
        os.close(folder)


def test_cve_2019_5736_own_binary_overwritten(cupel):
    """runc was overwritten through /proc/PID/exe. Neither pid 1's nor the inputs' programs are."""
    before = cupel.binary.read_bytes()
    result = cupel.run(
        "--", "/bin/sh", "-c", "for p in /proc/[0-9]*; do echo x >$p/exe; done; cat /proc/1/exe"
    )
    assert result.stdout == ""
    assert cupel.binary.read_bytes() == before


def test_cve_2019_19921_proc_that_is_no_proc(cupel):
    """runc: a volume over /proc took the label's writes. No input gets there, and ours is a
    procfs."""
    for name in ("../../../proc", "..", "/proc", "a/../../b", "."):
        result = cupel.run("--data", f"/etc/hostname:{name}", "--", "/bin/true")
        assert (result.status, result.verdict) == (2, None), name
    result = cupel.run("--", "/bin/cat", "/proc/self/mountinfo")
    mounts = {line.split()[4]: line for line in result.stdout.splitlines()}
    assert " - proc " in mounts["/proc"]
    assert mounts["/proc"].split()[5].split(",")[0] == "ro"


def test_cve_2025_31133_mask_source_swapped(cupel):
    """runc: /dev/null as the source of masks, replaced by a link. Devices are the host's real
    ones, and the directory they are in cannot be written."""
    result = cupel.run(
        "--",
        "/usr/bin/stat",
        "-c",
        "%F %t:%T %n",
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
    )
    assert re.findall(r"special file (\S+)", result.stdout) == ["1:3", "1:5", "1:7", "1:8", "1:9"]
    acts = ["unlink=/dev/null", "rename=/dev/null,/dev/x", "symlink=/etc,/dev/y"]
    answers, _ = cupel.probed(*acts)
    assert set(answers.values()) <= {"EROFS", "EBUSY"}


def test_cve_2017_5226_terminal_injection(inside):
    acts = ["tiocsti=0", "tiocsti=1", "tiocsti=2", "tiocsti=0,upper", "tioclinux=0", "tty"]
    answers = inside(acts)
    assert [answers[act] for act in acts] == ["EPERM"] * 5 + ["ENOENT"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86: only there are other call tables")
def test_firejail_x32_foreign_call_table(inside):
    acts = ["i386", "x32"]
    assert inside(acts) == {act: "signal SYS" for act in acts}


def test_isolate_io_uring_past_the_socket_rules(inside, outside):
    acts = ["io_uring", "socket=40,1"]
    assert inside(acts) == {"io_uring": "EPERM", "socket=40,1": "EAFNOSUPPORT"}
    assert outside(acts)["io_uring"] == "ok"


def test_cve_2016_0728_keyrings(inside):
    acts = ["keyctl", "add_key", "request_key"]
    assert inside(acts) == {act: "EPERM" for act in acts}


def test_cve_2024_29021_service_on_loopback(cupel):
    """Judge0's own services were reached from its box."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        act = f"tcp4={server.getsockname()[1]}"
        assert cupel.outside(act)[act] == "ok"
        assert cupel.probed(act)[0][act] == "ECONNREFUSED"


def test_cve_2022_31214_joining_a_box(cupel):
    """firejail --join. There is no such door."""
    for command in ("join", "exec", "enter", "attach"):
        assert cupel.call(cupel.binary, command, "x")[0] == 2


def test_cve_2026_48785_prefix_of_a_path(cupel):
    scratch = cupel.base / "scratch"
    other = cupel.base / "scratch2"
    for path in (scratch, other):
        path.mkdir(exist_ok=True)
    cupel.configure(f"protect: [{scratch}]\n")
    assert cupel.run("--data", f"{scratch}:d", "--", "/bin/true").status == 2
    assert cupel.run("--data", f"{other}:d", "--", "/bin/true").cause == "ok"


def test_cve_2022_0492_release_agent(cupel):
    """cgroupfs is neither there nor to be had."""
    result = cupel.run(
        "--",
        "/bin/sh",
        "-c",
        "grep -E ' cgroup2? ' /proc/mounts; ls -d /sys/fs/cgroup; unshare -UrC true",
    )
    assert result.stdout == ""
    assert "Operation not permitted" in result.stderr


def test_cve_2023_30549_image_of_the_attacker_is_mounted(cupel):
    """Apptainer mounted a file system the user made. An input that is one is only a file."""
    image = cupel.base / "image"
    with open(image, "wb") as file:
        file.truncate(1 << 20)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", image], check=True, stdout=subprocess.DEVNULL)
    result = cupel.run("--data", f"{image}:image", "--", "/usr/bin/stat", "-c", "%F", "data/image")
    assert result.stdout == "regular file\n"


def test_isolate_2_5_groups_are_dropped(callers):
    """Root's supplementary groups (here adm and sudo) open many a door."""
    root = callers("root")
    result_id = root.new_id()
    command = [
        "setpriv",
        "--groups=4,27",
        "--",
        root.binary,
        "run",
        "--quiet",
        "--id",
        result_id,
        "--",
        "/bin/sh",
        "-c",
        "grep -e ^Groups: -e ^Gid: /proc/self/status; id -G",
    ]
    control = root.call("setpriv", "--groups=4,27", "--", "id", "-G")[1]
    assert control.split() == ["0", "4", "27"]
    _, out, _ = root.call(*command)
    lines = dict(line.split(":", 1) for line in out.splitlines() if ":" in line)
    assert lines["Groups"].split() == []
    assert lines["Gid"].split() == ["1000"] * 4
    assert out.splitlines()[-1] == "1000"


def test_judge0_time_limits_that_mean_none(cupel):
    """Below a second is a limit too; zero, negative and not a number are none that can be asked
    for."""
    for text in ("0", "0s", "-1s", "nan", "inf", "1e99", "18446744073709551616s", "", " 1s", "1s "):
        result = cupel.run("--time", text, "--", "/bin/true")
        assert (result.status, result.verdict) == (2, None), text
    result = cupel.run("--time", "300ms", "--grace", "100ms", "--", "/bin/sleep", "600")
    assert (result.cause, result.status) == ("deadline", 124)


def test_snapd_configuration_that_others_can_write(cupel):
    cupel.config.chmod(0o666)
    try:
        result = cupel.run("--", "/bin/true")
        assert (result.status, result.verdict) == (2, None)
        assert "may write it" in result.stderr
    finally:
        cupel.config.chmod(0o644)


def test_project_file_of_a_stranger(callers, cupel):
    """A cupel.yaml left in a shared directory by someone else is not obeyed."""
    project = cupel.base / "shared"
    project.mkdir(exist_ok=True)
    file = project / "cupel.yaml"
    file.write_text("defaults: {}\n", encoding="utf-8")
    os.chown(file, 54321, 54321)
    result = cupel.run("--", "/bin/true", cwd=project)
    assert (result.status, result.verdict) == (2, None)
    assert "not trusted" in result.stderr


def test_nothing_of_a_run_is_left(cupel):
    """Mounts, loop devices, groups, files: as before, whatever the end was."""

    def traces():
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            mounts = [line for line in file if "scidex-analysis-t" + str(os.getpid()) in line]
        left = [
            name
            for name in os.listdir("/tmp")
            if name.startswith(f"scidex-analysis-t{os.getpid()}-")
        ]
        return mounts, left, cupel.groups()

    for command in (
        ["/bin/true"],
        ["/bin/false"],
        ["/bin/sh", "-c", "kill -9 $$"],
        ["/no/such/program"],
    ):
        cupel.run("--", *command)
        assert traces() == ([], [], [])


def test_the_work_directory_is_closed_to_others(cupel, callers):
    """While it runs, another user of the host sees nothing of it."""
    process, run_id = cupel.start(
        "--", "/bin/sh", "-c", "echo x >out/x; echo up; sleep 600", stdout=subprocess.PIPE
    )
    try:
        assert process.stdout.readline() == b"up\n"
        work = cupel.work_dir(run_id)
        assert stat.S_IMODE(work.stat().st_mode) == 0o700
        if cupel.who == "root":
            acts = [f"list={work}", f"read={work}/out/x", f"list={cupel.run_dir(run_id)}"]
            assert callers("user").outside(*acts) == {act: "EACCES" for act in acts}
    finally:
        process.terminate()
        process.communicate()
