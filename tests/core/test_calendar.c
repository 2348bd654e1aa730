/* SPDX-License-Identifier: MIT */
#include "core/calendar.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kr_zone *open_zone(const char *name)
{
    struct kr_zone *zone = NULL;
    struct kr_error error = {""};

    KT_CHECK(kr_zone_open(name, &zone, &error) == 0, "%s", error.text);
    return zone;
}

static struct kr_interval interval_of(const char *text)
{
    struct kr_interval interval = {{0}, 0};

    CU_ASSERT_EQUAL(kr_interval_parse(text, &interval), 0);
    return interval;
}

static struct kr_calendar *calendar_of(const struct kr_zone *zone, const char *sessions,
                                       const char *weekdays, const char *holidays)
{
    struct kr_calendar *calendar = NULL;
    struct kr_error error = {""};

    KT_CHECK(kr_calendar_new(zone, sessions, weekdays, holidays, &calendar, &error) == 0, "%s",
             error.text);
    return calendar;
}

/* "2024-06-18 11:15" in the zone. */
static int64_t at(const struct kr_zone *zone, const char *text)
{
    unsigned year, month, day, hour, minute;
    struct kr_civil civil;
    int64_t t_ns = 0;

    CU_ASSERT_EQUAL(sscanf(text, "%4u-%2u-%2u %2u:%2u", &year, &month, &day, &hour, &minute), 5);
    civil = (struct kr_civil){(int)year,     (uint8_t)month,  (uint8_t)day,
                              (uint8_t)hour, (uint8_t)minute, 0};
    KT_CHECK(kr_zone_utc(zone, &civil, INT64_MIN, &t_ns) == 0, "no such time: %s", text);
    return t_ns;
}

static const char *show(const struct kr_zone *zone, int64_t t_ns)
{
    static char texts[4][32];
    static unsigned next;
    char *text = texts[next++ % 4];
    struct kr_civil c;

    kr_zone_civil(zone, t_ns, &c);
    snprintf(text, sizeof(texts[0]), "%04d-%02d-%02d %02d:%02d", c.year % 10000, c.month, c.day,
             c.hour, c.minute);
    return text;
}

/* The bars after `from` are those of the space-free list "date time|date time|...". */
static void check_next(const struct kr_zone *zone, const struct kr_calendar *calendar,
                       const char *interval_text, const char *from, const char *expected)
{
    struct kr_interval interval = interval_of(interval_text);
    int64_t times[32] = {0};
    char found[32 * 17] = "";
    size_t n = (strlen(expected) + 1) / 17;
    int result = kr_calendar_next(calendar, &interval, at(zone, from), n, times);

    KT_CHECK(result == 0, "%s after %s: %d", interval_text, from, result);
    for (size_t i = 0; i < n; i++) {
        sprintf(found + strlen(found), "%s%s", i ? "|" : "", show(zone, times[i]));
        /* One by one as all at once. */
        CU_ASSERT_EQUAL(
            kr_calendar_next(calendar, &interval, i ? times[i - 1] : at(zone, from), 1, &times[31]),
            0);
        KT_CHECK(times[31] == times[i], "%s after %s, step %zu", interval_text, from, i);
    }
    KT_CHECK(strcmp(found, expected) == 0, "%s after %s: %s", interval_text, from, found);
}

static void always(void)
{
    struct kr_zone *berlin = open_zone("Europe/Berlin");
    struct kr_calendar *calendar = calendar_of(berlin, NULL, "", NULL);
    struct kr_interval five = interval_of("5m"), four = interval_of("4h");
    const int64_t minute_ns = 60 * KR_NS_PER_S;
    int64_t t[3];

    CU_ASSERT_TRUE(kr_calendar_always(calendar));
    CU_ASSERT_TRUE(kr_calendar_always(NULL));
    CU_ASSERT_PTR_EQUAL(kr_calendar_zone(calendar), berlin);
    CU_ASSERT_PTR_NULL(kr_calendar_zone(NULL));
    check_next(berlin, calendar, "5m", "2024-06-14 23:55", "2024-06-15 00:00|2024-06-15 00:05");
    /* Hours go through daylight saving by the instant, days by the clock. */
    check_next(berlin, calendar, "4h", "2024-03-30 23:00", "2024-03-31 04:00|2024-03-31 08:00");
    check_next(berlin, calendar, "1d", "2024-03-30 22:00", "2024-03-31 22:00|2024-04-01 22:00");
    CU_ASSERT_EQUAL(kr_calendar_next(NULL, &five, -1, 3, t), 0);
    CU_ASSERT_EQUAL(t[2], 15 * minute_ns - 1);
    CU_ASSERT_EQUAL(kr_calendar_next(NULL, &five, INT64_MAX - 5 * minute_ns, 1, t), 0);
    CU_ASSERT_EQUAL(kr_calendar_next(NULL, &five, INT64_MAX - 5 * minute_ns, 2, t), -ERANGE);
    CU_ASSERT_EQUAL(kr_calendar_next(NULL, &five, 0, 0, NULL), 0);

    CU_ASSERT_EQUAL(kr_calendar_missing(NULL, &five, 0, 5 * minute_ns, 9), 0);
    CU_ASSERT_EQUAL(kr_calendar_missing(NULL, &five, 0, 20 * minute_ns, 9), 3);
    CU_ASSERT_EQUAL(kr_calendar_missing(NULL, &five, 0, 20 * minute_ns, 2), 2);
    CU_ASSERT_EQUAL(kr_calendar_missing(NULL, &five, 0, 21 * minute_ns, 9), 4); /* off the grid */
    CU_ASSERT_EQUAL(kr_calendar_missing(NULL, &five, 0, 0, 9), 0);
    CU_ASSERT_EQUAL(kr_calendar_missing(NULL, &four, INT64_MIN, INT64_MAX, 9), 9);
    CU_ASSERT_EQUAL(kr_calendar_elapsed(NULL, 5, 17, 100), 12);
    CU_ASSERT_EQUAL(kr_calendar_elapsed(NULL, 5, 17, 10), 10);
    CU_ASSERT_EQUAL(kr_calendar_elapsed(NULL, 17, 5, 10), 0);
    CU_ASSERT_EQUAL(kr_calendar_elapsed(NULL, INT64_MIN, INT64_MAX, 10), 10);
    CU_ASSERT_TRUE(kr_calendar_open(NULL, 0));
    kr_calendar_free(&calendar);
    CU_ASSERT_PTR_NULL(calendar);
    kr_calendar_free(&calendar);
    kr_zone_free(&berlin);
}

