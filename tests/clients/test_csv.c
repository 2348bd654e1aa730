/* SPDX-License-Identifier: MIT */
#include "clients/csv.h"
#include "clients/stamp.h"
#include "tests/tap.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static struct kr_zone *open_zone(const char *name)
{
    struct kr_zone *zone = NULL;
    struct kr_error error = {""};

    KT_CHECK(kr_zone_open(name, &zone, &error) == 0, "%s", error.text);
    return zone;
}

static const char *write_file(const char *bytes, size_t n)
{
    static char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/bars.csv", kt_tmp());
    file = fopen(path, "w");
    if (!file || fwrite(bytes, 1, n, file) != n || fclose(file) != 0)
        abort();
    return path;
}

/* Read a text as a file. Return: the number of bars or a negative errno. */
static int read_text(const char *text, const struct kc_csv_options *options, struct kc_bars *ret,
                     struct kr_error *error)
{
    int result = kc_csv_read(write_file(text, strlen(text)), options, ret, error);

    return result < 0 ? result : (int)ret->n;
}

/* The same, for one that is fine. */
static struct kc_bars bars_of(const char *text, const struct kc_csv_options *options)
{
    static const struct kc_csv_options defaults = {0};
    struct kc_bars bars = {0};
    struct kr_error error = {""};

    KT_CHECK(read_text(text, options ? options : &defaults, &bars, &error) > 0, "%s", error.text);
    return bars;
}

static struct kr_interval interval_of(const char *text)
{
    struct kr_interval interval = {{0}, 0};

    CU_ASSERT_EQUAL(kr_interval_parse(text, &interval), 0);
    return interval;
}

static void check_time(const struct kc_bars *bars, size_t i, const char *expected)
{
    char found[KC_STAMP_LENGTH] = "no such row";

    if (i < bars->n)
        kc_stamp_format(bars->bars[i].t_ns, found);
    KT_CHECK(strcmp(found, expected) == 0, "row %zu: %s, not %s", i, found, expected);
}

/* ---- Times ---- */

static void stamps(void)
{
    static const struct {
        const char *text;
        int64_t unit_ns, t_ns;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0, 0},
        {"1970-01-01 00:00:01", 0, 1000000000},
        {"1970-01-01 00:01", 0, 60000000000},
        {"1970-01-02", 0, 86400000000000},
        {"1970-01-01T00:00:00.5Z", 0, 500000000},
        {"1970-01-01 00:00:00.000000001", 0, 1},
        {"1969-12-31 23:59:59.999999999", 0, -1},
        {"1970-01-01T05:30:00+05:30", 0, 0},
        {"1970-01-01T05:30:00+0530", 0, 0},
        {"1969-12-31T19:00:00-05", 0, 0},
        {"1970-01-01 00:00:00.25+00:00", 0, 250000000},
        {"2262-04-11T23:47:16.854775807Z", 0, INT64_MAX},
        {"2018-01-10T04:55:00Z", 1, INT64_C(1515560100) * 1000000000}, /* the unit is of integers */
        {"1515560100", 1000000000, INT64_C(1515560100) * 1000000000},
        {"1515560100", 1000000, INT64_C(1515560100) * 1000000},
        {"1515560100", 1000, INT64_C(1515560100) * 1000},
        {"1515560100", 1, 1515560100},
        {"-1", 1000000000, -1000000000},
    };
    static const struct {
        const char *text, *expected;
        int64_t unit_ns;
    } bad[] = {
        {"1515560100", "--time-unit s|ms|us|ns", 0},
        {"20180110", "--time-unit s|ms|us|ns", 0},
        {"1515560100.5", "a time such as", 1000000000},
        {"", "a time such as", 1},
        {"-", "a time such as", 1},
        {"2018-1-10", "a time such as", 0},
        {"2018/01/10", "a time such as", 0},
        {"10.01.2018", "a time such as", 0},
        {"2018-02-30", "a time such as", 0},
        {"2018-01-10  04:55", "a time such as", 0},
        {"2018-01-10_04:55", "a time such as", 0},
        {"2018-01-10T", "a time such as", 0},
        {"2018-01-10T04", "a time such as", 0},
        {"2018-01-10T04:5", "a time such as", 0},
        {"2018-01-10T24:00", "a time such as", 0},
        {"2018-01-10T04:55:60", "a time such as", 0},
        {"2018-01-10T04:55:00.", "a time such as", 0},
        {"2018-01-10T04:55:00.1234567890", "a time such as", 0},
        {"2018-01-10T04:55:00z", "a time such as", 0},
        {"2018-01-10T04:55:00Zx", "a time such as", 0},
        {"2018-01-10T04:55:00+24:00", "a time such as", 0},
        {"2018-01-10T04:55:00+1", "a time such as", 0},
        {"2018-01-10T04:55:00 UTC", "a time such as", 0},
        {"1600-01-01", "between the years 1677 and 2262", 0},
        {"2262-04-11T23:47:16.854775808Z", "between the years 1677 and 2262", 0},
        {"2262-04-12", "between the years 1677 and 2262", 0},
        {"9223372036854775808", "between the years 1677 and 2262", 1},
        {"9223372036854775", "between the years 1677 and 2262", 1000000},
    };
    char text[KC_STAMP_LENGTH];
    int64_t unit_ns = 42;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kr_error error = {""};
        int64_t t_ns = 42;

        KT_CHECK(kc_stamp_parse(cases[i].text, NULL, cases[i].unit_ns, INT64_MIN, &t_ns, &error) ==
                         0 &&
                     t_ns == cases[i].t_ns,
                 "%s: %lld %s", cases[i].text, (long long)t_ns, error.text);
    }
    for (size_t i = 0; i < KR_ARRAY_LENGTH(bad); i++) {
        struct kr_error error = {""};
        int64_t t_ns = 42;

        KT_CHECK(kc_stamp_parse(bad[i].text, NULL, bad[i].unit_ns, INT64_MIN, &t_ns, &error) ==
                         -EBADMSG &&
                     t_ns == 42,
                 "%s: %lld", bad[i].text, (long long)t_ns);
        KT_CHECK(strstr(error.text, bad[i].expected) && strstr(error.text, bad[i].text), "%s",
                 error.text);
    }
    CU_ASSERT_EQUAL(kc_time_unit_parse("us", &unit_ns), 0);
    CU_ASSERT_EQUAL(unit_ns, 1000);
    CU_ASSERT_EQUAL(kc_time_unit_parse("min", &unit_ns), -EINVAL);
    CU_ASSERT_EQUAL(kc_time_unit_parse("", &unit_ns), -EINVAL);
    CU_ASSERT_EQUAL(unit_ns, 1000);
    kc_stamp_format(1500000000, text);
    CU_ASSERT_STRING_EQUAL(text, "1970-01-01T00:00:01.500Z");
    kc_stamp_format(-1000, text);
    CU_ASSERT_STRING_EQUAL(text, "1969-12-31T23:59:59.999999Z");
    kc_stamp_format(INT64_MIN, text);
    CU_ASSERT_STRING_EQUAL(text, "1677-09-21T00:12:43.145224192Z");
}

