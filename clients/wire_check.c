/* SPDX-License-Identifier: MIT */
/* What daemon and client library both need before they look into a message: topics,
 * well-formedness. */
#include "clients/wire.h"
#include "clients/cursor.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

size_t kw_topic(char ret[KW_TOPIC_MAX + 1], const char *kind, const char *interval,
                const char *symbol)
{
    int n = snprintf(ret, KW_TOPIC_MAX + 1, "%s|%s|%s|", kind, interval, symbol);

    assert(n > 0 && n <= KW_TOPIC_MAX); /* kinds are ours; interval and symbol were checked */
    return (size_t)n;
}

int kw_check(const void *data, size_t n_bytes, size_t max_depth)
{
    struct kw_cursor cursor = kw_cursor(data, n_bytes);

    kw_skip(&cursor, max_depth, true);
    return cursor.bad || cursor.at != cursor.end ? -EBADMSG : 0;
}
