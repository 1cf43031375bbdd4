"""Counts -> normalised -> principal components -> neighbours -> Leiden clusters -> figure."""

import json

import anndata
import igraph
import leidenalg
import matplotlib.pyplot as plt
import numpy
import pandas
import scipy.io
from sklearn.decomposition import PCA
from sklearn.neighbors import kneighbors_graph


def lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().split()


cells = anndata.AnnData(
    scipy.io.mmread("data/counts.mtx").T.tocsr().astype("float32"),
    obs=pandas.DataFrame(index=lines("data/cells.txt")), var=pandas.DataFrame(index=lines("data/genes.txt")))
counts = cells.X.toarray()
cells.layers["lognorm"] = numpy.log1p(counts / counts.sum(axis=1, keepdims=True) * 1e4)
cells.obsm["X_pca"] = PCA(10, svd_solver="full").fit_transform(cells.layers["lognorm"])
near = kneighbors_graph(cells.obsm["X_pca"][:, :5], 10).tocoo()
graph = igraph.Graph(n=cells.n_obs, edges=list(zip(near.row.tolist(), near.col.tolist()))).simplify()
parts = leidenalg.find_partition(graph, leidenalg.RBConfigurationVertexPartition, seed=1, resolution_parameter=0.5)
cells.obs["cluster"] = pandas.Categorical([str(c) for c in parts.membership])

markers = {}
names = numpy.array(cells.var_names)
for cluster in cells.obs["cluster"].cat.categories:
    inside = (cells.obs["cluster"] == cluster).to_numpy()
    difference = cells.layers["lognorm"][inside].mean(axis=0) - cells.layers["lognorm"][~inside].mean(axis=0)
    markers[cluster] = names[numpy.argsort(-difference, kind="stable")[:5]].tolist()
cells.write_h5ad("out/cells.h5ad")
figure, axes = plt.subplots(figsize=(5, 4))
for cluster in cells.obs["cluster"].cat.categories:
    inside = (cells.obs["cluster"] == cluster).to_numpy()
    axes.scatter(*cells.obsm["X_pca"][inside, :2].T, label=f"{cluster}: {', '.join(markers[cluster][:2])}")
axes.set(xlabel="PC 1", ylabel="PC 2")
axes.legend()
figure.savefig("out/clusters.png", dpi=120)
sizes = sorted(cells.obs["cluster"].value_counts().tolist(), reverse=True)
with open("out/summary.json", "w", encoding="utf-8") as out:
    json.dump({"cells": cells.n_obs, "genes": cells.n_vars, "sizes": sizes, "markers": markers}, out, indent=2)
print(sizes)
