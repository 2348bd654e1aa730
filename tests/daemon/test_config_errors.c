/* SPDX-License-Identifier: MIT */
#include "daemon/config.h"
#include "tests/daemon/config_files.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct refusal {
    const char *text, *message;
};

static void refuse_all(const struct refusal *refusals, size_t n)
{
    for (size_t i = 0; i < n; i++)
        kt_config_refused(refusals[i].text, refusals[i].message);
}

static void values(void)
{
    static const struct refusal refusals[] = {
        {"[forecast]\n\nhorizon = 0\n",
         ":3: horizon: 0, expected a whole number from 1 to 10000 bars"},
        {"[forecast]\nhorizon = -1\n",
         ":2: horizon: -1, expected a whole number from 1 to 10000 bars"},
        {"[forecast]\nhorizon = 24 # bars\n",
         ":2: horizon: 24 # bars, expected a whole number from 1 to 10000 bars"},
        {"[forecast]\nhorizon =\n",
         ":2: horizon: nothing, expected a whole number from 1 to 10000 bars"},
        {"[forecast]\nhorizon = 99999999999999999999999\n",
         ":2: horizon: 99999999999999999999999, expected a whole number from 1 to 10000 bars"},
        {"[forecast]\nseed = 18446744073709551616\n",
         ":2: seed: 18446744073709551616, expected a whole number from 0 to 18446744073709551615"},
        {"[forecast]\ngrowth = 23\n",
         ":2: growth: 23, expected a whole number from 24 to 65536 bars, or auto"},
        {"[forecast]\nmode = fast\n", ":2: mode: fast, expected auto, exact, anchored or rolling"},
        {"[forecast]\njoin = true\n", ":2: join: true, expected yes or no"},
        {"[forecast]\ntemperature = 0\n",
         ":2: temperature: 0, expected a number from 0.001 to 1000"},
        {"[forecast]\ntemperature = 0x1\n",
         ":2: temperature: 0x1, expected a number from 0.001 to 1000"},
        {"[forecast]\ntemperature = nan\n",
         ":2: temperature: nan, expected a number from 0.001 to 1000"},
        {"[forecast]\ntemperature = 1,5\n",
         ":2: temperature: 1,5, expected a number from 0.001 to 1000"},
        {"[forecast]\nlevels = 0.5 0.5\n", ":2: levels: 0.5 0.5, expected 1 to 32 numbers between "
                                           "0 and 1, each above the one before"},
        {"[forecast]\nlevels = 0 0.5\n",
         ":2: levels: 0 0.5, expected 1 to 32 numbers between 0 and 1, each above the one before"},
        {"[forecast]\nlevels =\n", ":2: levels: nothing, expected 1 to 32 numbers between 0 and 1, "
                                   "each above the one before"},
        {"[limits]\nmemory = 5X\n", ":2: memory: 5X, expected a number of bytes (suffixes K, M, G, "
                                    "T) from 1M to 1024T, or auto"},
        {"[limits]\nmemory = 99999999999999T\n",
         ":2: memory: 99999999999999T, expected a number of bytes (suffixes K, M, G, T) from 1M to "
         "1024T, or auto"},
        {"[publish]\nstatus = 1\n",
         ":2: status: 1, expected a time (units us, ms, s, m, h) from 100ms to 1h"},
        {"[publish]\nstatus = 2h\n",
         ":2: status: 2h, expected a time (units us, ms, s, m, h) from 100ms to 1h"},
        {"[model]\nprecision = f16\n", ":2: precision: f16, expected f32 or bf16"},
        {"[model]\nmatmul = openblas\nprecision = bf16\n",
         ":3: precision: bf16, expected f32 with matmul = openblas"},
        {"[model]\nmatmul = mkl\n", ":2: matmul: mkl, expected auto, native or openblas"},
        {"[curve]\nserver_secret = x\n", ":2: server_secret: x: refused: Secret key of the daemon, "
                                         "which arrives with CURVE support"},
        {"[state]\nsync = never\n", ":2: sync: never, expected always, interval or off"},
        {"[forecast]\nmin_bars = 500\n",
         ":2: min_bars: 500, expected at most lookback, which is 400"},
        {"[forecast]\nlookback = 32\n",
         ":2: lookback: min_bars is 64, expected at most lookback, which is 32"},
        {"[limits]\nbars = 100\n", ":2: bars: 100, expected at least lookback, which is 400"},
        {"[stream A]\nlookback = 2000\n",
         ":2: lookback: bars is 1024, expected at least lookback, which is 2000"},
        {"[stream A]\nallow = B*\n", ":2: allow: B*, expected yes or no"},
    };

    refuse_all(refusals, KR_ARRAY_LENGTH(refusals));
}