static void sessions(void)
{
    struct kr_zone *shanghai = open_zone("Asia/Shanghai");
    struct kr_calendar *calendar = calendar_of(shanghai, "13:00-15:00, 09:30-11:30", "mon-fri",
                                               "2024-10-01,2024-10-02,2024-10-03");
    static const struct {
        const char *t;
        bool open;
    } cases[] = {
        {"2024-08-29 09:29", false}, {"2024-08-29 09:30", true},  {"2024-08-29 11:29", true},
        {"2024-08-29 11:30", false}, {"2024-08-29 12:59", false}, {"2024-08-29 13:00", true},
        {"2024-08-29 14:59", true},  {"2024-08-29 15:00", false}, {"2024-08-31 10:00", false},
        {"2024-10-02 10:00", false}, {"2024-10-04 10:00", true},
    };

    CU_ASSERT_FALSE(kr_calendar_always(calendar));
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++)
        KT_CHECK(kr_calendar_open(calendar, at(shanghai, cases[i].t)) == cases[i].open, "%s",
                 cases[i].t);
    check_next(shanghai, calendar, "5m", "2024-08-29 11:20",
               "2024-08-29 11:25|2024-08-29 13:00|2024-08-29 13:05");
    check_next(shanghai, calendar, "5m", "2024-08-30 14:50",
               "2024-08-30 14:55|2024-09-02 09:30|2024-09-02 09:35");
    check_next(shanghai, calendar, "30m", "2024-09-30 14:30",
               "2024-10-04 09:30|2024-10-04 10:00|2024-10-04 10:30|2024-10-04 11:00|"
               "2024-10-04 13:00");
    /* The grid starts anew with each session, whatever the clock's full hours. */
    check_next(shanghai, calendar, "1h", "2024-08-29 09:30",
               "2024-08-29 10:30|2024-08-29 13:00|2024-08-29 14:00|2024-08-30 09:30");
    /* Longer than a session: one bar each. */
    check_next(shanghai, calendar, "4h", "2024-08-29 09:30",
               "2024-08-29 13:00|2024-08-30 09:30|2024-08-30 13:00");
    check_next(shanghai, calendar, "1d", "2024-09-27 00:00",
               "2024-09-30 00:00|2024-10-04 00:00|2024-10-07 00:00");
    check_next(shanghai, calendar, "1w", "2024-09-16 00:00",
               "2024-09-23 00:00|2024-09-30 00:00|2024-10-07 00:00");
    check_next(shanghai, calendar, "5m", "2024-08-31 12:00", "2024-09-02 09:30");
    kr_calendar_free(&calendar);
    kr_zone_free(&shanghai);
}

static void off_the_session_grid(void)
{
    struct kr_zone *york = open_zone("America/New_York"), *lord_howe;
    struct kr_calendar *calendar = calendar_of(york, "09:30-16:00", "mon-fri", NULL);
    struct kr_interval five = interval_of("5m");
    int64_t from, t[2];

    check_next(york, calendar, "1h", "2024-07-05 14:30",
               "2024-07-05 15:30|2024-07-08 09:30|2024-07-08 10:30");
    /* Bars on the clock's hours keep to them, also over a change of daylight saving. */
    check_next(york, calendar, "1h", "2024-07-05 14:00",
               "2024-07-05 15:00|2024-07-08 10:00|2024-07-08 11:00");
    check_next(york, calendar, "1h", "2024-11-01 15:00", "2024-11-04 10:00");
    /* Seven minutes divide no day: UTC, in which 09:35 on Monday is 563 * 7 minutes later. */
    check_next(york, calendar, "7m", "2024-07-05 15:54", "2024-07-08 09:35");
    /* Below the second. */
    from = at(york, "2024-07-05 15:55") + 250000000;
    CU_ASSERT_EQUAL(kr_calendar_next(calendar, &five, from, 2, t), 0);
    CU_ASSERT_EQUAL(t[0], at(york, "2024-07-08 09:30") + 250000000);
    CU_ASSERT_EQUAL(t[1], at(york, "2024-07-08 09:35") + 250000000);
    /* A grid that the session misses altogether is met on no day. */
    kr_calendar_free(&calendar);
    calendar = calendar_of(york, "09:30-09:45", NULL, NULL);
    CU_ASSERT_EQUAL(kr_calendar_next(calendar, &(struct kr_interval){"1h", 3600 * KR_NS_PER_S},
                                     at(york, "2024-07-05 10:00"), 1, t),
                    -ERANGE);
    kr_calendar_free(&calendar);
    kr_zone_free(&york);

    /* A half hour of daylight saving shifts the clock under a half-hour grid by nothing. */
    lord_howe = open_zone("Australia/Lord_Howe");
    calendar = calendar_of(lord_howe, "01:00-03:00", NULL, NULL);
    check_next(lord_howe, calendar, "30m", "2024-04-06 02:30", "2024-04-07 01:00|2024-04-07 01:30");
    from = at(lord_howe, "2024-04-07 01:30");
    CU_ASSERT_EQUAL(
        kr_calendar_next(calendar, &(struct kr_interval){"30m", 1800 * KR_NS_PER_S}, from, 2, t),
        0);
    CU_ASSERT_STRING_EQUAL(show(lord_howe, t[0]), "2024-04-07 01:30"); /* again */
    CU_ASSERT_STRING_EQUAL(show(lord_howe, t[1]), "2024-04-07 02:00");
    kr_calendar_free(&calendar);
    kr_zone_free(&lord_howe);
}

