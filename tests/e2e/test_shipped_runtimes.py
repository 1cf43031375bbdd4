"""The runtimes that are shipped, each with a real analysis of real data, checked by value."""

import csv
import json
import pathlib
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.test_all

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAMBDA = pathlib.Path("/usr/share/doc/bowtie2/examples")
NAMES = sorted(path.stem for path in (ROOT / "runtimes.d").glob("*.yaml"))


def installed(package):
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package],
                           capture_output=True, text=True, check=False)
    return asked.stdout == "installed"


@pytest.fixture
def shipped(cupel):
    """The shipped entries as the host's, and a copy of the examples that every caller can read."""
    for name in ("runtimes.d", "examples"):
        place = cupel.base / name
        if not place.exists():
            shutil.copytree(ROOT / name, place)
            for path in (place, *place.rglob("*")):
                cupel.own(path)
                path.chmod(0o755 if path.is_dir() else 0o644)
    return cupel


def need(*packages):
    for package in packages:
        if not installed(package):
            pytest.skip(f"science: {package} is not installed")


def runtime(cupel, *words):
    status, out, err = cupel.call(cupel.binary, "runtime", *words, "--json")
    return status, json.loads(out) if out else err


def ran_in(result):
    return json.loads((result.run_dir / "analysis.json").read_text(encoding="utf-8"))["runtime"]["name"]


@pytest.mark.parametrize("name", NAMES)
def test_each_is_healthy_here(shipped, name):
    entry = runtime(shipped, "show", name)[1]
    need(*entry["packages"])
    status, report = runtime(shipped, "check", name)
    assert (status, report["health"]) == (0, "healthy"), report
    listed = {row["name"]: row for row in runtime(shipped, "list")[1]}
    assert listed[name]["health"] == "healthy"


def test_variants_in_real_human_reads(shipped):
    need("bowtie2", "samtools", "bcftools")
    result = shipped.run(shipped.base / "examples/variants/analysis.yaml")
    assert result.cause == "ok", result.stderr + result.log("stderr.log").decode()
    out = result.run_dir / "outputs/out"
    rows = [line.split("\t") for line in (out / "variants.vcf").read_text().splitlines()
            if not line.startswith("#")]
    assert [(row[0], int(row[1]), row[3], row[4]) for row in rows] == [
        ("seq1", 548, "C", "A"), ("seq1", 1294, "A", "G"), ("seq2", 505, "A", "G"), ("seq2", 1344, "A", "C")]
    assert (out / "figure.svg").read_text().startswith("<svg")
    assert ran_in(result) == "genomics"


def test_variants_of_lambda_phage(shipped):
    need("bowtie2", "bowtie2-examples", "samtools", "bcftools")
    analysis = shipped.base / "lambda.yaml"
    analysis.write_text(f"""
runtime: genomics
code: [examples/variants/variants.sh, examples/variants/figure.py]
args: ["1"]
inputs:
  - {{path: {LAMBDA}/reference/lambda_virus.fa.gz, name: reference.fa.gz}}
  - {LAMBDA}/reads/reads_1.fq.gz
  - {LAMBDA}/reads/reads_2.fq.gz
limits: {{memory: 1G, time: 10m, disk: 512M}}
""", encoding="utf-8")
    result = shipped.run(shipped.own(analysis))
    assert result.cause == "ok", result.stderr + result.log("stderr.log").decode()
    out = result.run_dir / "outputs/out"
    assert "94.22% overall alignment rate" in (out / "bowtie2.log").read_text()
    assert (out / "count.txt").read_text().strip() == "88"
    row = (out / "coverage.tsv").read_text().splitlines()[1].split("\t")
    assert int(row[2]) == 48502 and float(row[6]) == pytest.approx(42.69, abs=0.01)


