"""checkpoint: a directory that survives attempts, kills and hosts that go down, and is nobody else's."""

import contextlib
import fcntl
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess

import pytest

import cupel as lib
import leftovers
from crashes import Crash, kill

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/training"
DIGITS = pathlib.Path("/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz")
# Of 0.2 s each: within 0.8 s at a time three attempts can't reach the end, however fast the host is.
EPOCHS = 24
# nanosleep(2) and clock_nanosleep(2)
NANOSLEEP = {"x86_64": ("35", "230"), "aarch64": ("101", "115")}.get(platform.machine(), ())
HEAD = ("--memory", "64M", "--disk", "16M", "--checkpoint", "saved", "--checkpoint-exit-code", "85")
COUNT = 'n=$(cat saved/n || echo 0); echo $((n + 1)) > saved/n; echo $n; exit '


def shell(cupel, text, *options, **more):
    return cupel.run(*HEAD, *options, "--", "sh", "-c", text, **more)


def places(cupel):
    folder = cupel.home / "checkpoints"
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.exists() else []


@pytest.fixture(autouse=True)
def no_checkpoint_of_another_test(request):
    yield
    for name in ("cupel", "root", "user", "fresh"):
        if name in request.fixturenames:
            caller = request.getfixturevalue(name)
            assert lib.wait_until(lambda c=caller: not leftovers.leftovers(c))
            # Deeper than rmtree of Python can go.
            subprocess.run(["rm", "-rf", caller.home / "checkpoints"], check=True)


def test_it_goes_on_until_it_succeeds_and_is_then_dropped(cupel):
    text = 'echo "$CUPEL_CHECKPOINT_DIR"; ' + COUNT.replace("exit ", "[ $n -ge 2 ] || exit 85")
    results = [shell(cupel, text) for _ in range(4)]
    assert [r.cause for r in results] == ["checkpointed", "checkpointed", "ok", "checkpointed"]
    assert [r.status for r in results] == [85, 85, 0, 85]
    assert [r.stdout.split()[1] for r in results] == ["0", "1", "2", "0"]
    first, second, third, fourth = results
    assert first.stdout.split()[0] == str(cupel.work_dir(first.run_dir.name) / "saved")
    assert "run it again to go on" in first.verdict["completion_notes"]
    assert len(places(cupel)) == 1
    found = [r.receipt["checkpoint"] for r in results]
    assert [f["found"] for f in found] == [False, True, True, False]
    assert [f["of_run"] for f in found] == [None, first.run_dir.name, second.run_dir.name, None]
    assert found[0]["mechanism"] == ("image" if cupel.who == "root" else "watched")
    plan = json.loads((third.run_dir / "plan.json").read_text(encoding="utf-8"))
    (step,) = [s for s in plan["steps"] if s["kind"] == "checkpoint"]
    assert step["writable"] and found[2]["key"] in step["source"]
    assert {"path": step["target"], "access": "write"} in plan["landlock"]


def test_every_end_but_success_keeps_it_and_its_outputs_are_partial(cupel):
    text = """
echo x > out/x; n=$(cat saved/n || echo 0); echo $((n + 1)) > saved/n
case $n in 0) exit 3;; 1) exit 85;; 2) kill -9 $$;; 3) trap 'exit 85' TERM; sleep 60 & wait;; esac"""
    # Only the fourth has a deadline to meet, and it has to have counted before.
    ends = [shell(cupel, text, "--time", "5s" if n == 3 else "2m", "--keep", "failed") for n in range(5)]
    assert [r.cause for r in ends] == ["exit", "checkpointed", "signal", "deadline", "ok"]
    for result in ends[:4]:
        assert result.outputs["partial"] and (result.run_dir / "partial/out/x").exists()
        kept = "checkpoint is kept" in result.verdict["completion_notes"]
        assert kept == (result.cause != "checkpointed"), "each says how to go on"
        assert (result.run_dir / "work").exists() == (result.cause != "checkpointed")
    assert list((ends[0].run_dir / "work/saved").iterdir()) == [], "the copy leaves it out"
    assert places(cupel) == []


