#include "box/filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS    4096       /* far more than there are calls */
#define OTHER_ABI  0x40000000 /* x32's calls have this bit */
#define RANGES_MAX 512
#define JUMP_MAX   255

void filter_add(struct filter *f, const struct sock_filter *code, size_t n)
{
	if (n > sizeof f->code / sizeof *f->code - f->n)
		abort();
	memcpy(f->code + f->n, code, n * sizeof *code);
	f->n += n;
}

uint32_t filter_answer(const struct filter *f, const struct seccomp_data *call)
{
	uint32_t a = 0;
	for (size_t at = 0; at < f->n; at++) {
		const struct sock_filter *i = &f->code[at];
		bool yes = false;
		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (i->k > sizeof *call - sizeof a)
				return SECCOMP_RET_KILL_PROCESS;
			memcpy(&a, (const char *)call + i->k, sizeof a);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			continue;
		case BPF_RET | BPF_K:
			return i->k;
		case BPF_JMP | BPF_JA:
			at += i->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			yes = a == i->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			yes = a >= i->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			yes = a > i->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			yes = a & i->k;
			break;
		default:
			return SECCOMP_RET_KILL_PROCESS;
		}
		at += yes ? i->jt : i->jf;
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* Numbers from `first` on, up to the next range, have one answer. */
struct range {
	uint32_t first, answer;
};

struct ranges {
	struct range v[RANGES_MAX];
	size_t n;
};

static void ranges_add(struct ranges *r, const struct filter *model, uint32_t arch, uint32_t number)
{
	struct seccomp_data call = { .nr = (int)number, .arch = arch };
	uint32_t answer = filter_answer(model, &call);
	if (r->n && r->v[r->n - 1].answer == answer)
		return;
	if (r->n == RANGES_MAX)
		abort();
	r->v[r->n++] = (struct range){ number, answer };
}

/* The answers, each once, stand behind the search. */
static size_t answer_place(const struct filter *answers, uint32_t answer)
{
	size_t i = 0;
	while (i < answers->n && answers->code[i].k != answer)
		i++;
	return i;
}

/* A search in the ranges [from, to): a comparison, the lower half, the upper half. A half that is one range is its answer, to which the
 * comparison jumps: `end` is where the answers begin. Returns false if a jump is too long. */
struct search {
	struct filter *out;
	const struct ranges *ranges;
	const struct filter *answers;
	size_t end;
};

static bool search_add(const struct search *s, size_t from, size_t to)
{
	size_t middle = from + (to - from) / 2, at = s->out->n;
	const struct range *v = s->ranges->v;
	struct sock_filter compare = BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, v[middle].first, 0, 0);
	filter_add(s->out, &compare, 1);
	size_t low = s->end + answer_place(s->answers, v[from].answer) - at - 1, high;
	if (middle - from > 1) {
		low = 0;
		if (!search_add(s, from, middle))
			return false;
	}
	high = s->end + answer_place(s->answers, v[middle].answer) - at - 1;
	if (to - middle > 1) {
		high = s->out->n - at - 1;
		if (!search_add(s, middle, to))
			return false;
	}
	if (low > JUMP_MAX || high > JUMP_MAX)
		return false;
	s->out->code[at].jt = (uint8_t)high;
	s->out->code[at].jf = (uint8_t)low;
	return true;
}

bool filter_add_search(struct filter *f, const struct filter *model, uint32_t arch)
{
	static struct ranges ranges;
	static struct filter answers;
	ranges.n = answers.n = 0;
	for (uint32_t number = 0; number < NUMBERS; number++)
		ranges_add(&ranges, model, arch, number);
	ranges_add(&ranges, model, arch, OTHER_ABI);
	ranges_add(&ranges, model, arch, UINT32_MAX);
	for (size_t i = 0; i < ranges.n; i++) {
		struct sock_filter answer = BPF_STMT(BPF_RET | BPF_K, ranges.v[i].answer);
		if (answer_place(&answers, ranges.v[i].answer) == answers.n)
			filter_add(&answers, &answer, 1);
	}
	/* n ranges are told apart by n - 1 comparisons. */
	struct search search = { f, &ranges, &answers, f->n + ranges.n - 1 };
	if (ranges.n > 1 && !search_add(&search, 0, ranges.n))
		return false;
	filter_add(f, answers.code, answers.n);
	return true;
}

static bool same_for(const struct filter *a, const struct filter *b, struct seccomp_data *call)
{
	/* Every value that a rule compares an argument with, its neighbours, and high bits that the kernel does not look at. */
	static const uint64_t values[] = { 0,           1,           2,           3,
					   4,           5,           6,           10,
					   12,          16,          17,          0x5412,
					   0x541c,      0x20000,     0x40000,     0x60000,
					   0x02000000,  0x04000000,  0x08000000,  0x10000000,
					   0x20000000,  0x40000000,  0x7e020000,  0xffffffff,
					   0x100000000, 0x100000004, 0x100005412, UINT64_MAX };
	const size_t n = sizeof values / sizeof *values;
	for (size_t i = 0; i < n * n * n; i++) {
		call->args[0] = values[i % n];
		call->args[1] = values[i / n % n];
		call->args[2] = values[i / n / n];
		if (filter_answer(a, call) != filter_answer(b, call))
			return false;
	}
	return true;
}

/* From `first` on, of ret_call's architecture. */
static bool same_numbers(const struct filter *a, const struct filter *b, uint32_t first,
			 bool with_arguments, struct seccomp_data *ret_call)
{
	for (uint32_t i = 0; i < NUMBERS; i++) {
		*ret_call = (struct seccomp_data){ .nr = (int)(first + i), .arch = ret_call->arch };
		if (filter_answer(a, ret_call) != filter_answer(b, ret_call))
			return false;
		/* Calls that are judged by an argument are among the real ones. */
		if (with_arguments && i < NUMBERS / 8 && !same_for(a, b, ret_call))
			return false;
	}
	return true;
}

bool filter_same(const struct filter *a, const struct filter *b, uint32_t arch,
		 struct seccomp_data *ret_call)
{
	const uint32_t arches[] = { arch, AUDIT_ARCH_I386, AUDIT_ARCH_ARM, 0, UINT32_MAX };
	const uint32_t firsts[] = { 0,          NUMBERS,    OTHER_ABI - NUMBERS,     OTHER_ABI,
				    0x7ffff000, 0x80000000, UINT32_MAX - NUMBERS + 1 };
	for (size_t i = 0; i < sizeof arches / sizeof *arches; i++)
		for (size_t j = 0; j < sizeof firsts / sizeof *firsts; j++) {
			ret_call->arch = arches[i];
			if (!same_numbers(a, b, firsts[j], i == 0 && j == 0, ret_call))
				return false;
		}
	return true;
}
