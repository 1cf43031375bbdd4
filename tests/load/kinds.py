"""What the load is made of: each kind of run, and what must be recorded of it."""

import dataclasses
import signal

import crashes
import cupel as lib

# Every run says its id first, so that no log can be taken for another's; who waits for that line
# knows that the analysis runs.
SAY = "echo $CUPEL_RUN_ID; "
LOG_BYTES = 64 << 10
FLOOD_BYTES = 2_000_000
# Two files: one of 16 MiB alone would be refused to a user by the size of a file.
FILL = "for i in 1 2; do dd if=/dev/zero of=out/$i bs=1M count=12 2>/dev/null || exit 9; done; "
# No file is larger than what the disk may hold, wherever it lies.
SHARED = "for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=/dev/shm/$i bs=1M count=12; done; exit 3"
# Each forks two of its like for ever; the first, which forks but once, becomes a sleep, so that it
# is the clock that ends it.
STORM_PIDS = 40
STORM = "f() { (f | f) & }; f; exec sleep 1000"


def kill_run(process):
    process.kill()


def kill_keeper(process):
    for keeper in crashes.children(process.pid):
        crashes.kill(keeper)


def kill_both(process):
    keepers = crashes.children(process.pid)
    for keeper in keepers:
        crashes.kill(keeper)
    process.kill()


def kill_init(process):
    for keeper in crashes.children(process.pid):
        for init in crashes.children(keeper):
            crashes.kill(init)


def terminate(process):
    process.terminate()


@dataclasses.dataclass(frozen=True)
class Kind:
    """`weight` of every 40 or so are of this kind. `causes` are those that are right, None for a
    run that never came to be; `status` is what `cupel run` must return, `recorded` the status in
    the verdict if that is another one. `act` is done once the analysis runs, or, if it is `early`,
    at any instant of the start."""

    name: str
    weight: int
    causes: tuple
    status: int
    script: str = "sleep 1000"
    options: tuple = ()
    act: object = None
    early: bool = False
    recorded: int = None
    who: tuple = ("root", "user")

    @property
    def expected(self):
        return " or ".join(cause or "no run" for cause in self.causes)


def _time(seconds):
    return ("--time", f"{int(seconds * 1000 * lib.SLOW)}ms")


KINDS = [
    Kind("ok", 8, ("ok",), 0, "echo $CUPEL_RUN_ID > out/id"),
    Kind("exit", 3, ("exit",), 7, "echo failed >&2; exit 7"),
    Kind("signal", 2, ("signal",), 128 + signal.SIGSEGV, "kill -SEGV $$"),
    Kind("oom", 3, ("oom",), 137, "exec dd if=/dev/zero of=/dev/null bs=256M count=1"),
    Kind("oom in /dev/shm", 1, ("oom",), 137, SHARED),
    Kind("deadline", 2, ("deadline",), 124, options=_time(0.5)),
    Kind(
        "deadline ignored",
        1,
        ("deadline",),
        124,
        "trap '' TERM; (trap '' TERM; setsid sleep 1000) & while :; do sleep 1000; done",
        (*_time(0.5), "--grace", "200ms"),
    ),
    Kind(
        "cpu time",
        1,
        ("cpu",),
        128 + signal.SIGXCPU,
        "while :; do :; done",
        ("--cpu-time", "100ms", "--grace", "1s"),
    ),
    Kind("disk full", 3, ("disk",), 9, FILL, who=("root",)),
    # A user's directory is looked at now and then: the run must be there when it is.
    Kind(
        "disk full, watched",
        3,
        ("disk",),
        128 + signal.SIGXFSZ,
        FILL + "sleep 1000",
        who=("user",),
    ),
    Kind("fork refused", 2, ("pids",), 2, "while :; do sleep 1000 & done", ("--pids", "12")),
    Kind(
        "fork storm",
        2,
        ("deadline",),
        124,
        STORM,
        (*_time(3), "--pids", str(STORM_PIDS), "--cpus", "0.25", "--grace", "200ms"),
    ),
    Kind(
        "log flood",
        3,
        ("ok",),
        0,
        f"yes | head -c {FLOOD_BYTES}; yes | head -c {FLOOD_BYTES} >&2",
        ("--log", f"{LOG_BYTES >> 10}K"),
    ),
    Kind("terminated", 1, ("cancelled",), 128 + signal.SIGTERM, act=terminate),
    Kind("run killed", 2, ("cancelled",), -9, act=kill_run, recorded=137),
    Kind("keeper killed", 2, ("lost",), 137, act=kill_keeper),
    Kind("both killed", 2, ("lost",), -9, act=kill_both, recorded=137),
    Kind("init killed", 1, ("signal",), 137, act=kill_init),
    Kind(
        "killed early",
        2,
        (None, "cancelled", "lost"),
        -9,
        act=kill_both,
        early=True,
        recorded=137,
    ),
]


