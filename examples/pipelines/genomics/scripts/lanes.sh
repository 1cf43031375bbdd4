#!/bin/bash
# lanes.sh LANE...: the pairs of reads as a sequencer would give them, dealt out to these lanes.
set -euo pipefail
for mate in 1 2; do
	zcat "data/reads_$mate.fq.gz" |
		awk -v names="$*" -v mate="$mate" '
			BEGIN { n = split(names, lane, " ") }
			{ print > ("out/" lane[int((NR - 1) / 4) % n + 1] "_" mate ".fq") }'
done
