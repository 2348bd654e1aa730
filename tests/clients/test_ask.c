/* SPDX-License-Identifier: MIT */
/* kronosctl's commands that ask the daemon, the real program against a daemon of cardboard: what is asked,
 * what is printed, what a refusal means; and MessagePack as JSON. */
#include "clients/client.h"
#include "clients/json.h"
#include "clients/packed_json.h"
#include "tests/clients/daemon.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T0 INT64_C(1706693400000000000)

/* Questions */

static void pack_status(msgpack_packer *packer, const msgpack_object *request)
{
    (void)request;
    kronosd_pack_string(packer, "status", "");
}

static void pack_status_map(msgpack_packer *packer, const msgpack_object *request)
{
    (void)request;
    msgpack_pack_str_with_body(packer, "status", 6);
    msgpack_pack_map(packer, 4);
    kronosd_pack_int(packer, "received", 12);
    kronosd_pack_int(packer, "pub", T0);
    kronosd_pack_real(packer, "uptime_s", 1.5);
    msgpack_pack_str_with_body(packer, "rejected", 8);
    msgpack_pack_map(packer, 1);
    kronosd_pack_int(packer, "off_grid", 3);
}

/* Two pages of one stream each. */
static void pack_symbols(msgpack_packer *packer, const msgpack_object *request)
{
    int64_t from = kronosd_get_int(request, "from", 0);

    msgpack_pack_str_with_body(packer, "more", 4);
    if (from == 0)
        msgpack_pack_true(packer);
    else
        msgpack_pack_false(packer);
    msgpack_pack_str_with_body(packer, "symbols", 7);
    msgpack_pack_array(packer, 1);
    msgpack_pack_map(packer, 4);
    kronosd_pack_string(packer, "sym", from == 0 ? "AAA" : "BBB");
    kronosd_pack_string(packer, "iv", "5m");
    kronosd_pack_string(packer, "state", "LIVE");
    msgpack_pack_str_with_body(packer, "last", 4);
    msgpack_pack_map(packer, 2);
    kronosd_pack_int(packer, "t", T0);
    kronosd_pack_real(packer, "c", 10.25);
}

static void pack_snapshot(msgpack_packer *packer, const msgpack_object *request)
{
    char symbol[40], interval[8];

    CU_ASSERT_TRUE(kronosd_get_string(request, "sym", symbol, sizeof(symbol)));
    CU_ASSERT_TRUE(kronosd_get_string(request, "iv", interval, sizeof(interval)));
    CU_ASSERT_STRING_EQUAL(symbol, "AAA");
    CU_ASSERT_STRING_EQUAL(interval, "5m");
    msgpack_pack_str_with_body(packer, "forecast", 8);
    msgpack_pack_map(packer, 2);
    kronosd_pack_int(packer, "horizon", kronosd_get_int(request, "horizon", -1));
    kronosd_pack_real(packer, "T", kronosd_get_real(request, "T", -1));
}

static size_t n_loaded;
static double last_loaded;

static void pack_loaded(msgpack_packer *packer, const msgpack_object *request)
{
    const msgpack_object *t = kronosd_get(request, "t"), *bars = kronosd_get(request, "bars");
    size_t n;

    CU_ASSERT_FATAL(t && t->type == MSGPACK_OBJECT_BIN && bars && bars->type == MSGPACK_OBJECT_BIN);
    n = t->via.bin.size / 8;
    CU_ASSERT_EQUAL_FATAL(bars->via.bin.size, n * 48);
    memcpy(&last_loaded, bars->via.bin.ptr + n * 48 - 24, 8);
    n_loaded += n;
    kronosd_pack_int(packer, "accepted", (int64_t)n);
}

static struct kt_run ask(struct kt_daemon *daemon, const char *const *words)
{
    const char *arguments[24];
    struct kt_child child;
    size_t n = 0;

    for (; words[n]; n++)
        arguments[n] = words[n];
    arguments[n++] = "--control";
    arguments[n++] = daemon->control;
    arguments[n] = NULL;
    child = kt_start(arguments);
    CU_ASSERT_TRUE(kt_daemon_serve(daemon, &child, NULL));
    return kt_finish(&child);
}
#define ASK(daemon, ...) ask(daemon, (const char *const[]){__VA_ARGS__, NULL})

