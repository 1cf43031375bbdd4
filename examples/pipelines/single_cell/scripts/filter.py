"""Leaves out cells in which few genes are seen, then genes that are seen in few cells."""

import json
import os

import anndata
import pandas
import scipy.io


def names(path):
    with open(path, encoding="utf-8") as lines:
        return pandas.DataFrame(index=lines.read().split())


asked = json.loads(os.environ["CUPEL_PARAMETERS"])
counts = scipy.io.mmread("data/export/out/counts.mtx").T.tocsr().astype("float32")
cells = anndata.AnnData(counts, obs=names("data/export/out/cells.txt"), var=names("data/export/out/genes.txt"))
cells.obs["genes"] = (cells.X > 0).sum(axis=1).A1
kept = cells[cells.obs["genes"] >= asked["min_genes"]].copy()
kept.var["cells"] = (kept.X > 0).sum(axis=0).A1
kept = kept[:, kept.var["cells"] >= asked["min_cells"]].copy()
kept.write_h5ad("out/filtered.h5ad")
print(f"{kept.n_obs} of {cells.n_obs} cells, {kept.n_vars} of {cells.n_vars} genes")
