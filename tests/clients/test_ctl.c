/* SPDX-License-Identifier: MIT */
/* kronosctl's command line, the real program: help, usage errors, exit statuses, files of simulate. */
#include "clients/csv.h"
#include "clients/ctl.h"
#include "tests/clients/run.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const commands[] = {"backtest", "bench",    "drain",    "feed",    "forecast",
                                       "load",     "ping",     "plot",     "predict", "reload",
                                       "reset",    "simulate", "snapshot", "status",  "symbols",
                                       "version",  "watch"};

static void help(void)
{
    struct kt_run run = KT_RUN("--help");

    CU_ASSERT_EQUAL(run.status, 0);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(commands); i++) {
        char line[32];

        snprintf(line, sizeof(line), "\n  %-10s ", commands[i]);
        KT_CHECK(strstr(run.out, line) != NULL, "%s is not listed", commands[i]);
    }
    kt_run_free(&run);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(commands); i++) {
        char usage[64];

        run = KT_RUN(commands[i], "--help");
        snprintf(usage, sizeof(usage), "Usage: kronosctl %s", commands[i]);
        KT_CHECK(run.status == 0, "%s --help: status %d", commands[i], run.status);
        KT_CHECK(strncmp(run.out, usage, strlen(usage)) == 0, "%s --help: %s", commands[i],
                 run.out);
        CU_ASSERT_STRING_EQUAL(run.err, "");
        kt_run_free(&run);
    }
    run = KT_RUN("--version");
    CU_ASSERT_EQUAL(run.status, 0);
    CU_ASSERT_EQUAL(strncmp(run.out, "kronosctl ", 10), 0);
    kt_run_free(&run);
}

static void usage_errors(void)
{
    static const struct {
        const char *arguments[7];
        const char *words;
    } cases[] = {
        {{NULL}, "kronosctl: expected a command, found none"},
        {{"nosuch"}, "kronosctl: expected a command, found \"nosuch\""},
        {{"--nosuch"}, "kronosctl: expected a command"},
        {{"predict"}, "kronosctl predict: expected --bars FILE, found none"},
        {{"predict", "--predictor", "x"},
         "kronosctl predict: expected --predictor DIR and --tokenizer DIR, found no --tokenizer"},
        {{"predict", "--nosuch"}, "kronosctl predict: unrecognized option '--nosuch'"},
        {{"predict", "--bars"}, "kronosctl predict: option '--bars' requires an argument"},
        {{"predict", "extra"}, "kronosctl predict: unexpected argument \"extra\""},
        {{"predict", "--raw=yes"}, "option '--raw' doesn't allow an argument"},
        {{"feed"}, "expected FILE or --stdin, found neither"},
        {{"feed", "a.csv", "--stdin"}, "expected FILE or --stdin, found both"},
        {{"feed", "a.csv", "--symbol", "X"}, "found no --interval"},
        {{"feed", "a.csv", "b.csv"}, "unexpected argument \"b.csv\""},
        {{"feed", "--stdin", "--speed", "0"},
         "--speed: expected max, realtime or a number above 0"},
        {{"feed", "--stdin", "--wait", "soon"}, "--wait: expected a duration"},
        {{"feed", "--stdin", "--to", "localhost"}, "--to: expected an endpoint"},
        {{"feed", "--stdin", "--stay"}, "--stay: expected --history"},
        {{"simulate", "--symbols", "2"}, "expected --output DIR or --to ENDPOINT"},
        {{"simulate", "--output", "d", "--to", "tcp://127.0.0.1:1"}, "found both"},
        {{"simulate", "--bars", "0"}, "--bars: expected a whole number 1 to"},
        {{"simulate", "--seed", "18446744073709551616"}, "--seed"},
        {{"watch", "A|B"}, "SYMBOL: expected"},
        {{"watch", "--kind", "event"}, "--kind event: expected --json"},
        {{"watch", "--count", "0"}, "--count"},
        {{"snapshot"}, "expected SYMBOL, found none"},
        {{"snapshot", "X"}, "expected --interval IV, found none"},
        {{"backtest"}, "expected --bars FILE, found none"},
        {{"backtest", "a.csv", "--bars", "b.csv", "--plot", "x.svg"},
         "--plot: expected one file of bars, found 2"},
        {{"backtest", "a.csv", "b.csv", "--compare", "exact"},
         "--compare: expected one file of bars, found 2"},
        {{"reset", "X"}, "expected --interval IV, found none"},
        {{"load", "a.csv", "--interval", "1m"}, "found no --symbol"},
        {{"load"}, "expected FILE, found none"},
        {{"ping", "X"}, "unexpected argument \"X\""},
        {{"status", "--interval", "1m"}, "unrecognized option '--interval'"},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kt_run run = kt_run(NULL, cases[i].arguments);

        KT_CHECK(run.status == 64, "case %zu: status %d: %s", i, run.status, run.err);
        KT_CHECK(kt_one_line(run.err), "case %zu: more than a line: %s", i, run.err);
        KT_CHECK(strstr(run.err, cases[i].words) != NULL, "expected \"%s\" in: %s", cases[i].words,
                 run.err);
        CU_ASSERT_STRING_EQUAL(run.out, "");
        kt_run_free(&run);
    }
}