static void over_midnight(void)
{
    struct kr_zone *york = open_zone("America/New_York"), *shanghai = open_zone("Asia/Shanghai");
    struct kr_calendar *fx = calendar_of(york, "17:00-17:00", "sun-thu", "2024-12-24");
    static const char *const lengths[] = {"7m", "4h", "7h", "10h", "36h"};
    struct kr_calendar *night = calendar_of(shanghai, "09:00-15:00,21:00-02:30", "mon-fri", NULL);

    CU_ASSERT_FALSE(kr_calendar_always(fx));
    /* Touching sessions are one: nothing starts anew at 17:00. */
    check_next(york, fx, "1h", "2024-07-02 15:00", "2024-07-02 16:00|2024-07-02 17:00");
    check_next(york, fx, "5h", "2024-07-02 14:00", "2024-07-02 19:00|2024-07-03 00:00");
    /* Friday's close, Sunday's open, over the change to summer time. */
    check_next(york, fx, "1h", "2024-03-08 15:00",
               "2024-03-08 16:00|2024-03-10 17:00|2024-03-10 18:00");
    check_next(york, fx, "4h", "2024-03-08 13:00", "2024-03-10 17:00|2024-03-10 21:00");
    /* The holiday is the day on which its session starts: 17:00 to 17:00. */
    check_next(york, fx, "1h", "2024-12-24 16:00", "2024-12-25 17:00");
    /* A day's bar belongs where half of a session lies. */
    check_next(york, fx, "1d", "2024-07-04 00:00", "2024-07-05 00:00|2024-07-08 00:00");
    check_next(york, fx, "1d", "2024-07-03 17:00", "2024-07-04 17:00|2024-07-07 17:00");
    check_next(shanghai, night, "1d", "2024-07-05 00:00", "2024-07-08 00:00");
    check_next(shanghai, night, "30m", "2024-07-06 01:30", "2024-07-06 02:00|2024-07-08 09:00");
    check_next(shanghai, night, "30m", "2024-07-05 14:30", "2024-07-05 21:00|2024-07-05 21:30");
    CU_ASSERT_TRUE(kr_calendar_open(night, at(shanghai, "2024-07-06 02:29")));
    CU_ASSERT_FALSE(kr_calendar_open(night, at(shanghai, "2024-07-06 02:30")));
    CU_ASSERT_FALSE(kr_calendar_open(night, at(shanghai, "2024-07-08 02:00"))); /* Sunday's */
    /* What follows a bar depends on that bar alone, however long the open time before it. */
    for (size_t i = 0; i < KR_ARRAY_LENGTH(lengths); i++) {
        struct kr_interval interval = interval_of(lengths[i]);
        int64_t times[61] = {at(york, "2024-02-26 18:00")}, one = 0;

        CU_ASSERT_EQUAL(kr_calendar_next(fx, &interval, times[0], 60, times + 1), 0);
        for (size_t k = 0; k < 60; k++) {
            CU_ASSERT_EQUAL(kr_calendar_next(fx, &interval, times[k], 1, &one), 0);
            KT_CHECK(one == times[k + 1], "%s after %s", lengths[i], show(york, times[k]));
        }
    }
    kr_calendar_free(&fx);
    kr_calendar_free(&night);
    kr_zone_free(&york);
    kr_zone_free(&shanghai);
}

static void days(void)
{
    struct kr_zone *beirut = open_zone("Asia/Beirut"), *berlin = open_zone("Europe/Berlin");
    struct kr_calendar *every = calendar_of(beirut, NULL, NULL, NULL);
    struct kr_calendar *work = calendar_of(berlin, NULL, "mon-fri", NULL);
    struct kr_interval day = interval_of("1d");
    int64_t t[3];

    /* Midnight of 2024-03-31 does not exist in Beirut: that day starts at 01:00, others do not. */
    check_next(beirut, every, "1d", "2024-03-30 00:00", "2024-03-31 01:00|2024-04-01 00:00");
    check_next(beirut, every, "1d", "2024-03-31 01:00", "2024-04-01 00:00");
    /* Summer time in Berlin: 23 hours from Saturday to Sunday, but Sunday is skipped. */
    check_next(berlin, work, "1d", "2024-03-29 00:00", "2024-04-01 00:00|2024-04-02 00:00");
    CU_ASSERT_EQUAL(kr_calendar_next(work, &day, at(berlin, "2024-03-29 00:00"), 1, t), 0);
    CU_ASSERT_EQUAL(t[0] - at(berlin, "2024-03-29 00:00"), INT64_C(71) * 3600 * KR_NS_PER_S);
    check_next(berlin, work, "24h", "2024-03-29 00:00", "2024-04-01 00:00");
    CU_ASSERT_EQUAL(kr_calendar_missing(work, &day, at(berlin, "2024-03-29 00:00"),
                                        at(berlin, "2024-04-01 00:00"), 9),
                    0);
    CU_ASSERT_EQUAL(kr_calendar_missing(work, &day, at(berlin, "2024-03-29 00:00"),
                                        at(berlin, "2024-04-09 00:00"), 9),
                    6);
    CU_ASSERT_EQUAL(kr_calendar_next(every, &day, INT64_MAX - 1, 1, t), -ERANGE);
    kr_calendar_free(&every);
    kr_calendar_free(&work);
    kr_zone_free(&beirut);
    kr_zone_free(&berlin);
}

