/* SPDX-License-Identifier: MIT */
/* Calibration on disk, with the real daemon: a restart goes on where it was, another model or
 * temperature begins anew and says so, a killed daemon leaves a sound file, a full disk stops no
 * forecast, and what cannot be used is refused at the start. */
#include "tests/daemon/damage.h"
#include "tests/daemon/harness.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_BARS   200
#define HORIZON  4
#define MIN_BARS 32 /* of the harness */
#define STOP     150

/* Everything heard of one stream, by bar: messages without what may differ between two runs. */
struct heard {
    msgpack_sbuffer forecast[N_BARS];
    msgpack_sbuffer score[N_BARS][HORIZON];
    size_t n_scores;
};

static void heard_free(struct heard *heard)
{
    for (size_t i = 0; i < N_BARS; i++) {
        msgpack_sbuffer_destroy(&heard->forecast[i]);
        for (size_t h = 0; h < HORIZON; h++)
            msgpack_sbuffer_destroy(&heard->score[i][h]);
    }
    *heard = (struct heard){.n_scores = 0};
}

/* Rules: identical but for `ep`, `seq`, `pub`, `lat`. */
static void pack_same(msgpack_sbuffer *out, const msgpack_object *root)
{
    static const char *const others[] = {"ep", "seq", "pub", "lat"};
    msgpack_packer packer;

    msgpack_sbuffer_clear(out);
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    for (uint32_t i = 0; i < root->via.map.size; i++) {
        const msgpack_object *key = &root->via.map.ptr[i].key;
        bool other = false;

        for (size_t k = 0; k < KR_ARRAY_LENGTH(others); k++)
            other |= key->via.str.size == strlen(others[k]) &&
                     !memcmp(key->via.str.ptr, others[k], key->via.str.size);
        if (other)
            continue;
        msgpack_pack_object(&packer, *key);
        msgpack_pack_object(&packer, root->via.map.ptr[i].val);
    }
}

static bool same(const msgpack_sbuffer *a, const msgpack_sbuffer *b)
{
    return a->size > 0 && a->size == b->size && !memcmp(a->data, b->data, a->size);
}

static size_t bar_at(int64_t t_ns)
{
    return (size_t)((t_ns - kt_bar("AAA", "1m", 0).bar.t_ns) / KT_MINUTE_NS);
}

/* Feed bars [from, to) one by one to a window that holds `n_held` already; note what is heard until
 * each one's forecast has come. */
static void feed(struct kt_daemon *daemon, size_t n_held, size_t from, size_t to,
                 struct heard *heard)
{
    struct kronosd_subscriber *subscriber = kt_subscribe(daemon, "score|");
    struct kr_error error;
    void *socket;

    CU_ASSERT_PTR_NOT_NULL_FATAL(subscriber);
    CU_ASSERT_EQUAL_FATAL(kronosd_subscribe(subscriber, "forecast|", &error), 0);
    kronosd_subscriber_close(&subscriber);
    subscriber = kt_subscribe(daemon, "");
    socket = kt_feed_open(daemon);
    for (size_t i = from; i < to; i++) {
        struct kw_bar bar = kt_bar("AAA", "1m", i);
        struct kronosd_message message;
        bool done = n_held + i - from + 1 < MIN_BARS;

        kt_feed_bar(socket, &bar);
        while (!done) {
            CU_ASSERT_TRUE_FATAL(kt_receive(subscriber, &message));
            if (strcmp(message.kind, "forecast") == 0) {
                int64_t as_of = kronosd_get_int(message.root, "as_of", -1);

                done = as_of == bar.bar.t_ns;
                if (done && heard)
                    pack_same(&heard->forecast[i], message.root);
            } else if (strcmp(message.kind, "score") == 0 && heard) {
                size_t at = bar_at(kronosd_get_int(message.root, "t", 0));
                uint64_t h = kronosd_get_uint(message.root, "h", 0);

                CU_ASSERT_TRUE_FATAL(at < N_BARS && h >= 1 && h <= HORIZON);
                pack_same(&heard->score[at][h - 1], message.root);
                heard->n_scores++;
            }
        }
    }
    kronosd_subscriber_close(&subscriber);
    kt_feed_close(&socket);
}

