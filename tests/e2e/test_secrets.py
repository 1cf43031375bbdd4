"""Values of secret environment variables: the analysis has them, and nothing that cupel writes or answers does."""

import contextlib
import json
import sqlite3
import stat

import pytest

import cupel as lib
import doors
import program_executor
import services

VALUE = "hush-5b1f8e"
OTHER = "other-77aa01"
URL = f"postgresql://u:{VALUE}@h/d"
# Proves that it came, without writing it anywhere.
CHECK = ["/bin/sh", "-c", 'test "$API_TOKEN" = "$(printf %s hush-)5b1f8e" && echo came > out/x']
needs_service = pytest.mark.skipif(not doors.BINARY.exists(), reason="service: it was not built")


def holding(place, value=VALUE):
    """Files below a directory that hold the value, or are named by it."""
    found = []
    for path in place.rglob("*"):
        if value in path.name or (path.is_file() and value.encode() in path.read_bytes()):
            found.append(str(path.relative_to(place)))
    return found


def analysis_of(caller, run):
    return json.loads((caller.run_dir(run) / "analysis.json").read_text())


def run_with(caller, run, *words, value=VALUE):
    result = caller.run("--env", "API_TOKEN", "--env", "PLAIN=seen", *words, "--", *CHECK, id=run,
                        env={"API_TOKEN": value})
    return result


@pytest.fixture(name="own")
def _own(callers, who):
    callers(who)  # skips where there is none
    made = lib.Cupel(who, own_work=True)
    yield made
    made.close()


def test_no_record_has_the_value(own):
    result = run_with(own, "first", "--env", f"DATABASE_URL={URL}")
    assert (result.status, result.cause) == (0, "ok"), result.stderr
    assert lib.wait_until(lambda: not (own.home / "undelivered" / "first").exists())
    assert holding(own.home) == []
    record = analysis_of(own, "first")
    assert record["env"]["PLAIN"] == "seen" and "API_TOKEN" not in record["env"]
    assert sorted(record["secret_env"]) == ["API_TOKEN", "DATABASE_URL"]
    assert all(len(digest) == 64 for digest in record["secret_env"].values())
    plan = json.loads((own.run_dir("first") / "plan.json").read_text())
    assert sorted(plan["secret_env"]) == ["API_TOKEN", "DATABASE_URL"] and "PLAIN=seen" in plan["env"]
    assert stat.S_IMODE((own.home / "secret.key").stat().st_mode) == 0o600
    crate = (own.run_dir("first") / "ro-crate-metadata.json").read_text()
    assert "API_TOKEN" in crate


def test_equal_values_have_equal_digests_in_one_home_only(own):
    for run, value in (("a", VALUE), ("b", VALUE), ("c", OTHER)):
        own.run("--env", f"API_TOKEN={value}", "--", "true", id=run)
    one, same, other = (analysis_of(own, run)["secret_env"]["API_TOKEN"] for run in "abc")
    assert one == same != other
    out = own.call(own.binary, "diff", "a", "c", "--json")[1]
    assert "secret_env.API_TOKEN" in out


def test_what_is_shown_does_not_have_it(own):
    assert run_with(own, "first").status == 0
    for words in (("show", "first"), ("show", "first", "--json"), ("list", "--json"),
                  ("plan", "--env", f"API_TOKEN={VALUE}", "--", "true"),
                  ("plan", "--json", "--env", f"API_TOKEN={VALUE}", "--", "true")):
        status, out, err = own.call(own.binary, *words)
        assert status == 0 and VALUE not in out + err, (words, err)
    out = own.call(own.binary, "plan", "--env", f"API_TOKEN={VALUE}", "--", "true")[1]
    assert "API_TOKEN (secret: not shown)" in out


def test_rerun_asks_for_the_value(own):
    assert run_with(own, "first").status == 0
    status, _, err = own.call(own.binary, "rerun", "first")
    assert status == 2 and "API_TOKEN" in err and "--env API_TOKEN" in err
    status, _, err = own.call(own.binary, "rerun", "-e", f"API_TOKEN={OTHER}", "first")
    assert status == 2 and "is not the one that the run had" in err and OTHER not in err
    status, _, err = own.call(own.binary, "rerun", "-e", "PLAIN=x", "first")
    assert status == 2 and "PLAIN" in err
    status, out, err = own.call(own.binary, "rerun", "--verify", "-e", "API_TOKEN", "--id", "again", "first",
                                env={"API_TOKEN": VALUE})
    assert status == 0 and "1 the same" in out, err
    assert analysis_of(own, "again")["secret_env"] == analysis_of(own, "first")["secret_env"]
    # A rotated token is the user's to accept; here the analysis notices.
    status, _, _ = own.call(own.binary, "rerun", "--allow-changed-secrets", "-e", f"API_TOKEN={OTHER}", "--id", "new",
                            "first")
    assert status == 1
    assert holding(own.home) == [] and holding(own.home, OTHER) == []


