"""The Python package by a real service: the same interface, and what only a service has."""

import contextlib
import functools
import json
import shutil
import signal
import socket
import subprocess

import pytest

import cupel as lib
import leftovers
import python_package

SERVE = lib.BUILD / "src/cli/cupel-serve"


class Service:
    """`cupel serve` of a caller, at the default socket of his home."""

    def __init__(self, caller):
        self.caller = caller
        self.process = None
        if not (caller.base / "cupel-serve").exists():
            shutil.copy(SERVE, caller.base / "cupel-serve")
            (caller.base / "cupel-serve").chmod(0o755)
            caller.own(caller.base / "cupel-serve")

    def start(self):
        self.process = self.caller.popen(self.caller.binary, "serve", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert lib.wait_until(lambda: self.process.poll() is not None or self.listens())
        assert self.process.poll() is None, self.process.stderr.read()

    def listens(self):
        """The file is there before that, and also where one was killed."""
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(self.caller.home / "cupel.sock")) == 0

    def end(self, number=signal.SIGTERM):
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        self.process.wait(60)
        self.process.stderr.close()


@contextlib.contextmanager
def serving(callers, settings=""):
    """`settings` are the service's, for cupel.yaml."""
    if not SERVE.exists():
        pytest.skip("service: cupel was built without it")
    callers("root")  # skips where there is none
    caller = lib.Cupel("root")
    caller.configure(settings)
    made = Service(caller)
    made.start()
    yield made
    made.end()
    assert lib.wait_until(lambda: not leftovers.processes(caller)), leftovers.processes(caller)
    leftovers.assert_nothing_left(caller)
    caller.close()


@pytest.fixture
def service(callers):
    with serving(callers) as made:
        yield made


@pytest.fixture
def python(package, service):
    return functools.partial(python_package.run, package, service.caller)


def test_rerun_takes_secret_variables(python):
    told = python("""
        door = cupel.connect()
        run = door.run(["sh", "-c", "echo $API_TOKEN"], env={"API_TOKEN": "hunter2"})
        try:
            door.rerun(run.id)
        except cupel.Refused as error:
            refused = str(error)
        again = door.wait(door.rerun(run.id, env={"API_TOKEN": "hunter2"}))
        tell(run.ok, "API_TOKEN" in refused, again.ok, door.log(again.id).data.decode())
        """)
    assert told == [True, True, True, "hunter2\n"]


def test_the_service_has_all_of_the_interface(python):
    told = python("""
        door = cupel.connect()
        assert isinstance(door, cupel.Client) and door.info()["service"] == "cupel"
        run = door.run("seq 1 3; echo x > out/a; echo y > out/b", quest="q", name="n", limits={"memory": 64 << 20})
        follow = door.submit("for i in 1 2 3; do echo $i; sleep 0.1; done")
        live = "".join(door.logs(follow, follow=True))
        events = [event["event"] for event in door.events(follow, follow=True)]
        with door.open_output(run.id, "out/a") as file:
            opened = file.read().decode()
        again = door.wait(door.rerun(run.id))
        slow = door.submit(["sleep", "100"])
        try:
            door.wait(slow, 0.2)
        except cupel.WaitTimeout:
            door.cancel(slow)
        wrong = []
        for act in (lambda: door.show("nobody"), lambda: door.run(["true"], runtime="nosuch"), lambda: door.submit(["true"], id=run.id)):
            try:
                act()
            except cupel.CupelError as error:
                wrong.append(type(error).__name__)
        pathlib.Path("p.yaml").write_text("parameters: {k: 1}\\nsteps:\\n  a: {command: 'echo {{k}} > out/a'}\\n  b: {command: 'cat data/a', inputs: [{step: a, path: out/a}]}\\n")
        pipeline = door.run(pathlib.Path("p.yaml"), parameters={"k": "two words"})
        resumed = door.wait(door.resume(pipeline.id))
        end = time.monotonic() + 60  # runs are delivered to the ledger a moment later
        while "q" not in [quest["quest"] for quest in door.quests()] and time.monotonic() < end:
            time.sleep(0.1)
        tell([run.ok, run.name, run.quest, run.runtime, run.submitter, run.memory_peak_bytes > 0], live, [events[0], events[-1]],
             [output.path for output in door.outputs(run.id)], opened, [path.read_text() for path in door.download(run.id, "got")],
             again.cause, door.wait(slow).cause, door.show(slow).returncode, wrong, door.log(run.id, offset=2, limit=2).data.decode(),
             [found.name for found in door.list(quest="q", limit=10, newest_first=False)],
             [pipeline.kind, pipeline.cause, pipeline.returncode], resumed.cause, sorted({line["step"] for line in door.why(pipeline.id)}),
             door.plan(["true"])["plan"]["argv"], "base" in [runtime["name"] for runtime in door.runtimes()],
             "q" in [quest["quest"] for quest in door.quests()], "level" in door.host()["health"])
        """)
    assert told == [[True, "n", "q", "base", "root", True], "1\n2\n3\n", ["accepted", "verdict"], ["out/a", "out/b"], "x\n", ["x\n", "y\n"],
                    "ok", "cancelled", -15, ["NotFound", "Refused", "Refused"], "2\n", ["n", "n"], ["pipeline", "ok", 0], "ok", ["a", "b"], ["true"],
                    True, True, True]


