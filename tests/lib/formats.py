"""Files of the formats that outputs are checked for, made by the tools that people use: sound ones,
and the ways in which they break."""

import gzip
import io
import json
import pathlib
import shutil
import struct
import subprocess
import zipfile
import zlib

PARQUET = pathlib.Path("/usr/lib/python3/dist-packages/pandas/tests/io/data/parquet/simple.parquet")
SAM = "@HD\tVN:1.6\tSO:coordinate\n@SQ\tSN:c\tLN:1000\n" + "".join(
    f"r{n}\t0\tc\t{n}\t60\t4M\t*\t0\t0\tACGT\tIIII\n" for n in range(1, 900)
)


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png():
    head = struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(range(4)) for _ in range(4)))
    return (b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", rows)
            + _chunk(b"IEND", b""))


def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.txt", "alpha " * 500)
        file.writestr(zipfile.ZipInfo("stored.txt"), "as it is")
        with file.open("wide.txt", "w", force_zip64=True) as wide:
            wide.write(b"zip64 " * 100)
    return out.getvalue()


def bam():
    """None where there is no samtools."""
    if not shutil.which("samtools"):
        return None
    return subprocess.run(["samtools", "view", "-b", "--no-PG", "-"], input=SAM.encode(),
                          check=True, capture_output=True).stdout


def hdf5():
    """The oldest and the newest layout; None where there is no h5py."""
    try:
        import h5py  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    made = []
    for version in ("earliest", "latest"):
        out = io.BytesIO()
        with h5py.File(out, "w", libver=version) as file:
            file["x"] = list(range(5000))
        made.append(out.getvalue())
    return made


def sound():
    """{name: bytes}: each is as it should be."""
    lines = "".join(f"{n},{n * 7 % 11},{'abc'[n % 3]}\n" for n in range(50))
    files = {
        "a.csv": "id,value,kind\n" + lines,
        "crlf.csv": "id,text\r\n1,\"two\r\nlines, \"\"quoted\"\"\"\r\n2,b\r\n",
        "semicolon.csv": "a;b\n1,5;2\n2,5;3\n3,5;4\n",
        "bom.csv": "\ufeffid,b\n1,2\n2,3\n",
        "comment.csv": "# made by a test, with commas, here\nid,b\n1,2\n2,3\n",
        "no-head.csv": "1,2\n3,4\n5,6\n",
        "no-newline.csv": "a,b\n1,2\n3,4",
        "r.tsv": "value\tother\nrow1\t1\t2\nrow2\t3\t4\nrow3\t5\t6\n",
        "a.tsv": "id\tb\n1\tx\n2\ty\n",
        "a.json": json.dumps({"a": [1, -2.5e3, True, None, "x\n\u00e9"], "b": {}}),
        "scalar.json": " 17 ",
        "a.ipynb": json.dumps({"cells": [], "nbformat": 4}),
        "a.jsonl": '{"a": 1}\n[2]\n\n"three"\n',
    }
    files = {name: text.encode() for name, text in files.items()}
    files["a.gz"] = gzip.compress(b"".join(b"%d\n" % n for n in range(2000)))
    files["two.gz"] = gzip.compress(b"one") + gzip.compress(b"two")
    files["padded.gz"] = gzip.compress(b"one") + bytes(512)
    files["a.zip"] = zipped()
    files["a.png"] = png()
    if PARQUET.exists():
        files["a.parquet"] = PARQUET.read_bytes()
    if bam():
        files["a.bam"] = bam()
    for number, content in enumerate(hdf5() or ()):
        files[f"a{number}.h5"] = content
    return files


def cut(files):
    """{name: bytes}: what a writer leaves that was ended in the middle."""
    broken = {}
    for name, content in files.items():
        stem, _, ending = name.rpartition(".")
        ends = {0, 1, 3, len(content) // 2, len(content) - 1}
        if ending in ("csv", "tsv", "jsonl"):
            continue  # without its end a text is still one, mostly
        if name in ("two.gz", "padded.gz", "scalar.json"):
            continue  # may end where a part of it does
        for end in ends:
            broken[f"{stem}-{end}.{ending}"] = content[:end]
    broken["cut.csv"] = b"a,b\n1,2\n3,4\n5"
    broken["open.csv"] = b'a,b\n1,"two\n3,4\n'
    broken["cut.jsonl"] = b'{"a": 1}\n{"a":'
    broken["two-0.gz"] = b""
    return broken


def changed(files):
    """{name: bytes}: one byte is another."""
    broken = {}
    for name in ("a.gz", "a.zip", "a.png", "a.bam"):
        if name not in files:
            continue
        content = bytearray(files[name])
        at = len(content) // 8  # in the data, not in a head that nobody needs
        content[at] ^= 0x10
        broken["bit-" + name] = bytes(content)
    return broken
