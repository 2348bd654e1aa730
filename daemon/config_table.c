/* SPDX-License-Identifier: MIT */
/* The table of keys. kronosd.conf(5) and etc/kronosd.conf tell the same; a test compares them. */
#include "core/product.h"
#include "daemon/config_internal.h"

#include <glib.h>
#include <string.h>

static const char *const modes[] = {"auto", "exact", "anchored", "rolling", NULL};
static const char *const backlogs[] = {"latest", "all", NULL};
static const char *const demands[] = {"no", "subscribed", NULL};
static const char *const stamps[] = {"open", "close", NULL};
static const char *const formings[] = {"ignore", "overlay", NULL};
static const char *const gaps[] = {"hold", "fill", "reanchor", NULL};
static const char *const clocks[] = {"bars", "wall", NULL};
static const char *const syncs[] = {"always", "interval", "off", NULL};
static const char *const levels[] = {"err", "warning", "notice", "info", "debug", NULL};
static const char *const targets[] = {"auto", "journal", "stderr", NULL};

#define IN_CONFIG(member) .offset = offsetof(struct kd_config, member)
#define IN_VALUES(member) .offset = offsetof(struct kd_values, member)
#define SETTING(member)   .offset = offsetof(struct kd_values, settings.member)
#define RANGE(a, b)       .min = (a), .max = (b)

#define KIB 1024.0
#define MIB (1024.0 * 1024)
#define GIB (1024.0 * 1024 * 1024)
#define MS  1e6
#define S   1e9