/* What the stream's last forecast says of its calibration. */
static void read_cal(struct kt_daemon *daemon, char ret_status[32], uint64_t *ret_n)
{
    struct kronosd_control *control = kt_control(daemon);
    const msgpack_object *reply = NULL, *cal, *text;

    *ret_status = '\0';
    *ret_n = UINT64_MAX;
    CU_ASSERT_PTR_NOT_NULL_FATAL(control);
    CU_ASSERT_EQUAL(kt_ask(control, "snapshot", "AAA", "1m", &reply), 0);
    cal = kronosd_get(kronosd_get(reply, "forecast"), "cal");
    CU_ASSERT_PTR_NOT_NULL_FATAL(cal);
    text = kronosd_get(cal, "status");
    if (text)
        snprintf(ret_status, 32, "%.*s", (int)text->via.str.size, text->via.str.ptr);
    *ret_n = kronosd_get_uint(cal, "n", UINT64_MAX);
    kronosd_control_close(&control);
}

/* One counter of the status' `state`. */
static uint64_t counter(struct kt_daemon *daemon, const char *name)
{
    struct kronosd_control *control = kt_control(daemon);
    const msgpack_object *reply = NULL;
    uint64_t n;

    CU_ASSERT_PTR_NOT_NULL_FATAL(control);
    CU_ASSERT_EQUAL(kt_ask(control, "status", NULL, NULL, &reply), 0);
    n = kronosd_get_uint(kronosd_get(kronosd_get(reply, "status"), "state"), name, UINT64_MAX);
    kronosd_control_close(&control);
    return n;
}

/* Listen to the status until what was submitted is committed. */
static void await_commit(struct kt_daemon *daemon)
{
    struct kronosd_subscriber *subscriber = kt_subscribe(daemon, "status|");
    struct kronosd_message message;
    const msgpack_object *state;

    do {
        CU_ASSERT_TRUE_FATAL(kt_receive(subscriber, &message));
        state = kronosd_get(message.root, "state");
    } while (kronosd_get_uint(state, "committed", 0) == 0 ||
             kronosd_get_uint(state, "committed", 0) < kronosd_get_uint(state, "submitted", 0));
    kronosd_subscriber_close(&subscriber);
}

static const char *state_line(const char *more)
{
    static char text[512];
    static unsigned n;

    snprintf(text, sizeof(text), "[state] directory = %s/state-%u\n%s", kt_tmp(), n++, more);
    return text;
}

static void end(struct kt_daemon *daemon)
{
    CU_ASSERT_EQUAL(kt_daemon_stop(daemon), 0);
    kt_daemon_end(daemon);
}

/* The history comes again behind the restart. */
static void restarted(void)
{
    static struct heard whole, first, second;
    struct kt_daemon daemon = {0};
    size_t n_same = 0;

    CU_ASSERT_FATAL(kt_daemon_begin(&daemon, ""));
    feed(&daemon, 0, 0, N_BARS, &whole);
    CU_ASSERT_EQUAL(counter(&daemon, "committed"), UINT64_MAX); /* nothing is kept */
    end(&daemon);

    daemon = (struct kt_daemon){0};
    CU_ASSERT_FATAL(kt_daemon_begin(&daemon, state_line("")));
    feed(&daemon, 0, 0, STOP, &first);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
    KT_CHECK(strstr(daemon.text, "state: ") != NULL, "%s", daemon.text);
    CU_ASSERT_FATAL(kt_daemon_start(&daemon));
    feed(&daemon, 0, 0, N_BARS, &second);
    CU_ASSERT_EQUAL(counter(&daemon, "restored"), 1);
    CU_ASSERT_EQUAL(counter(&daemon, "unread"), 0);
    end(&daemon);

    for (size_t i = MIN_BARS - 1; i < N_BARS; i++) {
        const struct heard *part = i < STOP ? &first : &second;

        KT_CHECK(same(&whole.forecast[i], &part->forecast[i]), "forecast behind bar %zu", i);
        for (size_t h = 0; h < HORIZON && i + 1 >= MIN_BARS + h + 1; h++) {
            KT_CHECK(same(&whole.score[i][h], &part->score[i][h]), "score of bar %zu at %zu", i,
                     h + 1);
            n_same++;
        }
    }
    CU_ASSERT_EQUAL(whole.n_scores, n_same);
    CU_ASSERT_EQUAL(first.n_scores + second.n_scores, n_same); /* none a second time */
    kt_note("%zu scores and %d forecasts are the same", n_same, N_BARS - MIN_BARS + 1);
    heard_free(&whole);
    heard_free(&first);
    heard_free(&second);
}

