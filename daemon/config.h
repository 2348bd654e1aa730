/* SPDX-License-Identifier: MIT */
/* The daemon's configuration: an ini file, checked whole before any of it is used.
 *
 * Keys, types, defaults, units, ranges and whether a reload applies them stand in one table
 * (config_table.c); kronosd.conf(5) and the sample file are tested against it. A configuration is
 * loaded and validated as a whole or not at all; the running one is replaced by kd_config_reload().
 * Everything here belongs to the main thread, except that struct kd_settings and what it points to
 * may be read by any thread that holds it.
 *
 * Include <config.h> (the build's) with angle brackets: quotes would find this file. */
#ifndef KD_CONFIG_H
#define KD_CONFIG_H

#include "core/calendar.h"
#include "core/filter.h"
#include "core/live.h"
#include "daemon/store.h"

#include <stdio.h>

#define KD_MAX_LEVELS   32  /* quantile levels of a forecast */
#define KD_MAX_SECTIONS 256 /* of [stream] and of [calendar] each */
#define KD_MAX_ITEMS    256 /* endpoints, topics or patterns of one list */

enum kd_backlog { KD_BACKLOG_LATEST, KD_BACKLOG_ALL };
enum kd_demand { KD_DEMAND_NO, KD_DEMAND_SUBSCRIBED }; /* compute: always; where subscribed */
enum kd_forming { KD_FORMING_IGNORE, KD_FORMING_OVERLAY };
enum kd_gap { KD_GAP_HOLD, KD_GAP_FILL, KD_GAP_REANCHOR };
enum kd_clock { KD_CLOCK_BARS, KD_CLOCK_WALL };
enum kd_log_target { KD_LOG_AUTO, KD_LOG_JOURNAL, KD_LOG_STDERR };

/* A market's calendar with its zone: immutable, counted, so that a stream keeps the one it was
 * admitted with while the configuration is replaced. Any thread. */
struct kd_calendar {
    char *name; /* of its section; "24x7" and "weekdays" are built in */
    char *timezone, *sessions, *weekdays, *holidays; /* "" where the key is empty */
    struct kr_zone *zone;
    struct kr_calendar *calendar;
    unsigned references; /* atomic */
};

struct kd_calendar *kd_calendar_ref(struct kd_calendar *calendar);
void kd_calendar_unref(struct kd_calendar **calendar);

/* What holds for one stream: [forecast] and the per-stream keys of [feed], with every matching
 * [stream PATTERN] section laid over them in file order. */
struct kd_settings {
    enum kr_mode mode;
    size_t lookback, min_bars;
    size_t growth; /* 0: auto; kd_plan_live() settles it */
    size_t horizon, paths;
    struct kr_sampling sampling;
    double levels[KD_MAX_LEVELS]; /* strictly rising inside (0, 1) */
    size_t n_levels;
    uint64_t seed;
    enum kd_backlog backlog;
    bool repair, join, scale, publish_paths;
    enum kd_demand on_demand;
    bool allow;   /* false: its bars are refused */
    size_t every; /* forecast behind each n-th accepted bar */
    enum kr_stamp_kind stamp;
    enum kd_forming forming;
    enum kd_gap gap;
    size_t max_fill;              /* synthetic bars of one gap under `fill` */
    struct kd_calendar *calendar; /* a reference of its own once resolved */
};

struct kd_list {
    char **items;
    size_t n;
};

struct kd_config_part; /* config_internal.h */