def test_async_gather_and_cancellation(python):
    told = python("""
        async def main():
            door = cupel.connect_async()
            assert isinstance(door, cupel.AsyncClient)
            codes = [run.returncode for run in await asyncio.gather(*(door.run(["sh", "-c", f"exit {n}"]) for n in range(10)))]
            name = cupel.new_id()
            task = asyncio.ensure_future(door.run("echo up; sleep 100", id=name))
            while not (await door.list(state="running")):
                await asyncio.sleep(0.05)
            async for text in door.logs(name, follow=True):
                break
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return codes, text, (await door.show(name)).cause, len(await door.list(state="running"))
        tell(asyncio.run(main()), open_things()[1])
        """)
    assert told == [[list(range(10)), "up\n", "cancelled", 0], []]


def test_the_platform_s_names_by_the_service(python):
    told = python("""
        place = create_analysis_temp_dir("S-" + cupel.new_id())
        (place / "a.py").write_text("open('out/r', 'w').write(open('data/x').read())")
        (place / "data/x").write_text("result")
        ok = isolated_run(["python3", "a.py"], cwd=place)
        results = [facts(ok), (place / "out/r").read_text(), ok.read_output("out/r").decode(), type(ok.door).__name__]
        ends = [facts(isolated_run("exit 3")), facts(isolated_run(["sleep", "9"], timeout_seconds=0.5)), facts(isolated_run("kill -9 $$")),
                facts(isolated_run(["python3", "-c", "x = bytearray(300_000_000)"], memory_limit_mb=64)), facts(isolated_run(["true"], runtime="nosuch"))]
        late = isolated_run(["true"], inputs=["/no/such"])  # found out when its turn has come
        ends.append([*facts(late), len(late.notes), "/no/such" in late.completion_notes])
        after = run_post_process_isolated("cat data/outputs/out/r", ok)
        large = isolated_run(["sh", "-c", "head -c 30000000 /dev/zero | tr '\\\\0' x"])
        cleanup_analysis_temp_dir(place)
        tell(results, ends, after.stdout, [len(large.stdout), large.has("capture-cut"), large.has("log-dropped")])
        """)
    assert told == [[[0, "ok"], "result", "result", "Client"],
                    [[3, "exit"], [-1, "deadline"], [-9, "signal"], [-9, "oom"], [125, "refused"], [125, "refused", 1, True]], "result", [10 << 20, True, True]]