/* Bars of the time in between that come: scored. Those that never come: not, and the rest goes on. */
static void in_between(void)
{
    static struct heard whole, second;
    struct kt_daemon daemon = {0};
    size_t n = 0;

    CU_ASSERT_FATAL(kt_daemon_begin(&daemon, state_line("")));
    feed(&daemon, 0, 0, STOP, &whole);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
    CU_ASSERT_FATAL(kt_daemon_start(&daemon));
    /* warmed up on later bars: numbers 150 and 151 are lost, forecasts of 148 and 149 reach 152 */
    feed(&daemon, 0, STOP + 2, N_BARS, &second);
    for (size_t h = 0; h < HORIZON; h++) {
        n += second.score[STOP + 2][h].size > 0;
        CU_ASSERT_EQUAL(second.score[STOP + 1][h].size, 0);
    }
    CU_ASSERT_EQUAL(n, 2); /* of as_of 148 at 4, of 149 at 3 */
    CU_ASSERT_TRUE(second.score[STOP + 3][HORIZON - 1].size > 0);
    end(&daemon);
    heard_free(&whole);
    heard_free(&second);
}

/* A shorter history, so that window and rows are others: what waited is scored as if nothing had been. */
static void shorter_history(void)
{
    static struct heard whole, first, second;
    struct kt_daemon daemon = {0};

    CU_ASSERT_FATAL(kt_daemon_begin(&daemon, ""));
    feed(&daemon, 0, 0, STOP + HORIZON, &whole);
    end(&daemon);
    CU_ASSERT_FATAL(kt_daemon_begin(&daemon, state_line("")));
    feed(&daemon, 0, 0, STOP, &first);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
    CU_ASSERT_FATAL(kt_daemon_start(&daemon));
    feed(&daemon, 0, STOP - 40, STOP + HORIZON, &second);
    end(&daemon);
    /* forecasts of before the stop but for the last one, which was made again */
    for (size_t i = STOP; i < STOP + HORIZON; i++)
        for (size_t h = i - STOP + 2; h <= HORIZON; h++)
            KT_CHECK(same(&whole.score[i][h - 1], &second.score[i][h - 1]),
                     "score of bar %zu at %zu", i, h);
    for (size_t i = 0; i < STOP; i++)
        for (size_t h = 0; h < HORIZON; h++)
            CU_ASSERT_EQUAL(second.score[i][h].size, 0);
    heard_free(&whole);
    heard_free(&first);
    heard_free(&second);
}

/* Restarted with other lines: the calibration begins anew, with an event. */
static void begins_anew(const char *lines, const char *reason)
{
    struct kt_daemon daemon = {0};
    struct kronosd_subscriber *events;
    char status[32], more[1024];
    uint64_t n;

    snprintf(more, sizeof(more), "%s", state_line(""));
    CU_ASSERT_FATAL(kt_daemon_begin(&daemon, more));
    feed(&daemon, 0, 0, 100, NULL);
    read_cal(&daemon, status, &n);
    KT_CHECK(n > 20 && strcmp(status, "uncalibrated"), "%s, n %" PRIu64, status, n);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
    snprintf(more + strlen(more), sizeof(more) - strlen(more), "%s", lines);
    kt_daemon_configure(&daemon, more);
    CU_ASSERT_FATAL(kt_daemon_start(&daemon));
    events = kt_subscribe(&daemon, "event|");
    feed(&daemon, 0, 0, 50, NULL);
    CU_ASSERT_TRUE(kt_event(events, "recalibrated", reason, 1));
    kronosd_subscriber_close(&events);
    read_cal(&daemon, status, &n);
    KT_CHECK(n < 20 && strcmp(status, "uncalibrated") == 0, "%s, n %" PRIu64, status, n);
    CU_ASSERT_EQUAL(counter(&daemon, "stale"), 1);
    CU_ASSERT_EQUAL(counter(&daemon, "restored"), 0);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
    /* and stays so: the same again goes on */
    CU_ASSERT_FATAL(kt_daemon_start(&daemon));
    feed(&daemon, 0, 0, 60, NULL);
    CU_ASSERT_EQUAL(counter(&daemon, "restored"), 1);
    CU_ASSERT_EQUAL(counter(&daemon, "stale"), 0);
    end(&daemon);
}

static void other_temperature(void)
{
    begins_anew("[forecast] temperature = 0.9\n", "parameters");
}

