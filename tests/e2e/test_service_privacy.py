"""Users of one service see their own runs and nobody else's: every route, asked by everybody."""

import contextlib
import json
import subprocess

import pytest

import cupel as lib
import services
import api_service

LISTER = lib.BUILD / "tests/e2e/serve-routes"
ANA, BO = lib.USER_ID, lib.USER_ID + 1
SMALL = {"memory": "64M", "disk": "16M", "cpus": 0.1, "pids": 32}
MARK = "marker"  # in every id, name and text of ana's
PLACES = {"{path}": "out/t.csv"}
NAMES = {"/v1/runs/{id}/log/{name}": "stdout", "/assets/{name}": "api.js"}


def routes():
    api_service.needs_service()
    return json.loads(subprocess.run([LISTER], capture_output=True, text=True, check=True, timeout=60).stdout)


def path_of(pattern, run_id):
    path = pattern.replace("{id}", run_id).replace("{name}", NAMES.get(pattern, "base"))
    return path.replace("{path}", "out/t.csv")


class People:
    """A service of root's, with users that only it knows, who come by tokens."""

    def __init__(self, fresh, settings=""):
        api_service.needs_service()
        users = fresh.base / "passwd"
        with open("/etc/passwd", encoding="utf-8") as file:
            others = "".join(line for line in file if f":{ANA}:" not in line and f":{BO}:" not in line)
        users.write_text(others + "".join(f"{name}:x:{uid}:{uid}::/:/bin/false\n" for name, uid in (("ana", ANA), ("bo", BO))), encoding="utf-8")
        alone = ("unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', users)
        self.service = services.Service(fresh, tcp=True, prefix=alone, settings=settings).start()
        fresh.home.chmod(0o711)
        self.service.socket.chmod(0o666)
        self.fresh = fresh
        self.bearer = {}
        for name, scope, user in (("ana", "read,submit", "ana"), ("bo", "read,submit", "bo"), ("auditor", "read-all", None), ("boss", "admin,read,submit", None),
                                  ("loner", "read,submit", None), ("owner", "read,submit", "root")):
            text = self.service.token(f"t-{name}", "--scope", scope, *(("--user", user) if user else ()))
            self.bearer[name] = {"Authorization": f"Bearer {text}"}

    def ask(self, who, method, path, body=None, headers=None):
        return self.service.ask(method, path, body, {**self.bearer[who], **(headers or {})}, tcp=True)

    def get(self, who, path, **more):
        return self.ask(who, "GET", path, **more)

    def submit(self, who, analysis, **more):
        answer = self.ask(who, "POST", "/v1/runs", {"analysis": {"limits": SMALL, **analysis} if "steps" not in analysis else analysis, **more})
        assert answer.status == 201, answer.body
        return answer.json["id"]

    def wait(self, run_id):
        return self.service.wait(run_id)

    def ended(self, pipeline):
        def is_over():
            return self.get("boss", f"/v1/pipelines/{pipeline}").json.get("state") in ("ok", "done", "failed") and self.get("boss", f"/v1/runs/{pipeline}").status == 404
        assert lib.wait_until(is_over), self.get("boss", f"/v1/pipelines/{pipeline}").body
        return self.get("boss", f"/v1/pipelines/{pipeline}").json

    def runs(self, who, query=""):
        return {run["id"] for run in self.get(who, f"/v1/runs?limit=500{query}").json["runs"]}

    def by_socket(self, uid, script):
        """What a Python of that user prints, with ask(METHOD, PATH, BODY)."""
        begin = f"""
import http.client, json, os, socket, sys
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
def ask(method, path, body=None):
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
    c = http.client.HTTPConnection("localhost"); c.sock = s
    c.request(method, path, body and json.dumps(body), {{"Content-Type": "application/json"}}); r = c.getresponse()
    return r.status, json.loads(r.read())
"""
        command = ["/usr/bin/python3", "-c", begin + script, str(self.service.socket)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@contextlib.contextmanager
def people(fresh, settings=""):
    made = People(fresh, settings)
    try:
        yield made
    finally:
        made.service.stop()


@pytest.fixture(name="folk")
def _folk(fresh):
    with people(fresh) as made:
        yield made


def secret(**more):
    command = ["sh", "-c", f"echo {MARK}-log; printf 'a,b\\n{MARK},2\\n' > out/t.csv"]
    return {"command": command, "name": f"{MARK}-name", "quest": f"{MARK}-quest", "env": {"X": f"{MARK}-env"}, "labels": {"l": f"{MARK}-label"}, **more}


def pipeline(mark=MARK):
    return {"name": f"{mark}-flow", "steps": {"s": {"command": f"echo {mark} > out/x", "outputs": ["out/x"], "limits": SMALL}}}


@pytest.fixture(name="world")
def _world(folk):
    """A run of ana's that has ended, one that waits, a pipeline, and a run that root made himself."""
    folk.submit("ana", secret(), id=f"{MARK}-run")
    folk.submit("ana", pipeline(), id=f"{MARK}-flow")
    folk.submit("ana", secret(), id=f"{MARK}-later", not_before="2099-01-01T00:00:00Z")
    assert folk.wait(f"{MARK}-run")["cause"] == "ok"
    folk.ended(f"{MARK}-flow")
    assert folk.fresh.call(folk.fresh.binary, "run", "--quiet", "--id", f"{MARK}-root", "--", "true")[0] == 0
    return folk


def ids_of(pattern):
    return [f"{MARK}-flow"] if "pipelines" in pattern else [f"{MARK}-run", f"{MARK}-later", f"{MARK}-flow-s-1", f"{MARK}-root"]


def body_of(route):
    return {"analysis": {"command": ["true"]}, "id": f"{MARK}-run"} if route["pattern"] == "/v1/runs" else {"analysis": pipeline()} if route["pattern"] == "/v1/plan" else None


def test_every_route_has_a_rule():
    for route in routes():
        public = not route["scopes"]
        assert route["rule"] in (("open",) if public else ("open", "id", "share", "submit", "admin")), route
        assert ("{id}" in route["pattern"] and not public) == (route["rule"] == "id"), route


@pytest.mark.parametrize("stranger", ["bo", "loner"])
def test_a_stranger_is_answered_as_if_nothing_were_there(world, stranger):
    """By every route: what has an id, as an id that was never given; what has many, without a word of ana's."""
    for route in routes():
        method, pattern, rule = route["method"], route["pattern"], route["rule"]
        if rule == "id":
            for accept in ("*/*", "text/event-stream"):
                for run_id in ids_of(pattern):
                    there = world.ask(stranger, method, path_of(pattern, run_id), headers={"Accept": accept})
                    unknown = world.ask(stranger, method, path_of(pattern, "never-given"), headers={"Accept": accept})
                    assert there.status == unknown.status == 404, (method, pattern, there.body)
                    assert there.body.replace(run_id.encode(), b"never-given") == unknown.body, (method, pattern)
                    assert dict(there.headers).keys() == dict(unknown.headers).keys(), pattern
        elif rule == "admin":
            assert world.ask(stranger, method, path_of(pattern, "x")).status == 403, pattern
        elif rule == "submit":
            answer = world.ask(stranger, method, pattern, body_of(route))
            assert answer.status == {"/v1/runs": 409, "/v1/plan": 200}[pattern], answer.body
            if answer.status == 409:
                assert answer.json["error"]["message"] == f"the id '{MARK}-run' is taken; choose another"
        elif pattern != "/v1/events":
            answer = world.ask(stranger, method, path_of(pattern, "x"))
            assert answer.status == 200 and MARK.encode() not in answer.body and b'"ana"' not in answer.body, (pattern, answer.body)
    assert world.get("ana", f"/v1/runs/{MARK}-later").json["state"] == "queued", "nothing was cancelled"
    assert not [run for run in world.runs("boss") if run.startswith("2")], "nothing was run again"


@pytest.mark.parametrize("reader", ["auditor", "boss", "ana"])
def test_who_may_see_it_does(world, reader):
    """The control: the same routes, answered."""
    for route in routes():
        method, pattern, rule = route["method"], route["pattern"], route["rule"]
        if method != "GET" or rule == "admin" or pattern == "/v1/events":
            continue
        for run_id in ids_of(pattern) if rule == "id" else ["x"]:
            answer = world.get(reader, path_of(pattern, run_id))
            if rule == "id" and reader == "ana" and run_id == f"{MARK}-root":
                assert answer.status == 404, "root's own is root's"
            elif rule != "id":
                assert answer.status == 200, (pattern, answer.body)
                assert MARK.encode() in answer.body or pattern not in ("/v1/runs", "/v1/pipelines", "/v1/queue", "/v1/quests"), pattern
            elif run_id == f"{MARK}-run":
                assert answer.status == 200 or pattern.endswith("/why") and answer.status == 400, (pattern, answer.body)
            elif pattern in ("/v1/runs/{id}", "/v1/pipelines/{id}"):
                assert answer.status == 200 and MARK.encode() in answer.body, (pattern, answer.body)
    sees_all = reader != "ana"
    assert (f"{MARK}-root" in world.runs(reader)) == sees_all
    assert world.get(reader, "/v1").json["identity"]["sees"] == ("all" if sees_all else "own")
    assert bool(world.get(reader, "/v1/senate").json["chain"]["head"]) == sees_all, "how much there is in all"


def test_the_whole_is_for_those_who_see_all(world):
    def submissions(who):
        lines = world.get(who, "/metrics").body.decode().splitlines()
        return {key: int(float(value)) for key, value in (line.rsplit(" ", 1) for line in lines if line.startswith(("cupel_submissions_total", "cupel_runs_active")))}
    mine, whole = submissions("ana"), submissions("auditor")
    assert mine["cupel_submissions_total"] == whole["cupel_submissions_total"] == 3 and mine['cupel_runs_active{state="queued"}'] == 1
    assert set(submissions("bo").values()) == {0}
    world.submit("bo", {"command": ["true"]}, id="bo-later", not_before="2099-01-01T00:00:00Z")
    assert submissions("bo")["cupel_submissions_total"] == 1 and submissions("auditor")["cupel_submissions_total"] == 4
    assert [w["id"] for w in world.get("bo", "/v1/queue").json["waiting"]] == ["bo-later"]
    assert {w["id"] for w in world.get("auditor", "/v1/queue").json["waiting"]} == {"bo-later", f"{MARK}-later"}
    assert world.get("bo", "/v1/runs?total=1").json["total"] == 1
    assert world.runs("bo", "&submitter=ana") == set() and world.runs("auditor", "&submitter=ana")
    spend = {who: {row["submitter"]: row["runs"] for row in world.get(who, "/v1/senate").json["spend"]["by_submitter"]} for who in ("ana", "bo", "auditor")}
    assert lib.wait_until(lambda: world.get("ana", "/v1/senate").json["spend"]["by_submitter"]), spend
    assert set(spend["bo"]) == set() and set(spend["ana"]) <= {"ana"}
    assert world.runs("ana", f"&name={MARK}-na&q={MARK}-run") == {f"{MARK}-run"}, "two parts of a row at once"
    after = world.get("bo", f"/v1/runs?after={MARK}-run").json["runs"], world.get("bo", "/v1/runs?after=never-given").json["runs"]
    assert after[0] == after[1], "where another's run stands in time is not told"


def test_a_quest_is_ones_share_of_it(world):
    """Sums, trends and metrics of a quest are of one's own runs; its name is not known to those who have none in it."""
    def trend(who):
        answer = world.get(who, f"/v1/quests?quest={MARK}-quest")
        return answer.json["trend"]["runs"] if answer.status == 200 else answer.status

    def counted(who):
        lines = world.get(who, "/metrics").body.decode().splitlines()
        return sum(int(line.split()[-1]) for line in lines if line.startswith(f'cupel_quest_runs_total{{quest="{MARK}-quest"'))

    assert lib.wait_until(lambda: trend("ana") == 1), trend("ana")
    assert (trend("bo"), counted("bo"), trend("auditor"), counted("ana")) == (404, 0, 1, 1)
    world.wait(world.submit("bo", {"command": ["true"], "quest": f"{MARK}-quest"}))
    assert lib.wait_until(lambda: trend("bo") == 1)
    assert (trend("ana"), trend("auditor"), counted("bo")) == (1, 2, 1)
    assert world.ask("auditor", "POST", "/v1/quests", {"quest": f"{MARK}-quest", "title": "x"}).status == 403


def test_a_user_is_the_same_by_the_socket_and_by_a_token(world):
    by_socket = json.loads(world.by_socket(ANA, "print(json.dumps(sorted(r['id'] for r in ask('GET', '/v1/runs')[1]['runs'])))"))
    assert set(by_socket) == world.runs("ana") == {f"{MARK}-run", f"{MARK}-later", f"{MARK}-flow-s-1"}
    assert world.by_socket(BO, "print(ask('GET', '/v1/runs')[1]['runs'])").strip() == "[]"
    own = world.by_socket(ANA, "print(ask('POST', '/v1/runs', {'analysis': {'command': ['true']}, 'not_before': '2099-01-01T00:00:00Z'})[1]['id'])").strip()
    assert own in world.runs("ana")
    assert world.ask("ana", "POST", f"/v1/runs/{own}/cancel").status == 202, "what came by the socket ends by the token"
    assert json.loads(world.by_socket(ANA, f"print(ask('POST', '/v1/runs/{MARK}-later/cancel')[0])")) == 202
    assert world.get("ana", "/v1").json["identity"]["name"] == "ana"
    assert world.get("loner", "/v1").json["identity"]["name"] == "token:t-loner"


def test_a_token_without_a_user_owns_what_it_submitted(folk):
    run = folk.submit("loner", {"command": ["true"]})
    assert folk.wait(run)["submitter"] == "token:t-loner"
    assert folk.runs("loner") == {run} and not folk.runs("ana")
    assert folk.ask("loner", "POST", f"/v1/runs/{run}/rerun").status == 201


def test_runs_without_a_submitter_are_of_the_owner_of_the_home(world):
    assert world.runs("owner") == {f"{MARK}-root"}
    assert world.get("owner", f"/v1/runs/{MARK}-root").status == 200
    assert world.get("owner", f"/v1/runs/{MARK}-run").status == 404
    root = world.service.get("/v1/runs?limit=500").json["runs"]
    assert {run["id"] for run in root} >= {f"{MARK}-run", f"{MARK}-root"}, "root at the socket is an administrator"


def test_what_one_may_see_is_not_yet_ones_own_to_change(world):
    for path in (f"/v1/runs/{MARK}-later/cancel", f"/v1/runs/{MARK}-run/rerun", f"/v1/pipelines/{MARK}-flow/resume"):
        assert world.ask("auditor", "POST", path).status == 403, path
    text = world.service.token("t-reader", "--scope", "read-all,submit")
    for path in (f"/v1/runs/{MARK}-later/cancel", f"/v1/runs/{MARK}-run/rerun", f"/v1/pipelines/{MARK}-flow/resume"):
        assert world.service.ask("POST", path, headers={"Authorization": f"Bearer {text}"}, tcp=True).status == 403, path
    assert world.ask("boss", "POST", f"/v1/runs/{MARK}-later/cancel").status == 202


def test_a_token_of_root_has_the_rights_of_root_on_files_alone(folk):
    """By its name it is root; what root may do without a layer of the box takes the scope admin."""
    step = {"command": "true", "allow_missing": ["landlock"], "limits": SMALL}
    for analysis in (step, {"steps": {"s": step}}):
        answers = [folk.ask(who, "POST", "/v1/runs", {"analysis": analysis}) for who in ("owner", "bo", "boss")]
        assert [answer.status for answer in answers] == [403, 403, 201], [answer.body for answer in answers]
        folk.wait(answers[2].json["id"]) if "steps" not in analysis else folk.ended(answers[2].json["id"])


def test_a_pipeline_goes_on_with_no_rights_but_those_of_who_asks(world):
    """Who has the name now need not have the uid that the pipeline began with, which may be somebody else's by now."""
    begun = world.fresh.home / f"pipelines/{MARK}-flow/begun.json"
    said = json.loads(begun.read_text(encoding="utf-8"))
    assert said["submitter"] == f"{ANA}:{ANA}" and said["submitter_name"] == "ana"
    begun.write_text(json.dumps({**said, "submitter": f"{BO}:{BO}"}), encoding="utf-8")
    assert world.ask("ana", "POST", f"/v1/pipelines/{MARK}-flow/resume").status == 403
    begun.write_text(json.dumps(said), encoding="utf-8")
    assert world.ask("ana", "POST", f"/v1/pipelines/{MARK}-flow/resume").status == 201


def test_ids_of_a_tokens_pipeline_are_not_another_tokens(folk):
    """Both have no user, and so the same uid."""
    folk.ended(folk.submit("loner", pipeline(), id="flow"))
    other = {"Authorization": "Bearer " + folk.service.token("t-other", "--scope", "read,submit")}
    body = {"analysis": {"command": ["true"], "limits": SMALL}, "id": "flow-s-7"}
    assert folk.service.ask("POST", "/v1/runs", body, other, tcp=True).status == 409
    assert folk.ask("loner", "POST", "/v1/runs", body).status == 201
    folk.wait("flow-s-7")


def test_a_stream_of_events_has_ones_own(folk):
    def first_of(who, wanted):
        connection = folk.service.connect(tcp=True)
        connection.request("GET", "/v1/events", headers={"Accept": "text/event-stream", **folk.bearer[who]})
        response = connection.getresponse()
        assert response.status == 200
        heard = []
        yield None
        for _, _, data in folk.service._events(connection, response):
            heard.append(data["id"])
            if data["id"].startswith(wanted) and data["state"] == "ended":
                break
        yield heard
    listening = {"ana": first_of("ana", f"{MARK}-flow"), "bo": first_of("bo", "bo-run"), "auditor": first_of("auditor", "bo-run")}
    for one in listening.values():
        next(one)
    folk.submit("ana", pipeline(), id=f"{MARK}-flow")
    folk.ended(f"{MARK}-flow")
    folk.submit("bo", {"command": ["true"]}, id="bo-run")
    heard = {who: set(next(one)) for who, one in listening.items()}
    assert heard["bo"] == {"bo-run"}
    assert f"{MARK}-flow" in heard["ana"] and "bo-run" not in heard["ana"]
    assert heard["auditor"] >= {f"{MARK}-flow", f"{MARK}-flow-s-1", "bo-run"}


def test_a_stream_ends_with_its_token(folk):
    """A client that stays connected would otherwise hear of everything for ever."""
    text = folk.service.token("t-leaver", "--scope", "read-all")
    connection = folk.service.connect(tcp=True, timeout=100)
    connection.request("GET", "/v1/events", headers={"Accept": "text/event-stream", "Authorization": f"Bearer {text}"})
    response = connection.getresponse()
    assert response.status == 200
    assert folk.fresh.call(*folk.service.prefix, folk.fresh.binary, "token", "revoke", "t-leaver")[0] == 0
    with contextlib.closing(connection):
        assert b"data:" not in response.read(), "it ends, and nothing was told"


def reused(folk, run_id):
    return folk.ended(run_id)["counts"]["reused"]


def test_results_are_reused_by_those_who_may_see_them(folk):
    def again(who):
        return reused(folk, folk.submit(who, pipeline("same")))
    assert [again(who) for who in ("ana", "bo", "ana", "bo")] == [0, 0, 1, 1]
    why = folk.get("bo", f"/v1/pipelines/{folk.submit('bo', pipeline('other'))}/why")
    assert MARK.encode() not in why.body

    def planned(who):
        return [step["plan"] for step in folk.ask(who, "POST", "/v1/plan", {"analysis": pipeline("same")}).json["steps"]]
    assert [planned(who) for who in ("ana", "bo", "loner")] == [["reuse"], ["reuse"], ["run"]]


def test_what_version_0_1_left_is_whose_it_was(world):
    """Its pipelines have no name of a submitter, runs of a token with a user are the token's, and tokens have no uid."""
    home = world.fresh.home
    begun = home / f"pipelines/{MARK}-flow/begun.json"
    said = json.loads(begun.read_text(encoding="utf-8"))
    assert said.pop("submitter_name") == "ana"
    begun.write_text(json.dumps(said), encoding="utf-8")
    analysis = home / f"runs/{MARK}-run/analysis.json"
    analysis.chmod(0o600)
    analysis.write_text(analysis.read_text(encoding="utf-8").replace('"submitter": "ana"', '"submitter": "token:t-ana"'), encoding="utf-8")
    assert "token:t-ana" in analysis.read_text(encoding="utf-8")

    def told(path):
        return [world.get(who, path).status for who in ("ana", "bo", "auditor")]
    assert told(f"/v1/pipelines/{MARK}-flow") == [200, 404, 200]
    assert told(f"/v1/runs/{MARK}-run") == [404, 404, 200], "a token made since may have the name of somebody else's"
    assert [len(world.get(who, "/v1/pipelines").json["pipelines"]) for who in ("ana", "bo", "auditor")] == [1, 0, 1]
    file = home / "tokens.json"
    tokens = json.loads(file.read_text(encoding="utf-8"))
    for token in tokens["tokens"]:
        del token["uid"]
    file.write_text(json.dumps(tokens), encoding="utf-8")
    for path in (f"/v1/pipelines/{MARK}-flow", f"/v1/runs/{MARK}-run"):
        assert told(path) == [200, 404, 200], path
    listed = json.loads(world.fresh.call(*world.service.prefix, world.fresh.binary, "token", "list", "--json")[1])
    narrower = {token["name"] for token in listed if "sees only its own runs" in (token["note"] or "")}
    assert narrower == {"t-ana", "t-bo", "t-loner", "t-owner"}, "not those that see everything"


def test_steps_that_an_administrator_resumes_stay_their_submitters(folk):
    """The pipeline fails until its input says otherwise."""
    switch = folk.fresh.base / "status"
    switch.write_text("1\n")
    switch.chmod(0o644)
    step = {"command": "exit $(cat data/status)", "inputs": [{"path": str(switch), "name": "status"}], "limits": SMALL, "retries": {}}
    run_id = folk.submit("ana", {"steps": {"s": step}})
    folk.ended(run_id)
    switch.write_text("0\n")
    assert folk.ask("boss", "POST", f"/v1/pipelines/{run_id}/resume").status == 201
    assert lib.wait_until(lambda: (folk.fresh.home / f"runs/{run_id}-s-2/verdict.json").exists())
    folk.ended(run_id)
    for attempt in (1, 2):
        record = json.loads((folk.fresh.home / f"runs/{run_id}-s-{attempt}/analysis.json").read_text(encoding="utf-8"))
        assert record["submitter"] == "ana", attempt
        assert [folk.get(who, f"/v1/runs/{run_id}-s-{attempt}").status for who in ("ana", "bo")] == [200, 404]
    assert [folk.get(who, f"/v1/pipelines/{run_id}").status for who in ("ana", "bo")] == [200, 404]


def test_who_submitted_a_pipeline_ends_it_though_another_resumed_it(folk):
    switch = folk.fresh.base / "status"
    switch.write_text("1\n")
    switch.chmod(0o644)
    step = {"command": "test $(cat data/status) = 0 && sleep 1000", "inputs": [{"path": str(switch), "name": "status"}], "limits": SMALL, "retries": {}}
    run_id = folk.submit("ana", {"steps": {"s": step}})
    folk.ended(run_id)
    switch.write_text("0\n")
    assert folk.ask("boss", "POST", f"/v1/pipelines/{run_id}/resume").status == 201
    assert lib.wait_until(lambda: (folk.fresh.home / f"active/{run_id}-s-2").exists())
    answers = [folk.ask(who, "POST", f"/v1/runs/{run_id}/cancel").status for who in ("bo", "ana", "boss")]
    assert answers[:2] == [404, 202], answers
    assert lib.wait_until(lambda: (folk.fresh.home / f"runs/{run_id}-s-2/verdict.json").exists())


def test_with_visibility_all_everybody_sees_everything(fresh):
    with people(fresh, settings="visibility: all, ") as folk:
        run = folk.submit("ana", secret())
        folk.wait(run)
        assert folk.runs("bo") == {run} and folk.get("bo", f"/v1/runs/{run}/log/stdout").body == f"{MARK}-log\n".encode()
        assert folk.get("bo", "/v1").json["identity"]["sees"] == "all"
        assert folk.ask("bo", "POST", f"/v1/runs/{run}/rerun").status == 403
        assert [reused(folk, folk.submit(who, pipeline("same"))) for who in ("ana", "bo")] == [0, 1]


def test_a_word_that_is_no_visibility(fresh):
    fresh.configure("service: {visibility: some}\n")
    status, _, err = fresh.call(fresh.binary, "config")
    assert status == 2 and "'some' is no visibility; write own or all" in err and ":2:23:" in err, err
