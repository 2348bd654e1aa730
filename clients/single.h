/* SPDX-License-Identifier: MIT */
/* One thread for OpenBLAS, before it starts any. */
#ifndef KW_SINGLE_H
#define KW_SINGLE_H

/* First thing in main(). A threaded OpenBLAS starts its threads before main(), where no signal is blocked yet:
 * a SIGTERM that one of them takes ends the process on the spot, and they spin while they wait. It reads the
 * environment but once, so begin again (execv of ourselves) with OPENBLAS_NUM_THREADS=1, unless that is set
 * already. Returns only if there is nothing to do, or if it cannot be done. */
void kw_single_openblas(char **argv);

#endif
