"""What came out: looked into before it counts, kept once, given out again."""

import hashlib
import json
import os
import re
import shutil
import struct
import zlib

import pytest

import cupel as lib
import formats


def files(result):
    return {file["path"]: file for file in result.outputs["files"]}


def states(result):
    return {path.removeprefix("out/"): file.get("check", {}).get("state")
            for path, file in files(result).items()}


def run_with(cupel, contents, *options):
    """A run whose outputs are these files."""
    source = cupel.base / f"in-{cupel.new_id()}"
    source.mkdir()
    cupel.own(source)
    for name, content in contents.items():
        (source / name).write_bytes(content)
        cupel.own(source / name)
    return cupel.run("--data", f"{source}:in", *options, "--", "sh", "-c", "cp data/in/* out/")


def analysis(cupel, script, outputs):
    path = cupel.dir / f"{cupel.new_id()}.yaml"
    path.write_text(json.dumps({"command": script, "outputs": outputs}), encoding="utf-8")
    return cupel.run(path)


def call(cupel, *words):
    return cupel.call(cupel.binary, *words)


# Checks.

def test_sound_files_pass(cupel):
    made = formats.sound()
    result = run_with(cupel, made)
    assert result.cause == "ok"
    assert states(result) == dict.fromkeys(made, "ok"), \
        [file for file in files(result).values() if file.get("check", {}).get("state") != "ok"]


def test_files_that_were_cut_are_damaged(cupel):
    made = formats.cut(formats.sound())
    result = run_with(cupel, made)
    assert result.cause == "ok"  # none was required
    assert {name: s for name, s in states(result).items() if s != "damaged"} == {}
    assert len(states(result)) == len(made) > 20
    assert "truncated" in result.verdict["completion_notes"] or "empty" in \
        result.verdict["completion_notes"]


def test_a_changed_byte_is_damage(cupel):
    made = formats.changed(formats.sound())
    assert set(states(run_with(cupel, made)).values()) == {"damaged"}


@pytest.mark.parametrize("name, content, words", [
    ("x.csv", "a,b\n1,2\n3,4,5\n6,7\n", "line 3 has 3 fields"),
    ("x.tsv", "a\tb\n1\t2\n3\n4\t5\n", "line 3 has 1 fields"),
    ("x.csv", "a,b\n1,2\n\0\0\0\0\0,3\n", "zero bytes"),
    ("x.json", "{'a': 1}", "a string was expected, at byte 1"),
    ("x.json", "[1, 2,]", "a value was expected"),
    ("x.json", "[1] [2]", "something follows"),
    ("x.json", "[01]", "begins with 0"),
    ("x.json", '["a\tb"]', "control character"),
    ("x.jsonl", '{"a": 1} {"b": 2}\n', "more than one value"),
    ("x.png", "not a picture", "not PNG"),
    ("x.gz", "plain text", "not gzip"),
    ("x.h5", "plain text", "not HDF5"),
    ("x.zip", "plain text", "not zip"),
    ("x.bam", "plain text", "not BAM"),
    ("x.parquet", "plain text", "not Parquet"),
])
def test_what_is_wrong_is_said(cupel, name, content, words):
    result = run_with(cupel, {name: content.encode()})
    check = files(result)["out/" + name]["check"]
    assert check["state"] == "damaged" and words in check["note"], check
    assert words in result.verdict["completion_notes"]


def test_odd_columns_are_remarks(cupel):
    rows = "".join(f"{n},,7.5,NaN,same\n" for n in range(5))
    result = run_with(cupel, {"x.csv": ("id,empty,constant,nan,text\n" + rows).encode(),
                              "few.csv": b"id,c\n1,2\n2,2\n", "none.csv": b"a,b\n",
                              "nan.json": b"[NaN]"})
    found = {path: file["check"] for path, file in files(result).items()}
    assert result.cause == "ok"
    assert found["out/x.csv"]["state"] == "warned"
    assert "without any value: empty, nan" in found["out/x.csv"]["note"]
    assert found["out/x.csv"]["note"].endswith("the same number in each row: constant")
    assert found["out/few.csv"]["state"] == "ok"  # two rows prove nothing
    assert "no rows" in found["out/none.csv"]["note"]
    assert "NaN" in found["out/nan.json"]["note"]


CUT = "printf 'a,b\\n1,2\\n3' > out/x.csv"
GOOD = "printf 'a,b\\n1,2\\n3,4\\n' > out/x.csv"


