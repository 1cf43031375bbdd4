#!/bin/bash
# align.sh LANE: its pairs, aligned to the reference and sorted.
set -euo pipefail
lane=$1
bowtie2 -p "${OMP_NUM_THREADS:-1}" --reorder -x data/index/out/reference -1 "data/${lane}_1.fq" -2 "data/${lane}_2.fq" \
	--rg-id "$lane" --rg SM:lambda 2> "out/$lane.log" |
	samtools sort -o "out/$lane.bam" -
tail -n 1 "out/$lane.log"