def command(kind):
    """The words after `cupel run`."""
    options = ("--memory", "64M", "--disk", "16M", "--grace", "5s", "--time", f"{120 * lib.SLOW}s")
    return [*options, *kind.options, "--", "sh", "-c", SAY + kind.script]


def _shape(kind, result, run_id):
    """What is wrong with a record that says how the run ended itself."""
    verdict, evidence = result.verdict, result.verdict["evidence"]
    if (verdict["cause"] == "oom") != (evidence["oom_kills"] > 0):
        yield f"cause {verdict['cause']} with {evidence['oom_kills']} kills for memory"
    if verdict["missing_layers"]:
        yield f"ran without {verdict['missing_layers']}"
    # Whom the clock ends may have said nothing yet.
    said = result.log().splitlines()[:1]
    silent = kind.early or verdict["cause"] in ("deadline", "cpu")
    if said != [run_id.encode()] and not (silent and not said):
        yield f"the log begins with {said}"
    if kind.name == "ok":
        files = [(f["path"], f["size"]) for f in result.outputs["files"]]
        if files != [("out/id", len(run_id) + 1)]:
            yield f"outputs {files}"
        elif (result.run_dir / "outputs/out/id").read_text(encoding="utf-8") != run_id + "\n":
            yield "the output is another run's"
    if kind.name == "fork refused" and not evidence["pids_limit_hits"]:
        yield "no fork was refused"
    # How far a storm comes depends on how much of a processor it gets.
    if kind.name == "fork storm" and not 1 < verdict["usage"]["pids_peak"] <= STORM_PIDS:
        yield f"{verdict['usage']['pids_peak']} processes at once"
    if kind.name == "log flood":
        kept = [len(result.log(name)) for name in ("stdout.log", "stderr.log")]
        dropped = verdict["usage"]["log_dropped_bytes"]
        # The mark of what was dropped comes on top.
        if max(kept) > LOG_BYTES + 4096 or dropped < 2 * (FLOOD_BYTES - LOG_BYTES):
            yield f"kept {kept} bytes of log, dropped {dropped}"


def faults(kind, result, run_id):
    """Everything that is wrong with a run that is over; `result.status` is that of `cupel run`."""
    wrong = []
    if result.status != kind.status:
        wrong.append(f"cupel run returned {result.status} and not {kind.status}")
    verdict = result.verdict
    cause = verdict and verdict["cause"]
    if cause not in kind.causes:
        return wrong + [f"cause {cause} and not {kind.expected}"]
    if verdict is None:
        return wrong
    if verdict["id"] != run_id:
        wrong.append(f"the verdict is about {verdict['id']}")
    recorded = kind.status if kind.recorded is None else kind.recorded
    if verdict["exit_status"] != recorded:
        wrong.append(f"recorded status {verdict['exit_status']} and not {recorded}")
    if not verdict["completion_notes"]:
        wrong.append("no notes")
    if cause != "lost":
        wrong += _shape(kind, result, run_id)
    return wrong
