#!/bin/bash
# variants.sh PLOIDY MIN_QUALITY: where the sample differs from the reference; FILTER says which of it is good enough.
# Without the date and the commands in its header, equal variants are equal files.
set -euo pipefail
bcftools mpileup --no-version -Ou -f data/reference.fa data/merge/out/aligned.bam 2> tmp/mpileup.log |
	bcftools call --no-version -mv --ploidy "$1" -Ou |
	bcftools filter --no-version -e "QUAL<=$2" -s LowQual -Ov -o out/variants.vcf
bcftools stats out/variants.vcf > out/stats.txt
