/* SPDX-License-Identifier: MIT */
#include "daemon/log.h"

#include "core/zone.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <time.h>
#include <unistd.h>

#define MAX_TEXT 1024

static const struct {
    const char *name, *id;
    int priority;
    bool unlimited; /* the daemon's own few, or asked for (debug) */
} kinds[KD_MSGS] = {
    [KD_MSG_NOTE] = {"note", NULL, LOG_INFO, false},
    [KD_MSG_DEBUG] = {"debug", NULL, LOG_DEBUG, true},
    [KD_MSG_STARTING] = {"starting", "048b3056753f4615a212f08d9df22879", LOG_NOTICE, true},
    [KD_MSG_MODEL_LOADED] = {"model_loaded", "c4f1bf0ec31a49eb886776b4b5a9b355", LOG_INFO, true},
    [KD_MSG_PLAN] = {"plan", "f3a92d4f6bb843e9946461fce861a645", LOG_INFO, true},
    [KD_MSG_READY] = {"ready", "079889df4578493fab08fedd05e8c119", LOG_NOTICE, true},
    [KD_MSG_RELOADED] = {"reloaded", "47bee751554c4dc4bf68132e18ba0f7d", LOG_NOTICE, true},
    [KD_MSG_RELOAD_FAILED] = {"reload_failed", "57fa8ab0e7004c6490703dc4ad5e28bd", LOG_ERR, true},
    [KD_MSG_STOPPING] = {"stopping", "a008f779a1d042f5becede3f3858e647", LOG_NOTICE, true},
    [KD_MSG_STOPPED] = {"stopped", "cdb2c9fcc8fe4994a3a2128789035454", LOG_NOTICE, true},
    [KD_MSG_FATAL] = {"fatal", "60613d757da04e74bfe4fe68a9156d2c", LOG_ERR, true},
    [KD_MSG_ADMITTED] = {"admitted", "765fa5d894604506adabbdf5c5cdaed4", LOG_INFO, false},
    [KD_MSG_REFUSED] = {"refused", "4cd671f1d20b47d4a510de9c24094d2b", LOG_WARNING, false},
    [KD_MSG_QUARANTINED] = {"quarantined", "42cf7e0530a9479b89a2117720c41ace", LOG_WARNING, false},
    [KD_MSG_GAP] = {"gap", "e31c636f3705485ab0b696081163ead1", LOG_NOTICE, false},
    [KD_MSG_LATE] = {"late", "2a3ce590f2a34bd1816a6ca3ac31b737", LOG_NOTICE, false},
    [KD_MSG_REVISED] = {"revised", "c6d24bb5aa77481aa2da6671a798b697", LOG_INFO, false},
    [KD_MSG_REANCHORED] = {"reanchored", "29b3baae8f7c44d9920b3e1f0bb79b2a", LOG_INFO, false},
    [KD_MSG_STALE] = {"stale", "8119168933e84343a566cf15a904d0ef", LOG_WARNING, false},
    [KD_MSG_RESUMED] = {"resumed", "38d8267c7dcb48098c1d90740d94a83c", LOG_NOTICE, false},
    [KD_MSG_FAULTED] = {"faulted", "443bc854658444f5bab9933d43316c14", LOG_ERR, false},
    [KD_MSG_FEED_PAUSED] = {"feed_paused", "9ebdc1ab5b9a4c589ae5c5f1de44bad5", LOG_WARNING, false},
    [KD_MSG_FEED_RESUMED] = {"feed_resumed", "c6f29701c20f43c4a2da1c6afd0105a9", LOG_NOTICE, false},
    [KD_MSG_FEED_RESTARTED] = {"feed_restarted", "90c79ab330d0443aab5a387ca00ccb99", LOG_NOTICE,
                               false},
    [KD_MSG_CONTROL] = {"control", "10d2a9edfed9424c807b06192d91ad99", LOG_INFO, false},
    [KD_MSG_WORKER_STALLED] = {"worker_stalled", "8f7daa9833314a12a2e3d0d8e00a537e", LOG_ERR,
                               false},
    [KD_MSG_STATE] = {"state", "74948d11488f43d49121ee03fedc81d6", LOG_INFO, true},
    [KD_MSG_STATE_FAILED] = {"state_failed", "03ca97a6bc844e6e92ba9297d5851ddd", LOG_ERR, false},
    [KD_MSG_STATE_WRITTEN] = {"state_written", "4b865b30f9814f05bc01579195f4df0a", LOG_NOTICE,
                              false},
    [KD_MSG_SOCKET] = {"socket", "782c23c66b7a433394878f0c53b48256", LOG_INFO, false},
};