static void local_times(void)
{
    struct kr_zone *berlin = open_zone("Europe/Berlin"), *beirut = open_zone("Asia/Beirut");
    struct kc_csv_options options = {.zone = berlin};
    struct kc_bars bars;
    struct kr_error error = {""};

    /* 02:00 and 02:30 occur twice: rows in order tell which is meant. */
    bars = bars_of("time,open,high,low,close\n"
                   "2024-10-27 01:30,1,1,1,1\n"
                   "2024-10-27 02:00,1,1,1,1\n"
                   "2024-10-27 02:30,1,1,1,1\n"
                   "2024-10-27 02:00,1,1,1,1\n"
                   "2024-10-27 02:30,1,1,1,1\n"
                   "2024-10-27 03:00,1,1,1,1\n",
                   &options);
    check_time(&bars, 2, "2024-10-27T00:30:00Z");
    check_time(&bars, 3, "2024-10-27T01:00:00Z");
    check_time(&bars, 5, "2024-10-27T02:00:00Z");
    CU_ASSERT_STRING_EQUAL(bars.interval.text, "30m");
    CU_ASSERT_EQUAL(bars.bars[3].stamp.hour, 2);
    kc_bars_free(&bars);

    /* Within a second too: 0.3 after 0.5 is the second pass. */
    bars = bars_of("time,open,high,low,close\n"
                   "2024-10-27 02:00:00.2,1,1,1,1\n"
                   "2024-10-27 02:00:00.5,1,1,1,1\n"
                   "2024-10-27 02:00:00.3,1,1,1,1\n",
                   &(struct kc_csv_options){.zone = berlin,
                                            .interval = &(struct kr_interval){"1s", KR_NS_PER_S}});
    check_time(&bars, 0, "2024-10-27T00:00:00.200Z");
    check_time(&bars, 1, "2024-10-27T00:00:00.500Z");
    check_time(&bars, 2, "2024-10-27T01:00:00.300Z");
    kc_bars_free(&bars);

    /* An offset says it all; the stamp is in the zone all the same. */
    bars = bars_of("time,open,high,low,close\n"
                   "2024-10-27T02:00:00+01:00,1,1,1,1\n"
                   "2024-10-27T01:30:00Z,1,1,1,1\n",
                   &options);
    check_time(&bars, 0, "2024-10-27T01:00:00Z");
    CU_ASSERT_EQUAL(bars.bars[1].stamp.hour, 2);
    CU_ASSERT_EQUAL(bars.bars[1].stamp.minute, 30);
    CU_ASSERT_EQUAL(bars.bars[1].stamp.weekday, 6);
    kc_bars_free(&bars);

    CU_ASSERT_EQUAL(read_text("time,open,high,low,close\n2024-03-31 02:30:00,1,1,1,1\n", &options,
                              &bars, &error),
                    -EBADMSG);
    KT_CHECK(strstr(error.text, "bars.csv:2: expected a local time that exists in Europe/Berlin, "
                                "found \"2024-03-31 02:30:00\"") != NULL,
             "%s", error.text);

    /* Days begin where they begin: 2024-03-31 at 01:00 in Beirut. */
    options.zone = beirut;
    bars = bars_of("time,open,high,low,close\n2024-03-30,1,1,1,1\n2024-03-31,1,1,1,1\n"
                   "2024-04-01,1,1,1,1\n",
                   &options);
    check_time(&bars, 0, "2024-03-29T22:00:00Z");
    check_time(&bars, 1, "2024-03-30T22:00:00Z");
    check_time(&bars, 2, "2024-03-31T21:00:00Z");
    kc_bars_free(&bars);
    kr_zone_free(&berlin);
    kr_zone_free(&beirut);
}

