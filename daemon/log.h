/* SPDX-License-Identifier: MIT */
/* The operator's log: the journal with fields when stderr is the journal, lines on stderr
 * otherwise.
 *
 * Every kind of message has an id of the catalogue (etc/kronosd.catalog), a priority and a rate
 * limit of its own; what the limit held back is counted and said. Any thread; nothing here fails or
 * blocks for long. */
#ifndef KD_LOG_H
#define KD_LOG_H

#include "core/base.h"

#include <stdio.h>
#include <sys/uio.h>
#include <syslog.h>

/* The kinds, in the order of log.c's table: id, name, priority. */
enum kd_message {
    KD_MSG_NOTE,           /* info without an id of its own */
    KD_MSG_DEBUG,          /* debug likewise */
    KD_MSG_STARTING,       /* version, configuration */
    KD_MSG_MODEL_LOADED,   /* name, checksum, instruction set */
    KD_MSG_PLAN,           /* memory plan */
    KD_MSG_READY,          /* sockets bound */
    KD_MSG_RELOADED,       /* what was applied, what waits for a restart */
    KD_MSG_RELOAD_FAILED,  /* the old configuration stays */
    KD_MSG_STOPPING,       /* the signal or request */
    KD_MSG_STOPPED,        /* the final counts */
    KD_MSG_FATAL,          /* the reason of a failed start or an abnormal end */
    KD_MSG_ADMITTED,       /* a stream's first bar */
    KD_MSG_REFUSED,        /* a stream: limit, memory, not allowed */
    KD_MSG_QUARANTINED,    /* a bar: the reason */
    KD_MSG_GAP,            /* bars missing, what the policy did */
    KD_MSG_LATE,           /* an older bar never seen */
    KD_MSG_REVISED,        /* other content for a known bar */
    KD_MSG_REANCHORED,     /* a new epoch out of turn */
    KD_MSG_STALE,          /* no bar for three intervals */
    KD_MSG_RESUMED,        /* bars again */
    KD_MSG_FAULTED,        /* a stream that computes no more */
    KD_MSG_FEED_PAUSED,    /* [limits] pending reached: bars wait in the socket */
    KD_MSG_FEED_RESUMED,   /* half of them are gone */
    KD_MSG_FEED_RESTARTED, /* a publisher's new run id */
    KD_MSG_CONTROL,        /* a control request that changed or was denied something */
    KD_MSG_WORKER_STALLED, /* no step for longer than the watchdog allows */
    KD_MSG_SOCKET,         /* bound, connected, an error of the transport */
    KD_MSG_STATE,          /* the state's file was opened */
    KD_MSG_STATE_FAILED,   /* it cannot be written */
    KD_MSG_STATE_WRITTEN,  /* it can again */
    KD_MSGS
};

struct kd_log_config {
    int level;                        /* least urgent priority written: LOG_ERR .. LOG_DEBUG */
    bool force_stderr, force_journal; /* neither: by JOURNAL_STREAM */
    size_t burst;                     /* messages of one kind per interval; 0: no limit */
    int64_t interval_ns;
    FILE *stream;            /* NULL: stderr */
    int64_t (*now_ns)(void); /* monotonic; NULL: CLOCK_MONOTONIC */
    /* The journal's entry, for tests: NULL is sd_journal_sendv(), anything else makes it the
     * target. */
    int (*send)(const struct iovec *fields, int n);
};

/* Before anything is logged, and again after a reload (counts are kept). Before the first call:
 * level info, no limit. */
void kd_log_init(const struct kd_log_config *config);

/* True if messages go to the journal. */
bool kd_log_to_journal(void);

/* True if a message of this kind would be written: guards costly arguments. */
bool kd_log_enabled(enum kd_message message);

/* One line, no newline. symbol, interval: the stream concerned, or NULL (fields KRONOSD_SYMBOL,
 * KRONOSD_INTERVAL); reason: a word such as "off_grid", or NULL (KRONOSD_REASON). The kind's name
 * is KRONOSD_KIND. Control characters in the text are replaced by '?'. errno is kept. */
void kd_log(enum kd_message message, const char *symbol, const char *interval, const char *reason,
            const char *format, ...) kr_printf(5, 6);

/* The same without a stream. */
#define kd_say(message, ...) kd_log((message), NULL, NULL, NULL, __VA_ARGS__)

/* Say what was held back in intervals that are over. To be called now and then (main's timer), and
 * with `all` at the end. */
void kd_log_flush(bool all);

/* Messages of a kind held back since the start. */
uint64_t kd_log_suppressed(enum kd_message message);

const char *kd_message_name(enum kd_message message);
/* 32 hexadecimal digits, NULL for NOTE and DEBUG. */
const char *kd_message_id(enum kd_message message);
int kd_message_priority(enum kd_message message);

#endif
