/* SPDX-License-Identifier: MIT */
/* What comes back from the compute threads is published, kept and counted. Main thread only. */
#ifndef KD_RESULTS_H
#define KD_RESULTS_H

#include "daemon/daemon.h"

/* For the loop, when the outbox is readable; and at the end, for what is left. */
void kd_results_take(void *daemon);

#endif
