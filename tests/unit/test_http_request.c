/* A handler that forgets its request. The linker puts `__wrap_route_find` in place of the table of routes. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "serve/http_parts.h"
#include "serve/route.h"

#define CALLS_MAX 1000

bool __wrap_route_find(struct request *r, const char *method);

struct place {
	sd_event *event;
	struct config config;
	struct http http;
	int listen_fd, client_fd;
};

static void forget(struct request *r)
{
}

static void work(void *data)
{
}

static void release(void *data)
{
}

static void forget_reading(struct request *r, void *data)
{
}

static void forget_later(struct request *r)
{
	static const struct reading reading = { work, forget_reading, release };
	request_read(r, &reading, NULL);
}

static void answer_twice_later(struct request *r)
{
	request_wait(r);
	request_wait(r);
	respond_json(r, 200, json_object());
	request_wait(r); /* too late: it is answered */
}

static const struct route *chosen;

bool __wrap_route_find(struct request *r, const char *method)
{
	r->route = chosen;
	return true;
}

static int set_up(void **state)
{
	static const struct sockaddr_un any = { .sun_family = AF_UNIX };
	struct place *p = xcalloc(1, sizeof *p);
	struct sockaddr_un address = { 0 };
	socklen_t length = sizeof address;
	struct err err = { 0 };
	assert_true(sd_event_new(&p->event) >= 0);
	p->config.home = (char *)"/nonexistent";
	p->http.sending_end = &p->http.sending;
	p->http.auth = auth_new(&p->config);
	p->http.rates = rates_new();
	p->http.context = (struct context){ .event = p->event, .config = &p->config };
	assert_int_equal(desk_open(p->event, &p->http.desk, &err), 0);
	p->http.context.desk = p->http.desk;
	p->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The kernel chooses an abstract name. */
	assert_int_equal(bind(p->listen_fd, (const struct sockaddr *)&any, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(p->listen_fd, 5), 0);
	assert_int_equal(getsockname(p->listen_fd, (struct sockaddr *)&address, &length), 0);
	struct door *d = &p->http.doors[p->http.n_doors++];
	*d = (struct door){ .http = &p->http };
	d->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
				     request_answer, d, MHD_OPTION_LISTEN_SOCKET, p->listen_fd,
				     MHD_OPTION_NOTIFY_COMPLETED, request_end, d,
				     MHD_OPTION_NOTIFY_CONNECTION, connection_notify, d,
				     MHD_OPTION_URI_LOG_CALLBACK, request_begin, d, MHD_OPTION_END);
	assert_non_null(d->daemon);
	assert_true(sd_event_add_time_relative(p->event, &p->http.late, CLOCK_MONOTONIC, UINT32_MAX,
					       0, connection_late, &p->http) >= 0);
	p->client_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(p->client_fd, (const struct sockaddr *)&address, length), 0);
	assert_int_equal(fcntl(p->client_fd, F_SETFL, O_NONBLOCK), 0);
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;
	(void)close(p->client_fd);
	desk_freep(&p->http.desk);
	MHD_stop_daemon(p->http.doors[0].daemon);
	sd_event_source_freep(&p->http.late);
	auth_free(p->http.auth);
	rates_free(p->http.rates);
	free(p->http.peers);
	sd_event_unref(p->event);
	free(p);
	return 0;
}

/* What the client hears, or an empty text if the library was called that often without an answer. */
static void ask(struct place *p, void (*handle)(struct request *), char *ret, size_t room)
{
	static const char text[] = "GET /forgotten HTTP/1.1\r\nHost: x\r\n\r\n";
	static struct route route = { METHOD_GET, "/forgotten", 0,         ROUTE_OPEN,
				      NULL,       "forget",     "Nothing." };
	ssize_t n = -1;
	route.handle = handle;
	chosen = &route;
	assert_int_equal(write(p->client_fd, text, sizeof text - 1), sizeof text - 1);
	for (int i = 0; i < CALLS_MAX && n < 0; i++) {
		assert_int_equal(MHD_run(p->http.doors[0].daemon), MHD_YES);
		(void)sd_event_run(p->event, 1000);
		n = read(p->client_fd, ret, room - 1);
	}
	ret[n > 0 ? n : 0] = 0;
}

static void a_request_that_nobody_answers_ends_with_500(void **state)
{
	char answer[4096];
	ask(*state, forget, answer, sizeof answer);
	assert_memory_equal(answer, "HTTP/1.1 500 ", 13);
	assert_non_null(strstr(answer, "no answer"));
}

static void so_does_one_whose_reader_forgets_it(void **state)
{
	char answer[4096];
	ask(*state, forget_later, answer, sizeof answer);
	assert_memory_equal(answer, "HTTP/1.1 500 ", 13);
}

static void one_that_is_answered_at_once_needs_no_guard(void **state)
{
	char answer[4096];
	ask(*state, answer_twice_later, answer, sizeof answer);
	assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_request_that_nobody_answers_ends_with_500, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(so_does_one_whose_reader_forgets_it, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(one_that_is_answered_at_once_needs_no_guard, set_up,
						tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