/* clang-format off */
/* What the memory plan depends on needs a restart. */
const struct kd_key kd_keys[] = {
    {"model", "predictor", KD_PATH, 0, IN_CONFIG(model.predictor), "", .values = "a folder",
     .doc = "Folder of the predictor checkpoint (config.json, model.safetensors); relative to the "
            "folder of the configuration file; none: the built-in model"},
    {"model", "tokenizer", KD_PATH, 0, IN_CONFIG(model.tokenizer), "", .values = "a folder",
     .doc = "Folder of the tokenizer checkpoint, likewise"},
    {"model", "max_context", KD_COUNT, 0, IN_CONFIG(model.max_context),
     "512", RANGE(16, 65536), .unit = "rows",
     .doc = "Rows that the predictor may see at once; the public small and base were trained on "
            "512, mini on 2048"},
    {"model", "precision", KD_CHOICE, 0, IN_CONFIG(model.precision), "f32",
     .choices = kr_precision_names,
     .doc = "Numbers that weights and activations are rounded to when they are multiplied; sums, "
            "norms and softmax are f32 anyway; bf16 needs a processor with AVX512_BF16"},
    {"model", "matmul", KD_CHOICE, 0, IN_CONFIG(model.matmul), "auto", .choices = kr_matmul_names,
     .doc = "Who makes the weight products: native needs AVX2 or AVX-512, openblas runs anywhere; "
            "auto is native where it can be; forecasts of the two differ in their last bits"},

    {"forecast", "mode", KD_CHOICE, KD_STREAM, SETTING(mode), "auto", .choices = modes,
     .doc = "How a window follows the bars: exact encodes it anew for each forecast, anchored "
            "freezes mean and deviation for an epoch and adds one row a bar, rolling is for "
            "models made for streams; auto takes what the model can do"},
    {"forecast", "lookback", KD_COUNT, KD_STREAM, SETTING(lookback),
     "400", RANGE(2, 65536), .unit = "bars",
     .doc = "Bars before the forecast that the model sees and normalises over"},
    {"forecast", "min_bars", KD_COUNT, KD_STREAM, SETTING(min_bars),
     "64", RANGE(2, 65536), .unit = "bars",
     .doc = "No forecast before a stream has this many bars; at most lookback"},
    {"forecast", "growth", KD_COUNT, KD_STREAM | KD_AUTO, SETTING(growth),
     "auto", RANGE(KR_MIN_GROWTH, 65536), .unit = "bars",
     .doc = "Bars by which an anchored window may grow before its next epoch; auto is the smaller "
            "of max_context - lookback - horizon and lookback / 2"},
    {"forecast", "horizon", KD_COUNT, KD_STREAM, SETTING(horizon),
     "24", RANGE(1, 10000), .unit = "bars",
     .doc = "Bars ahead; beyond max_context the window slides, which costs far more"},
    {"forecast", "paths", KD_COUNT, KD_STREAM, SETTING(paths),
     "32", RANGE(1, 4096), .unit = "paths",
     .doc = "Sampled futures of each forecast"},
    {"forecast", "temperature", KD_REAL, KD_STREAM | KD_RELOAD, SETTING(sampling.temperature),
     "1", RANGE(0.001, 1000),
     .doc = "Divides the logits before sampling; 1 samples from what the model believes"},
    {"forecast", "top_k", KD_COUNT, KD_STREAM | KD_RELOAD, SETTING(sampling.top_k),
     "0", RANGE(0, 65536), .unit = "tokens",
     .doc = "Sample among the k likeliest tokens only, and ignore top_p; 0 is off, 1 is greedy"},
    {"forecast", "top_p", KD_REAL, KD_STREAM | KD_RELOAD, SETTING(sampling.top_p),
     "1", RANGE(0.001, 1),
     .doc = "Sample among the likeliest tokens up to this cumulative probability; 1 is off, less "
            "narrows the cone"},
    {"forecast", "stratified", KD_BOOL, KD_STREAM | KD_RELOAD, SETTING(sampling.stratified), "no",
     .doc = "Spread each step's draws evenly over the paths: less noise in means and quantiles, but "
            "paths are no longer independent, and scores are the plain ones"},
    {"forecast", "levels", KD_LEVELS, KD_STREAM, SETTING(levels),
     "0.05 0.1 0.25 0.5 0.75 0.9 0.95", RANGE(0, 1),
     .doc = "Quantile levels that a forecast states"},
    {"forecast", "seed", KD_NUMBER, KD_STREAM | KD_RELOAD, SETTING(seed), "0",
     .doc = "Seed of the draws; the same bars and seed give the same paths"},
    {"forecast", "backlog", KD_CHOICE, KD_STREAM | KD_RELOAD, SETTING(backlog),
     "latest", .choices = backlogs,
     .doc = "Which bars are forecast behind when several wait: the newest only (the others are "
            "counted as skipped), or all"},
    {"forecast", "repair", KD_BOOL, KD_STREAM, SETTING(repair), "yes",
     .doc = "Mend what the model gets wrong: high and low enclose the body, volume and amount are "
            "not negative, prices are above 0; counted and flagged"},
    {"forecast", "join", KD_BOOL, KD_STREAM, SETTING(join), "yes",
     .doc = "Shift the paths so that they start from the last real close"},
    {"forecast", "scale", KD_BOOL, KD_STREAM, SETTING(scale), "yes",
     .doc = "Rescale by powers of two before normalising, so that tiny prices keep their spread"},
    {"forecast", "publish_paths", KD_BOOL, KD_STREAM, SETTING(publish_paths), "no",
     .doc = "Publish the paths themselves too, on topics paths|interval|symbol|"},
    {"forecast", "on_demand", KD_CHOICE, KD_STREAM | KD_RELOAD, SETTING(on_demand),
     "no", .choices = demands,
     .doc = "Compute forecasts always, or only where somebody subscribed to them"},
    {"forecast", "calendar", KD_TEXT, KD_STREAM | KD_NONEMPTY, IN_VALUES(calendar),
     "24x7", .values = "24x7, weekdays or the name of a [calendar NAME] section",
     .doc = "Calendar that says when the next bars open: 24x7, weekdays (both UTC), or the name "
            "of a [calendar NAME] section"},

    {"feed", "connect", KD_LIST, 0, IN_CONFIG(feed.connect),
     "tcp://127.0.0.1:7410", .content = KD_CONNECTS,
     .doc = "Endpoints of publishers of bars to connect to; left out where bind is given, there "
            "are none"},
    {"feed", "bind", KD_LIST, 0, IN_CONFIG(feed.bind), "", .content = KD_BINDS,
     .doc = "Endpoints to listen on for publishers that connect"},
    {"feed", "topics", KD_LIST, KD_NONEMPTY, IN_CONFIG(feed.topics), "bar|", .content = KD_TOPICS,
     .doc = "Topic prefixes to subscribe to"},
    {"feed", "stamp", KD_CHOICE, KD_STREAM, SETTING(stamp), "open", .choices = stamps,
     .doc = "What the time of a delivered bar marks, its open or its close"},
    {"feed", "forming", KD_CHOICE, KD_STREAM | KD_RELOAD, SETTING(forming),
     "ignore", .choices = formings,
     .doc = "Bars that are not final: counted only, or forecast behind (flag forming) and taken "
            "off again"},
    {"feed", "gap", KD_CHOICE, KD_STREAM | KD_RELOAD, SETTING(gap), "hold", .choices = gaps,
     .doc = "Missing bars: the next bar is the next row, or flat bars fill the gap up to "
            "max_fill, or a new epoch starts"},
    {"feed", "max_fill", KD_COUNT, KD_STREAM | KD_RELOAD, SETTING(max_fill),
     "16", RANGE(1, 1000), .unit = "bars",
     .doc = "Longest gap that gap = fill fills; longer ones start a new epoch"},
    {"feed", "clock", KD_CHOICE, KD_RELOAD, IN_CONFIG(feed.clock), "bars", .choices = clocks,
     .doc = "Whether bars tell the time, or the system's clock does and bars from its future are "
            "quarantined"},
    {"feed", "allow", KD_LIST, KD_RELOAD, IN_CONFIG(feed.allow), "*", .content = KD_GLOBS,
     .doc = "Patterns of the streams that are taken in, on the symbol or on symbol|interval; bars "
            "of others are refused and counted"},
    {"feed", "every", KD_COUNT, KD_STREAM | KD_RELOAD, SETTING(every),
     "1", RANGE(1, 1000000), .unit = "bars",
     .doc = "Forecast behind each n-th accepted bar only"},

    {"stream", "allow", KD_BOOL, KD_STREAM | KD_RELOAD, SETTING(allow), "yes",
     .doc = "Whether bars of these streams are taken in, whatever [feed] allow says"},

    {"publish", "bind", KD_LIST, KD_NONEMPTY, IN_CONFIG(publish.bind),
     "tcp://127.0.0.1:7411", .content = KD_BINDS,
     .doc = "Endpoints on which forecasts, paths, events and status are published"},
    {"publish", "hwm", KD_COUNT, 0, IN_CONFIG(publish.hwm),
     "4000", RANGE(1, 1000000), .unit = "messages",
     .doc = "Messages that wait for one slow subscriber before it loses some; it sees the loss in "
            "seq"},
    {"publish", "status", KD_DURATION, KD_RELOAD, IN_CONFIG(publish.status_ns),
     "1s", RANGE(100 * MS, 3600 * S), .unit = "time",
     .doc = "Time between two status messages"},
    {"publish", "pace", KD_COUNT, KD_RELOAD, IN_CONFIG(publish.pace),
     "2000", RANGE(1, 1000000), .unit = "messages per second",
     .doc = "Rate at which last values are sent again after subscriptions"},

    {"control", "bind", KD_LIST, 0, IN_CONFIG(control.bind),
     "tcp://127.0.0.1:7412", .content = KD_BINDS,
     .doc = "Endpoints of the control socket; empty: none"},

    {"state", "directory", KD_PATH, 0, IN_CONFIG(state.directory), "", .values = "a folder",
     .doc = "Folder in which the calibration of the streams outlives the daemon, made if its parent "
            "is there; where it is not set, systemd's STATE_DIRECTORY; empty: nothing is kept"},
    {"state", "sync", KD_CHOICE, 0, IN_CONFIG(state.sync), "interval", .choices = syncs,
     .doc = "When changes are committed and on the disk: always at once, interval within a second, "
            "off within a second but on the disk when the system likes, so that a power loss may "
            "corrupt the file"},

    {"limits", "symbols", KD_COUNT, 0, IN_CONFIG(limits.symbols),
     "1000", RANGE(1, 100000), .unit = "streams",
     .doc = "Streams, each a symbol at an interval, further ones are refused with an event; where "
            "it is not set and not as many fit into memory, as many as fit"},
    {"limits", "spares", KD_COUNT, KD_AUTO, IN_CONFIG(limits.spares),
     "auto", RANGE(1, 100000), .unit = "sets",
     .doc = "Cache sets in which anchored streams prepare their next epoch; auto is what their "
            "growth calls for; a stream that finds none free waits at its epoch change, which is "
            "counted"},
    {"limits", "memory", KD_BYTES, KD_AUTO, IN_CONFIG(limits.memory_bytes),
     "auto", RANGE(MIB, 1024 * 1024 * GIB), .unit = "bytes",
     .doc = "What the memory plan may reach; auto is the limit of the daemon's cgroup or the "
            "memory that is available, whichever is less"},
    {"limits", "message_bytes", KD_BYTES, 0, IN_CONFIG(limits.message_bytes),
     "4096", RANGE(256, MIB), .unit = "bytes",
     .doc = "Longest message of the feed; longer ones are refused"},
    {"limits", "workers", KD_COUNT, KD_AUTO, IN_CONFIG(limits.workers),
     "auto", RANGE(1, 1024), .unit = "threads",
     .doc = "Threads that compute; auto is the number of processors that the daemon may use"},
    {"limits", "pending", KD_COUNT, 0, IN_CONFIG(limits.pending),
     "1000000", RANGE(16, 100000000), .unit = "bars",
     .doc = "Bars of all streams that may wait for the workers; at that number the feed waits "
            "until half are gone"},
    {"limits", "bars", KD_COUNT, 0, IN_CONFIG(limits.bars),
     "1024", RANGE(16, 10000000), .unit = "bars",
     .doc = "Bars kept of each stream, for history and for late and revised bars; at least "
            "lookback"},
    {"limits", "control_jobs", KD_COUNT, 0, IN_CONFIG(limits.control_jobs),
     "1", RANGE(1, 16), .unit = "forecasts",
     .doc = "Forecasts asked for on the control socket that are computed at once"},
    {"limits", "control_pending", KD_COUNT, 0, IN_CONFIG(limits.control_pending),
     "16", RANGE(0, 1000), .unit = "forecasts",
     .doc = "Further ones that may wait"},
    {"limits", "max_horizon", KD_COUNT, KD_RELOAD, IN_CONFIG(limits.max_horizon),
     "10000", RANGE(1, 100000), .unit = "bars",
     .doc = "Longest horizon that may be asked for on the control socket"},
    {"limits", "max_paths", KD_COUNT, KD_RELOAD, IN_CONFIG(limits.max_paths),
     "1024", RANGE(1, 4096), .unit = "paths",
     .doc = "Most paths that may be asked for on the control socket"},
    {"limits", "request_bytes", KD_BYTES, 0, IN_CONFIG(limits.request_bytes),
     "4M", RANGE(4 * KIB, GIB), .unit = "bytes",
     .doc = "Longest control message, loads of history included"},
    {"limits", "reply_bytes", KD_BYTES, 0, IN_CONFIG(limits.reply_bytes),
     "4M", RANGE(64 * KIB, GIB), .unit = "bytes",
     .doc = "Longest control reply; longer histories come in pages, longer snapshots and "
            "forecasts are refused"},
    {"limits", "stop_timeout", KD_DURATION, KD_RELOAD, IN_CONFIG(limits.stop_ns),
     "4s", RANGE(100 * MS, 60 * S), .unit = "time",
     .doc = "Time that forecasts under way have to end after SIGTERM"},

    {"log", "level", KD_CHOICE, KD_RELOAD, IN_CONFIG(log.level),
     "info", .choices = levels, .first = 3,
     .doc = "Least urgent messages that are written"},
    {"log", "target", KD_CHOICE, 0, IN_CONFIG(log.target), "auto", .choices = targets,
     .doc = "Where messages go; auto is the journal when stderr is connected to it, else stderr"},
    {"log", "burst", KD_COUNT, KD_RELOAD, IN_CONFIG(log.burst),
     "20", RANGE(0, 100000), .unit = "messages",
     .doc = "Messages of one kind written in each interval; further ones are counted and the "
            "count is written; 0 is no limit"},
    {"log", "interval", KD_DURATION, KD_RELOAD, IN_CONFIG(log.interval_ns),
     "10s", RANGE(100 * MS, 3600 * S), .unit = "time",
     .doc = "Length of the interval in which burst counts"},

    {"curve", "server_secret", KD_TEXT, KD_LATER, IN_CONFIG(curve.server_secret), "",
     .doc = "Secret key of the daemon, which arrives with CURVE support"},
    {"curve", "allow_feed", KD_TEXT, KD_LATER, IN_CONFIG(curve.allow_feed), "",
     .doc = "Keys that may send bars, which arrive with CURVE support"},
    {"curve", "allow_subscribe", KD_TEXT, KD_LATER, IN_CONFIG(curve.allow_subscribe), "",
     .doc = "Keys that may subscribe, which arrive with CURVE support"},
    {"curve", "allow_admin", KD_TEXT, KD_LATER, IN_CONFIG(curve.allow_admin), "",
     .doc = "Keys that may change the daemon's state, which arrive with CURVE support"},

    {"calendar", "timezone", KD_TEXT, KD_STREAM | KD_NONEMPTY, IN_VALUES(timezone),
     "UTC", .values = "a name of the tz database or an offset",
     .doc = "Zone of the market's local time, a name of the tz database or an offset such as "
            "+05:30; the model sees this time"},
    {"calendar", "sessions", KD_TEXT, KD_STREAM, IN_VALUES(sessions),
     "", .values = "HH:MM-HH:MM, separated by commas",
     .doc = "Trading sessions in local time such as 09:30-11:30,13:00-15:00; an end at or before "
            "its start is on the next day; empty: the whole day"},
    {"calendar", "weekdays", KD_TEXT, KD_STREAM, IN_VALUES(weekdays),
     "", .values = "mon to sun, single or as a range, separated by commas",
     .doc = "Days on which sessions start, such as mon-fri or sun,mon,tue; empty: all"},
    {"calendar", "holidays", KD_TEXT, KD_STREAM, IN_VALUES(holidays),
     "", .values = "dates YYYY-MM-DD, separated by commas",
     .doc = "Dates on which no session starts, such as 2026-12-25,2027-01-01; empty: none"},
};
/* clang-format on */
const size_t kd_n_keys = KR_ARRAY_LENGTH(kd_keys);
_Static_assert(KR_ARRAY_LENGTH(kd_keys) <= KD_MAX_KEYS, "raise KD_MAX_KEYS");

