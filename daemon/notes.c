/* SPDX-License-Identifier: MIT */
#include "daemon/notes.h"

#include "core/zone.h"
#include "daemon/clock.h"
#include "daemon/log.h"

#include <time.h>

#define STREAM_BURST 1024
#define STREAM_RATE  64
#define TOTAL_BURST  8192
#define TOTAL_RATE   1024

bool kd_bucket_take(struct kd_bucket *bucket, double burst, double rate, int64_t now_ns)
{
    if (!bucket->filled_ns)
        bucket->tokens = burst;
    else
        bucket->tokens += rate * (double)(now_ns - bucket->filled_ns) / 1e9;
    if (bucket->tokens > burst)
        bucket->tokens = burst;
    bucket->filled_ns = now_ns;
    if (bucket->tokens < 1)
        return false;
    bucket->tokens--;
    return true;
}

static void log_note(enum kd_note note, const char *interval, const char *symbol, int64_t t_ns,
                     uint64_t count)
{
    enum kd_message message = kd_note_message(note);
    time_t seconds = (time_t)kr_floor_div(t_ns, KR_NS_PER_S);
    char time[32] = "";
    struct tm utc;

    if (!kd_log_enabled(message))
        return;
    if (t_ns && gmtime_r(&seconds, &utc))
        strftime(time, sizeof(time), ", bar of %FT%TZ", &utc);
    kd_log(message, *symbol ? symbol : NULL, *interval ? interval : NULL, kd_note_reason(note),
           "%s: %s%s, %llu so far", kd_note_kind(note), kd_note_reason(note), time,
           (unsigned long long)count);
}

/* The topic of a stream that was not admitted. Peers choose these names, so there is a number of them
 * beyond which all share event|||. */
static struct kd_topic *stranger_topic(struct kd_notes *notes, const char *interval,
                                       const char *symbol)
{
    struct kd_topic *topic;
    size_t before = notes->publish->n_topics;

    if (!*interval || !*symbol)
        interval = symbol = "";
    if (notes->n_strangers >= notes->max_strangers) {
        topic = kd_publish_find(notes->publish, "event", interval, symbol);
        return topic ? topic : kd_publish_topic(notes->publish, "event", "", "");
    }
    topic = kd_publish_topic(notes->publish, "event", interval, symbol);
    notes->n_strangers += notes->publish->n_topics - before;
    return topic;
}

void kd_note(struct kd_notes *notes, struct kd_tally *tally, const char *interval,
             const char *symbol, enum kd_note note, int64_t t_ns, uint64_t n)
{
    int64_t now = kd_mono_ns();
    struct kd_topic *topic;
    msgpack_sbuffer buffer;
    uint64_t count;

    if (tally && !tally->topic)
        tally->topic = kd_publish_topic(notes->publish, "event", interval, symbol);
    topic = tally ? tally->topic : NULL;
    tally = tally ? tally : &notes->strangers;
    count = tally->counts[note] += n;
    log_note(note, interval, symbol, t_ns, count);
    if (!kd_bucket_take(&tally->bucket, STREAM_BURST, STREAM_RATE, now) ||
        !kd_bucket_take(&notes->bucket, TOTAL_BURST, TOTAL_RATE, now)) {
        notes->n_dropped++;
        return;
    }
    if (!topic)
        topic = stranger_topic(notes, interval, symbol);
    if (!topic) {
        notes->n_dropped++;
        return;
    }
    msgpack_sbuffer_init(&buffer);
    int status = kw_encode_event(&buffer, &(struct kw_event){.symbol = symbol,
                                                             .interval = interval,
                                                             .ep = notes->ep,
                                                             .seq = topic->seq + 1,
                                                             .t_ns = t_ns,
                                                             .kind = kd_note_kind(note),
                                                             .reason = kd_note_reason(note),
                                                             .count = count});
    if (!status) {
        kd_publish_send(notes->publish, topic, topic->seq + 1, buffer.data, buffer.size, false);
        notes->n_published++;
    } else {
        notes->n_dropped++;
    }
    msgpack_sbuffer_destroy(&buffer);
}