@pytest.mark.parametrize("output, cause", [
    ({"required": True}, "output-invalid"),
    ({"required": False}, "ok"),
    ({"required": True, "check": "warn"}, "ok"),
    ({"required": True, "check": "off"}, "ok"),
    ({"check": "require"}, "output-invalid"),
    ({"check": "auto"}, "ok"),
])
def test_what_a_damaged_output_means(cupel, output, cause):
    output = {"path": "out/x.csv", **output}
    result = analysis(cupel, CUT, [output])
    assert (result.cause, result.status) == (cause, int(cause != "ok")), result.verdict
    assert ("out/x.csv: " in result.verdict["completion_notes"]) == (output.get("check") != "off")
    assert ("check" in files(result)["out/x.csv"]) == (output.get("check") != "off")
    assert analysis(cupel, GOOD, [output]).cause == "ok"  # the control


def test_an_empty_output(cupel):
    touch = "touch out/flag out/x.csv"
    optional = analysis(cupel, touch, ["out/**"])
    assert optional.cause == "ok" and states(optional) == {"flag": None, "x.csv": "damaged"}
    asked = analysis(cupel, touch, [{"path": "out/flag", "required": True}])
    assert asked.cause == "ok" and states(asked) == {"flag": "warned"}
    strict = analysis(cupel, touch, [{"path": "out/flag", "check": "require"}])
    assert strict.cause == "output-invalid" and "empty" in strict.verdict["completion_notes"]


def test_an_unknown_word_for_check(cupel):
    result = analysis(cupel, GOOD, [{"path": "out/x.csv", "check": "requre"}])
    assert result.status == 2 and "did you mean 'require'" in result.stderr


def bomb(megabytes):
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    return b"".join(squeeze.compress(block) for _ in range(megabytes)) + squeeze.flush()


def zip_of_one_entry_many_times(count):
    """Each entry of its directory is the same one, of a MiB."""
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    content = bytes(1 << 20)
    data = raw.compress(content) + raw.flush()
    head = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, zlib.crc32(content), len(data),
                       len(content), 1, 0)
    local = b"PK\3\4" + head + b"a" + data
    entry = b"PK\1\2" + struct.pack("<H", 20) + head + struct.pack("<HHHII", 0, 0, 0, 0, 0) + b"a"
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, len(entry) * count, len(local), 0)
    return local + entry * count + end


def test_what_would_never_end_is_left_unchecked(cupel):
    """Bombs: what they would give is counted, not kept, and looked at up to a cap."""
    result = run_with(cupel, {
        "bomb.gz": bomb(1100),
        "bomb.zip": zip_of_one_entry_many_times(5000),
        "fine.zip": zip_of_one_entry_many_times(3),
        "deep.json": b"[" * 200000 + b"]" * 200000,
        "fine.json": b"[" * 90000 + b"]" * 90000,
        "wide.csv": b",".join(b"c%d" % n for n in range(40000)) + b"\n"
                    + b",".join(b"%d" % n for n in range(40000)) + b"\n",
    }, "--disk", "64M")
    assert states(result) == {"bomb.gz": "unchecked", "bomb.zip": "unchecked", "fine.zip": "ok",
                              "deep.json": "unchecked", "fine.json": "ok", "wide.csv": "ok"}
    assert result.cause == "ok"


def test_names_in_a_finding_are_harmless(cupel):
    rows = b"".join(b"%d,\n" % n for n in range(4))
    result = run_with(cupel, {"x.csv": b"id,\x1b]0;evil\x07\xff\n" + rows})
    note = files(result)["out/x.csv"]["check"]["note"]
    assert "?]0;evil??" in note and note.isprintable()


@pytest.mark.skipif(not shutil.which("strace"), reason="strace: not installed")
def test_bytes_are_parsed_without_rights(root):
    """Once it is confined the process that parses writes and exits, and does nothing else."""
    log = root.base / "strace"
    status, _, err = root.call(
        "strace", "-f", "-qq", "-o", log, root.binary, "run", "--quiet", "--id", root.new_id(),
        "--", "sh", "-c", "printf 'a,b\\n1,2\\n' > out/x.csv; echo '[]' > out/y.json")
    assert status == 0, err
    lines = log.read_text(errors="replace").splitlines()
    log.unlink()
    confined = [line.split()[0] for line in lines if "SECCOMP_MODE_STRICT" in line]
    assert len(confined) == 1
    after = [line.split(None, 1)[1] for line in lines if line.split()[0] == confined[0]]
    start = next(i for i, call in enumerate(after) if "SECCOMP_MODE_STRICT" in call)
    calls = [re.match(r"\w+", call)[0] for call in after[start + 1:] if re.match(r"\w+\(", call)]
    assert calls == ["write", "write", "exit"], after[start:]
    assert any(re.match(r"close_range\(", call) for call in after[:start])


