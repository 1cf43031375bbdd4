#!/bin/bash
# Reads -> alignment -> sorted BAM -> variants, depth and a figure of it.
# variants.sh [PLOIDY]. Reads data/reference.fa(.gz) and either data/reads.sam.gz or data/reads_1.fq.gz with data/reads_2.fq.gz.
set -euo pipefail
cpus=${OMP_NUM_THREADS:-1}
ploidy=${1:-2}

zcat -f data/reference.fa* > tmp/reference.fa
samtools faidx tmp/reference.fa
bowtie2-build -q tmp/reference.fa tmp/index
if [ -e data/reads.sam.gz ]; then
	# As it came: the alignments in the file are forgotten, and found again. It has no header, so it is given one.
	samtools view -h -t tmp/reference.fa.fai data/reads.sam.gz | samtools fastq -n - > tmp/reads.fq 2> tmp/fastq.log
	reads=(-U tmp/reads.fq)
else
	reads=(-1 data/reads_1.fq.gz -2 data/reads_2.fq.gz)
fi
bowtie2 -p "$cpus" -x tmp/index "${reads[@]}" --rg-id s1 --rg SM:s1 2> out/bowtie2.log |
	samtools sort -o out/aligned.bam -
samtools index out/aligned.bam
samtools flagstat -O tsv out/aligned.bam > out/flagstat.tsv
samtools coverage out/aligned.bam > out/coverage.tsv
samtools depth -a out/aligned.bam > tmp/depth.tsv
bcftools mpileup -Ou -f tmp/reference.fa out/aligned.bam 2> tmp/mpileup.log |
	bcftools call -mv --ploidy "$ploidy" -Ov -o out/variants.vcf
bcftools view -H out/variants.vcf | wc -l > out/count.txt
python3 code/figure.py tmp/depth.tsv out/variants.vcf out/figure.svg
echo "$(cat out/count.txt) variants"