static void open_and_close_stamps(void)
{
    struct kr_zone *shanghai = open_zone("Asia/Shanghai"), *berlin = open_zone("Europe/Berlin");
    struct kr_interval five = interval_of("5m"), hour = interval_of("1h");
    struct kc_csv_options options = {.zone = shanghai, .stamp = KR_STAMP_CLOSE};
    static const char session[] = "timestamps,open,high,low,close\n"
                                  "2024-08-29 11:25:00,1,1,1,1\n"
                                  "2024-08-29 11:30:00,1,1,1,1\n"
                                  "2024-08-29 13:05:00,1,1,1,1\n"
                                  "2024-08-29 13:10:00,1,1,1,1\n";
    struct kc_bars bars = bars_of(session, &options);

    CU_ASSERT_EQUAL(bars.interval.ns, five.ns);
    check_time(&bars, 1, "2024-08-29T03:25:00Z");
    check_time(&bars, 2, "2024-08-29T05:00:00Z");
    CU_ASSERT_EQUAL(bars.bars[2].stamp.hour, 13); /* as delivered */
    CU_ASSERT_EQUAL(bars.bars[2].stamp.minute, 5);
    kc_bars_free(&bars);
    options.interval = &hour; /* the caller knows better */
    bars = bars_of(session, &options);
    CU_ASSERT_STRING_EQUAL(bars.interval.text, "1h");
    check_time(&bars, 1, "2024-08-29T02:30:00Z");
    kc_bars_free(&bars);
    options = (struct kc_csv_options){.zone = shanghai};
    bars = bars_of(session, &options);
    check_time(&bars, 1, "2024-08-29T03:30:00Z");
    kc_bars_free(&bars);

    /* Days by the local clock: the one of 2024-03-31 had 23 hours. */
    options = (struct kc_csv_options){.zone = berlin, .stamp = KR_STAMP_CLOSE};
    bars = bars_of("Date,Open,High,Low,Close\n2024-03-31,1,1,1,1\n2024-04-01,1,1,1,1\n"
                   "2024-04-02,1,1,1,1\n",
                   &options);
    CU_ASSERT_STRING_EQUAL(bars.interval.text, "1d");
    check_time(&bars, 0, "2024-03-29T23:00:00Z");
    check_time(&bars, 1, "2024-03-30T23:00:00Z");
    check_time(&bars, 2, "2024-03-31T22:00:00Z");
    CU_ASSERT_EQUAL(bars.bars[1].stamp.day, 1);
    kc_bars_free(&bars);
    kr_zone_free(&shanghai);
    kr_zone_free(&berlin);
}

static void integer_times(void)
{
    static const char text[] = "open_time,open,high,low,close\n"
                               "1515560100000,1,1,1,1\n1515560400000,1,1,1,1\n";
    struct kc_csv_options options = {.unit_ns = 1000000};
    struct kc_bars bars = bars_of(text, &options);
    struct kr_error error = {""};

    check_time(&bars, 0, "2018-01-10T04:55:00Z");
    CU_ASSERT_STRING_EQUAL(bars.interval.text, "5m");
    kc_bars_free(&bars);
    options.unit_ns = 0;
    CU_ASSERT_EQUAL(read_text(text, &options, &bars, &error), -EBADMSG);
    KT_CHECK(strstr(error.text, "bars.csv:2: expected --time-unit s|ms|us|ns for integer times, "
                                "found \"1515560100000\"") != NULL,
             "%s", error.text);
    CU_ASSERT_PTR_NULL(bars.bars);
}