/* One kind's rate limit. */
struct limit {
    int64_t start_ns;
    size_t written;      /* in this interval */
    uint64_t held_back;  /* in this interval */
    uint64_t suppressed; /* since the start */
    bool started;
};

static struct {
    pthread_mutex_t lock;
    struct kd_log_config config;
    bool journal;
    struct limit limits[KD_MSGS];
} logger = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .config = {.level = LOG_INFO},
};

const char *kd_message_name(enum kd_message message)
{
    return kinds[message].name;
}

const char *kd_message_id(enum kd_message message)
{
    return kinds[message].id;
}

int kd_message_priority(enum kd_message message)
{
    return kinds[message].priority;
}

/* Is this stream the one that the service manager connected to the journal? */
static bool is_journal(const char *journal_stream, int fd)
{
    struct stat status;
    char *end;
    unsigned long long device, inode;

    if (!journal_stream || fstat(fd, &status) < 0)
        return false;
    errno = 0;
    device = strtoull(journal_stream, &end, 10);
    if (errno || *end != ':')
        return false;
    inode = strtoull(end + 1, &end, 10);
    return !errno && !*end && device == status.st_dev && inode == status.st_ino;
}

void kd_log_init(const struct kd_log_config *config)
{
    bool journal = config->force_journal && access("/run/systemd/journal/socket", W_OK) == 0;

    if (!config->force_journal && !config->force_stderr)
        journal = is_journal(getenv("JOURNAL_STREAM"), STDERR_FILENO);
    pthread_mutex_lock(&logger.lock);
    logger.config = *config;
    logger.journal = journal || config->send;
    pthread_mutex_unlock(&logger.lock);
}

bool kd_log_to_journal(void)
{
    bool journal;

    pthread_mutex_lock(&logger.lock);
    journal = logger.journal;
    pthread_mutex_unlock(&logger.lock);
    return journal;
}

bool kd_log_enabled(enum kd_message message)
{
    bool enabled;

    pthread_mutex_lock(&logger.lock);
    enabled = kinds[message].priority <= logger.config.level;
    pthread_mutex_unlock(&logger.lock);
    return enabled;
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * KR_NS_PER_S + now.tv_nsec;
}

/* ---- the two ways out; the lock is held ---- */

static void write_line(int priority, const char *kind, const char *symbol, const char *interval,
                       const char *text)
{
    static const char *const names[] = {"emerg",   "alert",  "crit", "err",
                                        "warning", "notice", "info", "debug"};
    FILE *out = logger.config.stream ? logger.config.stream : stderr;
    int64_t now = clock_ns(CLOCK_REALTIME);
    struct kr_civil civil;

    kr_zone_civil(NULL, now, &civil);
    fprintf(out, "%04d-%02u-%02uT%02u:%02u:%02u.%03uZ %s %s%s%s%s%s: %s\n", civil.year, civil.month,
            civil.day, civil.hour, civil.minute, civil.second,
            (unsigned)(now % KR_NS_PER_S / 1000000), names[priority], kind, symbol ? " " : "",
            symbol ? symbol : "", interval ? "|" : "", interval ? interval : "", text);
    fflush(out);
}

struct fields {
    char text[MAX_TEXT + 512];
    size_t used;
    struct iovec vectors[10];
    int n;
};

static void add_field(struct fields *fields, const char *name, const char *value)
{
    char *at = fields->text + fields->used;
    size_t room = sizeof(fields->text) - fields->used;
    int length;

    if (!value || !*value)
        return;
    length = snprintf(at, room, "%s=%s", name, value);
    if (length < 0 || (size_t)length >= room)
        return;
    fields->vectors[fields->n].iov_base = at;
    fields->vectors[fields->n++].iov_len = (size_t)length;
    fields->used += (size_t)length + 1;
}