static void shifts(void)
{
    struct kr_zone *berlin = open_zone("Europe/Berlin"), *beirut = open_zone("Asia/Beirut");
    struct kr_interval five = interval_of("5m"), day = interval_of("1d"), week = interval_of("2w");
    struct kr_stamp stamp;
    int64_t t = 0;

    CU_ASSERT_EQUAL(kr_interval_days(&five), 0);
    CU_ASSERT_EQUAL(kr_interval_days(&week), 14);
    CU_ASSERT_EQUAL(kr_interval_shift(berlin, &five, 0, -1, &t), 0);
    CU_ASSERT_EQUAL(t, -300 * KR_NS_PER_S);
    CU_ASSERT_EQUAL(kr_interval_shift(berlin, &day, at(berlin, "2024-04-01 00:00"), -1, &t), 0);
    CU_ASSERT_STRING_EQUAL(show(berlin, t), "2024-03-31 00:00");
    CU_ASSERT_EQUAL(kr_interval_shift(berlin, &week, at(berlin, "2024-03-24 08:00") + 7, 1, &t), 0);
    CU_ASSERT_EQUAL(t, at(berlin, "2024-04-07 08:00") + 7);
    CU_ASSERT_EQUAL(kr_interval_shift(beirut, &day, at(beirut, "2024-03-31 01:00"), -1, &t), 0);
    CU_ASSERT_STRING_EQUAL(show(beirut, t), "2024-03-30 00:00");
    t = 42;
    CU_ASSERT_EQUAL(kr_interval_shift(berlin, &day, INT64_MAX - 1, 1, &t), -ERANGE);
    CU_ASSERT_EQUAL(kr_interval_shift(NULL, &five, INT64_MIN, -1, &t), -ERANGE);
    CU_ASSERT_EQUAL(kr_interval_shift(NULL, &week, 0, INT64_MAX, &t), -ERANGE);
    CU_ASSERT_EQUAL(t, 42);

    /* What the model sees of a bar: the stamp as delivered. */
    t = at(berlin, "2024-12-31 23:55"); /* Tuesday */
    CU_ASSERT_EQUAL(kr_stamp_of_open(berlin, &five, KR_STAMP_OPEN, t, &stamp), 0);
    CU_ASSERT_EQUAL(stamp.minute, 55);
    CU_ASSERT_EQUAL(stamp.weekday, 1);
    CU_ASSERT_EQUAL(stamp.day, 31);
    CU_ASSERT_EQUAL(kr_stamp_of_open(berlin, &five, KR_STAMP_CLOSE, t, &stamp), 0);
    CU_ASSERT_EQUAL(stamp.minute, 0);
    CU_ASSERT_EQUAL(stamp.hour, 0);
    CU_ASSERT_EQUAL(stamp.weekday, 2);
    CU_ASSERT_EQUAL(stamp.day, 1);
    CU_ASSERT_EQUAL(stamp.month, 1);
    kr_zone_free(&berlin);
    kr_zone_free(&beirut);
}

static void missing_and_elapsed(void)
{
    struct kr_zone *shanghai = open_zone("Asia/Shanghai");
    struct kr_calendar *calendar =
        calendar_of(shanghai, "09:30-11:30,13:00-15:00", "mon-fri", "2024-09-02");
    static const struct {
        const char *from, *to;
        size_t missing;
        int64_t elapsed_minutes;
    } cases[] = {
        {"2024-08-29 09:30", "2024-08-29 09:35", 0, 5},
        {"2024-08-29 09:30", "2024-08-29 09:45", 2, 15},
        {"2024-08-29 11:25", "2024-08-29 13:00", 0, 5}, /* lunch */
        {"2024-08-29 11:20", "2024-08-29 13:05", 2, 15},
        {"2024-08-29 11:30", "2024-08-29 12:00", 0, 0},
        {"2024-08-30 14:55", "2024-09-03 09:30", 0, 5}, /* a weekend and a holiday */
        {"2024-08-30 14:55", "2024-09-03 10:00", 6, 35},
        {"2024-08-29 09:30", "2024-08-30 09:30", 47, 240},
        {"2024-08-29 12:00", "2024-08-30 12:00", 48, 240}, /* from and to within breaks */
        {"2024-08-29 10:00", "2024-08-29 09:30", 0, 0},
    };
    struct kr_interval five = interval_of("5m");
    const int64_t minute_ns = 60 * KR_NS_PER_S;
    int64_t year_ns;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        int64_t from = at(shanghai, cases[i].from), to = at(shanghai, cases[i].to);
        size_t n = kr_calendar_missing(calendar, &five, from, to, 1000);
        int64_t elapsed = kr_calendar_elapsed(calendar, from, to, INT64_MAX) / minute_ns;

        KT_CHECK(n == cases[i].missing, "case %zu: %zu missing", i, n);
        KT_CHECK(elapsed == cases[i].elapsed_minutes, "case %zu: %lld minutes", i,
                 (long long)elapsed);
        CU_ASSERT_EQUAL(kr_calendar_missing(calendar, &five, from, to, 1),
                        KR_MIN(cases[i].missing, 1));
        CU_ASSERT_EQUAL(kr_calendar_elapsed(calendar, from, to, 7 * minute_ns) / minute_ns,
                        KR_MIN(cases[i].elapsed_minutes, 7));
    }
    /* Years: 261 weekdays of 2025, four hours each. */
    year_ns = kr_calendar_elapsed(calendar, at(shanghai, "2025-01-01 00:00"),
                                  at(shanghai, "2026-01-01 00:00"), INT64_MAX);
    CU_ASSERT_EQUAL(year_ns / minute_ns, 261 * 240);
    CU_ASSERT_EQUAL(kr_calendar_elapsed(calendar, INT64_MIN, INT64_MAX, minute_ns), minute_ns);
    kr_calendar_free(&calendar);

    /* A session inside the night of the one before it is not counted twice. */
    calendar = calendar_of(shanghai, "01:00-02:00,22:00-06:00", NULL, NULL);
    CU_ASSERT_EQUAL(kr_calendar_elapsed(calendar, at(shanghai, "2024-08-29 12:00"),
                                        at(shanghai, "2024-08-30 12:00"), INT64_MAX),
                    480 * minute_ns);
    check_next(shanghai, calendar, "1h", "2024-08-30 00:00", "2024-08-30 01:00|2024-08-30 02:00");
    check_next(shanghai, calendar, "1h", "2024-08-30 05:00", "2024-08-30 22:00");
    kr_calendar_free(&calendar);
    kr_zone_free(&shanghai);
}