/* ---- Cells ---- */

static void headers(void)
{
    static const char *const fine[] = {
        "timestamp,open,high,low,close,volume,amount",
        "TIMESTAMPS,OPEN,HIGH,LOW,CLOSE,VOLUME,AMOUNT",
        "Date,Open,High,Low,Close,Volume,Amount",
        "dateTime , open,\thigh,low ,close,volume,amount",
        "\"time\",\"open\",\"high\",\"low\",\"close\",\"volume\",\"amount\"",
        "Open_Time,open,high,low,close,volume,amount",
        ",Open,High,Low,Close,Volume,Amount",
        "\"\",Open,High,Low,Close,Volume,Amount",
        "\xef\xbb\xbftimestamp,open,high,low,close,volume,amount",
        "\xef\xbb\xbf,open,high,low,close,volume,amount",
    };
    static const struct {
        const char *header, *expected;
    } bad[] = {
        {"timestamp,open,high,low,volume", "a column \"close\""},
        {"open,high,low,close", "a time column"},
        {"open,high,low,close,", "a time column"},
        {"timestamp;open;high;low;close", "a time column"},
        {"2018-01-10T04:55:00Z,1,1,1,1", "a time column"},
        {"date,time,open,high,low,close", "one column of a kind, found \"date\" and \"time\""},
        {"time,open,high,low,close,Close", "one column of a kind, found \"close\" and \"Close\""},
    };
    char text[256];

    for (size_t i = 0; i < KR_ARRAY_LENGTH(fine); i++) {
        static const double expected[KR_COLUMNS] = {2, 4, 1, 3, 5, 6};
        struct kc_bars bars;

        snprintf(text, sizeof(text), "%s\n2024-01-01,2,4,1,3,5,6\n2024-01-02,2,4,1,3,5,6\n",
                 fine[i]);
        bars = bars_of(text, NULL);
        KT_CHECK(bars.n == 2 && memcmp(bars.bars[1].v, expected, sizeof(expected)) == 0, "%s",
                 fine[i]);
        check_time(&bars, 1, "2024-01-02T00:00:00Z");
        kc_bars_free(&bars);
    }
    for (size_t i = 0; i < KR_ARRAY_LENGTH(bad); i++) {
        struct kc_csv_options options = {0};
        struct kc_bars bars = {0};
        struct kr_error error = {""};

        snprintf(text, sizeof(text), "%s\n", bad[i].header);
        CU_ASSERT_EQUAL(read_text(text, &options, &bars, &error), -EBADMSG);
        KT_CHECK(strstr(error.text, "bars.csv:1: expected ") && strstr(error.text, bad[i].expected),
                 "%s", error.text);
    }
    /* Any order, columns that nobody asked for, an index beside a named time. */
    struct kc_bars bars = bars_of(",close,Adj Close,volume,low,high,open,close_time,time\n"
                                  "0,3,x,5,1,4,2,nan,2024-01-01\n1,3,x,5,1,4,2,nan,2024-01-02\n",
                                  NULL);
    CU_ASSERT_EQUAL(bars.bars[0].v[KR_OPEN], 2);
    CU_ASSERT_EQUAL(bars.bars[0].v[KR_HIGH], 4);
    CU_ASSERT_EQUAL(bars.bars[0].v[KR_LOW], 1);
    CU_ASSERT_EQUAL(bars.bars[0].v[KR_CLOSE], 3);
    CU_ASSERT_EQUAL(bars.bars[0].v[KR_VOLUME], 5);
    CU_ASSERT_EQUAL(bars.bars[0].v[KR_AMOUNT], 12.5);
    kc_bars_free(&bars);
}

