"""What is made of arguments and of answers, without anybody to ask."""

import asyncio
import datetime
import json
import pathlib

import pytest

import cupel
from cupel.aio import within
from cupel.model import run_of
from cupel.platform.limits import number_of, of_metadata, of_numbers
from cupel.spec import as_yaml, option_id


def test_ids_sort_by_time_and_are_not_the_same():
    made = [cupel.new_id() for _ in range(200)]
    assert len(set(made)) == 200 and [name[:9] for name in made] == sorted(name[:9] for name in made)
    assert all(option_id(name) == name for name in made)


@pytest.mark.parametrize("name", ["", "-x", "a/b", "..", "a..b", "x" * 65, "a b", "\u00e9", 5, "a\n"])
def test_what_is_no_id(name):
    with pytest.raises(ValueError):
        option_id(name)


def test_an_analysis_of_each_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cupel.analysis("a | b") == {"command": "a | b"}
    assert cupel.analysis(["a", pathlib.Path("b")]) == {"command": ["a", "b"]}
    assert cupel.analysis(pathlib.Path("s.py"), args=["1"]) == {"code": [f"{tmp_path}/s.py"], "args": ["1"]}
    assert cupel.analysis(pathlib.Path("p.yaml"), parameters={"k": 1}) == {"file": f"{tmp_path}/p.yaml", "parameters": {"k": 1}}
    made = cupel.analysis(["x"], inputs=["d", ("e", "n"), {"path": "/f"}, "/g:h"], env=None, limits={
        "memory": 1 << 20, "time": 1.5, "grace": datetime.timedelta(seconds=2), "cpus": 0.5, "pids": 7, "disk": "1G"})
    assert made["inputs"] == [f"{tmp_path}/d", {"path": f"{tmp_path}/e", "name": "n"}, "/f", {"path": "/g:h", "name": "g:h"}]
    assert made["limits"] == {"memory": "1048576B", "time": "1500ms", "grace": "2000ms", "cpus": "0.5", "pids": "7", "disk": "1G"}
    assert "env" not in made


@pytest.mark.parametrize("what, keys", [
    ([], {}), ("  ", {}), ([""], {}), (b"x", {}), (["a", b"b"], {}), (["a\0"], {}), (["\udc80"], {}), (7, {}), ({}, {}),
    ({"command": ["x"], "code": ["y"]}, {}), (["x"], {"limits": {"memory": 0}}), (["x"], {"limits": {"time": float("nan")}}),
    (["x"], {"limits": {"pids": 1.5}}), (["x"], {"limits": {"memory": True}}), (["x"], {"env": {1: "x"}}),
    (["x"], {"parameters": {"x": float("inf")}}), (["x"], {"parameters": {"x": object()}}),
    (pathlib.Path("a.yaml"), {"limits": {"memory": "1G"}})])
def test_what_is_no_analysis(what, keys):
    with pytest.raises((ValueError, TypeError)):
        cupel.analysis(what, **keys)


def test_a_file_has_no_character_that_yaml_does_not_take():
    text = "".join(map(chr, [*range(1, 0xd800), *range(0xe000, 0x10000), 0x1f40d]))
    data = as_yaml({"args": [text]})
    assert json.loads(data)["args"] == [text]
    for char in data.decode():
        assert char in "\t\n\r\x85" or " " <= char <= "~" or ("\xa0" <= char <= "\ufffd" and char != "\ufeff") or char > "\uffff"


@pytest.mark.parametrize("said, code", [
    ({"cause": "ok", "exit_status": 0, "exit_code": 0}, 0), ({"cause": "exit", "exit_status": 137, "exit_code": 137}, 137),
    ({"cause": "signal", "exit_status": 139, "signal": 11}, -11), ({"cause": "oom", "exit_status": 137}, -9),
    ({"cause": "deadline", "exit_status": 124}, -1), ({"cause": "cancelled", "exit_status": 143}, -15),
    ({"cause": "disk", "exit_status": 153}, -25), ({"cause": "disk", "exit_status": 1, "exit_code": 1}, 1),
    ({"cause": "output-missing", "exit_status": 1, "exit_code": 0}, 1), ({"cause": "setup", "exit_status": 125}, 125),
    ({"cause": "refused", "exit_status": None}, 125), ({"verdict": {"cause": "oom", "exit_status": 137}}, -9)])
def test_the_status_of_each_end(said, code):
    assert run_of({"id": "x", "state": "ended", **said}).returncode == code


def test_a_run_that_goes_on_has_no_status():
    with pytest.raises(ValueError):
        run_of({"id": "x", "state": "running"}).returncode


def test_limits_by_the_names_of_the_platform():
    assert [number_of(text) for text in ("2G", "512M", "30m", "1h30m", "500ms", "1.5", "512")] == [
        2 << 30, 512 << 20, 1800, 5400, 0.5, 1.5, 512]
    assert of_numbers({"memory_limit_mb": 64, "cpu_quota": 0.5, "pids_limit": None}) == {"memory": 64 << 20, "cpus": 0.5}
    metadata = {"timeout_seconds": 9, "title": "x", "limits": {"memory": "1G", "pids_limit": 5}, "resources": "none"}
    assert of_metadata(metadata) == {"time": 9, "memory": "1G", "pids": 5}
    assert of_metadata(None) == {}
    for wrong in ({"timeout_seconds": "9"}, {"memory_limit_mb": -1}, {"limits": {"cpu_quota": True}}, {"pids_limit": float("nan")}):
        with pytest.raises((ValueError, TypeError)):
            of_metadata(wrong)


def test_a_cancellation_that_comes_with_the_result_is_not_lost():
    async def main(wait):
        made = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(wait(made))
        await asyncio.sleep(0)
        made.set_result("late")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    found = []
    assert asyncio.run(main(lambda made: within(made, 60, found.append))) and found == ["late"]


def test_a_time_that_is_over():
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await within(asyncio.sleep(60), 0.01)
        return await within(asyncio.sleep(0, "value"), 60)

    assert asyncio.run(main()) == "value"
