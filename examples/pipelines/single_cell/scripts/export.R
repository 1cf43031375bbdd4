# The counts of 80 blood cells (10x Genomics, as SeuratObject's pbmc_small) as a plain matrix.
suppressPackageStartupMessages(library(SeuratObject))
library(Matrix)
counts <- GetAssayData(pbmc_small, slot = "counts")
invisible(writeMM(counts, "out/counts.mtx"))
writeLines(rownames(counts), "out/genes.txt")
writeLines(colnames(counts), "out/cells.txt")
cat(nrow(counts), "genes,", ncol(counts), "cells\n")
