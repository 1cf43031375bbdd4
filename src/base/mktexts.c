/* Makes C of files, when cupel is built: mktexts OUTPUT DECLARATION FILE..., an array of { name, text } in the order of the files. */
#include <stdio.h>
#include <string.h>

static int put_file(FILE *out, const char *path)
{
	const char *slash = strrchr(path, '/');
	FILE *in = fopen(path, "re");
	if (!in)
		return -1;
	fprintf(out, "\t{ \"%s\",\n\t  \"", slash ? slash + 1 : path);
	for (int c; (c = getc(in)) != EOF;) {
		if (c == '\n')
			fputs("\\n\"\n\t  \"", out);
		else if (c == '"' || c == '\\' || c == '?') /* no trigraphs */
			fprintf(out, "\\%c", c);
		else
			putc(c, out);
	}
	fputs("\" },\n", out);
	return fclose(in);
}

int main(int argc, char **argv)
{
	FILE *out = argc > 2 ? fopen(argv[1], "we") : NULL;
	if (!out)
		return 1;
	fprintf(out, "%s[] = {\n", argv[2]);
	for (int i = 3; i < argc; i++)
		if (put_file(out, argv[i]) != 0)
			return 1;
	fputs("};\n", out);
	return fclose(out) == 0 ? 0 : 1;
}
