/* Logs: limit, marks, floods, ends, full disks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "collect/stream.h"

struct rig {
	struct stream stream;
	int in_fd; /* owned; what the box would write to */
};

static int rig_open(void **state, int file_fd)
{
	static struct rig rig;
	int ends[2];
	assert_true(file_fd >= 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	rig = (struct rig){
		.stream = { .pipe_fd = ends[0], .file_fd = file_fd, .limit_bytes = 1000 },
		.in_fd = ends[1],
	};
	*state = &rig;
	return 0;
}

static int setup(void **state)
{
	return rig_open(state, open("/tmp", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
}

static int setup_full(void **state)
{
	return rig_open(state, open("/dev/full", O_WRONLY | O_CLOEXEC));
}

static int teardown(void **state)
{
	struct rig *rig = *state;
	cleanup_fd(&rig->in_fd);
	stream_release(&rig->stream);
	stream_release(&rig->stream); /* twice is fine */
	return 0;
}

static void put(struct rig *rig, char c, size_t length)
{
	CLEANUP_FREE char *bytes = xmalloc(length + 1);
	memset(bytes, c, length);
	assert_int_equal(write(rig->in_fd, bytes, length), length);
}

static char *text_of(struct rig *rig)
{
	struct stat st;
	assert_int_equal(fstat(rig->stream.file_fd, &st), 0);
	char *text = xcalloc(1, (size_t)st.st_size + 1);
	assert_int_equal(pread(rig->stream.file_fd, text, (size_t)st.st_size, 0), st.st_size);
	assert_int_equal(rig->stream.kept_bytes, st.st_size);
	return text;
}

static void passes_bytes_through(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(write(rig->in_fd, "a\0b\n", 4), 4);
	assert_int_equal(stream_pump(&rig->stream), 1);
	assert_int_equal(stream_pump(&rig->stream), 1); /* nothing there: does not block */
	cleanup_fd(&rig->in_fd);
	assert_int_equal(stream_pump(&rig->stream), 0);
	assert_int_equal(rig->stream.pipe_fd, -1);
	assert_int_equal(stream_pump(&rig->stream), 0);
	assert_int_equal(stream_finish(&rig->stream), 0);
	CLEANUP_FREE char *text = text_of(rig);
	assert_int_equal(rig->stream.kept_bytes, 4);
	assert_memory_equal(text, "a\0b\n", 4);
	assert_false(rig->stream.truncated);
}

static void exactly_the_limit_is_whole(void **state)
{
	struct rig *rig = *state;
	put(rig, 'x', 1000);
	assert_int_equal(stream_pump(&rig->stream), 1);
	assert_int_equal(stream_finish(&rig->stream), 0);
	assert_false(rig->stream.truncated);
	assert_int_equal(rig->stream.kept_bytes, 1000);
	assert_int_equal(rig->stream.dropped_bytes, 0);
}

static void limit_is_marked(void **state)
{
	struct rig *rig = *state;
	put(rig, 'x', 900);
	assert_int_equal(stream_pump(&rig->stream), 1);
	put(rig, 'y', 300);
	assert_int_equal(stream_pump(&rig->stream), 1);
	put(rig, 'z', 50);
	assert_int_equal(stream_pump(&rig->stream), 1);
	assert_true(rig->stream.truncated);
	assert_int_equal(rig->stream.dropped_bytes, 250);
	assert_int_equal(stream_finish(&rig->stream), 0);

	CLEANUP_FREE char *text = text_of(rig);
	assert_int_equal(strspn(text, "x"), 900);
	assert_int_equal(strspn(text + 900, "y"), 100);
	assert_null(strchr(text, 'z'));
	assert_true(str_starts(text + 1000, "\n[cupel: log limit of "));
	assert_true(
		str_ends(text, " reached; the rest was dropped]\n[cupel: 250 bytes dropped]\n"));
}

static void flood_is_bounded(void **state)
{
	struct rig *rig = *state;
	assert_true(fcntl(rig->in_fd, F_SETPIPE_SZ, 1024 * 1024) >= 1024 * 1024);
	uint64_t sent = 0;
	for (int i = 0; i < 64; i++) {
		put(rig, 'f', 1024 * 1024);
		sent += 1024 * 1024;
		assert_int_equal(stream_pump(&rig->stream), 1);
	}
	cleanup_fd(&rig->in_fd);
	int r;
	while ((r = stream_pump(&rig->stream)) == 1)
		;
	assert_int_equal(r, 0);
	assert_int_equal(rig->stream.dropped_bytes, sent - 1000);
	assert_int_equal(stream_finish(&rig->stream), 0);
	CLEANUP_FREE char *text = text_of(rig);
	assert_true(strlen(text) < 1200);
}

/* A writer that is always ahead must not keep one call for ever. */
static void one_call_reads_a_bounded_amount(void **state)
{
	struct rig *rig = *state;
	CLEANUP_FD int zero_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	cleanup_fd(&rig->stream.pipe_fd);
	rig->stream.pipe_fd = take_fd(&zero_fd);
	assert_int_equal(stream_pump(&rig->stream), 1);
	assert_true(rig->stream.dropped_bytes <= 2 * STREAM_PUMP_MAX);
}

static void full_disk_does_not_stop_the_reading(void **state)
{
	struct rig *rig = *state;
	put(rig, 'x', 600);
	assert_int_equal(stream_pump(&rig->stream), -ENOSPC);
	assert_true(rig->stream.truncated);
	assert_int_equal(rig->stream.write_error, ENOSPC);
	put(rig, 'x', 500);
	assert_int_equal(stream_pump(&rig->stream), 1);
	cleanup_fd(&rig->in_fd);
	assert_int_equal(stream_pump(&rig->stream), 0);
	assert_int_equal(rig->stream.kept_bytes, 0);
	assert_int_equal(rig->stream.dropped_bytes, 1100);
	assert_int_equal(stream_finish(&rig->stream), -ENOSPC);
}

/* The disk had room again when the log was closed: the mark says what happened. */
static void full_disk_is_told(void **state)
{
	struct rig *rig = *state;
	put(rig, 'x', 600);
	assert_int_equal(stream_pump(&rig->stream), -ENOSPC);
	cleanup_fd(&rig->stream.file_fd);
	rig->stream.file_fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(stream_finish(&rig->stream), 0);
	CLEANUP_FREE char *text = text_of(rig);
	assert_string_equal(text, "\n[cupel: the log could not be written (No space left on "
				  "device); 600 bytes dropped]\n");
}

/* Bytes that came by another way than a pipe: the same limit, the same mark. */
static void fed_bytes_have_the_same_limit(void **state)
{
	struct rig *rig = *state;
	char bytes[700];
	memset(bytes, 'f', sizeof bytes);
	bytes[1] = '\0';
	assert_true(stream_feed(&rig->stream, bytes, 0) >= 0);
	assert_int_equal(rig->stream.kept_bytes, 0);
	assert_true(stream_feed(&rig->stream, bytes, sizeof bytes) >= 0);
	assert_int_equal(rig->stream.kept_bytes, sizeof bytes);
	assert_int_equal(rig->stream.dropped_bytes, 0);
	assert_true(stream_feed(&rig->stream, bytes, sizeof bytes) >= 0); /* 400 too many */
	assert_int_equal(rig->stream.dropped_bytes, 400);
	assert_true(stream_feed(&rig->stream, bytes, sizeof bytes) >= 0);
	assert_int_equal(rig->stream.dropped_bytes, 1100);
	assert_int_equal(stream_finish(&rig->stream), 0);
	CLEANUP_FREE char *text = text_of(rig);
	assert_memory_equal(text, bytes, sizeof bytes);
	assert_non_null(strstr(text + 1000, "[cupel: "));
	assert_non_null(strstr(text + 1000, "1100 bytes dropped]"));
}

static void fed_bytes_and_a_full_disk(void **state)
{
	struct rig *rig = *state;
	assert_int_equal(stream_feed(&rig->stream, "abc", 3), -ENOSPC);
	assert_int_equal(rig->stream.kept_bytes, 0);
	assert_int_equal(rig->stream.dropped_bytes, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(passes_bytes_through, setup, teardown),
		cmocka_unit_test_setup_teardown(exactly_the_limit_is_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(limit_is_marked, setup, teardown),
		cmocka_unit_test_setup_teardown(flood_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(one_call_reads_a_bounded_amount, setup, teardown),
		cmocka_unit_test_setup_teardown(full_disk_does_not_stop_the_reading, setup_full,
						teardown),
		cmocka_unit_test_setup_teardown(full_disk_is_told, setup_full, teardown),
		cmocka_unit_test_setup_teardown(fed_bytes_have_the_same_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(fed_bytes_and_a_full_disk, setup_full, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
