/* Slurm's commands as child processes: with an environment of our own, as whom the job belongs to, and never longer than an operation
 * may take. What they say is read from memory once they have ended, so a slow one can't be mistaken for one that says nothing. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "executor/slurm.h"

#define SAID_MAX     (256 * 1024)
#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

void slurm_said_release(struct slurm_said *s)
{
	cleanup_free(&s->out);
	cleanup_free(&s->error);
}

/* What a client says when it is the controller that does not answer, in the words of slurm_strerror(3). */
bool slurm_is_away(const char *error)
{
	static const char *const words[] = {
		"Unable to contact slurm controller",
		"Socket timed out",
		"Zero Bytes were transmitted",
		"Communication connection failure",
		"Communication shutdown failure",
		"Message receive failure",
		"Message send failure",
		"Resource temporarily unavailable",
		"Slurm backup controller in standby mode",
		"temporarily unable to accept job",
		"Connection refused",
		"Connection reset",
		"Munge decode failed",
		"Munge encode failed",
		"Protocol authentication error",
		"authentication plugin",
	};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcasestr(error, words[i]))
			return true;
	return false;
}

static char *read_back(int fd)
{
	char *text = xcalloc(1, SAID_MAX + 1);
	ssize_t n = pread(fd, text, SAID_MAX, 0);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* "sbatch: error: Batch job submission failed: Invalid partition": the last line that is not empty. */
static char *last_line(int fd)
{
	CLEANUP_FREE char *text = read_back(fd);
	size_t end = strlen(text);
	while (end && strchr("\n\r ", text[end - 1]))
		text[--end] = '\0';
	const char *line = strrchr(text, '\n');
	return str_visible(line ? line + 1 : text);
}

static void make_environment(const struct slurm *s, struct strv *ret)
{
	const char *path = getenv("PATH");
	const char *conf = pairs_get(&s->x->settings->options, "conf");
	if (!conf)
		conf = getenv("SLURM_CONF");
	strv_addf(ret, "PATH=%s", path && path[0] ? path : DEFAULT_PATH);
	strv_add(ret, "LC_ALL=C");
	strv_add(ret, "TZ=UTC");
	if (conf)
		strv_addf(ret, "SLURM_CONF=%s", conf);
}

struct child {
	const char *program;
	char *const *argv, *const *env;
	int out_fd, error_fd;
	uid_t uid;
	gid_t gid;
	pid_t parent;
};

/* Only what is safe after a fork. */
_Noreturn static void become(const struct child *c)
{
	sigset_t none;
	sigemptyset(&none);
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	bool ok = null_fd >= 0 && dup2(null_fd, 0) >= 0 && dup2(c->out_fd, 1) >= 0 &&
		  dup2(c->error_fd, 2) >= 0;
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (ok && geteuid() == 0 && c->uid != 0)
		ok = setgroups(1, &c->gid) == 0 && setresgid(c->gid, c->gid, c->gid) == 0 &&
		     setresuid(c->uid, c->uid, c->uid) == 0;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user's would be forgotten */
	if (ok && getppid() == c->parent)
		(void)execvpe(c->program, c->argv, c->env);
	_exit(errno == ENOENT ? 127 : 126);
}

/* Its wait status, or -EAGAIN if it had to be ended. */
static int wait_for(pid_t pid, uint64_t until_ns)
{
	CLEANUP_FD int fd = proc_pidfd_open(pid);
	int status = 0;
	bool ended = false;
	while (fd >= 0 && !ended) {
		uint64_t now = clock_monotonic_ns();
		struct pollfd at = { .fd = fd, .events = POLLIN };
		int r = now >= until_ns ? 0 : poll(&at, 1, (int)((until_ns - now) / NS_PER_MS) + 1);
		if (r == 0 || (r < 0 && errno != EINTR))
			break;
		ended = r > 0;
	}
	if (!ended)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return ended ? status : -EAGAIN;
}

static int run(const struct slurm *s, struct child *c, struct err *err)
{
	c->parent = getpid();
	pid_t pid = fork();
	if (pid == 0)
		become(c);
	if (pid < 0)
		return err_errno(err, "start %s", c->program);
	int status = wait_for(pid, s->until_ns);
	if (status == -EAGAIN)
		return err_set(err, ERR_HOST, EAGAIN, "%s did not end in time", c->argv[0]);
	if (status < 0)
		return err_set(err, ERR_HOST, -status, "wait for %s", c->argv[0]);
	return status;
}

int slurm_call(const struct slurm *s, const struct slurm_dir *d, struct strv *words,
	       struct slurm_said *ret, struct err *err)
{
	const char *place = pairs_get(&s->x->settings->options, "commands");
	CLEANUP_FREE char *program = place ? xasprintf("%s/%s", place, words->v[0])
					   : xstrdup(words->v[0]);
	CLEANUP_FD int out_fd = memfd_create("out", MFD_CLOEXEC);
	CLEANUP_FD int error_fd = memfd_create("error", MFD_CLOEXEC);
	CLEANUP_STRV struct strv env = { 0 };
	if (out_fd < 0 || error_fd < 0)
		return err_errno(err, "start %s", program);
	make_environment(s, &env);
	struct child c = { .program = program,
			   .argv = strv_argv(words),
			   .env = strv_argv(&env),
			   .out_fd = out_fd,
			   .error_fd = error_fd,
			   .uid = d ? d->uid : 0,
			   .gid = d ? d->gid : 0 };
	int status = run(s, &c, err);
	if (status < 0)
		return status;
	if (WIFEXITED(status) && (WEXITSTATUS(status) == 127 || WEXITSTATUS(status) == 126))
		return err_set(
			err, ERR_HOST, ENOENT,
			"%s can't be executed; install Slurm's commands, or name their directory with 'commands:'",
			program);
	*ret = (struct slurm_said){ .status = status,
				    .out = read_back(out_fd),
				    .error = last_line(error_fd) };
	return 0;
}

int slurm_call_ok(const struct slurm *s, const struct slurm_dir *d, struct strv *words,
		  struct slurm_said *ret, struct err *err)
{
	CLEANUP_SAID struct slurm_said said = { 0 };
	int r = slurm_call(s, d, words, &said, err);
	if (r < 0)
		return r;
	if (said.status != 0)
		return err_set(err, ERR_HOST, slurm_is_away(said.error) ? EAGAIN : EREMOTEIO,
			       "%s: %.300s", words->v[0],
			       said.error[0] ? said.error : "failed and did not say why");
	*ret = said;
	said = (struct slurm_said){ 0 };
	return 0;
}
