/* A diagnosis for people: a line for each finding, the remedy below what needs one, and the sentence. */
#pragma once

#include "doctor/doctor.h"

void doctor_print(const struct diagnosis *d);
