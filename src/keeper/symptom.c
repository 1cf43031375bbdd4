#include "keeper/symptom.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "runtime/catalog.h"

/* What is written where, and how the name behind it is quoted: "" has no name. */
static const struct {
	enum symptom_kind kind;
	const char *words;
	const char *quote;
} signs[] = {
	{ SYMPTOM_NETWORK, "Could not resolve host", "" },               /* curl, git */
	{ SYMPTOM_NETWORK, "Temporary failure in name resolution", "" }, /* EAI_AGAIN in glibc */
	{ SYMPTOM_NETWORK, "Name or service not known", "" },
	{ SYMPTOM_NETWORK, "unable to resolve host address", "" }, /* wget */
	{ SYMPTOM_NETWORK, "cannot resolve hostname", "" },
	{ SYMPTOM_NETWORK, "getaddrinfo EAI_AGAIN", "" },
	{ SYMPTOM_NETWORK, "Network is unreachable", "" },
	{ SYMPTOM_PYTHON, "ModuleNotFoundError: No module named '", "'" },
	{ SYMPTOM_R, "there is no package called \xe2\x80\x98", "\xe2\x80\x99" },
	{ SYMPTOM_R, "there is no package called '", "'" },
};

/* False if it is no plain name. */
static bool take_name(const char *text, size_t length, const char *quote, char *ret, size_t room)
{
	size_t n = 0;
	while (n < length && (isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '.'))
		n++;
	if (n == 0 || n >= room || length - n < strlen(quote) ||
	    memcmp(text + n, quote, strlen(quote)) != 0)
		return false;
	(void)snprintf(ret, room, "%.*s", (int)n, text);
	return true;
}

void symptom_find(const char *text, size_t length, struct symptom *ret)
{
	const char *last = NULL;
	*ret = (struct symptom){ 0 };
	for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
		const char *words = signs[i].words;
		size_t n = strlen(words);
		for (const char *at = text;
		     (at = memmem(at, length - (size_t)(at - text), words, n)); at++) {
			struct symptom found = { .kind = signs[i].kind };
			const char *name = at + n;
			if (last && at < last)
				continue;
			if (*signs[i].quote &&
			    !take_name(name, length - (size_t)(name - text), signs[i].quote,
				       found.name, sizeof found.name))
				continue;
			last = at;
			*ret = found;
		}
	}
}

void symptom_words(const struct symptom *s, struct str *to)
{
	if (s->kind == SYMPTOM_NETWORK && s->network_is_off)
		str_addf(
			to,
			" It tried to use the network, and a box has none: fetch the data first and show it with --data, or %s.",
			s->network_may_be_on
				? "ask for the network: --network host"
				: "ask the host's administrator to allow --network host ('policy: {network: [none, host]}')");
	if (s->kind != SYMPTOM_PYTHON && s->kind != SYMPTOM_R)
		return;
	str_addf(to, " The runtime '%s' has no %s '%s': ", s->runtime,
		 s->kind == SYMPTOM_PYTHON ? "Python module" : "R package", s->name);
	if (s->providers[0])
		str_addf(to, "choose one that provides it with -r (%s).", s->providers);
	else
		str_add(to,
			"choose a runtime that provides it with -r, or make one: cupel runtime create.");
}

void symptom_look_up(const struct config *config, const char *runtime, struct symptom *s)
{
	CLEANUP_CATALOG struct catalog catalog = { 0 };
	size_t used = 0;
	(void)snprintf(s->runtime, sizeof s->runtime, "%s", runtime);
	if ((s->kind != SYMPTOM_PYTHON && s->kind != SYMPTOM_R) ||
	    catalog_read(config, &catalog, NULL) < 0)
		return;
	for (size_t i = 0; i < catalog.n; i++) {
		const struct runtime *r = &catalog.v[i];
		size_t left = sizeof s->providers - used;
		if (str_eq(r->name, runtime) || !strv_has(&r->provides, s->name) ||
		    strlen(r->name) + 3 > left)
			continue;
		used += (size_t)snprintf(s->providers + used, left, "%s%s", used ? ", " : "",
					 r->name);
	}
}