def test_classifiers_on_biopsies(shipped):
    need("python3-sklearn", "python3-pandas", "python3-matplotlib")
    result = shipped.run(shipped.base / "examples/classify/analysis.yaml")
    assert result.cause == "ok", result.stderr + result.log("stderr.log").decode()
    out = result.run_dir / "outputs/out"
    with open(out / "results.csv", encoding="utf-8") as file:
        rows = {row["model"]: row for row in csv.DictReader(file)}
    assert float(rows["logistic regression"]["auc"]) == pytest.approx(0.995619, abs=2e-4)
    assert float(rows["random forest"]["auc"]) == pytest.approx(0.978, abs=5e-3)
    assert (out / "roc.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert ran_in(result) == "data-ml"


def test_a_regression_in_r(shipped):
    need("r-base-core")
    result = shipped.run(shipped.base / "examples/regression/analysis.yaml")
    assert result.cause == "ok", result.stderr + result.log("stderr.log").decode()
    assert result.stdout == "n 111, R2 0.6644\n"
    with open(result.run_dir / "outputs/out/coefficients.csv", encoding="utf-8") as file:
        terms = {row["term"]: float(row["Estimate"]) for row in csv.DictReader(file)}
    assert terms == pytest.approx({"(Intercept)": -0.262132, "Solar.R": 0.002515, "Wind": -0.061562,
                                   "Temp": 0.049171}, abs=1e-6)


def test_cell_types_from_blood(shipped):
    """One runtime's outputs are another's inputs: R exports the counts, Python finds the clusters."""
    need("r-base-core", "r-cran-seuratobject", "python3-anndata", "python3-leidenalg", "python3-igraph")
    first = shipped.run("-r", "r-stats", shipped.base / "examples/clusters/export.R")
    assert (first.cause, first.stdout) == ("ok", "230 80 \n"), first.log("stderr.log").decode()
    data = [word for name in ("counts.mtx", "genes.txt", "cells.txt")
            for word in ("--data", first.run_dir / "outputs/out" / name)]
    result = shipped.run("-r", "single-cell", *data, shipped.base / "examples/clusters/clusters.py")
    assert result.cause == "ok", result.stderr + result.log("stderr.log").decode()
    summary = json.loads((result.run_dir / "outputs/out/summary.json").read_text())
    assert (summary["cells"], summary["genes"], sum(summary["sizes"])) == (80, 230, 80)
    tops = [set(genes) for genes in summary["markers"].values()]
    for marker in ("CD3D", "NKG7", "MS4A1", "PPBP"):  # T, natural killer, B cells, platelets
        assert sum(marker in genes for genes in tops) == 1, summary["markers"]
    assert (result.run_dir / "outputs/out/cells.h5ad").stat().st_size > 10000


def test_a_notebook_is_run_by_a_kernel_in_the_box(shipped):
    need("python3-nbclient", "python3-ipykernel", "python3-numpy")
    script = shipped.dir / "book.py"
    script.write_text("""
import nbclient, nbformat
cells = ["import numpy", "total = numpy.arange(101).sum(); total", "print(total * 2)"]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
nbclient.NotebookClient(book, kernel_name="python3").execute()
nbformat.write(book, "out/book.ipynb")
print(book.cells[1].outputs[0].data["text/plain"], book.cells[2].outputs[0].text.strip())
""", encoding="utf-8")
    result = shipped.run("-r", "notebook", shipped.own(script))
    assert (result.cause, result.stdout) == ("ok", "5050 10100\n"), result.log("stderr.log").decode()


def test_a_notebook_is_run_as_it_is(shipped):
    """The straight line through the reciprocals: Bates and Watts, 1988, say 195.8 and 0.0484."""
    need("python3-nbclient", "python3-ipykernel", "python3-numpy", "python3-matplotlib")
    result = shipped.run(shipped.base / "examples/notebook/analysis.yaml")
    assert result.cause == "ok", result.stderr + result.log("stderr.log").decode()
    assert result.stdout == "12\nvmax 195.8 km 0.0484\n"
    chosen = json.loads((result.run_dir / "analysis.json").read_text())["runtime"]["selection"]
    assert (chosen["name"], chosen["rule"]) == ("notebook", "kernelspec")
    book = json.loads((result.run_dir / "outputs/out/line.ipynb").read_text())
    assert book["cells"][2]["source"] == ["# Parameters\n", "state = 'treated'"]
    assert book["cells"][4]["outputs"][0]["text"] == ["vmax 195.8 km 0.0484\n"]
    assert (result.run_dir / "outputs/out/line.html").stat().st_size > 100000
    assert (result.run_dir / "outputs/out/figure.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_cell_that_fails_ends_the_notebook_and_is_kept(shipped):
    """A notebook that names no kernel goes by its ending; what was run up to the mistake is an output."""
    need("python3-nbclient", "python3-ipykernel")
    book = shipped.dir / "wrong.ipynb"
    cells = [{"cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None}
             for text in ("print(6 * 7)", "1 / 0", "print('not reached')")]
    book.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}),
                    encoding="utf-8")
    result = shipped.run(shipped.own(book))
    assert (result.cause, result.status, result.stdout) == ("exit", 1, "42\n")
    said = result.log("stderr.log").decode()
    assert "ZeroDivisionError: division by zero" in said and "\x1b" not in said
    kept = json.loads((result.run_dir / "partial/out/wrong.ipynb").read_text())
    assert kept["cells"][0]["outputs"][0]["text"] == ["42\n"] and not kept["cells"][2]["outputs"]


def test_a_kernel_that_nobody_has_is_said(shipped):
    """That Rscript is on the host does not make a kernel of it."""
    book = shipped.dir / "r.ipynb"
    book.write_text(json.dumps({"cells": [], "nbformat": 4, "nbformat_minor": 4,
                                "metadata": {"kernelspec": {"name": "ir", "language": "R"}}}), encoding="utf-8")
    status, out, err = shipped.call(shipped.binary, "runtime", "suggest", "--json", shipped.own(book))
    assert status == 0, err
    told = json.loads(out)
    assert (told["name"], told["rule"]) == ("notebook", "extension"), told
    assert "no runtime is known to have the kernel ir" in told["why"]