static void other_model(void)
{
    char lines[2200], predictor[1024], tokenizer[1024];

    if (!realpath(kt_source("golden/odd/predictor"), predictor) ||
        !realpath(kt_source("golden/odd/tokenizer"), tokenizer)) {
        CU_FAIL("no other model");
        return;
    }
    snprintf(lines, sizeof(lines), "[model] predictor = %s\n[model] tokenizer = %s\n", predictor,
             tokenizer);
    begins_anew(lines, "parameters");
}

/* Reset on the control socket: neither in this run nor the next does the old come back. */
static void reset(void)
{
    struct kt_daemon daemon = {0};
    struct kronosd_control *control;
    const msgpack_object *reply;
    char status[32];
    uint64_t n;

    CU_ASSERT_FATAL(kt_daemon_begin(&daemon, state_line("")));
    feed(&daemon, 0, 0, 100, NULL);
    await_commit(&daemon);
    control = kt_control(&daemon);
    CU_ASSERT_EQUAL(kt_ask(control, "reset", "AAA", "1m", &reply), 0);
    kronosd_control_close(&control);
    feed(&daemon, 0, 0, 40, NULL);
    read_cal(&daemon, status, &n);
    KT_CHECK(n < 20, "n %" PRIu64, n);
    control = kt_control(&daemon);
    CU_ASSERT_EQUAL(kt_ask(control, "reset", "AAA", "1m", &reply), 0);
    kronosd_control_close(&control);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0); /* no bar behind it */
    CU_ASSERT_FATAL(kt_daemon_start(&daemon));
    feed(&daemon, 0, 0, 40, NULL);
    CU_ASSERT_EQUAL(counter(&daemon, "restored"), 0);
    read_cal(&daemon, status, &n);
    KT_CHECK(n < 20, "n %" PRIu64, n);
    end(&daemon);
}

/* Damaged records: said, counted, and the stream goes on. */
static void damaged(void)
{
    static const struct {
        const char *table, *kind, *reason;
        uint64_t n_restored;
    } cases[] = {{"calibration", "recalibrated", "damaged", 0}, {"pending", "state", "unread", 1}};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kt_daemon daemon = {0};
        struct kronosd_subscriber *events;
        char more[512], directory[512];

        snprintf(more, sizeof(more), "%s", state_line(""));
        snprintf(directory, sizeof(directory), "%.*s", (int)strcspn(strchr(more, '/'), "\n"),
                 strchr(more, '/'));
        CU_ASSERT_FATAL(kt_daemon_begin(&daemon, more));
        feed(&daemon, 0, 0, 80, NULL);
        CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
        kt_damage_row(directory, cases[i].table, 0);
        CU_ASSERT_FATAL(kt_daemon_start(&daemon));
        events = kt_subscribe(&daemon, "event|");
        feed(&daemon, 0, 0, 90, NULL);
        CU_ASSERT_TRUE(kt_event(events, cases[i].kind, cases[i].reason, 1));
        kronosd_subscriber_close(&events);
        CU_ASSERT_EQUAL(counter(&daemon, "unread"), 1);
        CU_ASSERT_EQUAL(counter(&daemon, "damaged"), 1 - cases[i].n_restored);
        CU_ASSERT_EQUAL(counter(&daemon, "restored"), cases[i].n_restored);
        end(&daemon);
    }
}

/* Killed: what was committed is there, and n is what it was. */
static void killed(void)
{
    struct kt_daemon daemon = {0};
    char status[32];
    uint64_t before, after;

    CU_ASSERT_FATAL(kt_daemon_begin(&daemon, state_line("[state] sync = interval\n")));
    feed(&daemon, 0, 0, 100, NULL);
    read_cal(&daemon, status, &before);
    await_commit(&daemon);
    kill(daemon.pid, SIGKILL);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), -1);
    CU_ASSERT_FATAL(kt_daemon_start(&daemon));
    feed(&daemon, 0, 0, 100, NULL);
    read_cal(&daemon, status, &after);
    CU_ASSERT_EQUAL(after, before);
    CU_ASSERT_EQUAL(counter(&daemon, "restored"), 1);
    CU_ASSERT_EQUAL(counter(&daemon, "unread"), 0);
    end(&daemon);
}

