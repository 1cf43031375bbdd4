"""The examples do what their first lines say."""

import csv
import pathlib
import shutil

import pytest

import platforms

pytestmark = pytest.mark.test_all

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def examples(cupel):
    """A copy that every caller can read."""
    place = cupel.dir / "examples"
    if not place.exists():
        shutil.copytree(EXAMPLES, place)
        place.chmod(0o755)
    return place


def outputs(result):
    return {entry["path"]: entry["sha256"] for entry in result.outputs["files"]}


def test_kinetics_gives_the_published_estimates_and_the_same_bytes_again(cupel, examples):
    first = cupel.run(examples / "kinetics/analysis.yaml")
    assert first.cause == "ok", first.stderr
    with open(first.run_dir / "outputs/out/results.csv", encoding="utf-8") as file:
        rows = {(row["state"], row["parameter"]): row for row in csv.DictReader(file)}
    # Bates and Watts, 1988, for the treated cells: 212.7 (6.95) and 0.06412 (0.00828).
    for parameter, estimate, error in (("vmax", 212.7, 6.95), ("km", 0.06412, 0.00828)):
        row = rows["treated", parameter]
        assert float(row["estimate"]) == pytest.approx(estimate, rel=1e-3)
        assert float(row["standard_error"]) == pytest.approx(error, rel=1e-2)
        assert float(row["low_95"]) < estimate < float(row["high_95"])
    assert set(outputs(first)) == {"out/results.csv", "out/summary.json", "out/figure.svg"}
    again = cupel.run(examples / "kinetics/analysis.yaml")
    assert outputs(again) == outputs(first)


@pytest.mark.parametrize("script, cause", [
    ("oom.py", "oom"), ("deadline.py", "deadline"), ("forkbomb.py", "pids"),
    ("diskfull.py", "disk")])
def test_each_limit_has_its_cause(cupel, examples, script, cause):
    text = (examples / script).read_text(encoding="utf-8")
    said = text.split("Try: cupel run ")[1].split('"""')[0].split()
    assert f"ends as `{cause}`" in text
    result = cupel.run(*said[:-1], examples / said[-1].removeprefix("examples/"))
    assert result.cause == cause


def test_the_step_takes_the_results_into_a_table(cupel, examples):
    platform = platforms.Sqlite(cupel)
    platforms.declare(cupel, platform, args=["codons", "out/results.csv"])
    text = cupel.settings
    cupel.configure(text.replace("  step:", "  results-to-table:"))
    result = cupel.run(examples / "post_process/analysis.yaml")
    assert result.cause == "ok", result.stderr
    rows = platform.query("SELECT run_id, codon, count FROM codons ORDER BY row_number")
    assert ("TGC", "3") in [row[1:] for row in rows] and sum(int(row[2]) for row in rows) == 21
    assert {row[0] for row in rows} == {result.run_dir.name}