static void nothing_within_400_days(void)
{
    struct kr_calendar *calendar;
    struct kr_interval hour = interval_of("1h"), day = interval_of("1d");
    char holidays[70 * 11] = "";
    int64_t monday = kr_civil_day(2024, 1, 1), t = 42;

    for (int i = 0; i < 60; i++) {
        struct kr_civil c;

        kr_civil_date(monday + 7 * i, &c);
        sprintf(holidays + strlen(holidays), "%s%04d-%02d-%02d", i ? "," : "", c.year, c.month,
                c.day);
    }
    calendar = calendar_of(NULL, NULL, "mon", holidays);
    CU_ASSERT_EQUAL(kr_calendar_next(calendar, &hour, monday * 86400 * KR_NS_PER_S, 1, &t),
                    -ERANGE);
    CU_ASSERT_EQUAL(kr_calendar_next(calendar, &day, monday * 86400 * KR_NS_PER_S, 1, &t), -ERANGE);
    CU_ASSERT_EQUAL(kr_calendar_missing(calendar, &hour, monday * 86400 * KR_NS_PER_S,
                                        (monday + 300) * 86400 * KR_NS_PER_S, 5),
                    0);
    /* 60 Mondays on, and 400 days before it, it is found. */
    monday += 7 * 60;
    CU_ASSERT_EQUAL(kr_calendar_next(calendar, &hour, (monday - 399) * 86400 * KR_NS_PER_S, 1, &t),
                    0);
    CU_ASSERT_EQUAL(t, monday * 86400 * KR_NS_PER_S);
    kr_calendar_free(&calendar);
}

static void bad_parts(void)
{
    static const struct {
        const char *sessions, *weekdays, *holidays, *named;
    } cases[] = {
        {"09:30", NULL, NULL, "\"09:30\""},
        {"09:30-11:30,", NULL, NULL, "\"\""},
        {"9:30-11:30", NULL, NULL, "\"9:30-11:30\""},
        {"09:30-11:60", NULL, NULL, "\"09:30-11:60\""},
        {"24:00-11:00", NULL, NULL, "\"24:00-11:00\""},
        {"09:30-24:01", NULL, NULL, "\"09:30-24:01\""},
        {"09:30-11:30,11:00-12:00", NULL, NULL, "11:00"},
        {"09:30 11:30", NULL, NULL, "\"09:30 11:30\""},
        {NULL, "mon-fry", NULL, "\"mon-fry\""},
        {NULL, "mon,,tue", NULL, "\"\""},
        {NULL, "monday", NULL, "\"monday\""},
        {NULL, NULL, "2023-02-29", "\"2023-02-29\""},
        {NULL, NULL, "2023-2-28", "\"2023-2-28\""},
        {NULL, NULL, "2023-12-24,x", "\"x\""},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kr_calendar *calendar = NULL;
        struct kr_error error = {""};

        KT_CHECK(kr_calendar_new(NULL, cases[i].sessions, cases[i].weekdays, cases[i].holidays,
                                 &calendar, &error) == -EINVAL,
                 "case %zu", i);
        CU_ASSERT_PTR_NULL(calendar);
        KT_CHECK(strstr(error.text, cases[i].named) != NULL, "case %zu: %s", i, error.text);
    }
    /* Weekdays around the week's end. */
    struct kr_calendar *calendar = calendar_of(NULL, NULL, "fri-mon, wed", NULL);
    static const bool open[7] = {true, false, true, false, true, true, true};
    for (int64_t w = 0; w < 7; w++)
        CU_ASSERT_EQUAL(kr_calendar_open(calendar, (4 + w) * 86400 * KR_NS_PER_S), open[w]);
    kr_calendar_free(&calendar);

    static const struct kr_window windows[] = {
        {3600, 7200}, {0, 86401}, {7200, 9000}, {3600, 7000}};
    CU_ASSERT_EQUAL(kr_calendar_from_windows(NULL, windows, (size_t[7]){0}, NULL, 0, &calendar),
                    -EINVAL);
    CU_ASSERT_EQUAL(kr_calendar_from_windows(NULL, windows, (size_t[7]){2}, NULL, 0, &calendar),
                    -EINVAL);
    CU_ASSERT_EQUAL(kr_calendar_from_windows(NULL, windows + 2, (size_t[7]){2}, NULL, 0, &calendar),
                    -EINVAL);
    CU_ASSERT_PTR_NULL(calendar);
}

/* ---- Inference ---- */

static uint64_t random_state;

/* In [0, 1). */
static double uniform(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(random_state >> 11) * 0x1p-53;
}

/* Bars of a market as its calendar has them from `from` to before `to`, each missing with a
 * probability. */
struct bars {
    int64_t *open_ns;
    size_t n;
};

static struct bars bars_of(const struct kr_calendar *market, const struct kr_interval *interval,
                           int64_t from_ns, int64_t to_ns, double missing)
{
    struct bars bars = {NULL, 0};
    size_t capacity = 0;

    if (!kr_calendar_open(market, from_ns))
        CU_ASSERT_EQUAL(kr_calendar_next(market, interval, from_ns, 1, &from_ns), 0);
    for (int64_t t = from_ns; t < to_ns;) {
        if (bars.n == capacity) {
            capacity = capacity ? capacity * 2 : 1024;
            bars.open_ns = realloc(bars.open_ns, capacity * sizeof(*bars.open_ns));
            if (!bars.open_ns)
                abort();
        }
        if (bars.n == 0 || uniform() >= missing)
            bars.open_ns[bars.n++] = t;
        CU_ASSERT_EQUAL(kr_calendar_next(market, interval, t, 1, &t), 0);
    }
    return bars;
}

static struct kr_calendar *infer(const struct kr_zone *zone, const char *interval_text,
                                 const struct bars *bars)
{
    struct kr_interval interval = interval_of(interval_text);
    struct kr_calendar *calendar = NULL;

    CU_ASSERT_EQUAL(kr_calendar_infer(zone, &interval, bars->open_ns, bars->n, &calendar), 0);
    return calendar;
}

/* In how many of the 10,080 minutes of a week from Monday 2024-07-15 (local) do two calendars
 * differ? */
static int differing_minutes(const struct kr_zone *zone, const struct kr_calendar *a,
                             const struct kr_calendar *b)
{
    int64_t from = at(zone, "2024-07-15 00:00");
    int n = 0;

    for (int minute = 0; minute < 7 * 1440; minute++)
        n += kr_calendar_open(a, from + minute * 60 * KR_NS_PER_S) !=
             kr_calendar_open(b, from + minute * 60 * KR_NS_PER_S);
    return n;
}