static void lines_and_cells(void)
{
    struct kc_bars bars = bars_of("\r\n\n time , open,high,low,close,volume,note\r\n"
                                  "\r\n"
                                  "\"2024-01-01\",\"2\" , 4 ,1,3,\"5\",\"a, \"\"b\"\"\"\r\n"
                                  "  \t \n"
                                  "2024-01-02,+2e0,4.,.1e1,30E-1,005,",
                                  NULL); /* and no end of line at the end */

    CU_ASSERT_EQUAL(bars.n, 2);
    for (size_t i = 0; i < bars.n; i++) {
        static const double expected[KR_COLUMNS] = {2, 4, 1, 3, 5, 12.5};

        CU_ASSERT_EQUAL(memcmp(bars.bars[i].v, expected, sizeof(expected)), 0);
        CU_ASSERT_EQUAL(bars.bars[i].rev, 0);
        CU_ASSERT_FALSE(bars.bars[i].synthetic);
    }
    kc_bars_free(&bars);
    kc_bars_free(&bars);

    /* Decimals to the nearest double. */
    bars = bars_of("time,open,high,low,close,volume\n"
                   "2024-01-01,0.00010766,0.00010766,8.848e-05,8.848e-05,0.1\n"
                   "2024-01-02,1,1,1,1,-1\n"
                   "2024-01-03,1,1,1,1,\n",
                   NULL);
    CU_ASSERT_EQUAL(bars.bars[0].v[KR_OPEN], 0.00010766);
    CU_ASSERT_EQUAL(bars.bars[0].v[KR_CLOSE], 8.848e-05);
    CU_ASSERT_EQUAL(bars.bars[0].v[KR_VOLUME], 0.1);
    CU_ASSERT_EQUAL(bars.bars[1].v[KR_VOLUME], 0); /* below 0 is missing, so is nothing */
    CU_ASSERT_EQUAL(bars.bars[2].v[KR_VOLUME], 0);
    CU_ASSERT_EQUAL(bars.bars[2].v[KR_AMOUNT], 0);
    kc_bars_free(&bars);
}

static void bad_rows(void)
{
    static const struct {
        const char *row, *expected;
    } cases[] = {
        {"2024-01-02,1,1,1,1,1", "expected 7 columns as in the header, found 6"},
        {"2024-01-02,1,1,1,1,1,1,", "expected 7 columns as in the header, found 8"},
        {"2024-01-02,,1,1,1,1,1", "expected a number for \"open\", found an empty cell"},
        {"2024-01-02,nan,1,1,1,1,1", "expected a number for \"open\", found \"nan\""},
        {"2024-01-02,1,inf,1,1,1,1", "expected a number for \"high\", found \"inf\""},
        {"2024-01-02,1,1,0x1p3,1,1,1", "expected a number for \"low\", found \"0x1p3\""},
        {"2024-01-02,1,1,1,1.2.3,1,1", "expected a number for \"close\", found \"1.2.3\""},
        {"2024-01-02,1,1,1,1 2,1,1", "expected a number for \"close\", found \"1 2\""},
        {"2024-01-02,1,1,1,\"1,5\",1,1", "expected a number for \"close\", found \"1,5\""},
        {"2024-01-02,1,1,1,1e,1,1", "expected a number for \"close\", found \"1e\""},
        {"2024-01-02,1,1,1,.,1,1", "expected a number for \"close\", found \".\""},
        {"2024-01-02,1,1,1,1,NaN,1", "expected a number for \"volume\", found \"NaN\""},
        {"2024-01-02,1,1,1,1,1,null", "expected a number for \"amount\", found \"null\""},
        {"2024-01-02,1e999,1,1,1,1,1", "expected finite numbers"},
        {"2024-01-02,1,1,1,1,1e999,1", "expected finite numbers"},
        {"2024-01-02,1,1,0,1,1,1", "expected prices above 0, found 1, 1, 0, 1"},
        {"2024-01-02,1,1,1,1e-999,1,1", "expected prices above 0"},
        {"2024-01-02,1,1,1,2,1,1", "expected open and close within low and high"},
        {"2024-01-02,1,2,1.5,2,1,1", "expected open and close within low and high"},
        {"2024-01-01,1,1,1,1,1,1",
         "expected a time after the previous row's, 2024-01-01T00:00:00Z, "
         "found \"2024-01-01\""},
        {"2023-12-31,1,1,1,1,1,1", "expected a time after the previous row's"},
        {"Tuesday,1,1,1,1,1,1", "expected a time such as"},
        {"\"2024-01-02,1,1,1,1,1,1", "expected a closing quote on the same line"},
        {"\"2024-01-02\"x,1,1,1,1,1,1", "expected a comma after a quoted cell, found \"x,"},
        {"\x1b[31m,1,1,1,1,1,1", "found \"?[31m\""},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kc_csv_options options = {0};
        struct kc_bars bars = {0};
        struct kr_error error = {""};
        char text[512];

        snprintf(text, sizeof(text),
                 "time,open,high,low,close,volume,amount\n\n2024-01-01,1,1,1,1,1,1\n%s\n",
                 cases[i].row);
        CU_ASSERT_EQUAL(read_text(text, &options, &bars, &error), -EBADMSG);
        KT_CHECK(strstr(error.text, "bars.csv:4: ") && strstr(error.text, cases[i].expected),
                 "case %zu: %s", i, error.text);
        CU_ASSERT_PTR_NULL(strchr(error.text, '\n'));
        CU_ASSERT_PTR_NULL(bars.bars);
    }
}