# The store.

def shelf(cupel, sha256):
    return cupel.home / "store/sha256" / sha256[:2] / sha256[2:]


def test_an_output_is_in_the_store_under_its_digest(cupel):
    result = cupel.run("--", "sh", "-c", "echo result > out/r")
    file = files(result)["out/r"]
    object_ = shelf(cupel, file["sha256"])
    assert file["stored"] and object_.read_bytes() == b"result\n"
    assert hashlib.sha256(object_.read_bytes()).hexdigest() == file["sha256"]
    assert object_.samefile(result.run_dir / "outputs/out/r")
    assert object_.stat().st_mode & 0o777 in (0o444, 0o440, 0o400)


def test_what_two_runs_made_is_there_once(cupel):
    script = f"echo {cupel.new_id()} > out/a; cp out/a out/b; echo $CUPEL_RUN_ID > out/own"
    first, second = (cupel.run("--", "sh", "-c", script) for _ in range(2))
    same = [run.run_dir / "outputs/out" / name for run in (first, second) for name in "ab"]
    assert len({path.stat().st_ino for path in same}) == 1
    assert same[0].stat().st_nlink == 5
    assert not (first.run_dir / "outputs/out/own").samefile(second.run_dir / "outputs/out/own")


def test_a_damaged_object_replaces_no_good_copy(cupel):
    text = cupel.new_id()
    first = cupel.run("--", "sh", "-c", f"echo {text} > out/a")
    object_ = shelf(cupel, files(first)["out/a"]["sha256"])
    object_.chmod(0o644)
    object_.write_text("something else\n")
    second = cupel.run("--", "sh", "-c", f"echo {text} > out/a")
    assert second.cause == "ok" and files(second)["out/a"]["stored"] is False
    assert (second.run_dir / "outputs/out/a").read_text() == text + "\n"
    assert "store-incomplete" in (second.run_dir / "events.jsonl").read_text()
    status, _, err = call(cupel, "outputs", first.run_dir.name, "out/a")
    assert status == 125 and "not what was collected" in err


def test_outputs_of_a_failure_are_partial(cupel):
    text = cupel.new_id()
    result = cupel.run("--", "sh", "-c", f"echo {text} > out/a; exit 3")
    assert result.cause == "exit" and result.outputs["partial"] is True
    assert not (result.run_dir / "outputs").exists()
    assert (result.run_dir / "partial/out/a").read_text() == text + "\n"
    file = files(result)["out/a"]
    assert file["stored"] is False and not shelf(cupel, file["sha256"]).exists()
    status, out, _ = call(cupel, "outputs", result.run_dir.name)
    assert status == 0 and "partial" in out
    assert call(cupel, "outputs", result.run_dir.name, "out/a")[1] == text + "\n"
    good = cupel.run("--", "sh", "-c", f"echo {text} > out/a")
    assert good.outputs["partial"] is False and shelf(cupel, file["sha256"]).exists()


def test_what_no_run_has_any_more_is_removed(fresh):
    script = "echo $CUPEL_RUN_ID > out/own; echo both > out/both"
    first, second = (fresh.run("--", "sh", "-c", script) for _ in range(2))
    own, both = (shelf(fresh, files(first)[f"out/{name}"]["sha256"]) for name in ("own", "both"))
    assert json.loads(call(fresh, "gc", "--json")[1])["pruned"] == 0 and own.exists()
    # Until then somebody may be writing there.
    assert lib.wait_until(lambda: not [*(fresh.home / "undelivered").iterdir()])
    shutil.rmtree(first.run_dir)
    report = json.loads(call(fresh, "gc", "--json")[1])
    assert (report["pruned"], report["pruned_bytes"]) == (1, len(first.run_dir.name) + 1)
    assert not own.exists() and both.samefile(second.run_dir / "outputs/out/both")
    shutil.rmtree(second.run_dir)
    assert json.loads(call(fresh, "gc", "--json")[1])["pruned"] == 2


