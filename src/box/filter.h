/* Programs for seccomp, as mkfilter handles them: their answers, and a search that is as short as the answers allow. A launch pays for
 * each instruction, which the kernel checks and translates anew. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seccomp_data;

struct filter {
	struct sock_filter code[4096];
	size_t n;
};

void filter_add(struct filter *f, const struct sock_filter *code, size_t n);
/* What the program answers; SECCOMP_RET_KILL_PROCESS too where it has an instruction that no filter of ours has. */
uint32_t filter_answer(const struct filter *f, const struct seccomp_data *call);
/* Adds a search by the number of the call, which the accumulator has, with the answers that `model` has for this architecture. False if
 * it gets too long. */
bool filter_add_search(struct filter *f, const struct filter *model, uint32_t arch);
/* Do both answer the same, whatever the number and architecture, to calls with arguments that any rule looks at? Returns false with the
 * first call that differs. */
bool filter_same(const struct filter *a, const struct filter *b, uint32_t arch,
		 struct seccomp_data *ret_call);