static void bad_files(void)
{
    static const char header[] = "time,open,high,low,close\n";
    static char line[2 * KC_CSV_LINE_BYTES];
    struct kc_csv_options options = {0};
    struct kc_bars bars = {0};
    struct kr_error error = {""};
    struct kr_interval day = interval_of("1d");
    char path[128], nul[] = "time,open,high,low,close\n2024-01-01,1,1,1,1\n2024-01-02,1\0,1,1,1\n";

    snprintf(path, sizeof(path), "%s/absent.csv", kt_tmp());
    CU_ASSERT_EQUAL(kc_csv_read(path, &options, &bars, &error), -ENOENT);
    KT_CHECK(strstr(error.text, "absent.csv: expected a readable file, found: ") != NULL, "%s",
             error.text);
    CU_ASSERT_EQUAL(kc_csv_read(kt_tmp(), &options, &bars, &error), -EISDIR);
    CU_ASSERT_EQUAL(read_text("", &options, &bars, &error), -EBADMSG);
    KT_CHECK(strstr(error.text, ":1: expected a header line, found the end of the file") != NULL,
             "%s", error.text);
    CU_ASSERT_EQUAL(read_text(header, &options, &bars, &error), -EBADMSG);
    KT_CHECK(strstr(error.text, ":2: expected a bar, found the end of the file") != NULL, "%s",
             error.text);
    CU_ASSERT_EQUAL(kc_csv_read(write_file(nul, sizeof(nul) - 1), &options, &bars, &error),
                    -EBADMSG);
    KT_CHECK(strstr(error.text, ":3: expected text, found a NUL byte") != NULL, "%s", error.text);

    /* One bar has no interval of its own. */
    CU_ASSERT_EQUAL(
        read_text("time,open,high,low,close\n2024-01-01,1,1,1,1\n", &options, &bars, &error),
        -EBADMSG);
    KT_CHECK(strstr(error.text,
                    "expected --interval, or rows a regular interval apart, found 1 row") != NULL,
             "%s", error.text);
    options.interval = &day;
    CU_ASSERT_EQUAL(
        read_text("time,open,high,low,close\n2024-01-01,1,1,1,1\n", &options, &bars, NULL), 1);
    kc_bars_free(&bars);

    /* A line of 64 KiB is one, a byte more is not, columns have an end too. */
    memset(line, ' ', sizeof(line));
    memcpy(line, header, sizeof(header) - 1);
    memcpy(line + sizeof(header) - 1, "2024-01-01,1,1,1,1", 18);
    line[sizeof(header) - 1 + KC_CSV_LINE_BYTES] = '\n';
    CU_ASSERT_EQUAL(
        kc_csv_read(write_file(line, sizeof(header) + KC_CSV_LINE_BYTES), &options, &bars, &error),
        0);
    kc_bars_free(&bars);
    line[sizeof(header) - 1 + KC_CSV_LINE_BYTES] = ' ';
    CU_ASSERT_EQUAL(
        kc_csv_read(write_file(line, sizeof(header) + KC_CSV_LINE_BYTES), &options, &bars, &error),
        -EBADMSG);
    KT_CHECK(strstr(error.text, ":2: expected a line of at most 65536 bytes") != NULL, "%s",
             error.text);
    memset(line, ',', KC_CSV_COLUMNS);
    CU_ASSERT_EQUAL(kc_csv_read(write_file(line, KC_CSV_COLUMNS), &options, &bars, &error),
                    -EBADMSG);
    KT_CHECK(strstr(error.text, ":1: expected at most 256 columns") != NULL, "%s", error.text);
    CU_ASSERT_PTR_NULL(bars.bars);
}

/* Where the locale has a decimal comma, files do not. */
static void other_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    bool found = false;
    struct kc_bars bars;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(names) && !found; i++)
        found = setlocale(LC_ALL, names[i]) != NULL;
    setenv("TZ", "Asia/Tokyo", 1);
    tzset();
    bars = bars_of("time,open,high,low,close\n2024-01-01,1.5,1.5,1.5,1.5\n"
                   "2024-01-02,1.5,1.5,1.5,1.5\n",
                   NULL);
    CU_ASSERT_EQUAL(bars.n, 2);
    CU_ASSERT_EQUAL(bars.bars[1].v[KR_CLOSE], 1.5);
    check_time(&bars, 0, "2024-01-01T00:00:00Z");
    kc_bars_free(&bars);
    unsetenv("TZ");
    tzset();
    setlocale(LC_ALL, "C");
    if (!found)
        kt_note("no locale with a decimal comma here");
}

