/* SPDX-License-Identifier: MIT */
/* Linked into a kronosd of its own: says at its end how much was asked of the allocator. */
#include "tests/allocations.h"

#include <stdio.h>

__attribute__((destructor)) static void say(void)
{
    fprintf(stderr, "allocations: %zu\n", kt_allocations());
}