def test_another_analysis_has_another(cupel):
    folder = cupel.dir / "two-checkpoints"
    folder.mkdir()
    (folder / "a.sh").write_text("#!/bin/sh\n" + COUNT + "85\n", encoding="utf-8")
    (folder / "in").write_text("1", encoding="utf-8")
    for path in folder.iterdir():
        path.chmod(0o755)
    base = [*HEAD, "-d", folder / "in", "-e", "A=1", "-p", "x=1", "--name", "one", folder / "a.sh", "w"]
    first = cupel.run(*base)
    assert first.cause == "checkpointed" and first.stdout == "0\n", first.stderr

    def changed(what, to):
        return cupel.run(*[to if word == what else word for word in base])

    assert changed("one", "two").stdout == "1\n", "the control: a name is no part of what it is"
    for what, to in (("A=1", "A=2"), ("x=1", "x=2"), ("w", "v"), ("saved", "saved2")):
        result = changed(what, to)
        assert result.stdout == "0\n" or to == "saved2", (what, result.stdout)
        assert result.receipt["checkpoint"]["found"] is False
    (folder / "in").write_text("2", encoding="utf-8")
    assert cupel.run(*base).stdout == "0\n"
    (folder / "in").write_text("1", encoding="utf-8")
    assert cupel.run(*base).stdout == "2\n", "by content, not by time"
    shutil.rmtree(folder)


def test_run_again_from_its_record_it_goes_on(cupel):
    first = shell(cupel, COUNT + "85")
    new = cupel.new_id()
    status, out, err = cupel.call(cupel.binary, "rerun", first.run_dir.name, "--id", new)
    assert (status, out) == (85, "1\n"), err


def test_a_verification_begins_anew(cupel):
    text = "n=$(cat saved/n || echo 0); echo $((n + 1)) > saved/n; echo $n > out/n; exit ${STATUS:-0}"
    first = shell(cupel, text)
    # As if an attempt at the same had been interrupted since.
    folder = cupel.home / "checkpoints"
    interrupted = shell(cupel, text, "-e", "STATUS=85")
    assert (first.cause, interrupted.cause) == ("ok", "checkpointed")
    (folder / interrupted.receipt["checkpoint"]["key"]).rename(folder / first.receipt["checkpoint"]["key"])
    status, _, err = cupel.call(cupel.binary, "rerun", first.run_dir.name, "--verify", "--id", cupel.new_id())
    assert status == 0, err
    again = shell(cupel, text)
    assert (again.run_dir / "outputs/out/n").read_text(encoding="utf-8") == "1\n", "the control"


