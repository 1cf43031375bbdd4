#!/bin/bash
# The reference, and what bowtie2 and samtools look things up in.
set -euo pipefail
zcat data/lambda_virus.fa.gz > out/reference.fa
samtools faidx out/reference.fa
bowtie2-build -q --seed 1 out/reference.fa out/reference