static bool write_journal(int priority, enum kd_message message, const char *symbol,
                          const char *interval, const char *reason, const char *text)
{
    struct fields fields = {.n = 0};
    char digit[2] = {(char)('0' + priority), 0};

    add_field(&fields, "MESSAGE", text);
    add_field(&fields, "PRIORITY", digit);
    add_field(&fields, "SYSLOG_IDENTIFIER", "kronosd");
    add_field(&fields, "MESSAGE_ID", kinds[message].id);
    add_field(&fields, "KRONOSD_KIND", kinds[message].name);
    add_field(&fields, "KRONOSD_SYMBOL", symbol);
    add_field(&fields, "KRONOSD_INTERVAL", interval);
    add_field(&fields, "KRONOSD_REASON", reason);
    return (logger.config.send ? logger.config.send : sd_journal_sendv)(fields.vectors, fields.n) >=
           0;
}

/* Nothing that a peer sent may forge a line or steer a terminal. */
static void clean(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

static void write_message(enum kd_message message, const char *symbol, const char *interval,
                          const char *reason, char *text)
{
    int priority = kinds[message].priority;

    clean(text);
    if (logger.journal && write_journal(priority, message, symbol, interval, reason, text))
        return;
    write_line(priority, kinds[message].name, symbol, interval, text);
}

/* ---- rate limits ---- */

/* Begin a new interval and say what the old one held back. */
static void roll(enum kd_message message, int64_t now_ns)
{
    struct limit *limit = &logger.limits[message];
    uint64_t held_back = limit->held_back;
    char text[128];

    limit->started = true;
    limit->start_ns = now_ns;
    limit->written = 0;
    limit->held_back = 0;
    if (held_back == 0)
        return;
    snprintf(text, sizeof(text), "%" PRIu64 " further messages of this kind were held back",
             held_back);
    write_message(message, NULL, NULL, "held_back", text);
}

static int64_t monotonic_ns(void)
{
    return logger.config.now_ns ? logger.config.now_ns() : clock_ns(CLOCK_MONOTONIC);
}

/* May one more be written now? Counts it, either way. */
static bool admit(enum kd_message message)
{
    struct limit *limit = &logger.limits[message];
    int64_t now_ns;

    if (kinds[message].unlimited || logger.config.burst == 0)
        return true;
    now_ns = monotonic_ns();
    if (!limit->started || now_ns - limit->start_ns >= logger.config.interval_ns)
        roll(message, now_ns);
    if (limit->written < logger.config.burst) {
        limit->written++;
        return true;
    }
    limit->held_back++;
    limit->suppressed++;
    return false;
}

void kd_log(enum kd_message message, const char *symbol, const char *interval, const char *reason,
            const char *format, ...)
{
    char text[MAX_TEXT];
    va_list arguments;
    int saved = errno;

    pthread_mutex_lock(&logger.lock);
    if (kinds[message].priority <= logger.config.level && admit(message)) {
        va_start(arguments, format);
        errno = saved; /* for %m */
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        write_message(message, symbol, interval, reason, text);
    }
    pthread_mutex_unlock(&logger.lock);
    errno = saved;
}

void kd_log_flush(bool all)
{
    int64_t now_ns;

    pthread_mutex_lock(&logger.lock);
    now_ns = monotonic_ns();
    for (int i = 0; i < KD_MSGS; i++) {
        struct limit *limit = &logger.limits[i];

        if (limit->held_back > 0 && (all || now_ns - limit->start_ns >= logger.config.interval_ns))
            roll((enum kd_message)i, now_ns);
    }
    pthread_mutex_unlock(&logger.lock);
}

uint64_t kd_log_suppressed(enum kd_message message)
{
    uint64_t suppressed;

    pthread_mutex_lock(&logger.lock);
    suppressed = logger.limits[message].suppressed;
    pthread_mutex_unlock(&logger.lock);
    return suppressed;
}