def test_many_outputs(cupel):
    """More than are synced one by one, than a batch holds, and than one thread copies."""
    result = cupel.run("--", "sh", "-c",
                       "mkdir out/a out/b; for i in $(seq 600); do echo $i > out/a/$i; "
                       "echo $((i % 7)) > out/b/$i; done; head -c 20000000 /dev/zero > out/zeros; "
                       "head -c 33000001 /dev/urandom > out/large")
    found = files(result)
    assert result.cause == "ok" and len(found) == 1202 and result.outputs["partial"] is False
    for path, file in found.items():
        copy = result.run_dir / "outputs" / path
        content = copy.read_bytes()
        assert len(content) == file["size"], path
        assert hashlib.sha256(content).hexdigest() == file["sha256"], path
        assert file["stored"] and shelf(cupel, file["sha256"]).samefile(copy), path
    assert (result.run_dir / "outputs/out/zeros").stat().st_blocks == 0
    assert not [name for name in os.listdir(result.run_dir) if name.startswith(".")]


# cupel outputs.

def test_listing(cupel):
    result = cupel.run("--", "sh", "-c", "echo a > out/a.txt; echo b > out/b.csv; ln -s / out/l")
    status, out, _ = call(cupel, "outputs", result.run_dir.name)
    assert status == 0
    assert re.search(r"^out/a\.txt +2 B +87428fc52280 +text/plain +-$", out, re.MULTILINE), out
    assert "refused: out/l: symbolic link" in out
    assert json.loads(call(cupel, "outputs", "--json", result.run_dir.name)[1]) == result.outputs
    one = json.loads(call(cupel, "outputs", "--json", result.run_dir.name, "out/*.csv")[1])
    assert [file["path"] for file in one] == ["out/b.csv"]


def test_fetching(cupel):
    result = cupel.run("--", "sh", "-c",
                       "mkdir out/d; echo a > out/d/a; head -c 300000 /dev/zero > out/big")
    name = result.run_dir.name
    dest = cupel.dir / f"dest-{name}"
    assert call(cupel, "outputs", "--to", dest, name, "out/d")[:2] == (0, "")
    assert [str(p.relative_to(dest)) for p in sorted(dest.rglob("*"))] == ["out", "out/d", "out/d/a"]
    assert (dest / "out/d/a").read_text() == "a\n" and (dest / "out/d/a").stat().st_nlink == 1
    status, _, err = call(cupel, "outputs", "--to", dest, name)
    assert status == 2 and "exists" in err, "nothing is replaced"
    assert (dest / "out/big").read_bytes() == bytes(300000)
    assert call(cupel, "outputs", name, "out/d/a")[:2] == (0, "a\n")


def test_fetching_to_where_the_caller_stands(cupel):
    """Options go before the id or behind it."""
    result = cupel.run("--", "sh", "-c", "echo a > out/a; echo b > out/b")
    name = result.run_dir.name
    here = cupel.dir / f"here-{name}"
    here.mkdir()
    cupel.own(here)
    for words in ([name, "out/a", "--to", "near"], ["--to", "./near", name, "out/b"]):
        assert cupel.call(cupel.binary, "outputs", *words, cwd=here) == (0, "", "")
    assert sorted(os.listdir(here / "near/out")) == ["a", "b"]
    (here / "link").symlink_to("near")
    status, _, err = cupel.call(cupel.binary, "outputs", name, "--to", "link", cwd=here)
    assert status == 2 and "not a directory" in err, "nobody may have put a link in the way"
    assert call(cupel, "outputs", "--", name, "--to")[0] == 2, "behind -- there are no options"


def test_a_list_of_very_many(cupel):
    """Its cost must not grow with the square: that would take many minutes."""
    result = cupel.run("--", "sh", "-c", "echo a > out/a")
    listed = result.outputs
    listed["files"] = [{**listed["files"][0], "path": f"out/number-{i}"} for i in range(200000)]
    (result.run_dir / "outputs.json").write_text(json.dumps(listed), encoding="utf-8")
    status, out, _ = call(cupel, "outputs", result.run_dir.name)
    assert status == 0 and out.count("\n") == 200001


def test_what_a_lost_run_left_is_partial(cupel):
    """Its list was written before it was lost, when all was well."""
    result = cupel.run("--", "sh", "-c", "echo a > out/a")
    (result.run_dir / "outputs").rename(result.run_dir / "partial")
    status, out, _ = call(cupel, "outputs", result.run_dir.name)
    assert status == 0 and "nothing vouches for these" in out
    assert json.loads(call(cupel, "outputs", "--json", result.run_dir.name)[1])["partial"] is True
    assert call(cupel, "outputs", result.run_dir.name, "out/a")[:2] == (0, "a\n")