/* Killed in the middle, several times, under each kind of sync: it starts, and restores. */
static void killed_at_work(void)
{
    static const char *const syncs[] = {"[state] sync = always\n", "[state] sync = interval\n",
                                        "[state] sync = off\n"};

    for (size_t s = 0; s < KR_ARRAY_LENGTH(syncs); s++) {
        struct kt_daemon daemon = {0};
        size_t n_restored = 0;

        CU_ASSERT_FATAL(kt_daemon_begin(&daemon, state_line(syncs[s])));
        feed(&daemon, 0, 0, 40, NULL);
        await_commit(&daemon);
        for (size_t round = 0; round < 4; round++) {
            feed(&daemon, 40, 40, 60 + 7 * round, NULL);
            kill(daemon.pid, SIGKILL);
            CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), -1);
            CU_ASSERT_FATAL(kt_daemon_start(&daemon));
            feed(&daemon, 0, 0, 40, NULL);
            n_restored += counter(&daemon, "restored");
            CU_ASSERT_EQUAL(counter(&daemon, "unread"), 0);
        }
        CU_ASSERT_EQUAL(n_restored, 4);
        end(&daemon);
    }
}

/* No room: forecasts go on, an event tells, and when there is room again nothing is missing. */
static void no_space(void)
{
    struct kt_daemon daemon = {0};
    struct kronosd_subscriber *events;
    struct rlimit limit = {1, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    char status[32];
    uint64_t before, after;

    CU_ASSERT_FATAL(kt_daemon_begin(
        &daemon, state_line("[state] sync = always\n[log] level = err\n[log] burst = 1\n")));
    events = kt_subscribe(&daemon, "event|");
    feed(&daemon, 0, 0, 60, NULL);
    await_commit(&daemon);
    /* files may not grow: the state's and the log's, which loses a line */
    CU_ASSERT_EQUAL_FATAL(prlimit(daemon.pid, RLIMIT_FSIZE, &limit, NULL), 0);
    feed(&daemon, 60, 60, 90, NULL);
    CU_ASSERT_TRUE(kt_event(events, "state", "failed", 1));
    CU_ASSERT_TRUE(counter(&daemon, "failures") > 0 && counter(&daemon, "lost") > 0);
    CU_ASSERT_EQUAL_FATAL(prlimit(daemon.pid, RLIMIT_FSIZE, &none, NULL), 0);
    CU_ASSERT_TRUE(kt_event(events, "state", "written", 1)); /* by its own retry */
    kronosd_subscriber_close(&events);
    read_cal(&daemon, status, &before);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
    CU_ASSERT_FATAL(kt_daemon_start(&daemon));
    feed(&daemon, 0, 0, 90, NULL);
    read_cal(&daemon, status, &after);
    CU_ASSERT_TRUE(after == before && before > 20);
    end(&daemon);
}

/* One line, and exit status 78. */
static void refused(void)
{
    struct kt_daemon daemon = {0}, second = {0};
    char more[512], path[600];
    FILE *file;

    snprintf(more, sizeof(more), "%s", state_line(""));
    CU_ASSERT_FATAL(kt_daemon_begin(&daemon, more));
    CU_ASSERT_FALSE(kt_daemon_begin(&second, more));
    CU_ASSERT_EQUAL(kt_daemon_stop(&second), 78);
    KT_CHECK(strstr(second.text, "another kronosd keeps its state there"), "%s", second.text);
    kt_daemon_end(&second);
    end(&daemon);
    snprintf(path, sizeof(path), "%.*s/state.mdb", (int)strcspn(strchr(more, '/'), "\n"),
             strchr(more, '/'));
    file = fopen(path, "r+e");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    for (int i = 0; i < 8192; i++)
        putc('x', file);
    fclose(file);
    daemon = (struct kt_daemon){0};
    CU_ASSERT_FALSE(kt_daemon_begin(&daemon, more));
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 78);
    KT_CHECK(strstr(daemon.text, "state.mdb: expected an LMDB file"), "%s", daemon.text);
    kt_daemon_end(&daemon);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"restarted, against never stopped", restarted},
        {"bars of the time in between", in_between},
        {"a shorter history", shorter_history},
        {"another temperature", other_temperature},
        {"another model", other_model},
        {"reset", reset},
        {"damaged records", damaged},
        {"killed", killed},
        {"killed while it writes", killed_at_work},
        {"no room on the disk", no_space},
        {"refused at the start", refused},
    };

    return kt_main("daemon_state", tests, KR_ARRAY_LENGTH(tests));
}
