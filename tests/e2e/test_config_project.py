"""A project's cupel.yaml came with the project: what it may not say, and whose configuration is read at all."""

import os

import pytest

import cupel as lib
import leftovers


def write(caller, path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    for one in (path, path.parent):
        caller.own(one)
    return path


def in_project(caller, text):
    """A run in a project with that file (None: without one), beside a directory that is not its."""
    outside = caller.base / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "secret").write_text("secret", encoding="utf-8")
    project = caller.base / "project"
    project.mkdir(exist_ok=True)
    if text is not None:
        write(caller, project / "cupel.yaml", text)
    if not (project / "link").is_symlink():
        (project / "link").symlink_to("../outside")
    return caller.call(
        caller.binary,
        "run",
        "-q",
        "--",
        "sh",
        "-c",
        "cat data/secret; echo; echo $LATER; pwd",
        cwd=project,
        env={"LATER": "word"},
    )


@pytest.fixture
def mine(who, callers):
    """A caller with configuration files and directories of its own."""
    callers(who)
    caller = lib.Cupel(who)
    yield caller
    leftovers.assert_nothing_left(caller)
    caller.close()


@pytest.mark.parametrize(
    "text, word",
    [
        ("project: {data: ../outside}\n", "outside the project"),
        ("project: {data: link}\n", "outside the project"),
        ("project: {docs: link}\n", "outside the project"),
        ("defaults: {env_pass: [LATER]}\n", "env_pass"),
        ("work: {root: /var/tmp}\n", "work"),
    ],
)
def test_what_a_project_may_not_say(mine, text, word):
    status, out, err = in_project(mine, text)
    assert status in (2, 125) and word in err and "cupel.yaml" in err, err
    assert "secret" not in out


def test_a_link_named_data_does_not_lead_out_of_the_project(mine):
    project = mine.base / "project"
    project.mkdir()
    (project / "data").symlink_to("../outside")
    status, out, err = in_project(mine, "")
    assert status in (2, 125) and "outside the project" in err and "secret" not in out


def test_the_same_in_the_users_own_file(mine):
    elsewhere = mine.base / "elsewhere"
    elsewhere.mkdir()
    mine.own(elsewhere)
    write(
        mine,
        mine.dir / ".config/cupel/cupel.yaml",
        f"project: {{root: {mine.base}/project, data: {mine.base}/outside}}\n"
        f"defaults: {{env_pass: [LATER]}}\nwork: {{root: {elsewhere}}}\n",
    )
    status, out, err = in_project(mine, None)
    assert status == 0, err
    secret, later, directory = out.splitlines()
    assert (secret, later) == ("secret", "word") and directory.startswith(f"{elsewhere}/")


@pytest.mark.parametrize("which", ["project", "named"])
def test_a_configuration_that_another_group_may_write(mine, which):
    project = write(mine, mine.dir / "cupel.yaml", "")
    path = project if which == "project" else mine.config
    os.chown(path, -1, 54321)
    path.chmod(0o664)
    status, _, err = mine.call(mine.binary, "run", "-q", "--", "true")
    assert status in (2, 125) and str(path) in err and "chmod go-w" in err
    path.chmod(0o644)
    assert mine.call(mine.binary, "run", "-q", "--", "true")[0] == 0