def test_two_at_once_and_the_second_is_told_who_has_it(cupel):
    text = "echo started; while [ ! -e saved/stop ]; do sleep 0.05; done; exit 0"
    process, run_id = cupel.start(*HEAD, "--", "sh", "-c", text, stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"started\n"
        second = shell(cupel, text)
        assert second.status == 2 and run_id in second.stderr, second.stderr
        assert not second.run_dir.exists(), "nothing of it was begun"
        other = shell(cupel, COUNT + "85")
        assert other.cause == "checkpointed", "another analysis is not in its way"
        status, out, _ = cupel.call(cupel.binary, "gc", "--json")
        assert status == 0 and json.loads(out)["removed"]["checkpoints"] == 0
        process.send_signal(signal.SIGTERM)
    verdict = json.loads((cupel.run_dir(run_id) / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["cause"] == "cancelled"
    result = shell(cupel, "echo y > saved/stop; " + text)
    assert result.cause == "ok"


def train(cupel, place, *options, pace=0.2):
    return cupel.run("-p", f"epochs={EPOCHS}", "-p", f"pace={pace}", *options, place / "train.yaml")


def epochs(text):
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("epoch ")]


def begun(text):
    return int(text.partition("begins after epoch ")[2].split()[0])


@pytest.fixture
def training(request):
    if not DIGITS.exists():
        pytest.skip("science: python3-sklearn has the digits")
    caller = request.getfixturevalue("root" if "root" in request.fixturenames else "cupel")
    place = caller.dir / "training"
    shutil.copytree(EXAMPLE, place)
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def digests(result):
    return {entry["path"]: entry["sha256"] for entry in result.outputs["files"]}


def test_training_over_three_deadlines_is_as_if_uninterrupted(cupel, training):
    over_three_deadlines(cupel, training, "deadline", warn_s=0.001)


def test_training_that_is_warned_of_three_deadlines_too(root, training):
    over_three_deadlines(root, training, "checkpointed", warn_s=10.0)  # it ends as soon as it is warned


def over_three_deadlines(cupel, training, cause, warn_s):
    """Without a warning in time it is killed in an epoch; with one it saves, and says so."""
    whole = train(cupel, training, "--time", "5m", pace=0)
    assert whole.cause == "ok" and epochs(whole.stdout) == list(range(1, EPOCHS + 1))
    seconds, done, saved, interrupted = 0.8 + warn_s, [], 0, 0
    while interrupted < 3:
        result = train(cupel, training, "--time", f"{seconds:.3f}s", "--warn", f"{warn_s:.3f}s")
        text = result.log().decode()
        if not epochs(text):
            seconds += 0.8  # a host so slow that it did not come to its first, or to hear the warning
            assert seconds < 60, result.verdict["completion_notes"]
            continue
        assert result.cause == cause, result.verdict["completion_notes"]
        assert begun(text) in (saved, saved - 1), "an epoch at most is lost"
        done += epochs(text)
        saved = epochs(text)[-1]
        interrupted += 1
    assert len(places(cupel)) == 1
    last = train(cupel, training, "--time", "5m", "--warn", "1s")
    assert last.cause == "ok", last.stderr
    assert begun(last.stdout) in (saved, saved - 1)
    done += epochs(last.stdout)
    assert set(done) == set(range(1, EPOCHS + 1)) and len(done) <= EPOCHS + 3
    assert digests(last) == digests(whole), "what it learnt is the same to the last bit"
    accuracy = json.loads((last.run_dir / "outputs/out/summary.json").read_text(encoding="utf-8"))
    assert accuracy["accuracy"] > 0.9


def test_training_whose_keeper_and_caller_are_killed_in_an_epoch(cupel, training):
    crash = Crash(cupel)
    words = ("-p", "epochs=10", "-p", "pace=0.5", "--time", "5m", training / "train.yaml")
    whole = cupel.run(*[word if word != "pace=0.5" else "pace=0" for word in words])
    saved = 0
    for victims in (("keeper",), ("run",), ("keeper", "run")):
        process, run_id = cupel.start(*words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        with process:
            keeper = crash.keeper_of(process)
            assert begun(process.stdout.readline().decode()) in (saved, saved - 1)
            assert process.stdout.readline().startswith(b"epoch ")
            for victim in victims:
                kill(keeper if victim == "keeper" else process.pid)
        crash.box_is_gone()
        crash.recover()
        # As far as it came until it was dead.
        saved = epochs((cupel.run_dir(run_id) / "stdout.log").read_text(encoding="utf-8"))[-1]
        verdict = json.loads((cupel.run_dir(run_id) / "verdict.json").read_text(encoding="utf-8"))
        assert verdict["cause"] == ("lost" if "keeper" in victims else "cancelled")
    last = cupel.run(*words)
    assert last.cause == "ok" and begun(last.stdout) in (saved, saved - 1), last.stderr
    assert digests(last) == digests(whole)


HOSTILE = """
import os, sys
os.chdir("saved")
if not os.path.exists("made"):
    os.mkdir("made")
    for name, to in (("etc", "/etc"), ("shadow", "/etc/shadow"), ("up", "../../../.."), ("loop", "loop"),
                     ("dangling", "nowhere"), ("secret", sys.argv[1])):
        os.symlink(to, "made/" + name)
    os.mkfifo("made/fifo")
    for kind in (0o020666, 0o060666):
        try:
            os.mknod("made/node", kind, os.makedev(1, 3))
            print("a device was made")
        except OSError:
            pass
    open("made/a", "w").close()
    os.link("made/a", "made/b")
    os.chmod("made/a", 0o6777)
    os.mkdir("made/locked", 0)
    os.mkdir("made/ sp\\n\\udcff")
    for act in (lambda: os.link(sys.argv[1], "made/hard"), lambda: os.link("../out", "made/out"),
                lambda: os.rename("../saved", "../other"), lambda: os.rmdir("../saved")):
        try:
            act()
            print("an act succeeded")
        except OSError:
            pass
    here = os.open("made", os.O_RDONLY)
    for _ in range(1000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.chmod(".", 0)
    sys.exit(85)
names = sorted(os.listdir("made"))
assert all(os.lstat("made/" + n).st_uid == os.getuid() for n in names), names
assert os.stat("made/a").st_nlink == 2
os.chmod("made/locked", 0o755)
open("made/locked/x", "w").close()
depth, here = 0, os.open("made", os.O_RDONLY)
while True:
    try:
        below = os.open("d", os.O_RDONLY, dir_fd=here)
    except FileNotFoundError:
        break
    os.close(here)
    here, depth = below, depth + 1
assert os.fstat(here).st_uid == os.getuid()
print(depth)
if len(sys.argv) > 2:
    sys.exit(0)
sys.exit(85)
"""


@contextlib.contextmanager
def another_uid(cupel):
    """A run that goes on has the uid that the next one would have had."""
    words = ("--memory", "64M", "--", "sh", "-c", "echo up; sleep 600")
    process, _ = cupel.start(*words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process:
        assert process.stdout.readline() == b"up\n"
        yield
        process.terminate()


def started_as(result):
    return next(event["data"]["uid"] for event in result.events if event["event"] == "started")


def test_hostile_contents_lead_nowhere_and_are_the_next_run_s(cupel):
    script = cupel.dir / "hostile.py"
    script.write_text(HOSTILE, encoding="utf-8")
    secret = cupel.base / "secret"
    secret.write_text("untouched", encoding="utf-8")
    secret.chmod(0o600)
    before = {path: os.lstat(path) for path in (secret, "/etc/shadow", "/etc", "/")}
    words = [*HEAD, script, secret]
    first = cupel.run(*words)
    assert (first.cause, first.stdout) == ("checkpointed", ""), first.log("stderr.log")
    if cupel.who == "root":
        # Another uid than before has to be given all of it.
        with another_uid(cupel):
            second = cupel.run(*words)
        assert started_as(first) != started_as(second)
    else:
        second = cupel.run(*words)
    assert (second.cause, second.stdout) == ("checkpointed", "1000\n"), second.log("stderr.log")
    for path, was in before.items():
        now = os.lstat(path)
        assert (now.st_uid, now.st_gid, now.st_mode) == (was.st_uid, was.st_gid, was.st_mode), path
    third = shell(cupel, "ls -A saved")
    assert third.stdout == "", "another analysis sees nothing of it"
    cupel.configure("gc: {checkpoint: 1ms}\n")
    status, out, err = cupel.call(cupel.binary, "gc", "--json")
    assert status == 0 and json.loads(out)["removed"]["checkpoints"] == 1, err
    assert places(cupel) == [] and secret.read_text(encoding="utf-8") == "untouched"
    cupel.configure()
    script.unlink()


def test_many_files_and_a_full_disk_are_bounded(cupel):
    files = 'i=0; while [ $i -lt 400 ]; do : > saved/$i || exit 4; i=$((i + 1)); done; sleep 60'
    result = shell(cupel, files, "--inodes", "200")
    assert result.cause == "disk", result.verdict["completion_notes"]
    again = shell(cupel, files, "--inodes", "200")
    assert again.cause == "disk" and again.receipt["checkpoint"]["found"]
    full = shell(cupel, "cat /dev/zero > saved/x; exit 4", "--time", "60s")
    assert full.cause == "disk", full.verdict["completion_notes"]
    sizes = [sum(path.stat().st_blocks * 512 for path in place.rglob("*"))
             for place in places(cupel)]
    assert max(sizes) < 22 << 20 or cupel.who == "user", "16M and what ext4 needs for itself"
    room = shell(cupel, "rm saved/x; cat /dev/zero > saved/x; exit 4", "--time", "60s")
    assert room.cause == "disk"


def test_a_hundred_thousand_files_change_hands(root):
    make = ("import os\nos.chdir('saved')\n"
            "for i in range(100):\n os.mkdir(str(i))\n for k in range(999): os.close(os.open(f'{i}/{k}', os.O_CREAT))\n"
            "raise SystemExit(85)\n")
    see = ("import os\nif os.path.exists('saved/99/998'):\n"
           " print(sum(os.lstat(os.path.join(d, n)).st_uid == os.getuid() for d, _, f in os.walk('saved') for n in f))\n"
           " raise SystemExit(0)\n")
    words = ("--memory", "256M", "--disk", "64M", "--inodes", "110000", "--checkpoint", "saved",
             "--checkpoint-exit-code", "85", "--", "python3", "-c", see + make)
    first = root.run(*words)
    assert first.cause == "checkpointed", first.verdict
    with another_uid(root):
        second = root.run(*words)
    assert (second.cause, second.stdout) == ("ok", "99900\n"), second.stderr


def test_a_plain_directory_of_root_changes_hands_too(root):
    root.configure("disk: {mechanism: watched}\n")
    text = "mkdir -p saved/d; ln -s /etc/shadow saved/d/s; " + COUNT + "85"
    first = shell(root, text)
    with another_uid(root):
        second = shell(root, text)
    root.configure()
    assert [r.stdout for r in (first, second)] == ["0\n", "1\n"], second.log("stderr.log")
    assert started_as(first) != started_as(second) and os.lstat("/etc/shadow").st_uid == 0
    (place,) = places(root)
    owners = {path.lstat().st_uid for path in (place / "files", *(place / "files").rglob("*"))}
    assert owners == {started_as(second)} and second.receipt["checkpoint"]["mechanism"] == "watched"


def test_killed_and_run_again_at_once(root):
    """The box of the dead keeper may still have the image mounted: twice at a time would ruin it."""
    text = ("n=$(cat saved/n || echo 0); echo $((n + 1)) > saved/new;"
            " dd if=/dev/zero of=saved/x bs=1M count=4;"
            " sync saved/new; mv saved/new saved/n; sync saved; echo $n; sleep 60")
    seen = []

    def attempt():
        process, _ = root.start(*HEAD, "--", "sh", "-c", text, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)
        with process:
            keeper = Crash(root).keeper_of(process)
            line = process.stdout.readline()
            if line:
                kill(process.pid)
                kill(keeper)
                seen.append(int(line))
        # Refused, as long as a thread of the last keeper is still in the kernel.
        assert line or process.returncode == 2
        return len(seen) == 8

    assert lib.wait_until(attempt)
    assert seen == list(range(8))
    assert lib.wait_until(lambda: not leftovers.processes(root))
    Crash(root).recover()


def pauses_with_open(pid, path):
    """Is a process in nanosleep(2) while it has the file open? By the kernel: the number of the call is the first word."""
    try:
        call = pathlib.Path(f"/proc/{pid}/syscall").read_text(encoding="ascii").split()[0]
        return call in NANOSLEEP and str(path) in [os.readlink(link) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False


def test_an_image_that_something_still_mounts_is_waited_for(root):
    text = COUNT + "85"
    shell(root, text)
    (place,) = places(root)
    saved = (place / "disk.img").read_bytes()
    assert shell(root, text).stdout == "1\n"
    # The lock that a loop device holds through the open file that it was given.
    with open(place / "disk.img", "r+b") as image:
        fcntl.flock(image, fcntl.LOCK_EX)
        process, run_id = root.start(*HEAD, "--", "sh", "-c", text, stdout=subprocess.PIPE)
        with process:
            assert lib.wait_until((root.run_dir(run_id) / "analysis.json").exists)
            keeper = Crash(root).keeper_of(process)
            assert lib.wait_until(lambda: pauses_with_open(keeper, place / "disk.img")), "one that does not wait mounts it"
            image.write(saved)
            image.flush()
            fcntl.flock(image, fcntl.LOCK_UN)
            assert process.stdout.read() == b"1\n", "it sees what was written meanwhile"


def test_its_crate_does_not_call_it_done(root):
    """Without a status it would be, by the profile; what it says of the error is that it is to be run again."""
    result = shell(root, COUNT + "85")
    status, _, err = root.call(root.binary, "export", result.run_dir.name, "--to", root.base / "crate")
    assert status == 0, err
    crate = json.loads((root.base / "crate/ro-crate-metadata.json").read_text(encoding="utf-8"))
    (action,) = [e for e in crate["@graph"] if e["@type"] == "CreateAction"]
    assert action["actionStatus"] == "http://schema.org/FailedActionStatus"
    assert "again" in action["error"]
    shutil.rmtree(root.base / "crate")


def test_a_link_in_place_of_the_checkpoints_is_not_followed(cupel):
    shell(cupel, COUNT + "85")
    folder, away = cupel.home / "checkpoints", cupel.base / "away"
    folder.rename(away)
    folder.symlink_to(away)
    before = sorted(away.rglob("*"))
    result = shell(cupel, COUNT + "85")
    assert result.status == 125 and "checkpoint" in result.stderr, result.stderr
    assert cupel.call(cupel.binary, "gc")[0] == 125
    assert sorted(away.rglob("*")) == before
    folder.unlink()
    away.rename(folder)
    assert shell(cupel, COUNT + "85").stdout == "1\n", "the control"
    (place,) = places(cupel)
    moved = place.rename(cupel.base / "elsewhere")
    place.symlink_to(moved)
    result = shell(cupel, COUNT + "85")
    assert result.status == 125, result.stderr
    place.unlink()
    shutil.rmtree(moved)


def test_an_image_that_the_kernel_refuses_is_set_aside(root):
    shell(root, COUNT + "85")
    (place,) = places(root)
    with open(place / "disk.img", "r+b") as image:
        image.seek(1024)
        image.write(b"\xff" * 1024)
    result = shell(root, COUNT + "85")
    assert (result.cause, result.stdout) == ("checkpointed", "0\n"), result.stderr
    assert "set aside" in result.verdict["completion_notes"]
    assert "set aside" in result.receipt["checkpoint"]["note"]
    assert (place / ".refused-disk.img").exists()
    assert shell(root, COUNT + "85").stdout == "1\n"


def test_what_others_could_have_written_is_not_mounted(root):
    shell(root, COUNT + "85")
    (place,) = places(root)
    (place / "disk.img").chmod(0o666)
    result = shell(root, COUNT + "85")
    assert result.cause == "setup" and "others" in result.verdict["completion_notes"]
    (place / "disk.img").chmod(0o600)
    assert shell(root, COUNT + "85").stdout == "1\n"


def test_a_journal_that_a_crash_left_is_replayed(root):
    """The image as it is while it is mounted is what a host that goes down would leave."""
    text = ("n=$(cat saved/n || echo 0); echo $n; echo $((n + 1)) > saved/new; sync saved/new;"
            " mv saved/new saved/n; sync saved; echo saved; [ $n = 1 ] || sleep 60; exit 85")
    process, _ = root.start(*HEAD, "--", "sh", "-c", text, stdout=subprocess.PIPE)
    with process:
        assert process.stdout.readline() == b"0\n" and process.stdout.readline() == b"saved\n"
        (place,) = places(root)
        crashed = (place / "disk.img").read_bytes()
        with open(place / "disk.img", "rb") as image, pytest.raises(BlockingIOError):
            fcntl.flock(image, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the device has it
        process.terminate()
    state = int.from_bytes(crashed[1024 + 0x60:1024 + 0x64], "little")
    assert state & 4, "the control: it needs recovery"
    assert lib.wait_until(lambda: not leftovers.leftovers(root))
    (place / "disk.img").write_bytes(crashed)
    result = shell(root, text)
    assert (result.cause, result.stdout) == ("checkpointed", "1\nsaved\n"), result.stderr


def test_limits_that_change(root):
    text = COUNT + "85"
    shell(root, text)
    larger = shell(root, text, "--disk", "32M")
    assert larger.stdout == "1\n" and "size that it was made with" in larger.verdict["completion_notes"]
    smaller = shell(root, text, "--disk", "12M")
    assert smaller.cause == "setup" and "larger limit" in smaller.verdict["completion_notes"]
    tiny = root.run("--disk", "4M", "--checkpoint", "saved", "--", "sh", "-c", text)
    assert tiny.cause == "setup" and "at least 8M" in tiny.verdict["completion_notes"]
    assert shell(root, text).stdout == "2\n"


def test_a_success_that_was_not_dropped_is_no_checkpoint(cupel):
    text = COUNT.replace("exit ", "exit $((n == 0 ? 85 : 0))")
    shell(cupel, text)
    (place,) = places(cupel)
    copy = cupel.base / "copy"
    shutil.copytree(place, copy)
    done = shell(cupel, text)
    assert done.cause == "ok" and places(cupel) == []
    # As if its keeper had died right after the verdict.
    for path in (copy, *copy.rglob("*")):
        cupel.own(path)
    copy.rename(place)
    (place / "lock").write_text(done.run_dir.name + "\n", encoding="utf-8")
    assert shell(cupel, text).stdout == "0\n"
    assert shell(cupel, text).stdout == "1\n", "the control: this one had not ended well"


def test_gc_removes_what_is_too_old_and_nothing_half_made_counts(cupel):
    shell(cupel, COUNT + "85")
    shell(cupel, "true; " + COUNT + "85")
    old, new = places(cupel)
    for path in old.iterdir():
        os.utime(path, (1, 1))
    half = new.parent / ("ab" * 32)
    half.mkdir()
    cupel.own(half)
    (half / ".new-disk.img").touch()
    gone = new.parent / ".old-abc"
    gone.mkdir()
    cupel.own(gone)

    def gc(*words):
        status, out, err = cupel.call(cupel.binary, "gc", "--json", *words)
        assert status == 0, err
        return json.loads(out)

    for words, there in ((["--dry-run"], True), ([], False)):
        report = gc(*words)
        assert report["removed"]["checkpoints"] == 3
        assert report["removed"]["checkpoint_bytes"] > 0
        kinds = [(item["kind"], item["what"]) for item in report["removed"]["items"]]
        assert ("checkpoint", old.name) in kinds and ("checkpoint", new.name) not in kinds
        assert report["checkpoints"]["kept"] == 1 and report["checkpoints"]["bytes"] > 0
        assert {old.exists(), half.exists(), gone.exists()} == {there} and new.exists()
    assert gc()["removed"]["checkpoints"] == 0
    cupel.configure("gc: {checkpoint: never}\n")
    for path in new.iterdir():
        os.utime(path, (1, 1))
    assert gc()["removed"]["checkpoints"] == 0 and new.exists()
    cupel.configure()
    assert gc()["removed"]["checkpoints"] == 1 and not new.exists()


@pytest.mark.parametrize("words, said", [
    (["--checkpoint", "a/b"], "no '/'"),
    (["--checkpoint", ".."], "directory"),
    (["--checkpoint", ""], "directory"),
    (["--checkpoint", "out"], "something else"),
    (["--checkpoint", "lost+found"], "something else"),
    (["--checkpoint-exit-code", "85"], "without a checkpoint"),
    (["--checkpoint", "c", "--checkpoint-exit-code", "0"], "1 to 125"),
    (["--checkpoint", "c", "--checkpoint-exit-code", "126"], "1 to 125"),
    (["--checkpoint", "c", "--checkpoint-exit-code", "8x"], "1 to 125"),
    (["--checkpoint", "c", "--out", "c/*"], "collected"),
])
def test_what_is_refused(cupel, words, said):
    result = cupel.run(*words, "--", "true")
    assert result.status == 2 and said in result.stderr, result.stderr
    assert not (cupel.home / "checkpoints").exists()


def test_a_run_without_one_makes_nothing(cupel):
    result = cupel.run("--", "sh", "-c", 'echo "${CUPEL_CHECKPOINT_DIR-none}"; exit 85')
    assert (result.stdout, result.cause) == ("none\n", "exit")
    assert not (cupel.home / "checkpoints").exists() and "checkpoint" not in result.receipt
