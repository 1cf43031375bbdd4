/* The log pump of pid 1 in containers, at the end: all in the container are dead. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "executor/pid1.h"

struct place {
	char path[32];
	struct pump pump;
	int write_fd;
};

static int set_up(void **state)
{
	static struct place p;
	p = (struct place){ .path = "/tmp/cupel-pump-XXXXXX" };
	int fd = mkstemp(p.path);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(pump_open(&p.pump, p.path, 1 << 20, &p.write_fd), 0);
	(void)alarm(60); /* a loop without an end is a failure */
	*state = &p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;
	(void)alarm(0);
	if (p->write_fd >= 0)
		(void)close(p->write_fd);
	if (p->pump.pipe_fd >= 0)
		(void)close(p->pump.pipe_fd);
	(void)close(p->pump.file_fd);
	return unlink(p->path);
}

static void holds(const struct place *p, const char *text)
{
	char found[64] = "";
	int fd = open(p->path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, found, sizeof found - 1), strlen(text));
	(void)close(fd);
	assert_string_equal(found, text);
}

static void what_was_written_is_kept(void **state)
{
	struct place *p = *state;
	assert_int_equal(write(p->write_fd, "hello", 5), 5);
	(void)close(p->write_fd);
	p->write_fd = -1;
	pump_end(&p->pump);
	holds(p, "hello");
}

static void whoever_holds_the_other_end_is_not_waited_for(void **state)
{
	struct place *p = *state;
	assert_int_equal(write(p->write_fd, "hello", 5), 5);
	pump_end(&p->pump);
	holds(p, "hello");
	assert_int_equal(p->pump.all_bytes, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_written_is_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(whoever_holds_the_other_end_is_not_waited_for,
						set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