static void endpoints(void)
{
    static const char remote[] =
        "only loopback addresses (127.0.0.0/8, [::1]) may be bound: others need keys, which arrive "
        "with CURVE support";
    static const char *const beyond[] = {
        "tcp://0.0.0.0:7411",   "tcp://*:7411",    "tcp://192.168.1.5:7411", "tcp://eth0:7411",
        "tcp://localhost:7411", "tcp://[::]:7411", "tcp://128.0.0.1:1",      "tcp://127.1:1",
    };
    static const struct refusal refusals[] = {
        {"[publish]\nbind = udp://127.0.0.1:1\n",
         ":2: bind: udp://127.0.0.1:1: expected tcp://, ipc:// or inproc://"},
        {"[publish]\nbind = tcp://127.0.0.1\n", ":2: bind: tcp://127.0.0.1: tcp needs HOST:PORT"},
        {"[publish]\nbind = tcp://127.0.0.1:0\n",
         ":2: bind: tcp://127.0.0.1:0: a port is a number from 1 to 65535, or * for any free one"},
        {"[publish]\nbind = tcp://7411\n", ":2: bind: tcp://7411: tcp needs HOST:PORT"},
        {"[publish]\nbind = ipc://relative\n",
         ":2: bind: ipc://relative: ipc needs an absolute path, or @NAME"},
        {"[publish]\nbind = inproc://\n", ":2: bind: inproc://: inproc needs a name"},
        {"[publish]\nbind = tcp://127.0.0.1:1, tcp://127.0.0.1:1\n",
         ":2: bind: tcp://127.0.0.1:1: it stands there twice"},
        {"[publish]\nbind =\n",
         ":2: bind: nothing, expected loopback endpoints (tcp://127.0.0.1:PORT, tcp://[::1]:PORT, "
         "ipc://PATH, inproc://NAME), separated by commas or spaces, at least one"},
        {"[feed]\nconnect = tcp://127.0.0.1:70000\n",
         ":2: connect: tcp://127.0.0.1:70000: a port is a number from 1 to 65535"},
        {"[feed]\nconnect = tcp://a b:1\n", ":2: connect: tcp://a: tcp needs HOST:PORT"},
        {"[feed]\nconnect = tcp://a;b:1\n", ":2: connect: tcp://a;b:1: not a host"},
        {"[feed]\nconnect =\n",
         ":2: connect: nothing, and no bind either: expected an endpoint to take bars from"},
        {"[control]\nbind = tcp://127.0.0.1:7411\n",
         ":2: bind: tcp://127.0.0.1:7411: [publish] binds it already"},
    };
    struct kd_config *config;
    char text[256], message[512];

    for (size_t i = 0; i < KR_ARRAY_LENGTH(beyond); i++) {
        snprintf(text, sizeof(text), "[publish]\nbind = %s\n", beyond[i]);
        snprintf(message, sizeof(message), ":2: bind: %s: %s", beyond[i], remote);
        kt_config_refused(text, message);
    }
    refuse_all(refusals, KR_ARRAY_LENGTH(refusals));
    /* connecting elsewhere listens nowhere */
    config = kt_config_load("[feed]\nconnect = tcp://feed.example.org:7410 tcp://[2001:db8::1]:1\n"
                            "[publish]\nbind = tcp://127.0.0.1:* ipc:///run/x\n"
                            "[control]\nbind = tcp://127.0.0.1:*\n");
    kd_config_free(&config);
}

