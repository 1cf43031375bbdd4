#!/bin/bash
# The lanes of the sample as one sorted BAM, and how well the reference is covered.
set -euo pipefail
samtools merge -o out/aligned.bam data/align/*/out/*.bam
samtools index out/aligned.bam
samtools flagstat -O tsv out/aligned.bam > out/flagstat.tsv
samtools coverage out/aligned.bam > out/coverage.tsv
samtools depth -a out/aligned.bam > out/depth.tsv