def test_a_variable_that_is_not_there_is_an_error(own):
    result = own.run("--env", "API_TOKEN", "--", "true")
    assert result.status == 2 and "API_TOKEN=VALUE" in result.stderr
    assert not list(own.home.glob("runs/*"))


def test_a_passed_variable_is_no_less_secret(own):
    own.configure("defaults: {env_pass: [API_TOKEN]}\n")
    result = own.run("--", *CHECK, id="first", env={"API_TOKEN": VALUE})
    assert result.status == 0, result.stderr
    assert "API_TOKEN" in analysis_of(own, "first")["secret_env"] and holding(own.home) == []


PIPELINE = """
steps:
  one:
    env: {API_TOKEN: "%s", PLAIN: "1"}
    command: [sh, -c, "test -n \\"$API_TOKEN\\" && echo 1 > out/x"]
    outputs: [out/x]
"""


def pipeline(caller, value, *words):
    file = caller.dir / "p.yaml"
    file.write_text(PIPELINE % value)
    caller.own(file)
    return caller.call(caller.binary, "run", "--json", *words, file)


def test_steps(own):
    status, out, err = pipeline(own, VALUE, "--id", "p1")
    assert status == 0, err
    assert lib.wait_until(lambda: not list((own.home / "undelivered").iterdir()))
    assert holding(own.home) == []
    record = json.loads((own.home / "pipelines/p1/pipeline.json").read_text())
    assert "file_sha256" not in record and len(record["file_digest"]) == 64
    result = json.loads(pipeline(own, VALUE)[1])
    assert [task["state"] for task in result["steps"]] == ["reused"], result
    result = json.loads(pipeline(own, OTHER)[1])
    assert "reused" not in [task["state"] for task in result["steps"]]
    run = result["steps"][0]["run"]
    out = own.call(own.binary, "why", run)[1]
    assert "env API_TOKEN" in out
    assert own.call(own.binary, "resume", "p1")[0] == 2  # the file is another one by now
    pipeline(own, VALUE)
    assert own.call(own.binary, "resume", "p1")[0] == 0


def test_an_exported_pipeline_does_not_have_the_file(own):
    assert pipeline(own, VALUE, "--id", "p1")[0] == 0
    crate = own.dir / "crate"
    status, _, err = own.call(own.binary, "export", "p1", "--to", crate)
    assert status == 0, err
    assert holding(crate) == []


def test_a_program_that_runs_it_elsewhere_is_given_the_value(root):
    node = program_executor.Node(root)
    run = root.new_id()
    result = run_with(root, run, "--executor", "node")
    assert result.status == 0, result.stderr
    assert lib.wait_until(lambda: not node.jobs())
    assert VALUE not in json.dumps(analysis_of(root, run))
    assert holding(root.run_dir(run)) == []


# The service

@pytest.fixture(name="service")
def _service(fresh):
    made = services.Service(fresh, settings="max_running: 1, ").start()
    yield made
    made.stop()


def rows(fresh, sql="SELECT * FROM submissions"):
    with contextlib.closing(sqlite3.connect(fresh.home / "cupel.db")) as db:
        return db.execute(sql).fetchall()


def restart(service):
    """A run that goes on has its standard error, so the end of that is not waited for."""
    service.process.terminate()
    service.process.wait(timeout=60)
    service.process.stderr.close()


def wait_started(service, run):
    assert lib.wait_until(lambda: service.state(run) == "running")