def test_a_directory_of_the_submitter_by_the_service(python):
    """Its files are shown at the same path, and the run of the service leaves it alone."""
    told = python("""
        name = "S-" + cupel.new_id()
        place = create_analysis_temp_dir(name)
        (place / "data/x").write_text("result")
        (place / "out/kept").write_text("kept")
        done = isolated_run(f"pwd; cat {place}/data/x; ls out; echo y > out/y", run_id=name)
        tell(facts(done), done.stdout.split("\\n") == [str(place), "result"], sorted(os.listdir(place / "out")), os.path.exists(place.with_name("." + place.name)),
             cleanup_analysis_temp_dir(name), type(done.door).__name__)
        """)
    assert told[:2] == [[0, "ok"], True], told
    assert told[2:] == [["kept", "y"], False, True, "Client"]


def follower(caller, package, run_id):
    """Follows the log of a run, then waits for its end."""
    text = ("import cupel, os, sys; door = cupel.Client(os.environ['CUPEL_HOME'] + '/cupel.sock')\n"
            "for piece in door.logs(sys.argv[1], follow=True): print(piece, end='', flush=True)\n"
            "print(door.wait(sys.argv[1]).cause)")
    return caller.popen(python_package.PYTHON, "-c", text, run_id, env={"PYTHONPATH": str(package)},
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)  # what readline() reads ahead, communicate() never sees


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_service_that_ends_and_comes_back_is_waited_for(service, python, number):
    """Whoever waits or follows a log hears nothing of it."""
    run_id = python("""tell(cupel.connect().submit("i=0; while [ $i -lt 30 ]; do i=$((i + 1)); echo $i; sleep 0.1; done"))""")
    waiting = follower(service.caller, python.args[0], run_id)
    assert waiting.stdout.readline() == b"1\n"
    service.end(number)
    service.start()
    out, err = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, err
    assert out.split() == [b"%d" % n for n in range(2, 31)] + [b"ok"]


@pytest.fixture
def port():
    return lib.free_port()


@pytest.fixture
def tcp_service(port, callers):
    with serving(callers, f"service: {{listen: 127.0.0.1:{port}}}\n") as made:
        yield made


def test_over_tcp_with_a_token(tcp_service, port, package):
    """What its scopes allow and no more; a token that is none is refused at once."""
    def token(name, scopes):
        status, out, err = tcp_service.caller.call(tcp_service.caller.binary, "token", "create", name, "--scope", scopes, "--json")
        assert status == 0, err
        return json.loads(out)["token"]

    told = python_package.run(package, tcp_service.caller, """
        def attempt(act):
            try:
                return act()
            except cupel.CupelError as error:
                return [type(error).__name__, error.status]
        door, reader = cupel.connect(), cupel.Client(token=sys.argv[1])
        run = door.run("echo hi", outputs=["out/**"])
        async def far():
            made = await cupel.AsyncClient().run("exit 4")
            return made.returncode
        tell(door.info()["identity"]["scopes"], run.cause, run.submitter.endswith("writer"), asyncio.run(far()), reader.log(run.id).data.decode(),
             attempt(lambda: reader.submit("true")), attempt(lambda: cupel.Client(token="cupel_none").list()),
             facts(isolated_run("exit 5")))
        reader.close()
        """, token("reader", "read-all"), CUPEL_SERVICE=f"http://127.0.0.1:{port}", CUPEL_TOKEN=token("writer", "read,submit"))
    assert told == [["read", "submit"], "ok", True, 4, "hi\n", ["Refused", 403], ["Refused", 401], [5, "exit"]]


