"""The OpenAPI document and the routes say the same, and answers are what it says."""

import json
import pathlib
import subprocess

import pytest

import cupel as lib
import api_service

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema: python3-jsonschema is not installed")
ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = json.loads((ROOT / "src/serve/openapi.json").read_text(encoding="utf-8"))
LISTER = lib.BUILD / "tests/e2e/serve-routes"


@pytest.fixture(name="service")
def _service(fresh):
    with api_service.serving(fresh) as made:
        yield made


def described():
    return {(method.upper(), path): operation for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()}


def test_every_route_is_described_and_nothing_else():
    api_service.needs_service()
    routes = json.loads(subprocess.run([LISTER], capture_output=True, text=True, check=True, timeout=60).stdout)
    said = {key: (operation["operationId"], operation["summary"]) for key, operation in described().items()}
    assert {(route["method"], route["pattern"]): (route["operation"], route["summary"]) for route in routes} == said
    scopes = {(route["method"], route["pattern"]): route["scopes"] for route in routes}
    for key, operation in described().items():
        needed = [scope for entry in operation["security"] for scope in entry.get("token", [])]
        assert set(needed) <= set(scopes[key]) and bool(needed) == bool(scopes[key]), key
    assert len({operation["operationId"] for operation in described().values()}) == len(routes)


def test_the_document_is_whole():
    text = json.dumps(DOCUMENT)
    for name in set(__import__("re").findall(r"#/components/schemas/(\w+)", text)):
        assert name in DOCUMENT["components"]["schemas"], name
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for (_, path), operation in described().items():
        named = {parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "path"}
        assert named == {word[1:-1] for word in path.split("/") if word.startswith("{")}, path


def check(operation, status, value):
    content = operation["responses"].get(str(status), operation["responses"]["default"])["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**content, "components": DOCUMENT["components"]}).validate(value)


def test_a_wrong_answer_would_be_noticed():
    with pytest.raises(jsonschema.ValidationError):
        check(described()["GET", "/v1/runs"], 200, {"runs": [{"id": "x"}], "next": None, "total": 1})
    with pytest.raises(jsonschema.ValidationError):
        check(described()["GET", "/v1/runs"], 404, {"error": "x"})


def test_answers_are_as_described(service):
    run_id = service.submit("sh", "-c", f"printf 'a,b\\n' > out/t.csv; echo x > out/t.txt; {lib.WAITS}", analysis={"quest": "q", "name": "n"})
    waiting = service.submit("true", not_before="2099-01-01T00:00:00Z")
    assert lib.wait_until(lambda: service.state(run_id) == "running")
    places = {"{id}": run_id, "{name}": "base", "{path}": "out/t.csv"}
    for is_over in (False, True):
        if is_over:
            service.caller.let_go(run_id)
            service.wait(run_id)
        for (method, pattern), operation in described().items():
            ok = [s for s, r in operation["responses"].items() if s != "default" and "application/json" in r.get("content", {})]
            if method != "GET" or not ok or "pipelines/{id}" in pattern:
                continue
            path = pattern
            for name, value in places.items():
                path = path.replace(name, value)
            answer = service.get(path)
            check(operation, answer.status, answer.json)
            assert answer.status == 200 or path.endswith("/why") or "t.csv" in path, (path, answer.body)
    show = described()["GET", "/v1/runs/{id}"]
    check(show, 200, service.get(f"/v1/runs/{waiting}").json)
    check(show, 404, service.get("/v1/runs/none").json)
    check(described()["GET", "/v1/runs/{id}/preview/{path}"], 200, service.get(f"/v1/runs/{run_id}/preview/out/t.txt").json)
    check(described()["GET", "/v1/pipelines/{id}"], 404, service.get("/v1/pipelines/none").json)
    plan = service.post("/v1/plan", {"analysis": {"command": ["true"]}})
    check(described()["POST", "/v1/plan"], plan.status, plan.json)
    cancel = service.post(f"/v1/runs/{waiting}/cancel")
    check(described()["POST", "/v1/runs/{id}/cancel"], cancel.status, cancel.json)
    again = service.post(f"/v1/runs/{run_id}/rerun")
    check(described()["POST", "/v1/runs/{id}/rerun"], again.status, again.json)
    service.caller.let_go(again.json["id"])
    service.wait(again.json["id"])
    assert service.get("/v1/openapi.json").json == DOCUMENT
