/* Small things that answers that go on need. */
#include "serve/live.h"

#include "serve/rows.h"

bool live_is_to_come(const struct request *r, const char *id)
{
	CLEANUP_JSON json_t *live = service_run(r->context->service, id);
	return live != NULL;
}

bool live_is_known(const struct request *r, const char *id)
{
	CLEANUP_FD int fd = rows_open_run(r->context->config, id, NULL);
	return fd >= 0 || live_is_to_come(r, id);
}

char *live_text(const char *bytes, size_t length)
{
	CLEANUP_STR struct str s = { 0 };
	for (size_t i = 0; i < length;) {
		size_t n = bytes[i] ? str_utf8_length(bytes + i, length - i) : 0;
		if (n)
			str_add_n(&s, bytes + i, n);
		else
			str_add(&s, "\xef\xbf\xbd");
		i += n ? n : 1;
	}
	str_add(&s, "");
	return str_take(&s);
}
