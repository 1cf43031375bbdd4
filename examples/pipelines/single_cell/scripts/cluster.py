"""Cells that are near each other, by Leiden; and how well they are told apart (silhouette)."""

import json
import os

import anndata
import igraph
import leidenalg
import numpy
import pandas
from sklearn.metrics import silhouette_score
from sklearn.neighbors import kneighbors_graph

asked = json.loads(os.environ["CUPEL_PARAMETERS"])
resolution = asked["resolution"]
cells = anndata.read_h5ad("data/normalised.h5ad")
near = kneighbors_graph(cells.obsm["X_pca"], asked["neighbours"]).tocoo()
graph = igraph.Graph(n=cells.n_obs, edges=list(zip(near.row.tolist(), near.col.tolist()))).simplify()
found = leidenalg.find_partition(graph, leidenalg.RBConfigurationVertexPartition, seed=1, n_iterations=-1,
                                 resolution_parameter=resolution)
labels = numpy.array(found.membership)
score = float(silhouette_score(cells.obsm["X_pca"], labels)) if len(found) > 1 else 0.0
pandas.DataFrame({"cell": cells.obs_names, "cluster": labels}).to_csv("out/clusters.csv", index=False)
with open("out/score.json", "w", encoding="utf-8") as out:
    json.dump({"resolution": resolution, "clusters": len(found), "silhouette": round(score, 6)}, out)
print(f"{len(found)} clusters, silhouette {score:.3f}")