/* A market and how much of it was seen; what is inferred must be the market, minute by minute. */
struct market_case {
    const char *zone, *sessions, *weekdays, *interval, *from, *to;
    double missing;
};

static void check_markets(const struct market_case *cases, size_t n)
{
    random_state = 1;
    for (size_t i = 0; i < n; i++) {
        const struct market_case *c = &cases[i];
        struct kr_zone *zone = open_zone(c->zone);
        struct kr_calendar *market = calendar_of(zone, c->sessions, c->weekdays, NULL);
        struct kr_interval interval = interval_of(c->interval);
        struct bars bars =
            bars_of(market, &interval, at(zone, c->from), at(zone, c->to), c->missing);
        struct kr_calendar *inferred = infer(zone, c->interval, &bars);
        int differing = differing_minutes(zone, market, inferred);

        KT_CHECK(differing == 0, "case %zu (%s, %s from %s): %d minutes of the week differ", i,
                 c->sessions ? c->sessions : "24x7", c->interval, c->from, differing);
        free(bars.open_ns);
        kr_calendar_free(&inferred);
        kr_calendar_free(&market);
        kr_zone_free(&zone);
    }
}

static void infer_sessions(void)
{
    static const char share[] = "09:30-11:30,13:00-15:00", us[] = "09:30-16:00";
    static const struct market_case cases[] = {
        {"Asia/Shanghai", share, "mon-fri", "5m", "2024-06-18 11:15", "2024-08-29 11:30", 0},
        /* Four days that saw no weekend. */
        {"Asia/Shanghai", share, "mon-fri", "5m", "2024-06-17 09:30", "2024-06-20 15:00", 0},
        {"Asia/Shanghai", share, "mon-fri", "1m", "2024-06-18 09:30", "2024-06-21 15:00", 0},
        /* Four days around a weekend. */
        {"Asia/Shanghai", share, "mon-fri", "5m", "2024-06-20 10:00", "2024-06-25 14:00", 0},
        /* The grid starts anew after lunch. */
        {"Asia/Shanghai", share, "mon-fri", "1h", "2024-06-18 09:30", "2024-07-10 15:00", 0},
        {"America/New_York", us, "mon-fri", "30m", "2024-01-02 09:30", "2024-06-28 16:00", 0},
        {"America/New_York", us, "mon-fri", "5m", "2024-03-04 09:30", "2024-03-22 16:00", 0},
        /* Two days: the night was seen once, but no feed is silent so long. */
        {"America/New_York", us, "mon-fri", "5m", "2024-03-04 09:30", "2024-03-05 16:00", 0},
        /* 24 hours: the night tells that there are breaks, so the lunch seen once is one. */
        {"Asia/Shanghai", share, "mon-fri", "5m", "2024-06-18 10:00", "2024-06-19 10:00", 0},
        /* A third of the bars missing, over a month. */
        {"America/New_York", us, "mon-fri", "1m", "2024-06-03 09:30", "2024-06-28 16:00", 0.33},
        /* An hour a day, as futures have it. */
        {"America/Chicago", "17:00-16:00", "sun-thu", "1h", "2024-05-06 00:00", "2024-06-28 16:00",
         0},
        {"America/Chicago", "17:00-16:00", "sun-thu", "5m", "2024-06-10 00:00", "2024-06-21 16:00",
         0},
        {"America/New_York", "17:00-17:00", "sun-thu", "1h", "2024-04-01 00:00", "2024-07-10 15:00",
         0},
        /* One week of it: Saturday's closure reaches from Friday 17:00 to Sunday 17:00. */
        {"America/New_York", "17:00-17:00", "sun-thu", "1h", "2024-06-12 09:00", "2024-06-19 09:00",
         0},
        {"America/New_York", "17:00-17:00", "sun-thu", "5m", "2024-06-12 09:00", "2024-06-19 09:00",
         0.05},
        /* Friday and Saturday are the weekend. */
        {"Asia/Riyadh", "10:00-15:00", "sun-thu", "5m", "2024-06-02 10:00", "2024-06-12 15:00", 0},
        {"Asia/Shanghai", "09:00-10:15,10:30-11:30,13:30-15:00,21:00-23:00", "mon-fri", "5m",
         "2024-06-03 09:00", "2024-06-21 23:00", 0},
    };

    check_markets(cases, KR_ARRAY_LENGTH(cases));
}

static void infer_always(void)
{
    static const struct market_case cases[] = {
        {"UTC", NULL, NULL, "5m", "2024-06-12 04:55", "2024-06-13 13:55", 0}, /* 33 hours */
        {"UTC", NULL, NULL, "5m", "2024-06-12 04:55", "2024-06-13 13:55", 0.05},
        {"UTC", NULL, NULL, "1m", "2024-06-12 04:55", "2024-06-13 13:55", 0.3},
        {"UTC", NULL, NULL, "1m", "2024-06-04 23:02", "2024-06-14 23:00", 0.05},
        {"UTC", NULL, NULL, "1m", "2024-06-04 23:02", "2024-06-14 23:00", 0.5},
        {"UTC", NULL, NULL, "1m", "2024-05-01 00:00", "2024-06-14 23:00", 0.1},
        {"UTC", NULL, NULL, "1m", "2024-05-01 00:00", "2024-06-14 23:00", 0.8},
        {"UTC", NULL, NULL, "5m", "2024-01-01 00:00", "2024-06-14 23:00", 0.3},
        {"Europe/Berlin", NULL, NULL, "1h", "2024-02-01 00:00", "2024-06-14 23:00", 0.2},
        {"Europe/Berlin", NULL, NULL, "4h", "2024-01-01 00:00", "2024-06-14 23:00", 0.05},
        {"Australia/Lord_Howe", NULL, NULL, "1h", "2024-03-01 00:00", "2024-04-14 23:00", 0},
        {"UTC", NULL, NULL, "7m", "2024-05-01 00:00", "2024-06-14 23:00", 0.05},
        {"UTC", NULL, NULL, "5h", "2024-02-01 00:00", "2024-06-14 23:00", 0},
        {"UTC", NULL, NULL, "15s", "2024-06-12 04:55", "2024-06-15 13:55", 0.4},
        {"UTC", NULL, NULL, "1d", "2023-01-01 00:00", "2024-06-14 23:00", 0.05},
        {"UTC", NULL, NULL, "1w", "2020-01-06 00:00", "2024-06-14 23:00", 0},
        {"UTC", NULL, NULL, "36h", "2023-01-01 00:00", "2024-06-14 23:00", 0},
        {"UTC", NULL, NULL, "5m", "2024-06-12 04:55", "2024-06-12 16:55", 0},
        /* Two bars tell nothing. */
        {"UTC", NULL, NULL, "5m", "2024-06-12 04:55", "2024-06-12 05:05", 0},
        /* Four days of a market that closes on weekends and in no other way. */
        {"UTC", NULL, NULL, "1h", "2024-06-10 00:00", "2024-06-14 00:00", 0},
    };

    check_markets(cases, KR_ARRAY_LENGTH(cases));
}