static void structure(void)
{
    static const struct refusal refusals[] = {
        {"horizon = 1\n", ":1: a key before the first [section]"},
        {"[forcast]\nhorizon = 1\n", ":1: [forcast]: unknown section, the nearest is [forecast]"},
        {"[feeed]\n", ":1: [feeed]: unknown section, the nearest is [feed]"},
        {"[forecast]\nhorizn = 1\n",
         ":2: horizn: unknown key of [forecast], the nearest is horizon"},
        {"[forecast]\nsymbols = 1\n", ":2: symbols: belongs to [limits], not to [forecast]"},
        {"[stream A]\nsymbols = 1\n", ":2: symbols: belongs to [limits], not to [stream]"},
        {"[calendar a]\nhorizon = 1\n", ":2: horizon: belongs to [forecast], not to [calendar]"},
        {"[forecast]\nHorizon = 1\n",
         ":2: Horizon: unknown key of [forecast], the nearest is horizon"},
        {"[forecast]\nhorizon = 1\n\nhorizon = 1\n", ":4: horizon: stands in line 2 already"},
        {"[stream A]\nhorizon = 1\nhorizon = 1\n", ":3: horizon: stands in line 2 already"},
        {"[feed]\n[feed]\n", ":2: [feed]: stands in line 1 already"},
        {"[stream A]\n[stream B]\n[stream A]\n", ":3: [stream A]: stands in line 1 already"},
        {"[feed x]\n", ":1: [feed x]: this section takes no name"},
        {"[stream]\n", ":1: [stream ]: a pattern has 1 to 128 characters"},
        {"[stream a b]\n", ":1: [stream a b]: not printable ASCII without spaces"},
        {"[stream a|b|c]\n",
         ":1: [stream a|b|c]: more than one |: a pattern is SYMBOL or SYMBOL|INTERVAL"},
        {"[stream *a*b*c*d*]\n", ":1: [stream *a*b*c*d*]: more than 4 stars"},
        {"[calendar 24x7]\n",
         ":1: [calendar 24x7]: this calendar is built in, choose another name"},
        {"[calendar a b]\n", ":1: [calendar a b]: a calendar's name has 1 to 32 letters, digits, "
                             "'_', '-' or '.'"},
        {"[feed\n", ":1: a section without its ]"},
        {"[]\n", ":1: a section without a name"},
        {"[feed] x\n", ":1: text behind the ] of a section"},
        {"[feed]\n  [publish]\n", ":2: a space before a section"},
        {"[feed]\nallow = *\n  [publish]\n", ":3: a space before a section"},
        {"[forecast]\nhorizon = 1\n paths = 2\n",
         ":3: paths = 2: the line begins with a space and so continues horizon, which holds one "
         "value"},
        {"[forecast]\nhorizon 24\n", ":2: expected `key = value` or `[section]`"},
        {"[forecast]\nhorizon\npaths = 0\n", ":2: expected `key = value` or `[section]`"},
        {"[feed]\nallow = a|b|c\npaths\n\n[x]\n",
         ":2: allow: a|b|c: more than one |: a pattern is SYMBOL or SYMBOL|INTERVAL"},
        {"[feed]\nallow = a|b|c", ":2: allow: a|b|c: more than one |: a pattern is SYMBOL or "
                                  "SYMBOL|INTERVAL"},
    };

    refuse_all(refusals, KR_ARRAY_LENGTH(refusals));
}

static void calendars(void)
{
    static const struct refusal named[] = {
        {"[forecast]\ncalendar = nyse\n", ":2: calendar: nyse: no section [calendar nyse]"},
        {"[stream A]\ncalendar = nyse\n", ":2: calendar: nyse: no section [calendar nyse]"},
        {"[stream A]\ncalendar =\n",
         ":2: calendar: nothing, expected 24x7, weekdays or the name of "
         "a [calendar NAME] section"},
    };
    /* these lines come from core/ behind key and line */
    static const struct refusal starts[] = {
        {"[calendar a]\nweekdays = mon\ntimezone = Mars/Phobos\n", ":3: timezone: expected "},
        {"[calendar a]\nsessions = 9-17\n", ":2: sessions: expected "},
        {"[calendar a]\n\nweekdays = mon-fry\n", ":3: weekdays: expected "},
        {"[calendar a]\nholidays = 2026-13-01\n", ":2: holidays: expected "},
        {"[stream A]\npaths = 1\nsessions = 25:00-26:00\n", ":3: sessions: expected "},
    };

    refuse_all(named, KR_ARRAY_LENGTH(named));
    for (size_t i = 0; i < KR_ARRAY_LENGTH(starts); i++) {
        const char *text = starts[i].text, *start = starts[i].message;
        const char *path = kt_config_write("test.conf", text, strlen(text));
        struct kd_config *config = NULL;
        struct kr_error error = {""};

        CU_ASSERT_EQUAL(kd_config_load(path, &config, &error), -EINVAL);
        KT_CHECK(strncmp(error.text + strlen(path), start, strlen(start)) == 0,
                 "expected FILE%s..., found %s", start, error.text);
    }
}

static void files(void)
{
    struct kd_config *config = NULL;
    struct kr_error error = {""};
    char path[1024];

    snprintf(path, sizeof(path), "%s/none.conf", kt_tmp());
    CU_ASSERT_EQUAL(kd_config_load(path, &config, &error), -ENOENT);
    KT_CHECK(strstr(error.text, "none.conf: No such file") != NULL, "%s", error.text);
    CU_ASSERT_EQUAL(kd_config_load(kt_tmp(), &config, &error), -EISDIR);
    CU_ASSERT_PTR_NULL(config);
}

static void refused_bytes(const char *text, size_t n, const char *message)
{
    const char *path = kt_config_write("bytes.conf", text, n);
    struct kd_config *config = NULL;
    struct kr_error error = {""};

    CU_ASSERT_EQUAL(kd_config_load(path, &config, &error), -EINVAL);
    KT_CHECK(strcmp(error.text + strlen(path), message) == 0, "expected FILE%s, found %s", message,
             error.text);
}

