/* Pid 1 of a container that an OCI runtime made, for a keeper at the other end of its stdin. A static program, so that it starts on any root:
 *
 *   init [OPTION...] PROGRAM [ARGUMENT...]
 *
 * What the container's maker can't do is done here: -L ABI with -r, -w, -d PATH (read, write, device) is Landlock, -s cupel's seccomp
 * filter, -l NUMBER=VALUE a limit, -u a user namespace, -k PATH the checkpoint, -g says that the kernel is not the host's. */
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "executor/kept1.h"

static void add_rule(struct plan *p, const char *path, enum access access)
{
	p->rules = xreallocarray(p->rules, p->n_rules + 1, sizeof p->rules[0]);
	p->rules[p->n_rules++] = (struct rule){ (char *)path, access };
}

static bool add_limit(struct plan *p, const char *text)
{
	char *end = NULL;
	if (p->n_rlimits == sizeof p->rlimits / sizeof p->rlimits[0])
		return false;
	struct plan_rlimit *l = &p->rlimits[p->n_rlimits++];
	l->resource = (int)strtol(text, &end, 10);
	l->value = *end == '=' ? strtoull(end + 1, NULL, 10) : 0;
	return *end == '=';
}

static bool take_option(struct kept1 *p, int option)
{
	switch (option) {
	case 'u':
		return p->own_user = true;
	case 's':
		return p->has_seccomp = true;
	case 'g':
		return p->is_guest = true;
	case 'k':
		p->plan.checkpoint = optarg;
		return true;
	case 'L':
		p->plan.landlock_abi = (int)strtol(optarg, NULL, 10);
		return p->plan.landlock_abi > 0;
	case 'l':
		return add_limit(&p->plan, optarg);
	case 'r':
	case 'w':
	case 'd':
		add_rule(&p->plan, optarg,
			 option == 'r'   ? ACCESS_READ
			 : option == 'w' ? ACCESS_WRITE
					 : ACCESS_DEVICE);
		return true;
	default:
		return false;
	}
}

int main(int argc, char **argv)
{
	struct kept1 p = { 0 };
	for (int option; (option = getopt(argc, argv, "+usgk:L:l:r:w:d:")) >= 0;)
		if (!take_option(&p, option))
			return KEPT1_FAILED;
	if (argc - optind < 1)
		return KEPT1_FAILED;
	p.plan.argv = (struct strv){ .v = argv + optind, .n = (size_t)(argc - optind) };
	p.plan.env.v = environ;
	while (environ[p.plan.env.n])
		p.plan.env.n++;
	kept1_keep(&p);
}
