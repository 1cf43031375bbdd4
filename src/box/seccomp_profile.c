#include "box/seccomp.h"

#include "box/seccomp_profile.inc" /* made by mkfilter */

const char *seccomp_profile(void)
{
	return profiles[0].text;
}