static void hostile(void)
{
    static const char nul[] = "[feed]\nallow = a\0b\n";
    static const char too_long[] =
        ":2: a line longer than 197 characters: continue a list on lines "
        "that begin with a space";
    size_t n = (size_t)3 << 20;
    char *text = calloc(1, n + 1);
    struct kd_config *config;

    if (!text)
        abort();
    refused_bytes(nul, sizeof(nul) - 1, ":2: a NUL byte: this is not a text file");
    memset(text, 'a', n);
    memcpy(text, "[feed]\nallow = ", 15);
    refused_bytes(text, (size_t)1000000, too_long);
    refused_bytes(text, 7 + 198, too_long);
    refused_bytes(text, n, ":2: the file is longer than 1 MiB");
    memset(text, '\n', n);
    refused_bytes(text, n, ":1048577: the file is longer than 1 MiB");
    /* a comment may be as long as it likes; a line of 197 characters is taken whole */
    memset(text, 'a', n);
    memcpy(text, "[feed]\n#", 8);
    memcpy(text + 50000, "\nallow = ", 9);
    text[50001 + 8 + 121] = '\0';
    config = kt_config_load(text);
    if (config)
        CU_ASSERT_EQUAL(strlen(config->feed.allow.items[0]), 121);
    kd_config_free(&config);
    /* more items, more sections, more of a list than there is room for */
    strcpy(text, "[feed]\nallow =\n");
    for (int i = 0; i < 257; i++)
        sprintf(text + strlen(text), " s%d\n", i);
    kt_config_refused(text, ":2: allow: s0,s1,s2,s3,s4,s5,s6,s7,s8,s9,s10,s11,s12,s13,s14,s15,s16,"
                            "s1...: more than 256 items");
    strcpy(text, "[feed]\nallow =\n");
    for (int i = 0; i < 120; i++)
        sprintf(text + strlen(text), " %0150d\n", i);
    kt_config_refused(text, ":111: allow: longer than 16383 characters");
    text[0] = '\0';
    for (int i = 0; i < 257; i++)
        sprintf(text + strlen(text), "[stream s%d]\n", i);
    kt_config_refused(text, ":257: more than 256 [stream] sections");
    free(text);
}

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static void loads_again(const struct kd_config *config)
{
    struct kd_config *again;
    char *printed = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&printed, &n);

    CU_ASSERT_EQUAL(kd_config_print(config, out), 0);
    fclose(out);
    again = kt_config_load(printed);
    kd_config_free(&again);
    free(printed);
}

/* Nothing crashes, whatever the bytes; whatever loads is printed and loads again. */
static void random_bytes(void)
{
    static const char alphabet[] =
        "[]=:;#|*?,. \t\n\r\\\"abcdefghiklmnoprstuvw0123456789-\xef\xbb\xbf\v";
    char *sample = kt_read(kt_source("../etc/kronosd.conf"));
    uint32_t state = 20261130;
    size_t n_loaded = 0, length;
    char *text;

    CU_ASSERT_PTR_NOT_NULL_FATAL(sample);
    length = strlen(sample);
    text = calloc(1, length + 1);
    kt_note("seed %u", state);
    for (int round = 0; round < 400; round++) {
        size_t n = length;
        struct kd_config *config = NULL;

        if (round % 2) { /* the sample file, all keys set, a few bytes changed */
            for (size_t i = 0; i < n; i++)
                text[i] = sample[i] == '#' && sample[i + 1] != ' ' ? '\n' : sample[i];
            for (uint32_t k = next(&state) % 4; k > 0; k--)
                text[next(&state) % n] = alphabet[next(&state) % (sizeof(alphabet) - 1)];
        } else {
            n = 1 + next(&state) % 600;
            for (size_t i = 0; i < n; i++)
                text[i] = round % 4 ? alphabet[next(&state) % (sizeof(alphabet) - 1)]
                                    : (char)next(&state);
        }
        if (kd_config_load(kt_config_write("random.conf", text, n), &config, NULL) == 0) {
            n_loaded++;
            loads_again(config);
        } else
            CU_ASSERT_PTR_NULL(config);
        kd_config_free(&config);
    }
    kt_note("%zu of 400 loaded", n_loaded);
    CU_ASSERT(n_loaded > 20);
    free(text);
    free(sample);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"values out of range or of another type", values},
        {"endpoints", endpoints},
        {"sections, keys and lines", structure},
        {"calendars", calendars},
        {"files that cannot be read", files},
        {"hostile input", hostile},
        {"random bytes", random_bytes},
    };

    return kt_main("config_errors", tests, KR_ARRAY_LENGTH(tests));
}
