/* SPDX-License-Identifier: MIT */
/* Damage to a state file that nobody has open. */
#ifndef KT_DAMAGE_H
#define KT_DAMAGE_H

/* Change one byte in the middle of a value; `which`: of the table's rows in order, from 0. */
void kt_damage_row(const char *directory, const char *table, int which);

#endif
