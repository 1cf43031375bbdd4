/* Makes C of a file of bytes, when cupel is built: mkbytes OUTPUT NAME FILE. */
#include <stdio.h>

int main(int argc, char **argv)
{
	FILE *out = argc == 4 ? fopen(argv[1], "we") : NULL;
	FILE *in = out ? fopen(argv[3], "re") : NULL;
	if (!in)
		return 1;
	/* A string, which compilers read much faster than a list of numbers. */
	fprintf(out, "static const char %s[] =\n\t\"", argv[2]);
	int n = 0;
	for (int c; (c = getc(in)) != EOF; n++)
		fprintf(out, n % 64 == 63 ? "\\%03o\"\n\t\"" : "\\%03o", (unsigned)c);
	fputs("\";\n", out);
	return ferror(in) || fclose(in) != 0 || fclose(out) != 0;
}
