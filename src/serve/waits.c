/* From a hundredth of a second, which is an idle service, to a day. */
#include "serve/waits.h"

#include <stdlib.h>

#include "base/clock.h"

const char *const waits_bounds[WAITS_BOUNDS] = {
	"0.01", "0.05",  "0.1",   "0.5",    "1.0",    "5.0",     "10.0",   "30.0",
	"60.0", "300.0", "600.0", "1800.0", "3600.0", "21600.0", "86400.0"
};

void waits_note(struct waits *w, uint64_t wait_ns)
{
	double seconds = (double)wait_ns / (double)NS_PER_SEC;
	int i = 0;
	while (i < WAITS_BOUNDS && seconds > strtod(waits_bounds[i], NULL))
		i++;
	w->n[i]++;
	w->seconds += seconds;
}