def test_a_submission_sent_twice_is_one_run(python):
    """By its key; another body with that key is refused."""
    told = python("""
        from cupel import api
        door = cupel.connect()
        request = api.submit("true", cupel.new_id(), 0, None, {"quest": "twice"})
        ids = [door._http.ask(request)["id"] for _ in range(2)]
        other = api.submit("false", cupel.new_id(), 0, None, {"quest": "twice"})
        other = type(other)(other.method, other.path, body=other.body, headers=request.headers)
        try:
            door._http.ask(other)
        except cupel.Refused as error:
            door.wait(ids[0])
            tell(ids[0] == ids[1], error.status, len(door.list(quest="twice")))
        """)
    assert told == [True, 409, 1]


def test_all_that_a_submission_may_say_can_be_said(package):
    """Each field and header that the API's document has for POST /v1/runs is an argument of each client's submit and run."""
    document = json.loads((lib.TESTS.parent / "src/serve/openapi.json").read_text(encoding="utf-8"))
    fields = set(document["components"]["schemas"]["Submission"]["properties"]) - {"analysis"}  # the first argument and the keys
    headers = {parameter["name"].lower().replace("-", "_") for parameter in document["paths"]["/v1/runs"]["post"]["parameters"]}
    assert "not_before" in fields and headers == {"idempotency_key"}
    told = subprocess.run(["/usr/bin/python3", "-c", "import cupel, inspect, json; print(json.dumps([sorted(inspect.signature(call).parameters) for of in "
                           "(cupel.Client, cupel.AsyncClient, cupel.Local, cupel.AsyncLocal) for call in (of.submit, of.run)]))"],
                          env={"PYTHONPATH": str(package)}, check=True, capture_output=True, text=True).stdout
    for names in json.loads(told):
        assert fields | headers <= set(names), (fields | headers) - set(names)


def test_a_time_and_a_key_of_the_callers(python):
    """What is not to begin yet waits, for either client; a key makes one run of two submissions, and none of another."""
    told = python("""
        import asyncio, datetime
        door = cupel.connect()
        later = datetime.datetime(2099, 1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))

        async def other():
            async with cupel.connect_async() as far:
                return await far.submit(["true"], not_before="2099-01-01T00:00:00Z")

        waiting = [door.submit(["true"], not_before=later), asyncio.run(other())]
        shown = [door.show(one) for one in waiting]
        for one in waiting:
            door.cancel(one)
        first = door.submit(["true"], idempotency_key="mine", quest="keyed")
        again = door.run(["true"], idempotency_key="mine", quest="keyed")
        wrong = []
        for act in (lambda: door.submit(["false"], idempotency_key="mine", quest="keyed"), lambda: door.submit(["true"], not_before="soon"),
                    lambda: door.submit(["true"], not_before=datetime.datetime(2099, 1, 1)), lambda: cupel.Local().submit(["true"], not_before=later)):
            try:
                act()
            except (cupel.CupelError, ValueError) as error:
                wrong.append(type(error).__name__)
        tell([[run.state, run.raw["submission"]["not_before"], run.raw["pending"]["reason"]] for run in shown], first == again.id,
             len(door.list(quest="keyed")), wrong)
        """)
    assert told == [[["queued", "2099-01-01T00:00:00.000Z", "not-before"]] * 2, True, 1, ["Refused", "Refused", "ValueError", "Refused"]]


def test_everything_that_changes_is_heard(python):
    told = python("""
        door, heard = cupel.connect(), []
        events = door.watch()
        def listen():
            for event in events:
                heard.append([event.get("id"), event.get("state"), event.get("cause")])
        threading.Thread(target=listen, daemon=True).start()
        end = time.monotonic() + 60
        while not any(state == "ended" for _, state, _ in heard) and time.monotonic() < end:  # what was before it listened is not told
            door.run("exit 3")
            time.sleep(0.2)
        last = door.run("exit 3").id
        while [last, "ended", "exit"] not in heard and time.monotonic() < end:  # the stream may be behind the answer
            time.sleep(0.05)
        tell([last, "ended", "exit"] in heard, all(state in ("queued", "running", "ended", None) for _, state, _ in heard))
        """)
    assert told == [True, True]