@needs_service
def test_the_service_keeps_the_value_until_the_run_is_over(service, fresh):
    first = service.submit("sleep", "1000")
    wait_started(service, first)
    env = {"env": {"API_TOKEN": VALUE, "PLAIN": "seen"}}
    run = service.submit(*CHECK, analysis=env)
    kept = list((fresh.home / "secrets").iterdir())
    assert len(kept) == 1 and stat.S_IMODE(kept[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(kept[0].parent.stat().st_mode) == 0o700
    assert holding(fresh.home) == [f"secrets/{kept[0].name}"]
    assert VALUE not in str(rows(fresh))
    answer = service.get(f"/v1/runs/{run}")
    assert VALUE not in answer.body.decode()
    assert answer.json["analysis"]["env"] == {"PLAIN": "seen"} and "API_TOKEN" in answer.json["analysis"]["secret_env"]
    restart(service)
    service.start()  # which finds it again
    service.post(f"/v1/runs/{first}/cancel")
    ended = service.wait(run)
    assert ended["cause"] == "ok", ended
    assert VALUE not in json.dumps(ended)
    assert lib.wait_until(lambda: not list((fresh.home / "secrets").iterdir()))
    assert holding(fresh.home) == []


@needs_service
def test_what_is_cancelled_or_refused_leaves_nothing(service, fresh):
    first = service.submit("sleep", "1000")
    wait_started(service, first)
    run = service.submit("true", analysis={"env": {"API_TOKEN": VALUE}})
    assert service.post("/v1/runs", {"id": run, "analysis": {"command": ["true"], "env": {"API_TOKEN": VALUE}}}
                        ).status == 409
    assert len(list((fresh.home / "secrets").iterdir())) == 1
    assert service.post(f"/v1/runs/{run}/cancel").status == 202
    service.post(f"/v1/runs/{first}/cancel")
    service.wait(first)
    assert lib.wait_until(lambda: not list((fresh.home / "secrets").iterdir()))


@needs_service
def test_a_key_of_a_request_is_the_same_once_more(service, fresh):
    body = {"analysis": {"command": CHECK, "env": {"API_TOKEN": VALUE}}}
    first = service.post("/v1/runs", body, {"Idempotency-Key": "k"})
    again = service.post("/v1/runs", body, {"Idempotency-Key": "k"})
    assert (first.status, again.status) == (201, 200) and first.json["id"] == again.json["id"]
    body["analysis"]["env"]["API_TOKEN"] = OTHER
    assert service.post("/v1/runs", body, {"Idempotency-Key": "k"}).status == 409
    assert service.wait(first.json["id"])["cause"] == "ok"


@needs_service
def test_lost_values_are_said_to_be_lost(service, fresh):
    first = service.submit("sleep", "1000")
    wait_started(service, first)
    run = service.submit("true", analysis={"env": {"API_TOKEN": VALUE}})
    restart(service)
    for file in (fresh.home / "secrets").iterdir():
        file.unlink()
    (fresh.home / "secrets" / "stray.1.json").write_text("{}")
    service.start()
    service.post(f"/v1/runs/{first}/cancel")
    assert "secret variables are lost" in service.wait(run)["note"]
    assert not list((fresh.home / "secrets").iterdir())


@needs_service
def test_rerun_by_the_service(service, fresh):
    run = service.submit(*CHECK, analysis={"env": {"API_TOKEN": VALUE}})
    assert service.wait(run)["cause"] == "ok"
    refused = service.post(f"/v1/runs/{run}/rerun")
    assert refused.status == 400 and "API_TOKEN" in refused.body.decode()
    wrong = service.post(f"/v1/runs/{run}/rerun", {"env": {"API_TOKEN": OTHER}})
    assert wrong.status in (400, 409) and OTHER not in wrong.body.decode()
    assert service.post(f"/v1/runs/{run}/rerun", {"env": {"PLAIN": "1"}}).status == 400
    again = service.post(f"/v1/runs/{run}/rerun", {"env": {"API_TOKEN": VALUE}})
    assert again.status == 201, again.body
    assert service.wait(again.json["id"])["cause"] == "ok"
    assert lib.wait_until(lambda: not list((fresh.home / "secrets").iterdir()))
    assert holding(fresh.home) == []


@needs_service
def test_a_submitted_pipeline(service, fresh):
    asked = {"steps": {"one": {"env": {"API_TOKEN": VALUE}, "command": CHECK},
                       "two": {"needs": ["one"], "command": ["false"]}}}
    answer = service.post("/v1/runs", {"analysis": asked})
    assert answer.status == 201, answer.body
    run = answer.json["id"]
    assert VALUE not in str(rows(fresh))
    assert lib.wait_until(lambda: service.get(f"/v1/pipelines/{run}").json.get("state") == "failed")
    assert lib.wait_until(lambda: holding(fresh.home) == []), holding(fresh.home)
    refused = service.post(f"/v1/pipelines/{run}/resume")
    assert refused.status == 400 and "submit it again" in refused.body.decode()
    again = service.post("/v1/runs", {"analysis": asked}).json["id"]
    assert lib.wait_until(lambda: service.get(f"/v1/pipelines/{again}").json.get("state") == "failed")
    one = service.get(f"/v1/pipelines/{again}").json["steps"][0]
    assert one["tasks"][0]["state"] == "reused", one