struct kd_config {
    char *path; /* as given; "" for the defaults alone */
    struct {
        char *predictor, *tokenizer; /* absolute, or relative to the configuration file's folder,
                                        resolved; "" if not set */
        size_t max_context;
        unsigned precision; /* enum kr_precision */
        unsigned matmul;    /* enum kr_matmul */
    } model;
    struct {
        struct kd_list connect, bind, topics;
        struct kd_list allow; /* globs, see kd_glob() */
        enum kd_clock clock;
    } feed;
    struct {
        struct kd_list bind;
        size_t hwm;        /* messages queued per subscriber */
        int64_t status_ns; /* between `status` messages */
        size_t pace;       /* last values sent again per second after subscriptions */
    } publish;
    struct {
        struct kd_list bind;
    } control;
    struct {
        char *directory; /* "": nothing is kept; else as predictor */
        enum kd_sync sync;
    } state;
    struct {
        char *server_secret, *allow_feed, *allow_subscribe, *allow_admin; /* refused: always "" */
    } curve;
    struct {
        size_t symbols;                /* streams admitted; kd_plan_make() may lower the default */
        size_t spares;                 /* cache sets for epoch changes; 0: auto, see plan.h */
        size_t memory_bytes;           /* 0: auto, see plan.h */
        size_t message_bytes;          /* of one feed message */
        size_t workers;                /* 0: auto, the affinity mask's CPUs */
        size_t pending;                /* bars of all streams that wait for workers */
        size_t bars;                   /* kept per stream for history, order and late bars */
        size_t control_jobs;           /* control forecasts computed at once */
        size_t control_pending;        /* control forecasts that may wait behind them */
        size_t max_horizon, max_paths; /* of a control forecast */
        size_t request_bytes;          /* of one control message, `load` included */
        size_t reply_bytes;            /* of one reply; longer histories come in pages */
        int64_t stop_ns;               /* for draining after SIGTERM */
    } limits;
    struct {
        int level; /* syslog priority: LOG_ERR .. LOG_DEBUG */
        enum kd_log_target target;
        size_t burst; /* messages of one kind per interval; 0: no limit */
        int64_t interval_ns;
    } log;
    struct kd_config_part *part; /* forecast defaults, sections: use the functions */
};

/* Load, check and resolve `path` (NULL: the defaults alone). Nothing is left behind on error.
 * Return: 0; -EINVAL with the line `file:line: key: value, what is allowed`; a negative errno of
 * opening or reading; -ENOMEM. */
int kd_config_load(const char *path, struct kd_config **ret, struct kr_error *error) kr_must_check;
void kd_config_free(struct kd_config **config);

/* The settings of one stream; the symbol and interval are valid ones. `ret` holds references of its
 * own: kd_settings_free() it, whatever became of the configuration meanwhile. ret->allow combines
 * [feed] allow with the sections' `allow`. Return: 0; -EINVAL with a line (sections that are sound
 * one by one but not together, such as min_bars above lookback: refuse the stream); -ENOMEM. */
int kd_config_stream(struct kd_config *config, const char *symbol, const char *interval,
                     struct kd_settings *ret, struct kr_error *error) kr_must_check;
void kd_settings_free(struct kd_settings *settings);
/* `ret` gets its own references. */
void kd_settings_copy(struct kd_settings *ret, const struct kd_settings *settings);

/* Settings without any section (i = 0) and with section i alone, for the memory plan; false past
 * the last. `ret` borrows: do not free. `ret_line` and `ret_pattern` (borrowed) are the section's,
 * 0 and "" for i = 0. */
bool kd_config_variant(struct kd_config *config, size_t i, struct kd_settings *ret,
                       size_t *ret_line, const char **ret_pattern);

/* Does the file set this key of a plain section? */
bool kd_config_is_set(const struct kd_config *config, const char *section, const char *key);

/* Does `pattern` match the stream? With a '|' it is matched against "sym|iv", else against the
 * symbol of any interval. */
bool kd_glob(const char *pattern, const char *symbol, const char *interval);

/* Print the whole effective configuration, defaults included, as an ini file that loads to the
 * same. (After a reload, [stream] and [calendar] sections are those of the new file.) Return: 0 or
 * a negative errno of the stream. */
int kd_config_print(const struct kd_config *config, FILE *out) kr_must_check;

/* What a reload changed: names like "forecast.seed", comma-separated, cut with "..." where long. */
struct kd_changes {
    size_t n_applied, n_restart;
    char applied[512]; /* in force now */
    char restart[512]; /* different in the file, kept as they were until a restart */
};

/* Replace *running by *fresh. Keys that a reload cannot apply keep their running values and are
 * listed. Afterwards *running is the new configuration and *fresh is NULL; streams resolve their
 * settings again by kd_config_stream(), of which mode, sizes, levels and calendar have not changed.
 * Cannot fail. */
void kd_config_reload(struct kd_config **running, struct kd_config **fresh, struct kd_changes *ret);

#endif