static void intervals(void)
{
    static const struct {
        int64_t steps[6]; /* seconds */
        const char *expected;
    } cases[] = {
        {{300, 300, 600, 300, 5700, 300}, "5m"},
        {{3600, 3600, 176400, 3600, 3600, 3600}, "1h"},
        {{86400, 86400, 259200, 86400, 86400, 86400}, "1d"},
        {{604800, 604800, 604800, 604800, 604800, 604800}, "1w"},
        {{14400, 14400, 14400, 14400, 14400, 14400}, "4h"},
        {{15, 15, 15, 30, 15, 15}, "15s"},
        {{90, 90, 90, 90, 180, 90}, "90s"},
        {{60, 120, 60, 120, 60, 120}, "1m"},   /* as many of each */
        {{60, 120, 120, 180, 120, 240}, "2m"}, /* most common is most common */
        {{2678400, 2419200, 2678400, 2592000, 2678400, 2592000}, NULL}, /* months */
        {{300, 301, 302, 303, 304, 305}, NULL},
    };
    struct kr_interval interval = interval_of("7m");
    int64_t t[7] = {0}, half[3] = {0, 500000000, 1000000000};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        int result;

        for (size_t k = 0; k < 6; k++)
            t[k + 1] = t[k] + cases[i].steps[k] * KR_NS_PER_S;
        result = kc_csv_infer_interval(NULL, t, 7, &interval);
        if (cases[i].expected)
            KT_CHECK(result == 0 && strcmp(interval.text, cases[i].expected) == 0,
                     "case %zu: %d %s", i, result, interval.text);
        else
            KT_CHECK(result == -EINVAL, "case %zu: %s", i, interval.text);
    }
    interval = interval_of("7m");
    CU_ASSERT_EQUAL(kc_csv_infer_interval(NULL, half, 3, &interval), -EINVAL);
    CU_ASSERT_EQUAL(kc_csv_infer_interval(NULL, half, 1, &interval), -EINVAL);
    CU_ASSERT_EQUAL(kc_csv_infer_interval(NULL, (int64_t[]){INT64_MIN, INT64_MAX}, 2, &interval),
                    -EINVAL);
    CU_ASSERT_STRING_EQUAL(interval.text, "7m");
}

/* More than a buffer of anything holds. */
static void many_rows(void)
{
    size_t n = 20000, size = 0, capacity = n * 64;
    char *text = malloc(capacity);
    struct kc_csv_options options = {.unit_ns = KR_NS_PER_S};
    struct kc_bars bars = {0};

    if (!text)
        abort();
    size += (size_t)snprintf(text, capacity, "time,open,high,low,close,volume\n");
    for (size_t i = 0; i < n; i++)
        size += (size_t)snprintf(text + size, capacity - size, "%zu,1,%zu,1,%zu,%zu\n", i * 60,
                                 i + 1, i + 1, i);
    CU_ASSERT_EQUAL(kc_csv_read(write_file(text, size), &options, &bars, NULL), 0);
    CU_ASSERT_EQUAL(bars.n, n);
    for (size_t i = 0; i < bars.n; i += 997) {
        CU_ASSERT_EQUAL(bars.bars[i].t_ns, (int64_t)i * 60 * KR_NS_PER_S);
        CU_ASSERT_EQUAL(bars.bars[i].v[KR_CLOSE], (double)i + 1);
        CU_ASSERT_EQUAL(bars.bars[i].stamp.minute, i % 60);
    }
    kc_bars_free(&bars);
    free(text);
}

/* ---- Real files, with what must follow them ---- */

struct real_case {
    const char *file, *zone;
    enum kr_stamp_kind stamp;
    size_t n;
    const char *interval;
    bool always;
    const char *first, *last; /* open times */
    const char *following[3]; /* the first of the inferred calendar */
};

