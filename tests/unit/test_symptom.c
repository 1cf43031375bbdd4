/* symptom: what a failed analysis wrote last, and what would help. The text is hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "keeper/symptom.h"

#define LONG      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NO_MODULE "ModuleNotFoundError: No module named "

static const struct {
	const char *text;
	enum symptom_kind kind;
	const char *name;
} rows[] = {
	{ "", SYMPTOM_NONE, "" },
	{ "it failed\n", SYMPTOM_NONE, "" },
	{ "curl: (6) Could not resolve host: example.org\n", SYMPTOM_NETWORK, "" },
	{ "socket.gaierror: [Errno -3] Temporary failure in name resolution", SYMPTOM_NETWORK, "" },
	{ "Traceback ...\n" NO_MODULE "'scanpy'\n", SYMPTOM_PYTHON, "scanpy" },
	{ NO_MODULE "'a.b_c1'", SYMPTOM_PYTHON, "a.b_c1" },
	{ "Error in library(DESeq2) : there is no package called \xe2\x80\x98"
	  "DESeq2\xe2\x80\x99\nExecution halted\n",
	  SYMPTOM_R, "DESeq2" },
	{ "there is no package called 'data.table'", SYMPTOM_R, "data.table" },
	/* The last one counts. */
	{ NO_MODULE "'first'\n" NO_MODULE "'second'\n", SYMPTOM_PYTHON, "second" },
	{ NO_MODULE "'first'\nCould not resolve host: x\n", SYMPTOM_NETWORK, "" },
	{ "Could not resolve host: x\n" NO_MODULE "'last'\n", SYMPTOM_PYTHON, "last" },
	/* No plain name, cut off, too long. */
	{ NO_MODULE "'\033[2J'", SYMPTOM_NONE, "" },
	{ NO_MODULE "'a; rm -rf /'", SYMPTOM_NONE, "" },
	{ NO_MODULE "''", SYMPTOM_NONE, "" },
	{ NO_MODULE "'cut", SYMPTOM_NONE, "" },
	{ NO_MODULE, SYMPTOM_NONE, "" },
	{ NO_MODULE "'" LONG "'", SYMPTOM_NONE, "" },
	{ "there is no package called \xe2\x80\x98x\xe2\x80", SYMPTOM_NONE, "" },
};

static void symptoms_are_found(void **state)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct symptom s;
		symptom_find(rows[i].text, strlen(rows[i].text), &s);
		assert_int_equal(s.kind, rows[i].kind);
		assert_string_equal(s.name, rows[i].name);
	}
}

static void assert_says(const struct symptom *s, const char *words)
{
	CLEANUP_STR struct str text = { 0 };
	symptom_words(s, &text);
	if (!*words)
		assert_string_equal(str_text(&text), "");
	else if (!strstr(str_text(&text), words))
		fail_msg("'%s' lacks '%s'", str_text(&text), words);
}

static void the_sentence_says_what_helps(void **state)
{
	assert_says(&(struct symptom){ 0 }, "");
	/* Where there is a network, its failure is not the box's. */
	assert_says(&(struct symptom){ .kind = SYMPTOM_NETWORK }, "");
	assert_says(&(struct symptom){ .kind = SYMPTOM_NETWORK, .network_is_off = true },
		    "ask the host's administrator");
	assert_says(&(struct symptom){ .kind = SYMPTOM_NETWORK,
				       .network_is_off = true,
				       .network_may_be_on = true },
		    "ask for the network: --network host");
	assert_says(&(struct symptom){ .kind = SYMPTOM_PYTHON, .name = "x", .runtime = "base" },
		    "The runtime 'base' has no Python module 'x': choose a runtime");
	assert_says(
		&(struct symptom){
			.kind = SYMPTOM_R, .name = "x", .runtime = "base", .providers = "r-stats" },
		"no R package 'x': choose one that provides it with -r (r-stats)");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(symptoms_are_found),
					    cmocka_unit_test(the_sentence_says_what_helps) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
