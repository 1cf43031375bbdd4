"""Builds the package for pip (PEP 517 and 660) with the standard library alone, so that `pip install ./python` downloads nothing: wherever
there is a Python with pip, there is all that it takes."""

import base64
import hashlib
import io
import pathlib
import re
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
NAME = "cupel"
VERSION = re.search(r'^__version__ = "(.+)"$', (HERE / "cupel/__init__.py").read_text(encoding="utf-8"), re.M)[1]
INFO = f"{NAME}-{VERSION}.dist-info"
METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: Run analyses in a box, on a budget, and read how they ended
License: Apache-2.0
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Requires-Python: >=3.9
Description-Content-Type: text/markdown

{(HERE / "README.md").read_text(encoding="utf-8")}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: cupel\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def _license():
    """That of the checkout, or of what build_sdist made of it."""
    return {"LICENSE": place.read_bytes() for place in (HERE / "LICENSE", HERE.parent / "LICENSE") if place.is_file()}


def _modules():
    found = (path for path in (HERE / NAME).rglob("*") if path.suffix == ".py" or path.name == "py.typed")
    return {path.relative_to(HERE).as_posix(): path.read_bytes() for path in sorted(found)}


def _information():
    return {f"{INFO}/METADATA": METADATA.encode(), f"{INFO}/WHEEL": WHEEL.encode(),
            **{f"{INFO}/{name}": data for name, data in _license().items()}}


def _write_wheel(directory, files):
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
               for name, data in files.items()}
    record = "".join(f"{name},sha256={digests[name]},{len(data)}\n" for name, data in files.items())
    files = {**files, f"{INFO}/RECORD": f"{record}{INFO}/RECORD,,\n".encode()}
    made = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory, made), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)  # always of the same date: the same sources are the same wheel
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data)
    return made


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _write_wheel(wheel_directory, {**_modules(), **_information()})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """What `pip install -e` asks for: a pointer to these files."""
    return _write_wheel(wheel_directory, {f"{NAME}.pth": f"{HERE}\n".encode(), **_information()})


def build_sdist(sdist_directory, config_settings=None):
    files = {name: (HERE / name).read_bytes() for name in ("README.md", "make_wheel.py", "pyproject.toml")}
    files = {**files, **_modules(), **_license(), "PKG-INFO": METADATA.encode()}
    made = f"{NAME}-{VERSION}.tar.gz"
    with tarfile.open(pathlib.Path(sdist_directory, made), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{NAME}-{VERSION}/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return made