static void infer_days(void)
{
    static const struct market_case cases[] = {
        {"UTC", NULL, "mon-fri", "1d", "2022-08-19 00:00", "2024-06-14 00:00", 0.04},
        {"UTC", NULL, "mon-fri", "1d", "2024-06-06 00:00", "2024-06-12 00:00", 0},
        {"UTC", NULL, "sun-thu", "1d", "2024-05-02 00:00", "2024-06-12 00:00", 0},
        {"America/New_York", NULL, "mon-fri", "1d", "2024-01-02 00:00", "2024-06-12 00:00", 0},
    };
    struct kr_zone *york = open_zone("America/New_York");
    struct kr_interval day = interval_of("1d");
    struct kr_calendar *market = calendar_of(york, "17:00-17:00", "sun-thu", NULL), *inferred;
    struct bars bars;

    check_markets(cases, KR_ARRAY_LENGTH(cases));

    /* Bars that open at New York's 17:00, seen in UTC: 21:00 in summer, 22:00 in winter. */
    bars = bars_of(market, &day, at(york, "2023-02-01 17:00"), at(york, "2024-02-09 12:00"), 0);
    inferred = infer(NULL, "1d", &bars);
    check_next(NULL, inferred, "1d", "2024-02-08 22:00", "2024-02-11 22:00|2024-02-12 22:00");
    check_next(NULL, inferred, "1d", "2024-06-06 21:00", "2024-06-09 21:00|2024-06-10 21:00");
    free(bars.open_ns);
    kr_calendar_free(&inferred);
    kr_calendar_free(&market);
    kr_zone_free(&york);
}

/* A market that never closes but is down for some minutes on n days from a time on. */
static void check_outages(const char *interval_text, const char *from, const char *to,
                          const char *down, int minutes, int n_days)
{
    struct kr_interval interval = interval_of(interval_text);
    struct bars bars = bars_of(NULL, &interval, at(NULL, from), at(NULL, to), 0);
    struct kr_calendar *inferred;
    size_t kept = 0;

    for (size_t i = 0; i < bars.n; i++) {
        int64_t since_s = (bars.open_ns[i] - at(NULL, down)) / KR_NS_PER_S;

        if (since_s < 0 || since_s / 86400 >= n_days || since_s % 86400 >= minutes * 60)
            bars.open_ns[kept++] = bars.open_ns[i];
    }
    CU_ASSERT_EQUAL((int64_t)(bars.n - kept) * interval.ns, minutes * n_days * 60 * KR_NS_PER_S);
    bars.n = kept;
    inferred = infer(NULL, interval_text, &bars);
    KT_CHECK(kr_calendar_always(inferred), "down from %s on", down);
    free(bars.open_ns);
    kr_calendar_free(&inferred);
}

/* Things that happen once are no calendar. */
static void infer_once(void)
{
    struct kr_zone *york = open_zone("America/New_York");
    struct kr_calendar *share = calendar_of(york, "09:30-16:00", "mon-fri", NULL), *inferred;
    struct kr_calendar *holidays =
        calendar_of(york, "09:30-16:00", "mon-fri", "2023-12-25,2024-01-01");
    struct kr_interval five = interval_of("5m");
    struct bars bars;
    size_t kept = 0;

    /* The same weekday twice a holiday, in a file of two weeks. */
    bars = bars_of(share, &five, at(york, "2023-12-20 09:30"), at(york, "2024-01-04 16:00"), 0);
    for (size_t i = 0; i < bars.n; i++)
        if (kr_calendar_open(holidays, bars.open_ns[i]))
            bars.open_ns[kept++] = bars.open_ns[i];
    CU_ASSERT_EQUAL(bars.n - kept, 2 * 78);
    bars.n = kept;
    inferred = infer(york, "5m", &bars);
    CU_ASSERT_EQUAL(differing_minutes(york, share, inferred), 0);
    free(bars.open_ns);
    kr_calendar_free(&inferred);

    /* An exchange that is down for hours once, in files of three days and of 33 hours, or for three
     * minutes every night. */
    check_outages("5m", "2024-06-11 00:00", "2024-06-14 00:00", "2024-06-12 13:00", 300, 1);
    check_outages("5m", "2024-06-12 04:55", "2024-06-13 13:55", "2024-06-12 18:00", 300, 1);
    check_outages("1m", "2024-06-01 00:00", "2024-06-21 00:00", "2024-06-01 03:00", 3, 20);

    /* A print at night, in a month of shares. */
    bars = bars_of(share, &five, at(york, "2024-05-20 09:30"), at(york, "2024-06-21 16:00"), 0);
    for (size_t i = 0; i < bars.n; i++)
        if (bars.open_ns[i] == at(york, "2024-06-03 09:30"))
            bars.open_ns[i] = at(york, "2024-06-03 03:00");
    inferred = infer(york, "5m", &bars);
    CU_ASSERT_EQUAL(differing_minutes(york, share, inferred), 0);
    free(bars.open_ns);
    kr_calendar_free(&inferred);

    /* Too few. */
    CU_ASSERT_EQUAL(kr_calendar_infer(york, &five, (int64_t[]){0}, 1, &inferred), -EINVAL);
    CU_ASSERT_PTR_NULL(inferred);
    kr_calendar_free(&share);
    kr_calendar_free(&holidays);
    kr_zone_free(&york);
}

