"""What the service adds up over runs: quests, the senate, and the metrics that Prometheus reads."""

import contextlib
import datetime
import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request

import pytest

import cupel as lib
from api_service import _outside, _service, bearer  # noqa: F401  (fixtures)


def test_quests_and_senate(service):
    for command, quest in (("true", "good"), ("false", "bad"), ("true", "bad")):
        service.wait(service.submit(command, analysis={"quest": quest}))
    hungry = service.submit("/usr/bin/python3", "-c", "bytearray(300 << 20)", analysis={"limits": {"memory": "32M"}, "quest": "bad"})
    assert service.wait(hungry)["cause"] == "oom"
    waiting = service.submit("true", analysis={"quest": "later"}, not_before="2099-01-01T00:00:00Z")
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    quests = {quest["quest"]: quest for quest in service.get("/v1/quests").json["quests"]}
    assert (quests["good"]["success_rate"], quests["bad"]["runs"]["ok"], quests["bad"]["runs"]["failed"]) == (1.0, 1, 2)
    assert quests["bad"]["causes"] == {"ok": 1, "exit": 1, "oom": 1}
    assert [blocked["id"] for blocked in quests["later"]["blocked"]] == [waiting]
    senate = service.get("/v1/senate").json
    assert [kill["id"] for kill in senate["limit_kills"]] == [hungry]
    assert senate["spend"]["by_submitter"][0]["submitter"] == "root" and senate["spend"]["by_submitter"][0]["runs"] == 4
    assert lib.wait_until(lambda: service.get("/v1/senate").json["chain"]["length"] == 4)
    queue = service.get("/v1/queue").json
    assert [run["id"] for run in queue["waiting"]] == [waiting] and queue["waiting"][0]["pending"]["reason"] == "not-before"
    shown = service.get(f"/v1/runs/{waiting}").json
    assert (shown["state"], shown["pending"]["reason"], shown["verdict"]) == ("queued", "not-before", None)
    assert service.post(f"/v1/runs/{waiting}/cancel").status == 202
    assert lib.wait_until(lambda: service.state(waiting) == "ended")
    assert service.get(f"/v1/runs/{waiting}").json["cause"] == "cancelled"
    assert waiting in [run["id"] for run in service.get("/v1/runs?cause=cancelled").json["runs"]]


def test_what_is_said_of_a_quest(outside):
    """By the configuration, and by the API over it; it is there after a restart, and null takes it back."""
    admin = bearer(outside.token("boss", "--scope", "read,submit,admin"))
    reader = bearer(outside.token("guest", "--scope", "read"))

    def say(**body):
        return outside.post("/v1/quests", body, admin, tcp=True)

    def quests():
        return {quest["quest"]: quest for quest in outside.get("/v1/quests").json["quests"]}

    assert say(quest="aging", title="Why cells age", layer="Atlas", priority=80, link="https://example.org/q").status == 200
    answer = say(quest="aging", status="active")
    assert answer.json == {"quest": "aging", "title": "Why cells age", "layer": "Atlas", "priority": 80, "status": "active", "link": "https://example.org/q"}
    outside.wait(outside.submit("true", analysis={"quest": "aging"}))
    assert lib.wait_until(lambda: outside.get("/v1/ledger").json["owed"] == 0)
    outside.stop()
    outside.start()
    shown = quests()["aging"]
    assert (shown["title"], shown["priority"], shown["status"], shown["runs"]["ok"]) == ("Why cells age", 80, "active", 1)
    assert say(quest="aging", title=None, layer=None, priority=None).json["title"] is None
    assert quests()["aging"]["title"] is None and quests()["aging"]["status"] == "active"
    assert say(quest="no runs yet", status="planned").status == 200 and quests()["no runs yet"]["runs"]["ok"] == 0
    say(quest="no runs yet", status=None)
    assert "no runs yet" not in quests()
    before = quests()
    for body, why in (({"quest": "aging", "link": "javascript:alert(1)"}, "is not a web address"), ({"quest": "aging", "priority": "80"}, "priority: expected a number"),
                      ({"quest": "aging", "priority": -1}, "from 0 to 100"), ({"quest": "aging", "colour": "red"}, "unknown key 'colour'"), ({"title": "x"}, "expected the name of a quest"),
                      ({"quest": "a\nb"}, "cannot be the name of a quest"), ({"quest": "aging", "title": "x" * 201}, "1 to 200 bytes")):
        answer = say(**body)
        assert answer.status in (400, 422) and why in answer.json["error"]["message"], answer.body
    assert outside.post("/v1/quests", {"quest": "aging", "title": "mine"}, reader, tcp=True).status == 403
    assert quests() == before


