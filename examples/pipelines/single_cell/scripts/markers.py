"""Takes the clusters that are told apart best, finds the genes that mark each, and draws them."""

import json
import pathlib

import anndata
import matplotlib.pyplot as plt
import numpy
import pandas
from scipy.stats import mannwhitneyu

TOP = 5


def best():
    """The scores of all resolutions, and the clusters of the best."""
    tried = [(json.loads((place / "score.json").read_text(encoding="utf-8")), place)
             for place in pathlib.Path("data/cluster").glob("*/out")]
    tried.sort(key=lambda one: one[0]["resolution"])
    place = max(tried, key=lambda one: one[0]["silhouette"])[1]
    return pandas.DataFrame([score for score, _ in tried]), pandas.read_csv(place / "clusters.csv", index_col="cell")["cluster"]


def find_markers(levels, labels):
    """Of each cluster the genes that are higher in it than elsewhere, by the U test."""
    rows = []
    for cluster in sorted(set(labels)):
        inside = (labels == cluster).to_numpy()
        test = mannwhitneyu(levels[inside], levels[~inside], alternative="greater")
        for gene in numpy.lexsort((-test.statistic, test.pvalue))[:TOP]:
            rows.append({"cluster": cluster, "gene": levels.columns[gene], "p": test.pvalue[gene],
                         "inside": levels[inside].iloc[:, gene].mean(), "elsewhere": levels[~inside].iloc[:, gene].mean()})
    return pandas.DataFrame(rows)


def draw(cells, levels, labels, markers):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for cluster in sorted(set(labels)):
        inside = (labels == cluster).to_numpy()
        genes = markers.loc[markers["cluster"] == cluster, "gene"].tolist()[:2]
        left.scatter(*cells.obsm["X_pca"][inside, :2].T, s=22, label=f"{cluster}: {', '.join(genes)} ({inside.sum()})")
    left.set(xlabel="PC 1", ylabel="PC 2", title="clusters")
    left.legend(fontsize="small")
    genes = list(dict.fromkeys(markers["gene"]))
    order = numpy.argsort(labels.to_numpy(), kind="stable")
    image = right.imshow(levels[genes].to_numpy()[order].T, aspect="auto", cmap="viridis", interpolation="nearest")
    for edge in numpy.cumsum(labels.value_counts().sort_index())[:-1]:
        right.axvline(edge - 0.5, color="white")
    right.set_yticks(range(len(genes)), genes, fontsize="x-small")
    right.set(xlabel="cells, by cluster", title="log counts per ten thousand")
    figure.colorbar(image, ax=right)
    figure.savefig("out/figure.png", dpi=120)


def main():
    cells = anndata.read_h5ad("data/normalised.h5ad")
    levels = cells.to_df(layer="lognorm")
    scores, labels = best()
    labels = labels.loc[cells.obs_names]
    markers = find_markers(levels, labels)
    scores.to_csv("out/resolutions.csv", index=False)
    markers.to_csv("out/markers.csv", index=False, float_format="%.6g")
    labels.to_csv("out/clusters.csv")
    draw(cells, levels, labels, markers)
    print(scores.to_string(index=False))
    print(markers.groupby("cluster")["gene"].agg(" ".join).to_string())


if __name__ == "__main__":
    main()