int kd_key_find(const char *section, const char *key)
{
    for (size_t i = 0; i < kd_n_keys; i++)
        if (strcmp(kd_keys[i].key, key) == 0 &&
            (strcmp(kd_keys[i].section, section) == 0 ||
             (strcmp(section, "stream") == 0 && kd_key_in(&kd_keys[i], section))))
            return (int)i;
    return -1;
}

bool kd_key_in(const struct kd_key *key, const char *section)
{
    if (strcmp(section, "stream") != 0)
        return strcmp(key->section, section) == 0;
    return (key->flags & KD_STREAM) != 0;
}

static void allowed_list(const struct kd_key *key, char *ret, size_t size)
{
    static const char *const texts[] = {
        [KD_ANY] = "items",
        [KD_BINDS] = ("loopback endpoints (tcp://127.0.0.1:PORT, tcp://[::1]:PORT, ipc://PATH, "
                      "inproc://NAME)"),
        [KD_CONNECTS] = "endpoints (tcp://HOST:PORT, ipc://PATH, inproc://NAME)",
        [KD_GLOBS] = "patterns of SYMBOL or SYMBOL|INTERVAL with *, ? and [...]",
        [KD_TOPICS] = "topic prefixes of at most 64 characters",
    };

    g_snprintf(ret, size, "%s, separated by commas or spaces%s", texts[key->content],
               key->flags & KD_NONEMPTY ? ", at least one" : "");
}