static void questions(void)
{
    static const struct kt_answer answers[] = {
        {"status", NULL, 1, pack_status_map},
        {"symbols", NULL, 2, pack_symbols},
        {"snapshot", NULL, 1, pack_snapshot},
        {"forecast", NULL, 1, pack_snapshot},
        {"ping", NULL, 0, NULL},
        {"reload", NULL, 0, NULL},
        {"reset", NULL, 0, NULL},
    };
    static const struct {
        const char *words[12];
        const char *out;
    } cases[] = {
        {{"status", "--json"},
         "{\"received\":12,\"pub\":1706693400000000000,\"uptime_s\":1.5,\"rejected\":{\"off_grid\":"
         "3}}\n"},
        {{"status"},
         "received          12\n"
         "pub               2024-01-31T09:30:00Z\n"
         "uptime_s          1.5\n"
         "rejected          off_grid 3\n"},
        {{"symbols", "--json"},
         "[{\"sym\":\"AAA\",\"iv\":\"5m\",\"state\":\"LIVE\",\"last\":{\"t\":1706693400000000000,"
         "\"c\":10.25}},"
         "{\"sym\":\"BBB\",\"iv\":\"5m\",\"state\":\"LIVE\",\"last\":{\"t\":1706693400000000000,"
         "\"c\":10.25}}]\n"},
        {{"symbols"},
         "SYMBOL           INTERVAL STATE        MODE              ROW    EPOCH  LAST              "
         "   "
         "         CLOSE  CALIBRATION      SCORED   SKILL   COVER\n"
         "AAA              5m       LIVE                             0        0  "
         "2024-01-31T09:30:00Z "
         "         10.25                        -       -       -\n"
         "BBB              5m       LIVE                             0        0  "
         "2024-01-31T09:30:00Z "
         "         10.25                        -       -       -\n"},
        {{"snapshot", "AAA", "--interval", "5m"}, "{\"horizon\":-1,\"T\":-1.0}\n"},
        {{"forecast", "AAA", "--interval", "5m", "--horizon", "5000", "--temperature", "0.5"},
         "{\"horizon\":5000,\"T\":0.5}\n"},
        {{"reload"}, NULL},
        {{"reset", "AAA", "--interval", "5m"}, NULL},
        {{"ping"}, NULL},
    };
    struct kt_daemon daemon;

    kt_daemon_open(&daemon);
    daemon.answers = answers;
    daemon.n_answers = KR_ARRAY_LENGTH(answers);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kt_run run = ask(&daemon, cases[i].words);

        KT_CHECK(run.status == 0, "%s: status %d: %s", cases[i].words[0], run.status, run.err);
        KT_CHECK(!cases[i].out || strcmp(run.out, cases[i].out) == 0, "%s prints\n%s",
                 cases[i].words[0], run.out);
        CU_ASSERT_TRUE(run.out_bytes > 0);
        kt_run_free(&run);
    }
    kt_daemon_close(&daemon);
}

static void refusals(void)
{
    static const struct {
        const char *code;
        int status;
    } cases[] = {{"not_found", 66}, {"no_forecast", 66}, {"bad_request", 65}, {"too_large", 65},
                 {"busy", 69},      {"draining", 69},    {"invalid", 78},     {"not_allowed", 78}};
    static const struct kt_answer broken[] = {{"status", NULL, 1, pack_status}};
    struct kt_daemon daemon;
    struct kt_run run;

    kt_daemon_open(&daemon);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        const struct kt_answer answer = {"snapshot", cases[i].code, 0, NULL};

        daemon.answers = &answer;
        daemon.n_answers = 1;
        run = ASK(&daemon, "snapshot", "AAA", "--interval", "5m");
        KT_CHECK(run.status == cases[i].status, "%s: status %d", cases[i].code, run.status);
        KT_CHECK(kt_one_line(run.err) && strstr(run.err, "the test says no"), "%s", run.err);
        CU_ASSERT_STRING_EQUAL(run.out, "");
        kt_run_free(&run);
    }
    daemon.answers = broken; /* a reply of another shape */
    run = ASK(&daemon, "status");
    CU_ASSERT_EQUAL(run.status, 69);
    CU_ASSERT_TRUE(kt_one_line(run.err));
    kt_run_free(&run);
    daemon.silent = true;
    run = ASK(&daemon, "ping", "--timeout", "100ms");
    CU_ASSERT_EQUAL(run.status, 75);
    CU_ASSERT_TRUE(kt_one_line(run.err));
    kt_run_free(&run);
    kt_daemon_close(&daemon);
}

