/* SPDX-License-Identifier: MIT */
#include "tests/daemon/damage.h"

#include "daemon/store.h"
#include "tests/tap.h"

#include <lmdb.h>
#include <stdio.h>
#include <string.h>

void kt_damage_row(const char *directory, const char *table, int which)
{
    char path[600];
    unsigned char copy[65536];
    MDB_val key, value;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    MDB_cursor *cursor;

    snprintf(path, sizeof(path), "%s/" KD_STORE_FILE, directory);
    CU_ASSERT_EQUAL_FATAL(mdb_env_create(&env), 0);
    CU_ASSERT_EQUAL(mdb_env_set_maxdbs(env, 8), 0);
    CU_ASSERT_EQUAL(mdb_env_set_mapsize(env, (size_t)64 << 20), 0);
    CU_ASSERT_EQUAL_FATAL(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    CU_ASSERT_EQUAL_FATAL(mdb_txn_begin(env, NULL, 0, &txn), 0);
    CU_ASSERT_EQUAL_FATAL(mdb_dbi_open(txn, table, 0, &dbi), 0);
    CU_ASSERT_EQUAL_FATAL(mdb_cursor_open(txn, dbi, &cursor), 0);
    for (; which >= 0; which--)
        CU_ASSERT_EQUAL_FATAL(mdb_cursor_get(cursor, &key, &value, MDB_NEXT), 0);
    CU_ASSERT_TRUE_FATAL(value.mv_size < sizeof(copy));
    memcpy(copy, value.mv_data, value.mv_size);
    copy[value.mv_size / 2] ^= 4;
    value.mv_data = copy;
    CU_ASSERT_EQUAL(mdb_cursor_put(cursor, &key, &value, MDB_CURRENT), 0);
    mdb_cursor_close(cursor);
    CU_ASSERT_EQUAL(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}