def test_how_a_quest_went(service):
    for command in ("true", "true", "false"):
        service.wait(service.submit(command, analysis={"quest": "aging"}))
    service.caller.run("--quest", "aging", "--", "true")
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    answer = service.get("/v1/quests?quest=aging").json
    assert [quest["quest"] for quest in answer["quests"]] == ["aging"]
    trend, points = answer["trend"], answer["trend"]["points"]
    assert (trend["runs"], trend["is_cut"], trend["width_s"]) == (4, False, 60)
    assert sum(point["runs"] for point in points) == 4 and sum(point["ok"] for point in points) == 3
    assert sum(point["cpu_usec"] for point in points) == answer["quests"][0]["cpu_usec"]
    assert all(point["waited_usec"] is None or 0 <= point["waited_usec"] < 60e6 for point in points) and points[0]["waited_usec"] is not None
    assert "trend" not in service.get("/v1/quests").json
    assert service.get("/v1/quests?quest=nothing").status == 404


def test_metrics_know_the_largest_quests(service):
    """The 50 largest quests are counted by name and the rest as `other`, even if a quest is called `other`."""
    one = service.caller.run("--quest", "large", "--", "true", id="r000").run_dir
    texts = {name: (one / name).read_text() for name in ("analysis.json", "verdict.json", "events.jsonl", "outputs.json", "stdout.log", "stderr.log")}
    for number in range(1, 62):  # three of "large" and "other", one of 56 others each
        quest = "large" if number < 3 else "other" if number < 6 else f"small {number:03}"
        service.caller.run_dir(f"r{number:03}").mkdir()
        for name, text in texts.items():
            (service.caller.run_dir(f"r{number:03}") / name).write_text(text.replace("r000", f"r{number:03}").replace('"large"', f'"{quest}"'))
    status, _, err = service.caller.call(service.caller.binary, "ledger", "rebuild")
    assert status == 0, err

    def found():
        text = service.get("/metrics").body.decode()
        return dict(re.findall(r'^cupel_quest_runs_total\{quest="([^"]*)",result="ok"\} (\d+)$', text, re.MULTILINE))

    assert lib.wait_until(lambda: sum(int(n) for n in found().values()) == 62), found()
    numbers = found()
    assert len(numbers) == 51 and numbers["large"] == "3" and numbers["small 006"] == "1"
    assert numbers["other"] == str(3 + 56 - 49), numbers
    assert len(re.findall(r"^cupel_quest_cpu_seconds_total\{", service.get("/metrics").body.decode(), re.MULTILINE)) == 51


def test_what_nobody_submitted_is_the_owners_of_the_home(service):
    """`cupel run` has no submitter: the owner of the home ran it, in lists, filters, searches and sums."""
    for run_id, command in (("by-hand", ["true"]), ("too-much", ["python3", "-c", "bytearray(300 << 20)"])):
        service.caller.run("--memory", "64M", "--", *command, id=run_id)
    asked = service.submit("true")
    service.wait(asked)
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    for query in ("", "?submitter=root", "?q=ROOT"):
        rows = {run["id"]: run["submitter"] for run in service.get(f"/v1/runs{query}").json["runs"]}
        assert rows == {"by-hand": "root", "too-much": "root", asked: "root"}, query
    assert service.get("/v1/runs?submitter=token:x").json["runs"] == []
    assert service.get("/v1/runs/by-hand").json["submitter"] == "root"
    senate = service.get("/v1/senate").json
    assert [(row["submitter"], row["runs"]) for row in senate["spend"]["by_submitter"]] == [("root", 3)]
    assert [(row["id"], row["submitter"]) for row in senate["limit_kills"]] == [("too-much", "root")]