static void loading(void)
{
    static const struct kt_answer answers[] = {{"load", NULL, 1, pack_loaded}};
    const char *folder = kt_path("load"), *file;
    struct kt_daemon daemon;
    struct kt_run run = KT_RUN("simulate", "--bars", "2500", "--output", folder);

    CU_ASSERT_EQUAL_FATAL(run.status, 0);
    kt_run_free(&run);
    file = kt_path("load/SIM001-1m.csv");
    kt_daemon_open(&daemon);
    daemon.answers = answers;
    daemon.n_answers = 1;
    n_loaded = 0;
    run = ASK(&daemon, "load", file, "--symbol", "AAA", "--interval", "1m");
    KT_CHECK(run.status == 0, "%s", run.err);
    CU_ASSERT_STRING_EQUAL(run.out, "loaded 2500 of 2500 bars of AAA 1m\n");
    CU_ASSERT_EQUAL(n_loaded, 2500);
    CU_ASSERT_EQUAL(daemon.n_requests, 3); /* in chunks */
    CU_ASSERT_TRUE(last_loaded > 0);
    kt_run_free(&run);
    run = ASK(&daemon, "load", "/nonexistent.csv", "--symbol", "AAA", "--interval", "1m");
    CU_ASSERT_EQUAL(run.status, 66);
    kt_run_free(&run);
    kt_daemon_close(&daemon);
}

/* JSON */

static char *as_json(const void *data, size_t n, int *ret_code)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
    *ret_code = kc_json_packed(stream, data, n);
    fclose(stream);
    return text;
}

static void json_values(void)
{
    static const struct {
        const char *packed;
        size_t n;
        const char *text;
    } cases[] = {
        {"\xc0", 1, "null\n"},
        {"\xc3", 1, "true\n"},
        {"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9, "18446744073709551615\n"},
        {"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", 9, "-9223372036854775808\n"},
        {"\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a", 9, "0.1\n"},
        {"\xcb\x40\x08\x00\x00\x00\x00\x00\x00", 9, "3.0\n"},
        {"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", 9, "null\n"},
        {"\xca\x3f\x00\x00\x00", 5, "0.5\n"},
        {"\xa4\"\\\n\x01", 5, "\"\\\"\\\\\\n\\u0001\"\n"},
        {"\xa2\xc3\xa9", 3, "\"\xc3\xa9\"\n"},
        {"\xa1\xff", 2, "\"\xef\xbf\xbd\"\n"},
        {"\xc4\x03"
         "abc",
         5, "\"YWJj\"\n"},
        {"\x92\x01\x81\xa1k\x90", 6, "[1,{\"k\":[]}]\n"},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        int code;
        char *text = as_json(cases[i].packed, cases[i].n, &code);

        CU_ASSERT_EQUAL(code, 0);
        KT_CHECK(strcmp(text, cases[i].text) == 0, "case %zu: %s", i, text);
        free(text);
    }
}

static void json_refused(void)
{
    char deep[40];
    int code;

    free(as_json("\x01\x02", 2, &code)); /* two values */
    CU_ASSERT_EQUAL(code, -EBADMSG);
    free(as_json("\x92\x01", 2, &code)); /* half an array */
    CU_ASSERT_EQUAL(code, -EBADMSG);
    free(as_json("\x81\xc0\x01", 3, &code)); /* a key that is none */
    CU_ASSERT_EQUAL(code, -EBADMSG);
    free(as_json("", 0, &code));
    CU_ASSERT_EQUAL(code, -EBADMSG);
    memset(deep, 0x91, sizeof(deep)); /* arrays in arrays */
    deep[sizeof(deep) - 1] = 1;
    free(as_json(deep, sizeof(deep), &code));
    CU_ASSERT_EQUAL(code, -EBADMSG);
}

/* A whole forecast: the same value as by way of a tree. */
static void json_forecast(void)
{
    msgpack_sbuffer buffer;
    msgpack_unpacked unpacked;
    json_t *ours, *tree;
    char *text;
    int code;

    msgpack_sbuffer_init(&buffer);
    kt_pack_forecast(&buffer, "AAA", "5m", 1, 2, T0, 10.1);
    text = as_json(buffer.data, buffer.size, &code);
    CU_ASSERT_EQUAL(code, 0);
    ours = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(ours);
    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(buffer.data, buffer.size, &unpacked), 0);
    tree = kj_from_msgpack(&unpacked.data);
    CU_ASSERT_TRUE(json_equal(ours, tree));
    json_decref(ours);
    json_decref(tree);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&buffer);
    free(text);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"questions", questions},
        {"refusals", refusals},
        {"load", loading},
        {"JSON of every type", json_values},
        {"what is no JSON", json_refused},
        {"JSON of a forecast", json_forecast},
    };

    return kt_main("ask", tests, KR_ARRAY_LENGTH(tests));
}