/* Every option that the program lists stands in its manual page. */
static void manual(void)
{
    const char *path = kt_source("../etc/man/kronosctl.1");
    size_t n, n_options = 0;
    char *page = kt_get(path, &n);

    for (size_t i = 0; i < KR_ARRAY_LENGTH(commands); i++) {
        struct kt_run run = KT_RUN(commands[i], "--help");
        char needle[64];

        KT_CHECK(strstr(page, commands[i]) != NULL, "no word about %s", commands[i]);
        for (const char *at = strstr(run.out, " --"); at; at = strstr(at + 3, " --")) {
            size_t length = strspn(at + 3, "abcdefghijklmnopqrstuvwxyz-"), to = 0;

            if (at == run.out || length == 0 || length > 20 || strncmp(at + 3, "usage", 5) == 0)
                continue;
            to += (size_t)sprintf(needle, "\\-\\-");
            for (size_t c = 0; c < length; c++)
                to += (size_t)sprintf(needle + to, at[3 + c] == '-' ? "\\-" : "%c", at[3 + c]);
            n_options++;
            KT_CHECK(strstr(page, needle) != NULL, "%s: no word about %s", commands[i], needle);
        }
        kt_run_free(&run);
    }
    KT_CHECK(n_options > 80, "%zu options", n_options);
    free(page);
}

static void completion(void)
{
    static const struct {
        const char *words, *expected;
    } cases[] = {
        {"kronosctl pre", "predict"},
        {"kronosctl s", "simulate snapshot status symbols"},
        {"kronosctl predict --hor", "--horizon"},
        {"kronosctl watch --s", ""},
        {"kronosctl predict --format j", "json"},
        {"kronosctl backtest --format t", "text"},
        {"kronosctl bench --format t", "text"},
        {"kronosctl bench --cases ba", "base-f32-* base-bf16-*"},
        {"kronosctl predict --mode = r", "rolling"},
    };
    const char *script = kt_source("../etc/bash-completion/kronosctl");

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        char command[4096], found[256] = "";
        FILE *pipe;

        snprintf(command, sizeof(command),
                 "PATH=$(dirname '%s'):$PATH bash -c '. \"%s\"; COMP_WORDS=(%s); "
                 "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _kronosctl; echo -n \"${COMPREPLY[*]}\"'",
                 kt_kronosctl(), script, cases[i].words);
        pipe = popen(command, "r");
        CU_ASSERT_PTR_NOT_NULL_FATAL(pipe);
        if (!fgets(found, sizeof(found), pipe))
            found[0] = '\0';
        CU_ASSERT_EQUAL(pclose(pipe), 0);
        KT_CHECK(strcmp(found, cases[i].expected) == 0, "%s: completes to \"%s\"", cases[i].words,
                 found);
    }
}

/* No daemon there: 69, and quickly. */
static void unreachable(void)
{
    static const char *const asking[] = {"status", "symbols", "ping", "version", "reload", "drain"};
    char endpoint[600];

    snprintf(endpoint, sizeof(endpoint), "ipc://%s/nobody", kt_tmp());
    for (size_t i = 0; i < KR_ARRAY_LENGTH(asking); i++) {
        struct kt_run run = KT_RUN(asking[i], "--control", endpoint, "--timeout", "100ms");

        KT_CHECK(run.status == 69, "%s: status %d: %s", asking[i], run.status, run.err);
        CU_ASSERT_TRUE(kt_one_line(run.err));
        CU_ASSERT_PTR_NOT_NULL_FATAL(strstr(run.err, endpoint));
        CU_ASSERT_PTR_NULL(strstr(strstr(run.err, endpoint) + 1, endpoint)); /* once */
        kt_run_free(&run);
    }
}

static void full_output(void)
{
    struct kt_run run;

    if (access("/dev/full", W_OK) != 0) {
        kt_skip("no /dev/full");
        return;
    }
    run = KT_RUN("simulate", "--bars", "10", "--output", "/dev/full/x");
    CU_ASSERT_EQUAL(run.status, 74);
    CU_ASSERT_TRUE(kt_one_line(run.err));
    kt_run_free(&run);
}

/* simulate */