/* A short Saturday, and a Wednesday with a pause of its own. */
static void infer_weekday_slots(void)
{
    static const struct kr_window windows[] = {
        {32400, 61200}, {32400, 61200},                 /* mon, tue: 09:00-17:00 */
        {32400, 43200}, {50400, 61200}, {32400, 61200}, /* wed: but 12:00-14:00 */
        {32400, 61200}, {32400, 43200},                 /* sat: 09:00-12:00 */
    };
    struct kr_zone *berlin = open_zone("Europe/Berlin");
    struct kr_interval half = interval_of("30m");
    struct kr_calendar *market = NULL, *inferred;
    struct bars bars;

    CU_ASSERT_EQUAL(kr_calendar_from_windows(berlin, windows, (size_t[7]){1, 1, 2, 1, 1, 1, 0},
                                             NULL, 0, &market),
                    0);
    bars = bars_of(market, &half, at(berlin, "2024-04-08 09:00"), at(berlin, "2024-05-22 17:00"),
                   0.02);
    inferred = infer(berlin, "30m", &bars);
    CU_ASSERT_EQUAL(differing_minutes(berlin, market, inferred), 0);
    kr_calendar_free(&inferred);
    /* Seen twice only, the pause may be chance: it stays open, unlike what all days share. */
    while (bars.open_ns[bars.n - 1] >= at(berlin, "2024-04-20 00:00"))
        bars.n--;
    inferred = infer(berlin, "30m", &bars);
    CU_ASSERT_TRUE(kr_calendar_open(inferred, at(berlin, "2024-05-22 13:00")));
    CU_ASSERT_FALSE(kr_calendar_open(inferred, at(berlin, "2024-05-22 17:00")));
    kr_calendar_free(&inferred);
    free(bars.open_ns);
    kr_calendar_free(&market);
    kr_zone_free(&berlin);
}

/* Bars that are missing at random, and more of them in the small hours, whatever the seed. */
static void infer_random(void)
{
    static const struct {
        const char *interval;
        int hours;
        double missing, missing_at_night; /* 01:00 to 05:00 */
    } cases[] = {
        {"5m", 12, 0.4, 0.4},  {"5m", 33, 0.4, 0.4},   {"5m", 33, 0.9, 0.9},
        {"5m", 60, 0.7, 0.7},  {"1m", 33, 0.7, 0.7},   {"1m", 96, 0.2, 0.2},
        {"1h", 33, 0.4, 0.4},  {"1h", 96, 0.7, 0.7},   {"1h", 240, 0.7, 0.7},
        {"1h", 500, 0.7, 0.7}, {"5m", 60, 0.01, 0.5},  {"5m", 96, 0.05, 0.5},
        {"5m", 96, 0.2, 0.7},  {"1m", 60, 0.2, 0.7},   {"15m", 240, 0.2, 0.6},
        {"1m", 33, 0.01, 0.7}, {"15m", 500, 0.2, 0.8}, {"1h", 1000, 0.2, 0.8},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kr_interval interval = interval_of(cases[i].interval);
        int n_closed = 0;

        for (int seed = 0; seed < 20; seed++) {
            struct bars bars;
            struct kr_calendar *inferred;
            size_t kept = 0;
            int64_t from;

            random_state = (uint64_t)seed * 1000 + i;
            from = at(NULL, "2024-06-10 00:00") +
                   (int64_t)(uniform() * 168) * 3600 * KR_NS_PER_S; /* any hour of the week */
            bars = bars_of(NULL, &interval, from, from + cases[i].hours * 3600 * KR_NS_PER_S, 0);
            for (size_t k = 0; k < bars.n; k++) {
                int64_t hour = bars.open_ns[k] / KR_NS_PER_S / 3600 % 24;
                bool night = hour >= 1 && hour < 5;

                if (uniform() >= (night ? cases[i].missing_at_night : cases[i].missing))
                    bars.open_ns[kept++] = bars.open_ns[k];
            }
            bars.n = kept;
            inferred = infer(NULL, cases[i].interval, &bars);
            n_closed += !kr_calendar_always(inferred);
            free(bars.open_ns);
            kr_calendar_free(&inferred);
        }
        KT_CHECK(n_closed == 0, "case %zu: %d of 20 close something", i, n_closed);
    }
}

/* Sessions given in another zone move over UTC in March: what is recent counts. */
static void infer_recent(void)
{
    struct kr_zone *york = open_zone("America/New_York");
    struct kr_calendar *share = calendar_of(york, "09:30-16:00", "mon-fri", NULL), *inferred;
    struct kr_interval five = interval_of("5m");
    struct bars bars =
        bars_of(share, &five, at(york, "2023-11-06 09:30"), at(york, "2024-05-24 16:00"), 0);

    inferred = infer(NULL, "5m", &bars);
    check_next(NULL, inferred, "5m", "2024-05-24 19:50",
               "2024-05-24 19:55|2024-05-27 13:30|2024-05-27 13:35");
    free(bars.open_ns);
    kr_calendar_free(&inferred);
    kr_calendar_free(&share);
    kr_zone_free(&york);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"24x7", always},
        {"sessions, weekdays, holidays", sessions},
        {"bars off the session's grid", off_the_session_grid},
        {"sessions over midnight", over_midnight},
        {"days and weeks", days},
        {"open times and delivered stamps", shifts},
        {"missing bars and elapsed session time", missing_and_elapsed},
        {"nothing within 400 days", nothing_within_400_days},
        {"errors name the bad part", bad_parts},
        {"infer: sessions", infer_sessions},
        {"infer: 24x7 whatever the gaps", infer_always},
        {"infer: days", infer_days},
        {"infer: what happens once", infer_once},
        {"infer: slots of a weekday", infer_weekday_slots},
        {"infer: bars missing at random", infer_random},
        {"infer: what is recent", infer_recent},
    };

    return kt_main("calendar", tests, KR_ARRAY_LENGTH(tests));
}