def test_a_name_is_shown_in_the_order_it_has(cupel):
    result = cupel.run("--", "sh", "-c", r"echo x > out/$(printf 'photo\342\200\256gnp.exe')")
    out = call(cupel, "outputs", result.run_dir.name)[1]
    assert "\u202e" not in out and "out/photo???gnp.exe" in out


def test_the_longest_path_that_is_taken_can_be_given_out(cupel):
    """One that no system call takes behind outputs/ would be lost to everybody."""
    script = """import os
os.chdir("out")
for i in range(15):
    os.mkdir("d" * 255), os.chdir("d" * 255)
for length in range(4080, 4097):
    try: open("f" * (length - 4 - 15 * 256), "w").close()
    except OSError: pass
"""
    result = cupel.run("--", "/usr/bin/python3", "-c", script)
    taken = [len(path) for path in files(result)]
    assert result.cause == "ok" and taken == list(range(4080, 4088)), taken
    assert {one["reason"] for one in result.outputs["refused"]} == {"path too long"}
    name = result.run_dir.name
    assert call(cupel, "outputs", name, max(files(result)))[:2] == (0, "")
    assert call(cupel, "audit", "verify", "--outputs", name)[0] == 0
    assert call(cupel, "export", name, "--to", cupel.dir / f"long-{name}")[0] == 0
    shutil.rmtree(cupel.dir / f"long-{name}")


def test_fetching_goes_through_no_link(cupel):
    result = cupel.run("--", "sh", "-c", "mkdir out/d; echo a > out/d/a")
    dest, elsewhere = cupel.dir / f"d-{cupel.new_id()}", cupel.dir / f"e-{cupel.new_id()}"
    for folder in (dest, elsewhere, dest / "out"):
        folder.mkdir()
        cupel.own(folder)
    os.symlink(elsewhere, dest / "out/d")
    status, _, err = call(cupel, "outputs", "--to", dest, result.run_dir.name)
    assert status == 125 and err and not list(elsewhere.iterdir())


def test_names_that_are_not_text(cupel):
    result = cupel.run("--", "sh", "-c", r"printf x > out/$(printf 'odd\377\033name')")
    dest = cupel.dir / f"dest-{cupel.new_id()}"
    status, out, _ = call(cupel, "outputs", result.run_dir.name)
    assert status == 0 and "\033" not in out
    assert call(cupel, "outputs", "--to", dest, result.run_dir.name)[0] == 0
    assert os.listdir(os.fsencode(dest / "out")) == [b"odd\xff\033name"]


def test_refusals(cupel):
    result = cupel.run("--", "true")
    for words in (["outputs"], ["outputs", "nosuch"], ["outputs", "../x"],
                  ["outputs", result.run_dir.name, "out/none"], ["outputs", "a", "b", "c"]):
        status, _, err = call(cupel, *words)
        assert status == 2 and err, words
    assert call(cupel, "outputs", result.run_dir.name)[0] == 0


def test_a_sparse_output_stays_sparse(cupel):
    size = 64 << 20
    result = cupel.run(
        "--",
        "sh",
        "-c",
        f"truncate -s {size} out/zeros; (echo x; truncate -s {size} /dev/stdout; echo y)"
        " >> out/mixed; stat -c %b out/zeros out/mixed",
    )
    assert (result.status, result.cause) == (0, "ok"), result.stderr
    there = dict(zip(("out/zeros", "out/mixed"), map(int, result.stdout.split())))
    files = {f["path"]: f for f in result.outputs["files"]}
    assert files.keys() == there.keys() and files["out/zeros"]["size"] == size
    for path, file in files.items():
        copy = result.run_dir / "outputs" / path
        # A buffer of the copy may hold a little of both.
        assert (
            copy.stat().st_blocks <= there[path] + 2 * (1 << 20) // 512
            and copy.stat().st_size == file["size"]
        )
        assert hashlib.sha256(copy.read_bytes()).hexdigest() == file["sha256"]
    assert files["out/zeros"]["sha256"] == hashlib.sha256(bytes(size)).hexdigest()
    assert (result.run_dir / "outputs/out/zeros").stat().st_blocks == 0
