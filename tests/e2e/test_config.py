"""Where settings come from, who may say what, and what ceilings do."""

import json
import os

import pytest

import cupel as lib


@pytest.fixture
def own(callers):
    """A caller whose configuration files are its own, root or user."""
    made = []

    def make(who):
        callers(who)
        made.append(lib.Cupel(who))
        return made[-1]

    yield make
    for caller in made:
        caller.close()


@pytest.fixture(params=["root", "user"])
def mine(request, own):
    return own(request.param)


def settings(caller, cwd=None, env=None):
    status, out, err = caller.call(
        caller.binary, "config", "--json", cwd=cwd or caller.dir, env=env
    )
    assert status == 0, err
    return {row["key"]: (row["value"], row["origin"]) for row in json.loads(out)}


def write(caller, path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for one in (path, path.parent):
        caller.own(one)
    return path


def test_built_in_values(mine):
    have = settings(mine)
    assert have["profiles.default.memory"] == ("2G", "built-in")
    assert have["profiles.default.time"] == ("30m", "built-in")
    assert have["profiles.notebook.time"] == ("10m", "built-in")
    assert have["work.root"] == ("/tmp", "built-in")
    assert have["work.template"] == ("scidex-analysis-{id}", "built-in")
    assert have["home"] == (str(mine.home), "environment CUPEL_HOME")
    assert have["cgroup.parent"] == (mine.parent, f"{mine.config}:1")


def test_for_people(mine):
    status, out, _ = mine.call(mine.binary, "config")
    assert status == 0 and f"{mine.config}:1" in out and "built-in" in out


def test_later_files_win_and_each_value_has_its_origin(mine):
    mine.configure("defaults: {keep: failed, scratch: memory, limits: {memory: 1G, pids: 11, time: 5m}}\n")
    users = write(
        mine,
        mine.dir / ".config/cupel/cupel.yaml",
        "defaults: {limits: {memory: 900M, pids: 12}}\n",
    )
    project = write(mine, mine.dir / "project/cupel.yaml", "defaults: {limits: {memory: 800M}}\n")
    (project.parent / "a/b").mkdir(parents=True)
    have = settings(mine, cwd=project.parent / "a/b")
    assert have["defaults.keep"] == ("failed", f"{mine.config}:2")
    assert have["defaults.scratch"] == ("memory", f"{mine.config}:2")
    assert have["defaults.limits.time"] == ("5m", f"{mine.config}:2")
    assert have["defaults.limits.pids"] == ("12", f"{users}:1")
    assert have["defaults.limits.memory"] == ("800M", f"{project}:1")
    assert have["project.root"][0] == str(project.parent)
    assert settings(mine)["defaults.limits.memory"] == ("900M", f"{users}:1"), "outside the project"


def test_xdg_config_home(mine):
    users = write(mine, mine.dir / "xdg/cupel/cupel.yaml", "defaults: {keep: always}\n")
    have = settings(mine, env={"XDG_CONFIG_HOME": str(mine.dir / "xdg")})
    assert have["defaults.keep"] == ("always", f"{users}:1")


def test_a_named_configuration_must_be_there(mine):
    status, _, err = mine.call(mine.binary, "config", env={"CUPEL_CONFIG": "/no/such.yaml"})
    assert status == 2 and "/no/such.yaml" in err


@pytest.mark.parametrize(
    "text, words",
    [
        ("ceilngs: {}\n", "did you mean 'ceilings'?"),
        ("work: {root: relative}\n", "absolute"),
        ("work: {template: fixed}\n", "{id}"),
        ("uids: {first: 5}\n", "65536"),
        ("aggregate: {time: 5s}\n", "time"),
        ("defaults: {limits: {memory: none}}\n", "none"),
        ("defaults: {}\ndefaults: {}\n", "defaults"),
    ],
)
def test_a_mistake_in_a_file_has_its_place(mine, text, words):
    mine.configure(text)
    for command in (["config"], ["run", "--", "true"], ["gc"], ["list"]):
        status, _, err = mine.call(mine.binary, *command)
        assert status == 2 and err.startswith(f"cupel: {mine.config}:") and words in err
    assert not mine.home.exists()


@pytest.mark.parametrize(
    "text",
    [
        "home: /tmp/x\n",
        "aggregate: {memory: 1T}\n",
        "uids: {first: 100000}\n",
        "policy: {network: [host]}\n",
        "policy: {allow_missing: [seccomp]}\n",
        "cgroup: {parent: x}\n",
        "disk: {mechanism: watched}\n",
    ],
)
def test_a_project_says_nothing_of_the_host(mine, text):
    project = write(mine, mine.dir / "cupel.yaml", text)
    status, _, err = mine.call(mine.binary, "run", "--", "true")
    assert status == 2 and err.startswith(f"cupel: {project}:1:1: ") and "host" in err


def test_a_strangers_project_file_is_not_trusted(mine):
    write(mine, mine.dir / "cupel.yaml", "defaults: {keep: always}\n")
    os.chown(mine.dir / "cupel.yaml", 23456, 23456)
    status, _, err = mine.call(mine.binary, "run", "--", "true")
    assert status == 2 and "not trusted" in err


@pytest.mark.parametrize("mode, group", [(0o666, 0), (0o646, 0), (0o664, 23456)])
def test_a_file_everyone_may_write_is_not_trusted(mine, mode, group):
    path = write(mine, mine.dir / "cupel.yaml", "defaults: {keep: always}\n")
    path.chmod(mode)
    os.chown(path, -1, group)
    status, _, err = mine.call(mine.binary, "run", "--", "true")
    assert status == 2 and "chmod go-w" in err


def test_a_ceiling_refuses_what_was_asked_for(mine):
    mine.configure("ceilings: {memory: 128M, time: 1m}\n")
    result = mine.run("--memory", "129M", "--", "true")
    assert result.status == 2 and not result.run_dir.exists()
    for words in ("memory 129M (--memory)", "128M", f"{mine.config}:2"):
        assert words in result.stderr
    assert mine.run("--memory", "128M", "--", "true").status == 0


def test_a_ceiling_lowers_what_nobody_asked_for(mine):
    mine.configure("ceilings: {memory: 128M}\n")
    result = mine.run("--", "sh", "-c", "echo $CUPEL_MEMORY_BYTES")
    assert result.stdout.strip() == str(128 << 20)
    limit = json.loads((result.run_dir / "analysis.json").read_text())["limits"]["memory"]
    assert limit["origin"] == f"{mine.config}:2"


def test_a_project_lowers_a_ceiling_and_never_raises_it(mine):
    mine.configure("ceilings: {memory: 128M}\n")
    project = write(mine, mine.dir / "cupel.yaml", "ceilings: {memory: 1T}\n")
    assert mine.run("--memory", "129M", "--", "true").status == 2
    project.write_text("ceilings: {memory: 64M}\n")
    assert mine.run("--memory", "65M", "--", "true").status == 2


def test_profiles(mine):
    mine.configure("profiles: {small: {memory: 96M}, notebook: {time: 7m}}\n")
    plan = json.loads(
        mine.call(mine.binary, "plan", "--json", "--profile", "small", "--", "true")[1]
    )["plan"]
    assert plan["limits"]["memory"]["value"] == "96M" and plan["limits"]["time"]["value"] == "30m"
    plan = json.loads(
        mine.call(mine.binary, "plan", "--json", "--profile", "notebook", "--", "true")[1]
    )["plan"]
    assert plan["limits"]["time"]["value"] == "7m"
    status, _, err = mine.call(mine.binary, "plan", "--profile", "nosuch", "--", "true")
    assert status == 2 and "small" in err


def test_work_root_and_template(mine):
    work = mine.base / "work"
    work.mkdir(mode=0o755)
    mine.own(work)
    mine.configure(f"work: {{root: {work}, template: 'w-{{id}}.d'}}\n")
    result = mine.run("--", "pwd")
    assert result.stdout == f"{work}/w-{result.run_dir.name}.d\n", result.stderr
    assert list(work.iterdir()) == []


def test_uids_come_from_the_configured_range(own):
    root = own("root")
    root.configure("uids: {first: 1234567, count: 3}\n")
    result = root.run("--", "true")
    uid = result.receipt["user"]["uid_host"]
    assert uid in range(1234567, 1234570)
    assert [e["data"]["uid"] for e in result.events if e["event"] == "started"] == [uid]


def test_variables_passed_on(mine):
    mine.configure("defaults: {env_pass: [MY_TOKEN, ABSENT]}\n")
    result = mine.run("--", "env", env={"MY_TOKEN": "t", "OTHER": "o"})
    assert (
        "MY_TOKEN=t\n" in result.stdout
        and "OTHER" not in result.stdout
        and "ABSENT" not in result.stdout
    )


@pytest.mark.parametrize(
    "env, words", [({"CUPEL_HOME": "relative"}, "absolute"), ({"CUPEL_HOME": "/"}, "'/'")]
)
def test_a_home_that_is_none(mine, env, words):
    status, _, err = mine.call(mine.binary, "run", "--", "true", env=env)
    assert status == 2 and words in err


def test_home_by_default_is_the_users_state(own):
    user = own("user")
    for env, home in (
        ({"XDG_STATE_HOME": str(user.dir / "state")}, user.dir / "state/cupel"),
        ({}, user.dir / ".local/state/cupel"),
    ):
        status, out, _ = user.call(
            "env", "-u", "CUPEL_HOME", user.binary, "run", "--json", "--", "true", env=env
        )
        assert status == 0 and json.loads(out)["directory"].startswith(f"{home}/runs/")


def test_the_cpu_weight_of_all_runs(fresh):
    """A tenth of any other group's by default; what the host says is shown, and is what the kernel has."""
    def seen():
        result = fresh.run("--", "true")
        assert result.status == 0, result.verdict
        files = [top / "cupel" / name for top in fresh.trees for name in ("cpu.shares", "cpu.weight")]
        return {path.name: path.read_text().strip() for path in files if path.exists()}

    def planned():
        status, out, err = fresh.call(fresh.binary, "plan", "--json", "--", "true")
        assert status == 0, err
        return json.loads(out)["plan"]["cpu_weight"]

    assert planned() == 10 and set(seen().items()) <= {("cpu.shares", "102"), ("cpu.weight", "10")} and seen()
    fresh.configure("cpu_weight: 50\n")
    assert planned() == 50 and set(seen().items()) <= {("cpu.shares", "512"), ("cpu.weight", "50")}
    assert "cpu weight 50 for all runs together" in fresh.call(fresh.binary, "plan", "--", "true")[1]
    fresh.configure("cpu_weight: 0\n")
    status, _, err = fresh.call(fresh.binary, "plan", "--", "true")
    assert status == 2 and "from 1 to 10000" in err


@pytest.mark.alone
def test_the_wait_for_a_cpu_is_recorded(root):
    """While others keep the one CPU busy that it may use; how long is the kernel's to say, but a run that spins for seconds has waited."""
    pinned = ("taskset", "-c", min(os.sched_getaffinity(0)))
    others = [root.popen(*pinned, "/usr/bin/python3", "-c", "while True: pass") for _ in range(4)]
    run_id = root.new_id()
    try:
        status, out, err = root.call(*pinned, root.binary, "run", "--quiet", "--id", run_id, "--",
                                     "/usr/bin/python3", "-c", "import time\nend = time.time() + 3\nwhile time.time() < end: pass")
        result = lib.Result(status, out, err, root.run_dir(run_id))
    finally:
        for process in others:
            process.kill()
            process.wait()
    usage = result.verdict["usage"]
    assert result.status == 0 and usage["cpu_wait_usec"] > usage["wall_usec"] / 10, usage
    assert "waited for a CPU for" in result.verdict["completion_notes"] and "cpu_weight" in result.verdict["completion_notes"]


def test_what_is_said_of_quests(mine):
    config = mine.dir / "quests.yaml"
    config.write_text("quests: {aging: {title: Why cells age, layer: Atlas, priority: 80, status: active, link: 'https://example.org/q/1?a=b#c'}, new: {}}\n")
    found = settings(mine, cwd="/", env={"CUPEL_CONFIG": str(config)})
    assert found["quests.aging.title"][0] == "Why cells age" and found["quests.aging.priority"][0] == "80"
    assert found["quests.aging.link"] == ("https://example.org/q/1?a=b#c", f"{config}:1:10")


@pytest.mark.parametrize("said, at, why", [
    ("[aging]", 9, "expected a map of quests"),
    ("{aging: {titel: x}}", 18, "titel"),
    ("{aging: {title: ''}}", 25, "title '' must be 1 to 200 bytes"),
    ("{aging: {layer: '%s'}}" % ("x" * 61), 25, "must be 1 to 60 bytes"),
    ("{aging: {priority: 101}}", 28, "priority '101' is not a number from 0 to 100"),
    ("{aging: {priority: high}}", 28, "priority 'high' is not a number"),
    ("{aging: {link: 'javascript:alert(1)'}}", 24, "is not a web address: write https://HOST/PATH"),
    ("{aging: {link: 'https://'}}", 24, "is not a web address"),
    ("{aging: {link: 'https://x/a b'}}", 24, "is not a web address"),
    ("{'': {title: x}}", 10, "cannot be the name of a quest"),
])
def test_what_cannot_be_said_of_a_quest(mine, said, at, why):
    config = mine.dir / "quests.yaml"
    config.write_text(f"quests: {said}\n")
    status, _, err = mine.call(mine.binary, "config", cwd="/", env={"CUPEL_CONFIG": str(config)})
    assert status == 2 and f"{config}:1:{at}: " in err and why in err, err


def test_quests_are_not_a_projects_to_describe(mine):
    project = mine.dir / "project"
    write(mine, project / "cupel.yaml", "quests: {aging: {title: x}}\n")
    status, _, err = mine.call(mine.binary, "config", cwd=project)
    assert status == 2 and "cupel.yaml:1:1: 'quests' is the host's to say" in err
