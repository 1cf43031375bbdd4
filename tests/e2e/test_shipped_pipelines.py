"""The pipelines that are shipped, on real data: results by value, nothing run twice, and after a change what depends on it."""

import csv
import json
import pathlib
import re
import shutil
import subprocess

import pytest

import cupel as lib

pytestmark = pytest.mark.test_all

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAMBDA = pathlib.Path("/usr/share/doc/bowtie2/examples/reads/reads_1.fq.gz")
LIMIT_S = 240 * lib.SLOW
PYTHON = ("python3-numpy", "python3-scipy", "python3-pandas", "python3-sklearn", "python3-matplotlib")


def need(*packages):
    for package in packages:
        asked = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package],
                               capture_output=True, text=True, check=False)
        if asked.stdout != "installed":
            pytest.skip(f"science: {package} is not installed")


class Pipeline:
    """A copy of one of them, in a home that nobody has used."""

    def __init__(self, caller, name):
        self.caller = caller
        for part in ("runtimes.d", f"examples/pipelines/{name}"):
            shutil.copytree(ROOT / part, caller.base / part)
        self.file = caller.base / "examples/pipelines" / name / "pipeline.yaml"
        self.result = self.said = None

    def run(self, *words):
        """To a good end; then the result is its record."""
        status, _, self.said = self.caller.call(self.caller.binary, "run", *words, self.file, limit_s=LIMIT_S)
        assert status == 0, self.said
        record = pathlib.Path(re.search(r"^cupel: record: (.*)$", self.said, re.MULTILINE)[1])
        self.result = json.loads((record / "result.json").read_text(encoding="utf-8"))
        assert self.result["state"] == "ok"

    def labels(self, state):
        return [row["step"] + (f"[{row['shard']}]" if row.get("shard") else "")
                for row in self.result["steps"] if row["state"] == state]

    def out(self, step, shard=None):
        """The outputs of one."""
        row, = (row for row in self.result["steps"] if (row["step"], row.get("shard")) == (step, shard))
        return self.caller.run_dir(row["run"]) / "outputs/out"

    def table(self, step, name):
        with open(self.out(step) / name, encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def runs_all_then_none(self, steps):
        """What was run is what is reused, and where the outputs are is said both times."""
        self.run()
        assert sorted(self.labels("ok")) == sorted(steps)
        first = {row["step"]: row["run"] for row in self.result["steps"]}
        last = f"cupel: outputs of {steps[-1]}: {self.out(steps[-1]).parent}"
        assert last in self.said.splitlines()
        before = {path.name for path in (self.caller.home / "runs").iterdir()}
        self.run()
        assert not self.labels("ok") and sorted(self.labels("reused")) == sorted(steps)
        assert {row["step"]: row["run"] for row in self.result["steps"]} == first
        assert {path.name for path in (self.caller.home / "runs").iterdir()} == before
        assert last in self.said.splitlines()


    def log(self, step, shard):
        return (self.out(step, shard).parents[1] / "stdout.log").read_text(encoding="utf-8")


def is_png(path):
    data = path.read_bytes()
    return data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 10000


def variants(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def test_reads_to_variants(fresh):
    need("bowtie2", "bowtie2-examples", "samtools", "bcftools", *PYTHON)
    if not LAMBDA.exists():
        pytest.skip(f"science: {LAMBDA} is not there, though its package is")
    line = Pipeline(fresh, "genomics")
    line.runs_all_then_none(["index", "lanes", "align[L1]", "align[L2]", "merge", "variants", "summary"])
    found = {row["what"]: row["value"] for row in line.table("summary", "summary.csv")}
    assert (found["reads"], found["aligned %"], found["reference length"]) == ("20000", "94.22", "48502")
    assert float(found["mean depth"]) == pytest.approx(42.69, abs=0.01)
    assert (found["variants"], found["SNPs"], found["indels"]) == ("88", "34", "54")
    assert "94.31% overall alignment rate" in (line.out("align", "L1") / "L1.log").read_text(encoding="utf-8")
    rows = variants(line.out("variants") / "variants.vcf")
    good = [row for row in rows if row[6] == "PASS"]
    assert len(rows) == 88 and len(good) == int(found["variants that passed"]) == 85
    assert all((float(row[5]) > 30) == (row[6] == "PASS") for row in rows)
    assert is_png(line.out("summary") / "figure.png")

    line.run("--param", "min_quality=200")
    assert line.labels("ok") == ["variants", "summary"] and len(line.labels("reused")) == 5
    best = [row for row in rows if float(row[5]) > 200]
    found = {row["what"]: row["value"] for row in line.table("summary", "summary.csv")}
    assert 0 < len(best) < 85 and found["variants that passed"] == str(len(best)) and found["variants"] == "88"


def test_cell_types_in_blood(fresh):
    need("r-base-core", "r-cran-seuratobject", "python3-anndata", "python3-leidenalg", "python3-igraph", *PYTHON)
    line = Pipeline(fresh, "single_cell")
    line.runs_all_then_none(["export", "filter", "normalise", "cluster[0.3]", "cluster[0.5]", "cluster[0.8]", "markers"])
    tried = {row["resolution"]: row for row in line.table("markers", "resolutions.csv")}
    assert {key: int(row["clusters"]) for key, row in tried.items()} == {"0.3": 3, "0.5": 4, "0.8": 6}
    assert float(tried["0.8"]["silhouette"]) == pytest.approx(0.4048, abs=2e-3)
    assert len(line.table("markers", "clusters.csv")) == 77
    tops = {}
    for row in line.table("markers", "markers.csv"):
        tops.setdefault(row["cluster"], set()).add(row["gene"])
    # Monocytes, T cells, natural killer cells, dendritic cells, B cells, platelets: a cluster each.
    for pair in (("AIF1", "LST1"), ("CD3D", "IL7R"), ("GZMB", "PRF1"), ("FCER1A", "CLEC10A"), ("MS4A1", "CD79A"), ("GNG11", "CLU")):
        assert sum(set(pair) <= genes for genes in tops.values()) == 1, (pair, tops)
    assert is_png(line.out("markers") / "figure.png")

    line.run("--param", "resolutions=[0.3, 0.5]")
    assert line.labels("ok") == ["markers"]
    assert line.labels("reused") == ["export", "filter", "normalise", "cluster[0.3]", "cluster[0.5]"]
    assert len({row["cluster"] for row in line.table("markers", "clusters.csv")}) == 3


def test_handwritten_digits(fresh):
    need(*PYTHON)
    line = Pipeline(fresh, "machine_learning")
    line.runs_all_then_none(["split", "train[8]", "train[16]", "train[64]", "choose", "evaluate", "figure"])
    tried = {row["hidden"]: row for row in line.table("choose", "candidates.csv")}
    assert [key for key, row in tried.items() if row["chosen"] == "1"] == ["64"]
    assert float(tried["8"]["validation_loss"]) > float(tried["16"]["validation_loss"]) > float(tried["64"]["validation_loss"])
    told = json.loads((line.out("evaluate") / "result.json").read_text(encoding="utf-8"))
    assert (told["images"], told["hidden"]) == (360, 64) and sum(map(sum, told["confusion"])) == 360
    assert told["accuracy"] == pytest.approx(0.975, abs=0.006) and told["auc"] == pytest.approx(0.9998, abs=3e-4)
    assert told["accuracy"] == pytest.approx(sum(told["confusion"][digit][digit] for digit in range(10)) / 360, abs=1e-6)
    assert is_png(line.out("figure") / "figure.png")

    line.run("--param", "epochs=10", "--param", "hidden=[8, 16]")
    assert sorted(line.labels("ok")) == ["choose", "evaluate", "figure", "train[16]", "train[8]"]
    assert line.labels("reused") == ["split"]
    history = json.loads((line.out("train", "16") / "history.json").read_text(encoding="utf-8"))
    assert (history["hidden"], len(history["epochs"])) == (16, 10)
    worse = json.loads((line.out("evaluate") / "result.json").read_text(encoding="utf-8"))
    assert worse["hidden"] == 16 and worse["accuracy"] < told["accuracy"]


def test_training_that_is_killed_goes_on_where_it_was(fresh):
    """To the same end as one that nobody disturbed; what had finished before is not run again."""
    need(*PYTHON)
    line = Pipeline(fresh, "machine_learning")
    words = ("--param", "hidden=[16]", "--param", "epochs=120")

    def is_learning():
        return any("epoch 3:" in log.read_text(encoding="utf-8") for log in fresh.home.glob("runs/*-train-*/stdout.log"))

    with fresh.popen(fresh.binary, "run", *words, line.file, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert lib.wait_until(lambda: is_learning() or process.poll() is not None)
        process.kill()
    assert process.returncode < 0, "it had ended before it could be killed"
    assert lib.wait_until(lambda: not fresh.groups())
    line.run(*words)
    assert line.labels("reused") == ["split"] and "train[16]" in line.labels("ok")
    done = int(re.match(r"(\d+) epochs were done before", line.log("train", "16"))[1])
    assert 3 <= done < 120 and f"epoch {done + 1}:" in line.log("train", "16") and f"epoch {done}:" not in line.log("train", "16")
    history = (line.out("train", "16") / "history.json").read_bytes()
    line.run(*words, "--force", "train")
    assert line.log("train", "16").startswith("0 epochs were done before")
    assert (line.out("train", "16") / "history.json").read_bytes() == history