static void allowed_range(const struct kd_key *key, const char *what, char *ret, size_t size)
{
    char least[32] = "", most[32] = "";

    kd_bound_print(key, key->min, least, sizeof(least));
    kd_bound_print(key, key->max, most, sizeof(most));
    g_snprintf(ret, size, "%s from %s to %s%s%s%s", what, least, most,
               key->type == KD_COUNT && key->unit ? " " : "",
               key->type == KD_COUNT && key->unit ? key->unit : "",
               key->flags & KD_AUTO ? ", or auto" : "");
}

void kd_key_allowed(const struct kd_key *key, char *ret, size_t size)
{
    if (key->flags & KD_LATER) {
        g_snprintf(ret, size, "nothing in this version");
        return;
    }
    switch (key->type) {
    case KD_BOOL:
        g_snprintf(ret, size, "yes or no");
        break;
    case KD_COUNT:
        allowed_range(key, "a whole number", ret, size);
        break;
    case KD_NUMBER:
        g_snprintf(ret, size, "a whole number from 0 to 18446744073709551615");
        break;
    case KD_BYTES:
        allowed_range(key, "a number of bytes (suffixes K, M, G, T)", ret, size);
        break;
    case KD_DURATION:
        allowed_range(key, "a time (units us, ms, s, m, h)", ret, size);
        break;
    case KD_REAL:
        allowed_range(key, "a number", ret, size);
        break;
    case KD_CHOICE:
        ret[0] = '\0';
        for (size_t i = 0; key->choices[i]; i++) {
            const char *joint = i == 0 ? "" : key->choices[i + 1] ? ", " : " or ";

            g_strlcat(ret, joint, size);
            g_strlcat(ret, key->choices[i], size);
        }
        break;
    case KD_TEXT:
    case KD_PATH:
        g_snprintf(ret, size, "%s", key->values);
        break;
    case KD_LIST:
        allowed_list(key, ret, size);
        break;
    case KD_LEVELS:
        g_snprintf(ret, size, "1 to %d numbers between 0 and 1, each above the one before",
                   KD_MAX_LEVELS);
        break;
    }
}
