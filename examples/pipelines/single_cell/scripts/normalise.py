"""Counts per ten thousand as logarithms, the genes that vary most, and their principal components."""

import json
import os

import anndata
import numpy
from sklearn.decomposition import PCA

asked = json.loads(os.environ["CUPEL_PARAMETERS"])
cells = anndata.read_h5ad("data/filtered.h5ad")
counts = cells.X.toarray().astype("float64")
cells.layers["lognorm"] = numpy.log1p(counts / counts.sum(axis=1, keepdims=True) * 1e4)
spread = cells.layers["lognorm"].var(axis=0)
cells.var["variable"] = False
cells.var.iloc[numpy.argsort(-spread, kind="stable")[:asked["variable_genes"]], cells.var.columns.get_loc("variable")] = True
parts = PCA(asked["components"], svd_solver="full").fit(cells.layers["lognorm"][:, cells.var["variable"]])
cells.obsm["X_pca"] = parts.transform(cells.layers["lognorm"][:, cells.var["variable"]])
cells.write_h5ad("out/normalised.h5ad")
print(f"{parts.explained_variance_ratio_.sum():.1%} of the variance in {asked['components']} components")
