/* What is protected, looked at before the go and after the end. Where nothing is declared, none of this happens. */
#pragma once

struct keeper_state;
struct guard;

/* Beside the set-up of the box, once init is there. */
void guard_begin(struct keeper_state *s);
/* Before the go; the record is ours. What could not be looked at, or was changed before this run, is an event. */
void guard_ready(struct keeper_state *s);
/* The box is dead: whatever differs was changed while this run was alive, by whomever; an event and a health record say what and when, and
 * which runs were alive. */
void guard_end(struct keeper_state *s);
/* Nobody looked before: an event says so of each. */
void guard_missed(struct keeper_state *s);
/* Waits for a look that still goes on. */
void guard_join(struct keeper_state *s);