static void check_real(const struct real_case *c)
{
    const char *path = kt_shared(c->file);
    struct kr_zone *zone;
    struct kc_csv_options options = {.stamp = c->stamp};
    struct kc_bars bars = {0};
    struct kr_calendar *calendar = NULL;
    struct kr_error error = {""};
    int64_t *open_ns, next_ns[500];
    size_t n_missing = 0;

    if (!path) {
        kt_skip("no ../shared");
        return;
    }
    options.zone = zone = open_zone(c->zone);
    KT_CHECK(kc_csv_read(path, &options, &bars, &error) == 0, "%s", error.text);
    KT_CHECK(bars.n == c->n, "%s: %zu bars", c->file, bars.n);
    CU_ASSERT_STRING_EQUAL(bars.interval.text, c->interval);
    check_time(&bars, 0, c->first);
    check_time(&bars, bars.n - 1, c->last);
    open_ns = malloc(bars.n * sizeof(*open_ns));
    if (!open_ns || bars.n == 0)
        abort();
    for (size_t i = 0; i < bars.n; i++)
        open_ns[i] = bars.bars[i].t_ns;
    CU_ASSERT_EQUAL(kr_calendar_infer(zone, &bars.interval, open_ns, bars.n, &calendar), 0);
    KT_CHECK(kr_calendar_always(calendar) == c->always, "%s", c->file);
    CU_ASSERT_EQUAL(kr_calendar_next(calendar, &bars.interval, open_ns[bars.n - 1], 500, next_ns),
                    0);
    for (size_t i = 0; i < 3; i++) {
        char found[KC_STAMP_LENGTH];

        kc_stamp_format(next_ns[i], found);
        KT_CHECK(strcmp(found, c->following[i]) == 0, "%s: step %zu is %s", c->file, i, found);
    }
    for (size_t i = 0; i < 500; i++)
        CU_ASSERT_TRUE(next_ns[i] > (i ? next_ns[i - 1] : open_ns[bars.n - 1]) &&
                       kr_calendar_open(calendar, next_ns[i]));
    for (size_t i = 1; i < bars.n; i++)
        n_missing += kr_calendar_missing(calendar, &bars.interval, open_ns[i - 1], open_ns[i], 999);
    kt_note("%s: %zu bars of the inferred calendar are missing", c->file, n_missing);
    free(open_ns);
    kr_calendar_free(&calendar);
    kc_bars_free(&bars);
    kr_zone_free(&zone);
}

static void real_share(void)
{
    /* The bar that opens at 11:25 is followed by the afternoon's. */
    check_real(&(struct real_case){
        "bars/600977-5m.csv",
        "Asia/Shanghai",
        KR_STAMP_CLOSE,
        2500,
        "5m",
        false,
        "2024-06-18T03:10:00Z",
        "2024-08-29T03:25:00Z",
        {"2024-08-29T05:00:00Z", "2024-08-29T05:05:00Z", "2024-08-29T05:10:00Z"}});
    /* Naive times taken as UTC: the same sessions, eight hours off. */
    check_real(&(struct real_case){
        "bars/600977-5m.csv",
        "UTC",
        KR_STAMP_CLOSE,
        2500,
        "5m",
        false,
        "2024-06-18T11:10:00Z",
        "2024-08-29T11:25:00Z",
        {"2024-08-29T13:00:00Z", "2024-08-29T13:05:00Z", "2024-08-29T13:10:00Z"}});
}

static void real_days(void)
{
    /* Friday, then Monday. */
    check_real(&(struct real_case){
        "bars/GOOG-1d.csv",
        "America/New_York",
        KR_STAMP_OPEN,
        2148,
        "1d",
        false,
        "2004-08-19T04:00:00Z",
        "2013-03-01T05:00:00Z",
        {"2013-03-04T05:00:00Z", "2013-03-05T05:00:00Z", "2013-03-06T05:00:00Z"}});
}

static void real_hours(void)
{
    check_real(&(struct real_case){
        "bars/EURUSD-1h.csv",
        "UTC",
        KR_STAMP_OPEN,
        5000,
        "1h",
        false,
        "2017-04-19T09:00:00Z",
        "2018-02-07T15:00:00Z",
        {"2018-02-07T16:00:00Z", "2018-02-07T17:00:00Z", "2018-02-07T18:00:00Z"}});
}

static void real_crypto(void)
{
    check_real(&(struct real_case){
        "bars/ETHBTC-5m.csv",
        "UTC",
        KR_STAMP_OPEN,
        5760,
        "5m",
        true,
        "2018-01-10T04:55:00Z",
        "2018-01-30T04:50:00Z",
        {"2018-01-30T04:55:00Z", "2018-01-30T05:00:00Z", "2018-01-30T05:05:00Z"}});
    check_real(&(struct real_case){
        "bars/UNITTEST-1m-gappy.csv",
        "UTC",
        KR_STAMP_OPEN,
        13681,
        "1m",
        true,
        "2017-11-04T23:02:00Z",
        "2017-11-14T22:59:00Z",
        {"2017-11-14T23:00:00Z", "2017-11-14T23:01:00Z", "2017-11-14T23:02:00Z"}});
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"times", stamps},
        {"local times, folds and holes", local_times},
        {"open and close stamps", open_and_close_stamps},
        {"integer times", integer_times},
        {"headers", headers},
        {"lines and cells", lines_and_cells},
        {"bad rows", bad_rows},
        {"bad files", bad_files},
        {"locale and TZ change nothing", other_locale},
        {"intervals", intervals},
        {"many rows", many_rows},
        {"real: sessions, stamped at close", real_share},
        {"real: days", real_days},
        {"real: hours of a week", real_hours},
        {"real: crypto", real_crypto},
    };

    return kt_main("csv", tests, KR_ARRAY_LENGTH(tests));
}
