"""What came of it: a table of numbers, and depth and variants along the genome."""

import csv
import pathlib

import matplotlib.pyplot as plt
import numpy

WINDOW = 100  # base pairs


def read_rows(path):
    with open(path, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]


def read_variants(path):
    """Position, quality, whether it passed and whether it is an indel, of each."""
    return [(int(row[1]), float(row[5]), row[6] == "PASS", row[7].startswith("INDEL")) for row in read_rows(path)]


def draw(depth, variants, path):
    figure, (above, below) = plt.subplots(2, sharex=True, figsize=(9, 5), height_ratios=[3, 2], layout="constrained")
    whole = depth[:len(depth) // WINDOW * WINDOW].reshape(-1, WINDOW).mean(axis=1)
    above.fill_between((numpy.arange(len(whole)) + 0.5) * WINDOW / 1000, whole, color="#4477aa")
    above.set(ylabel="depth", ylim=(0, None), title=f"Lambda phage: depth in windows of {WINDOW} bp, and variants")
    for passed, indel, colour, marker, label in ((True, False, "#cc3311", "o", "SNP"), (True, True, "#009988", "^", "indel"),
                                                 (False, None, "#aaaaaa", "x", "low quality")):
        of_kind = [v for v in variants if v[2] == passed and indel in (None, v[3])]
        below.scatter([v[0] / 1000 for v in of_kind], [v[1] for v in of_kind], s=18, c=colour, marker=marker,
                      label=f"{label} ({len(of_kind)})")
    below.set(xlabel="position (kbp)", ylabel="quality", xlim=(0, len(depth) / 1000), ylim=(0, None))
    below.legend(ncols=3, loc="lower right", fontsize="small")
    figure.savefig(path, dpi=120)


def main():
    counts = {row[2]: row[0] for row in read_rows("data/merge/out/flagstat.tsv")}
    coverage = read_rows("data/merge/out/coverage.tsv")[0]
    depth = numpy.array([int(row[2]) for row in read_rows("data/merge/out/depth.tsv")])
    variants = read_variants("data/variants.vcf")
    indels = sum(v[3] for v in variants)
    lanes = [(f"{log.stem} aligned %", log.read_text(encoding="utf-8").split("\n")[-2].partition("%")[0])
             for log in sorted(pathlib.Path("data/align").glob("*/out/*.log"))]
    rows = [*lanes, ("reads", counts["primary"]), ("aligned %", counts["primary mapped %"].rstrip("%")),
            ("reference length", coverage[2]), ("covered %", coverage[5]), ("mean depth", coverage[6]),
            ("variants", len(variants)), ("SNPs", len(variants) - indels), ("indels", indels),
            ("variants that passed", sum(v[2] for v in variants))]
    with open("out/summary.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("what", "value"), *rows])
    draw(depth, variants, "out/figure.png")
    for what, value in rows:
        print(what, value)


if __name__ == "__main__":
    main()
