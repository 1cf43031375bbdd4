/* The box's own network: nothing but a loopback that is up. */
#pragma once

#include "base/err.h"

int net_loopback_up(struct err *err);
