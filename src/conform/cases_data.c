/* What goes in and comes out: logs, outputs, arguments, inputs; and what must not be there. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fs.h"
#include "conform/parts.h"

#define LARGE ((size_t)64 << 20)
#define MANY  500

void case_logs(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	json_t *a = shell_analysis("echo first; echo aside >&2; sleep 5; echo last");
	if (!attempt_begin(c, a, &t, o) ||
	    !attempt_until(c, &t, attempt_has_printed, " for its first line", o))
		return;
	if (attempt_has_verdict(c, &t))
		(void)outcome_fail(o, "%s: its first line was there only after its end", t.id);
	if (attempt_end(c, &t, o) && attempt_cause_is(&t, "ok", o) &&
	    attempt_log_is(c, &t, "stdout.log", "first\nlast\n", o))
		(void)attempt_log_is(c, &t, "stderr.log", "aside\n", o);
}

void case_large(struct conform *c, struct outcome *o)
{
	static const char line[] = "conformance\n";
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	CLEANUP_FREE char *bytes = xmalloc(LARGE);
	for (size_t at = 0; at < LARGE; at++)
		bytes[at] = line[at % (sizeof line - 1)];
	json_t *a = shell_analysis("yes conformance | head -c 67108864 > out/large");
	if (attempt_run(c, a, &t, "ok", o))
		(void)attempt_output_is(c, &t, "out/large", bytes, LARGE, o);
}

void case_many(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	json_t *a = shell_analysis(
		"i=0; while [ $i -lt 500 ]; do mkdir -p out/$((i % 7)); echo $i > out/$((i % 7))/$i; i=$((i + 1)); done");
	if (!attempt_run(c, a, &t, "ok", o))
		return;
	if (attempt_output_count(c, &t) != MANY)
		(void)outcome_fail(o, "%s: there are %zu outputs, not %d", t.id,
				   attempt_output_count(c, &t), MANY);
	for (int i = 0; i < MANY && o->status == OUTCOME_PASSED; i += 71) {
		CLEANUP_FREE char *path = xasprintf("out/%d/%d", i % 7, i);
		CLEANUP_FREE char *text = xasprintf("%d\n", i);
		(void)attempt_output_is(c, &t, path, text, strlen(text), o);
	}
}

void case_missing(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	json_t *a = shell_analysis("echo other > out/other");
	json_object_set_new(a, "outputs",
			    json_pack("[{s:s,s:b}]", "path", "out/never", "required", 1));
	(void)attempt_run(c, a, &t, "output-missing", o);
}

void case_bytes(struct conform *c, struct outcome *o)
{
	static const char *const odd[] = { "",
					   " two  blanks ",
					   "a\nb\n",
					   "tab\there",
					   "'\"\\$HOME`id`$(id);&|<>*?~#!",
					   "%s%n{}[]",
					   "\xc3\xa4\xe2\x82\xac\xf0\x9f\x94\xa5",
					   "-n",
					   "--",
					   "=x=" };
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	CLEANUP_STR struct str expected = { 0 };
	json_t *a = shell_analysis("printf '%s\\0' \"$@\" \"$ODD\" \"$EMPTY\" > out/bytes");
	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		json_array_append_new(json_object_get(a, "command"), json_string(odd[i]));
		str_add_n(&expected, odd[i], strlen(odd[i]) + 1);
	}
	json_object_set_new(a, "env",
			    json_pack("{s:s,s:s}", "ODD", "=\n'\"\\ \t$x \xc3\xa9 ", "EMPTY", ""));
	str_add_n(&expected, "=\n'\"\\ \t$x \xc3\xa9 ", sizeof "=\n'\"\\ \t$x \xc3\xa9 ");
	str_add_n(&expected, "", 1);
	if (attempt_run(c, a, &t, "ok", o))
		(void)attempt_output_is(c, &t, "out/bytes", expected.text, expected.length, o);
}

void case_inputs(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	CLEANUP_FREE char *path = xasprintf("%s/input.txt", c->top);
	CLEANUP_FREE char *after = NULL;
	struct err err = { 0 };
	size_t length = 0;
	if (fs_write_atomic(AT_FDCWD, path, "given\n", 6, 0644, &err) < 0) {
		(void)outcome_fail(o, "%s", err.text);
		return;
	}
	json_t *a = shell_analysis(
		"cat data/given; { echo more >> data/given; } 2>/dev/null && echo changed;"
		" rm -f data/given 2>/dev/null && echo removed; exit 0");
	json_object_set_new(a, "inputs", json_pack("[{s:s,s:s}]", "path", path, "name", "given"));
	if (attempt_run(c, a, &t, "ok", o))
		(void)attempt_log_is(c, &t, "stdout.log", "given\n", o);
	if (fs_read_capped(AT_FDCWD, path, 4096, &after, &length, NULL) < 0 ||
	    !str_eq(after, "given\n"))
		(void)outcome_fail(o, "%s: the input was changed", t.id);
}

/* Somebody who listens on this host, and can be reached by us. */
static int listen_here(unsigned *ret_port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CLEANUP_FD int control = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || control < 0 || bind(fd, (struct sockaddr *)&address, length) < 0 ||
	    listen(fd, 8) < 0 || getsockname(fd, (struct sockaddr *)&address, &length) < 0 ||
	    connect(control, (struct sockaddr *)&address, length) < 0)
		return -errno;
	*ret_port = ntohs(address.sin_port);
	return take_fd(&fd);
}

void case_network(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	unsigned port = 0;
	if (strv_has(c->without, "net")) {
		(void)outcome_skip(o, "%s does not enforce it: net", c->name);
		return;
	}
	CLEANUP_FD int fd = listen_here(&port);
	if (fd < 0) {
		(void)outcome_skip(o, "nobody can listen on this host: %s", strerrordesc_np(-fd));
		return;
	}
	CLEANUP_FREE char *script = xasprintf(
		"while read -r name rest; do [ \"$name\" = Iface ] || echo \"route $name\"; done < /proc/net/route\n"
		"command -v bash > /dev/null || exit 0\n"
		"bash -c 'exec 3<>/dev/tcp/127.0.0.1/%u' 2>/dev/null && echo reached; exit 0",
		port);
	if (attempt_run(c, shell_analysis(script), &t, "ok", o))
		(void)attempt_log_is(c, &t, "stdout.log", "", o);
}

void case_powers(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	size_t length = 0;
	int sets = 0;
	if (!attempt_run(c, shell_analysis("cat /proc/self/status; id -u"), &t, "ok", o))
		return;
	CLEANUP_FREE char *text = attempt_file(c, &t, "stdout.log", &length);
	if (!text || strstr(text, "NoNewPrivs:\t0") || str_ends(text, "\n0\n"))
		(void)outcome_fail(o, "%s: it can gain privileges, or is root", t.id);
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		if (!str_starts(line, "Cap"))
			continue;
		sets++;
		if (strtoull(line + strcspn(line, "\t"), NULL, 16))
			(void)outcome_fail(o, "%s: it has capabilities: %s", t.id, line);
	}
	if (!sets)
		(void)outcome_fail(o, "%s: its status names no capabilities", t.id);
}
