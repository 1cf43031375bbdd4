"""What `make install` puts where, and that it works from there."""

import os
import pathlib
import subprocess

import pytest

import cupel as lib

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Installed below a directory, as a packager does; the prefix is the build's."""
    place = tmp_path_factory.mktemp("destdir")
    done = subprocess.run(["meson", "install", "-C", lib.BUILD, "--no-rebuild", "--quiet"], env={**os.environ, "DESTDIR": str(place)},
                          capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return place


def found(installed, name):
    [path] = installed.rglob(name)
    return path


def test_the_python_package_is_where_the_systems_python_looks(installed):
    package = found(installed, "cupel/__init__.py").parent
    place = pathlib.Path("/") / package.parent.relative_to(installed)
    if place.is_relative_to("/usr"):
        looked = subprocess.run([PYTHON, "-I", "-c", "import sys; print(sys.path)"], capture_output=True, text=True, check=True).stdout
        assert repr(str(place)) in looked
    assert not list(package.rglob("__pycache__")) and (package / "platform/__init__.py").is_file() and (package / "py.typed").is_file()
    code = "import importlib.metadata, cupel; print(cupel.__file__, cupel.__version__ == importlib.metadata.version('cupel'))"
    done = subprocess.run([PYTHON, "-B", "-c", code], env={"PYTHONPATH": str(package.parent)}, cwd="/", capture_output=True, text=True, check=False)
    assert done.stdout == f"{package}/__init__.py True\n", done.stderr


def test_program_pages_runtimes_and_completion_are_installed(installed):
    program = found(installed, "bin/cupel")
    assert subprocess.run([program, "--version"], capture_output=True, check=True).stdout.startswith(b"cupel ")
    for name in ("man1/cupel.1", "runtimes.d/single-cell.yaml", "bash-completion/completions/*", "site-functions/_cupel", "vendor_completions.d/cupel.fish"):
        assert found(installed, name).is_file()
