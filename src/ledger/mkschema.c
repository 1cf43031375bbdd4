/* Makes C of the migrations, when cupel is built: mkschema OUTPUT FILE..., the files in the order of their numbers. */
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
		else if (c == '"' || c == '\\')
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
	fputs("static const struct migration migrations[] = {\n", out);
	for (int i = 2; i < argc; i++)
		if (put_file(out, argv[i]) != 0)
			return 1;
	fputs("};\n", out);
	return fclose(out) == 0 ? 0 : 1;
}
