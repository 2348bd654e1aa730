/* SPDX-License-Identifier: MIT */
/* Counts what our own objects (and msgpack-c's inline functions in them) ask of the allocator, for programs
 * linked with $(COUNT_ALLOCATIONS); what shared libraries ask is not counted. Any thread. */
#ifndef KT_ALLOCATIONS_H
#define KT_ALLOCATIONS_H

#include <stddef.h>

size_t kt_allocations(void);

#endif
