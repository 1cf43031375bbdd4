#include "cli/foreign.h"

#include <stddef.h>
#include <string.h>

#include "base/str.h"

struct foreign {
	const char *words; /* with spaces between them */
	const char *here;
};

#define CANCEL "use `cupel cancel ID`"
#define SHOW   "use `cupel show ID`; `cupel show --json ID` prints everything"
#define IMAGE                                                                                      \
	"fetch an image with `skopeo copy docker://IMAGE oci:PATH`, then use `cupel runtime create NAME --kind image --layout PATH` (man cupel-runtime-create)"
#define CREATE "use `cupel runtime create NAME --kind KIND` (man cupel-runtime-create)"
#define INSIDE                                                                                     \
	"nothing enters a box that runs; use `cupel logs -f ID` to watch it, or `cupel run -- COMMAND` for a box of its own"
#define NO_TTY "a box has no terminal; use `cupel run -- sh -c 'COMMANDS'`"

static const struct foreign commands[] = {
	{ "stop kill scancel delete abort", CANCEL },
	{ "exec attach enter", INSIDE },
	{ "shell bash sh login interactive salloc", NO_TTY },
	{ "inspect describe info scontrol", SHOW },
	{ "status state",
	  "use `cupel ps` for active runs, `cupel show ID` for one, `cupel health` for the host" },
	{ "rm remove",
	  "a box is removed when its run ends, and its record stays; use `cupel cancel ID` to end a run, `cupel gc` to remove leftovers" },
	{ "prune clean", "use `cupel gc`" },
	{ "pull load import", IMAGE },
	{ "build install", CREATE },
	{ "images image envs env", "use `cupel runtime list`" },
	{ "rmi", "use `cupel runtime remove NAME`" },
	{ "sbatch start queue", "use `cupel submit`; `cupel run` needs no service" },
	{ "srun execute", "use `cupel run`" },
	{ "restart retry", "use `cupel rerun ID`, or `cupel resume ID` for a pipeline" },
	{ "squeue jobs", "use `cupel ps`" },
	{ "sacct history get ls", "use `cupel list`" },
	{ "sinfo nodes", "use `cupel executor list`" },
	{ "stats", "use `cupel top`" },
	{ "cp download fetch", "use `cupel outputs ID --to DIR`" },
	{ "log tail", "use `cupel logs -f ID`" },
	{ "volume mount", "use `cupel run --data PATH[:NAME]`" },
};

static const struct foreign options[] = {
	{ "--gpus --gres --gpu --gpus-per-task --gpus-per-node --device --nv",
	  "a box has the devices that its runtime lists under 'devices:' (man cupel-runtimes)" },
	{ "-v --volume --mount --bind -B",
	  "use --data PATH[:NAME], read-only at data/NAME; what the analysis leaves in out/ is collected" },
	{ "-i -it --interactive --tty --pty", "a box has no terminal and an empty standard input" },
	{ "--rm", "not needed: a box is removed when its run ends" },
	{ "--detach", "use `cupel submit`, or `cupel run ... &`" },
	{ "--publish --expose", "no port of a box is reachable from outside" },
	{ "--net", "use --network none or --network host" },
	{ "--entrypoint --wrap", "use -- COMMAND [ARG]..." },
	{ "-w --workdir --chdir -D",
	  "the working directory is made for each run; show files with --data" },
	{ "-u --user --privileged --cap-add --security-opt",
	  "a run has a user of its own and no privileges; this cannot be changed" },
	{ "--read-only", "not needed: only the working directory, /tmp and /dev/shm are writable" },
	{ "--image", "use -r NAME with a runtime made of the image (man cupel-runtime-create)" },
	{ "--env-file", "use --env NAME=VALUE, once for each variable" },
	{ "--pids-limit", "use --pids N" },
	{ "--ulimit", "use --open-files N and --file-size SIZE" },
	{ "--shm-size --memory-swap",
	  "use --memory SIZE, which counts /dev/shm; there is no swap" },
	{ "--mem --mem-per-cpu", "use --memory SIZE" },
	{ "-n --ntasks --cpus-per-task --nproc", "use --cpus N" },
	{ "--walltime --timeout", "use --time TIME" },
	{ "-J --job-name", "use --name TEXT" },
	{ "--partition --account --qos -A",
	  "use -x NAME with an executor that the configuration describes (man cupel.yaml)" },
	{ "--output --error --logfile",
	  "the log is kept for each run: `cupel logs ID`; to collect files use --out GLOB" },
	{ "-a --array", "use 'scatter:' in a pipeline (man cupel-pipeline)" },
	{ "--dependency", "use 'needs:' in a pipeline (man cupel-pipeline)" },
	{ "--restart", "use 'retries:' in a pipeline (man cupel-pipeline)" },
	{ "--tmp", "use --disk SIZE" },
};

static const char *find(const struct foreign *rows, size_t n, const char *word, size_t length)
{
	for (size_t i = 0; i < n; i++)
		for (const char *at = rows[i].words; *at;) {
			size_t one = strcspn(at, " ");
			if (one == length && memcmp(at, word, length) == 0)
				return rows[i].here;
			at += one + (at[one] == ' ');
		}
	return NULL;
}

const char *foreign_command(const char *word)
{
	return find(commands, sizeof commands / sizeof *commands, word, strlen(word));
}

const char *foreign_option(const char *argument)
{
	return find(options, sizeof options / sizeof *options, argument, strcspn(argument, "="));
}