@pytest.mark.parametrize("cause, limits, script, limit, of", [
    ("oom", {"memory": "64M"}, "bytearray(300 << 20)", "memory", 64 << 20),
    ("deadline", {"time": "1s"}, "import time; time.sleep(600)", "time", 10**9),
    ("cpu", {"cpu_time": "1s"}, "while True: pass", "cpu_time", 10**9),
    ("disk", {"disk": "32M"}, "open('big', 'wb').write(bytes(64 << 20))", "disk", 32 << 20),
    ("disk", {"inodes": "2000"}, "[open(str(n), 'x').close() for n in range(4000)]", "inodes", 2000),
    ("pids", {"pids": "20"}, "import os, time\nfor _ in range(40): os.fork() or time.sleep(600)", "pids", 20),
    ("output-cap", {"output_size": "1M"}, "open('out/x', 'wb').write(bytes(4 << 20))", "output_size", 1 << 20),
])
def test_the_senate_names_the_limit_that_was_reached(service, cause, limits, script, limit, of):
    run_id = service.submit("python3", "-c", script, analysis={"limits": limits, "outputs": [{"path": "**"}]})
    assert service.wait(run_id)["cause"] == cause
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    reached = service.get("/v1/senate").json["limit_kills"][0]["reached"]
    assert (reached["limit"], reached["of"]) == (limit, of)
    if limit == "output_size":
        assert reached["used"] is None, "what was collected says nothing of what was there"
    else:
        assert 0.9 * of <= reached["used"], "in the units of the limit"