static void simulate_files(void)
{
    const char *a = kt_path("a"), *b = kt_path("b");
    struct kt_run run = KT_RUN("simulate", "--symbols", "3", "--bars", "500", "--seed", "11",
                               "--interval", "5m", "--output", a);
    size_t size_a, size_b;
    char *first, *second;

    KT_CHECK(run.status == 0, "%s", run.err);
    kt_run_free(&run);
    run = KT_RUN("simulate", "--symbols", "2", "--bars", "600", "--seed", "11", "--interval", "5m",
                 "--output", b);
    CU_ASSERT_EQUAL(run.status, 0);
    kt_run_free(&run);
    CU_ASSERT_EQUAL(access(kt_path("a/SIM003-5m.csv"), R_OK), 0);
    CU_ASSERT_NOT_EQUAL(access(kt_path("b/SIM003-5m.csv"), R_OK), 0);
    first = kt_get(kt_path("a/SIM002-5m.csv"), &size_a);
    second = kt_get(kt_path("b/SIM002-5m.csv"), &size_b);
    /* more bars, fewer symbols: the same beginning */
    CU_ASSERT_TRUE(size_b > size_a);
    CU_ASSERT_EQUAL(memcmp(first, second, size_a), 0);
    free(first);
    free(second);
}

static void simulate_stdout(void)
{
    struct kt_run run = KT_RUN("simulate", "--bars", "200", "--seed", "5"), again, other;
    struct kc_csv_options options = {0};
    struct kc_bars bars = {0};
    struct kr_error error = {""};
    const char *path = kt_path("simulated.csv");

    again = KT_RUN("simulate", "--bars", "200", "--seed", "0x5");
    other = KT_RUN("simulate", "--bars", "200", "--seed", "6");
    CU_ASSERT_EQUAL(run.status, 0);
    CU_ASSERT_STRING_EQUAL(run.out, again.out);
    CU_ASSERT_STRING_NOT_EQUAL(run.out, other.out);
    kt_put(path, run.out, run.out_bytes);
    KT_CHECK(kc_csv_read(path, &options, &bars, &error) == 0, "%s", error.text);
    CU_ASSERT_EQUAL_FATAL(bars.n, 200);
    CU_ASSERT_STRING_EQUAL(bars.interval.text, "1m");
    CU_ASSERT_EQUAL(bars.bars[0].t_ns, INT64_C(1704067200000000000));
    kc_bars_free(&bars);
    kt_run_free(&run);
    kt_run_free(&again);
    kt_run_free(&other);
}

/* Numbers and times as text */

static void numbers(void)
{
    static const double values[] = {0.1,   1.0 / 3,       1e-300, 5e-324, 1.7976931348623157e308,
                                    22.3f, 123456789.123, -0.0,   3};
    char text[KC_NUMBER_TEXT];
    double number;
    int64_t integer;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(values); i++) {
        CU_ASSERT_EQUAL(kc_write_number(text, values[i]), strlen(text));
        KT_CHECK(kc_read_number(text, &number) && number == values[i], "%s", text);
    }
    kc_write_number(text, 0.1);
    CU_ASSERT_STRING_EQUAL(text, "0.1");
    CU_ASSERT_TRUE(kc_read_integer("-12", &integer) && integer == -12);
    CU_ASSERT_FALSE(kc_read_integer("12 ", &integer));
    CU_ASSERT_FALSE(kc_read_integer(" 12", &integer));
    CU_ASSERT_FALSE(kc_read_integer("9223372036854775808", &integer));
    CU_ASSERT_FALSE(kc_read_number("nan", &number));
    CU_ASSERT_FALSE(kc_read_number("1e999", &number));
    CU_ASSERT_FALSE(kc_read_number("1,5", &number));
    CU_ASSERT_TRUE(kc_read_duration("1.5s", &integer) && integer == 1500000000);
    CU_ASSERT_TRUE(kc_read_duration("20ms", &integer) && integer == 20000000);
    CU_ASSERT_TRUE(kc_read_duration("2m", &integer) && integer == INT64_C(120000000000));
    CU_ASSERT_TRUE(kc_read_duration("3", &integer) && integer == INT64_C(3000000000));
    CU_ASSERT_FALSE(kc_read_duration("-3s", &integer));
    CU_ASSERT_FALSE(kc_read_duration("3 s", &integer));
    CU_ASSERT_FALSE(kc_read_duration("", &integer));
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"help and version", help},
        {"usage errors: one line, status 64", usage_errors},
        {"every option is in the manual page", manual},
        {"bash completion", completion},
        {"no daemon: status 69", unreachable},
        {"output that cannot be written: status 74", full_output},
        {"simulate to files", simulate_files},
        {"simulate to stdout, read back", simulate_stdout},
        {"numbers and durations", numbers},
    };

    return kt_main("ctl", tests, KR_ARRAY_LENGTH(tests));
}