def test_metrics_are_what_prometheus_reads(service, tmp_path):
    service.wait(service.submit("true"))
    service.wait(service.submit("false"))
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    answer = service.get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    text = answer.body.decode()
    assert text.endswith("# EOF\n")
    assert 'cupel_runs_total{runtime="base",result="ok"} 1\n' in text and 'cupel_runs_total{runtime="base",result="exit"} 1\n' in text
    assert 'cupel_runs_active{state="running"} 0\n' in text and "cupel_submissions_total 2\n" in text
    assert 'cupel_run_queue_seconds_bucket{le="+Inf"} 2\n' in text and "cupel_run_queue_seconds_count 2\n" in text
    buckets = [int(n) for n in re.findall(r'^cupel_run_queue_seconds_bucket\{le="[^"]+"\} (\d+)$', text, re.MULTILINE)]
    assert len(buckets) > 5 and buckets == sorted(buckets)
    assert 'cupel_cache_lookups_total{result="hit"} 0\n' in text
    assert "# TYPE cupel_build_info gauge\n" in text and " info\n" not in text, "Prometheus's tools know no type info"
    if not shutil.which("promtool"):
        pytest.skip("prometheus: promtool is not installed")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False, timeout=60)
    # Read as the older text it is whole. The names of counters have an ending there that their descriptions do not have here.
    assert all(re.fullmatch(r"cupel_\w+_total no help text", line) for line in done.stderr.split("\n") if line), done.stderr
    plain = service.get("/metrics")
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    older = plain.body.decode()
    done = subprocess.run(["promtool", "check", "metrics"], input=older, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_how_long_runs_wait_and_what_pipelines_find(service, tmp_path):
    """One that had to wait is not among the fast; a time that was asked for is no wait. A pipeline that was run before finds its results."""
    def numbers(name):
        text = service.get("/metrics").body.decode()
        return {label: float(value) for label, value in re.findall(rf'^{name}\{{\w+="([^"]+)"\}} (\S+)$', text, re.MULTILINE)}

    def total():
        return float(re.search(r"^cupel_run_queue_seconds_sum (\S+)$", service.get("/metrics").body.decode(), re.MULTILINE)[1])

    long = service.submit("sleep", "1000", analysis={"limits": {"cpus": "64"}})
    assert lib.wait_until(lambda: service.state(long) == "running")
    second = service.submit("true", analysis={"limits": {"cpus": "64"}})
    assert lib.wait_until(lambda: service.get(f"/v1/runs/{second}").json["pending"]["reason"] == "cpus")
    since = time.monotonic()
    assert lib.wait_until(lambda: time.monotonic() > since + 0.5), "it has waited for longer than half a second"
    service.post(f"/v1/runs/{long}/cancel")
    service.wait(second)
    waits = numbers("cupel_run_queue_seconds_bucket")
    assert waits["+Inf"] == 2 and waits["0.5"] <= 1, waits
    before, soon = total(), time.time() + 1
    stamp = datetime.datetime.fromtimestamp(soon, datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    service.wait(service.submit("true", not_before=stamp))
    assert 0 <= total() - before <= time.time() - soon + 0.001, "from then on, not from the submission"
    file = tmp_path / "p.yaml"
    file.write_text("steps:\n  a: {command: 'echo 1 > out/a'}\n  b: {command: 'cat data/a', inputs: [{step: a, path: out/a}]}\n  c: {command: 'true', cache: off}\n")
    for found in ({"hit": 0, "miss": 2, "unusable": 0}, {"hit": 2, "miss": 2, "unusable": 0}):
        answer = service.post("/v1/runs", {"analysis": {"file": str(file)}})
        assert answer.status == 201, answer.body
        pipeline = answer.json["id"]
        assert lib.wait_until(lambda at=pipeline: service.get(f"/v1/pipelines/{at}").json.get("state") == "ok")
        assert lib.wait_until(lambda: numbers("cupel_cache_lookups_total") == found), numbers("cupel_cache_lookups_total")


def test_caps_are_told_alike_everywhere(service):
    """What all runs together may have, by the queue, the Senate and what waits for it; in words that fit their number."""
    use, senate = service.get("/v1/queue").json["use"], service.get("/v1/senate").json
    assert senate["caps"] == {name: part["cap"] for name, part in use.items()}
    cpus = use["cpus"]["cap"] // 1000
    assert senate["policy"]["aggregate.cpus"] == str(cpus) and senate["policy"]["aggregate.pids"] == str(use["pids"]["cap"])
    metrics = service.get("/metrics").body.decode()
    assert f'cupel_cpus{{kind="cap"}} {cpus}\n' in metrics
    long = service.submit("sleep", "1000", analysis={"limits": {"cpus": "64"}})
    assert lib.wait_until(lambda: service.state(long) == "running")
    waiting = [service.submit("true", analysis={"limits": {"cpus": wanted}}) for wanted in ("1", "0.5")]

    def pending():
        return [service.get(f"/v1/runs/{run_id}").json["pending"] for run_id in waiting]

    assert lib.wait_until(lambda: {why["reason"] for why in pending()} == {"cpus"}), pending()
    texts = [why["text"] for why in pending()]
    unit = "cpu" if cpus == 1 else "cpus"
    assert texts[0] == f"needs 1 cpu; none of {cpus} {unit} is free"
    assert texts[1] == f"needs 0.5 cpus; none of {cpus} {unit} is free; 1 is ahead of it"
    service.post(f"/v1/runs/{long}/cancel")
    assert lib.wait_until(lambda: not service.get("/v1/queue").json["waiting"])


def test_a_real_prometheus_scrapes_it(outside, tmp_path):
    if not shutil.which("prometheus"):
        pytest.skip("prometheus: it is not installed")
    token, port = outside.token("prometheus", "--scope", "read-all"), lib.free_port()
    outside.wait(outside.submit("true"))
    assert lib.wait_until(lambda: outside.get("/v1/ledger").json["owed"] == 0)
    page = (lib.TESTS.parent / "docs/man/cupel-api.7.scd").read_text(encoding="utf-8")  # as it tells people to do it
    told = re.search(r"```\n(scrape_configs:\n.*?)```", page, re.DOTALL)[1]
    (tmp_path / "token").write_text(token + "\n", encoding="utf-8")
    told = told.replace("/etc/prometheus/cupel.token", f"{tmp_path}/token").replace("127.0.0.1:8470", f"127.0.0.1:{outside.port}")
    (tmp_path / "p.yml").write_text("global: {scrape_interval: 1s}\n" + told, encoding="utf-8")
    process = subprocess.Popen(["prometheus", f"--config.file={tmp_path}/p.yml", f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def value():
        query = urllib.parse.quote('cupel_runs_total{result="ok"}')
        with contextlib.suppress(OSError, ValueError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}", timeout=30) as answer:
                results = json.load(answer)["data"]["result"]
                return results and results[0]["value"][1]
        return None

    try:
        assert lib.wait_until(lambda: value() == "1")
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_the_dashboard_asks_for_what_there_is(service):
    service.wait(service.submit("true"))
    assert lib.wait_until(lambda: service.get("/v1/ledger").json["owed"] == 0)
    text = service.get("/metrics").body.decode()
    names = set(re.findall(r"^(cupel_\w+)", text, re.MULTILINE)) | set(re.findall(r"^# TYPE (cupel_runtime\w+)", text, re.MULTILINE))
    dashboard = json.loads((lib.TESTS.parent / "docs/grafana/cupel.json").read_text(encoding="utf-8"))
    asked = {name for panel in dashboard["panels"] for target in panel["targets"] for name in re.findall(r"cupel_\w+", target["expr"])}
    assert asked and asked <= names, asked - names
