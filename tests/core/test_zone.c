/* SPDX-License-Identifier: MIT */
#include "core/zone.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct kr_zone *open_zone(const char *name)
{
    struct kr_zone *zone = NULL;
    struct kr_error error = {""};

    KT_CHECK(kr_zone_open(name, &zone, &error) == 0, "%s", error.text);
    return zone;
}

/* One local time in one zone, and what must come of it. */
struct local_case {
    const char *zone;
    struct kr_civil civil;
    int64_t after_s; /* the previous row */
    int result;
    int64_t t_s;
};

static void check_locals(const struct local_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct local_case *c = &cases[i];
        struct kr_zone *zone = open_zone(c->zone);
        int64_t after_ns = c->after_s == INT64_MIN ? INT64_MIN : c->after_s * KR_NS_PER_S;
        int64_t t_ns = 42;
        int result = kr_zone_utc(zone, &c->civil, after_ns, &t_ns);
        int64_t expected = c->result < 0 ? 42 : c->t_s * KR_NS_PER_S;

        KT_CHECK(result == c->result && t_ns == expected, "case %zu, %s: %d, %lld", i, c->zone,
                 result, (long long)t_ns);
        if (c->result == 0) { /* and back, from anywhere within the second */
            struct kr_civil back;

            kr_zone_civil(zone, t_ns + 999999999, &back);
            KT_CHECK(back.year == c->civil.year && back.month == c->civil.month &&
                         back.day == c->civil.day && back.hour == c->civil.hour &&
                         back.minute == c->civil.minute && back.second == c->civil.second,
                     "case %zu, %s: back to %d-%d-%d %d:%d:%d", i, c->zone, back.year, back.month,
                     back.day, back.hour, back.minute, back.second);
        }
        kr_zone_free(&zone);
        CU_ASSERT_PTR_NULL(zone);
    }
}

static void plain(void)
{
    static const struct local_case cases[] = {
        {"UTC", {1970, 1, 1, 0, 0, 0}, INT64_MIN, 0, 0},
        {"UTC", {1969, 12, 31, 23, 59, 59}, INT64_MIN, 0, -1},
        {"UTC", {2000, 2, 29, 0, 0, 0}, INT64_MIN, 0, 951782400},
        {"UTC", {1700, 2, 28, 0, 0, 0}, INT64_MIN, 0, -8515324800},
        {"Europe/Berlin", {2024, 7, 1, 12, 0, 0}, INT64_MIN, 0, 1719828000},
        {"Europe/Berlin", {2100, 7, 1, 12, 0, 0}, INT64_MIN, 0, 4118119200},
        {"Europe/Berlin", {2100, 12, 1, 12, 0, 0}, INT64_MIN, 0, 4131342000},
        {"America/New_York", {1942, 2, 9, 12, 0, 0}, INT64_MIN, 0, -880185600}, /* war time */
        {"America/New_York", {1950, 8, 1, 12, 0, 0}, INT64_MIN, 0, -612777600},
        {"America/New_York", {2100, 7, 1, 0, 0, 0}, INT64_MIN, 0, 4118097600},
        {"Asia/Kolkata", {2024, 1, 1, 0, 0, 0}, INT64_MIN, 0, 1704047400},
        {"+05:30", {2024, 1, 1, 0, 0, 0}, INT64_MIN, 0, 1704047400},
        {"Asia/Shanghai", {2024, 8, 29, 11, 30, 0}, INT64_MIN, 0, 1724902200},
    };

    check_locals(cases, KR_ARRAY_LENGTH(cases));
}

static void folds(void)
{
    static const struct local_case cases[] = {
        /* 02:30 occurs twice: the earlier, until the previous row says otherwise. */
        {"Europe/Berlin", {2024, 10, 27, 2, 30, 0}, INT64_MIN, 0, 1729989000},
        {"Europe/Berlin", {2024, 10, 27, 2, 30, 0}, 1729988999, 0, 1729989000},
        {"Europe/Berlin", {2024, 10, 27, 2, 30, 0}, 1729989000, 0, 1729992600},
        {"Europe/Berlin", {2024, 10, 27, 2, 30, 0}, 1729992599, 0, 1729992600},
        /* After both: neither helps, the earlier stands and the order check will speak. */
        {"Europe/Berlin", {2024, 10, 27, 2, 30, 0}, 1729992600, 0, 1729989000},
        {"America/New_York", {2024, 11, 3, 1, 30, 0}, INT64_MIN, 0, 1730611800},
        {"America/New_York", {2024, 11, 3, 1, 30, 0}, 1730611800, 0, 1730615400},
        /* The half hour of Lord Howe. */
        {"Australia/Lord_Howe", {2024, 4, 7, 1, 45, 0}, INT64_MIN, 0, 1712414700},
        {"Australia/Lord_Howe", {2024, 4, 7, 1, 45, 0}, 1712414700, 0, 1712416500},
        /* Its edges: 01:30 is the first that occurs twice, 02:00 occurs once again. */
        {"Australia/Lord_Howe", {2024, 4, 7, 1, 30, 0}, 1712413800, 0, 1712415600},
        {"Australia/Lord_Howe", {2024, 4, 7, 2, 0, 0}, INT64_MIN, 0, 1712417400},
    };

    check_locals(cases, KR_ARRAY_LENGTH(cases));
}

static void holes(void)
{
    static const struct local_case cases[] = {
        {"Europe/Berlin", {2024, 3, 31, 1, 59, 59}, INT64_MIN, 0, 1711846799},
        {"Europe/Berlin", {2024, 3, 31, 2, 0, 0}, INT64_MIN, -ENOENT, 0},
        {"Europe/Berlin", {2024, 3, 31, 2, 59, 59}, INT64_MIN, -ENOENT, 0},
        {"Europe/Berlin", {2024, 3, 31, 3, 0, 0}, INT64_MIN, 0, 1711846800},
        {"America/New_York", {2024, 3, 10, 2, 30, 0}, INT64_MIN, -ENOENT, 0},
        {"Australia/Lord_Howe", {2024, 10, 6, 2, 15, 0}, INT64_MIN, -ENOENT, 0},
        {"Australia/Lord_Howe", {2024, 10, 6, 2, 30, 0}, INT64_MIN, 0, 1728142200},
        /* A whole day that never was. */
        {"Pacific/Apia", {2011, 12, 29, 23, 59, 59}, INT64_MIN, 0, 1325239199},
        {"Pacific/Apia", {2011, 12, 30, 12, 0, 0}, INT64_MIN, -ENOENT, 0},
        {"Pacific/Apia", {2011, 12, 31, 0, 0, 0}, INT64_MIN, 0, 1325239200},
    };
    struct kr_zone *berlin = open_zone("Europe/Berlin"), *apia = open_zone("Pacific/Apia");
    struct kr_zone *beirut;
    int64_t day = kr_civil_day(2024, 3, 31), t_ns = 0, found = 0;

    check_locals(cases, KR_ARRAY_LENGTH(cases));
    /* The end of the hole, from anywhere inside; outside of it nothing differs. */
    CU_ASSERT_EQUAL(kr_zone_utc_from(berlin, day * 86400 + 7200, INT64_MIN, &t_ns), 0);
    CU_ASSERT_EQUAL(t_ns, 1711846800 * KR_NS_PER_S);
    CU_ASSERT_EQUAL(kr_zone_utc_from(berlin, day * 86400 + 10799, INT64_MIN, &t_ns), 0);
    CU_ASSERT_EQUAL(t_ns, 1711846800 * KR_NS_PER_S);
    CU_ASSERT_EQUAL(kr_zone_utc_from(berlin, day * 86400 + 10801, INT64_MIN, &t_ns), 0);
    CU_ASSERT_EQUAL(t_ns, 1711846801 * KR_NS_PER_S);
    CU_ASSERT_EQUAL(
        kr_zone_utc_from(apia, kr_civil_day(2011, 12, 30) * 86400 + 50000, INT64_MIN, &t_ns), 0);
    CU_ASSERT_EQUAL(t_ns, 1325239200 * KR_NS_PER_S);
    /* Midnight of 2024-03-31 does not exist in Beirut: its first instant, 01:00, is the day's
     * start. */
    beirut = open_zone("Asia/Beirut");
    day = kr_civil_day(2024, 3, 31);
    CU_ASSERT_EQUAL(kr_zone_utc_from(beirut, day * 86400, INT64_MIN, &t_ns), 0);
    CU_ASSERT_EQUAL(t_ns, 1711836000 * KR_NS_PER_S);
    CU_ASSERT_EQUAL(kr_zone_time_of_day(beirut, t_ns, &found), 0);
    CU_ASSERT_EQUAL(found, day);
    CU_ASSERT_EQUAL(kr_zone_time_of_day(beirut, t_ns + 60 * KR_NS_PER_S, &found), 3660);
    CU_ASSERT_EQUAL(found, day);
    CU_ASSERT_EQUAL(kr_zone_time_of_day(beirut, t_ns - 1, &found), 86399);
    CU_ASSERT_EQUAL(found, day - 1);
    kr_zone_free(&beirut);
    kr_zone_free(&berlin);
    kr_zone_free(&apia);
}

static void not_dates(void)
{
    static const struct local_case cases[] = {
        {"UTC", {2023, 2, 29, 0, 0, 0}, INT64_MIN, -EINVAL, 0},
        {"UTC", {1900, 2, 29, 0, 0, 0}, INT64_MIN, -EINVAL, 0},
        {"UTC", {2024, 13, 1, 0, 0, 0}, INT64_MIN, -EINVAL, 0},
        {"UTC", {2024, 0, 1, 0, 0, 0}, INT64_MIN, -EINVAL, 0},
        {"UTC", {2024, 1, 0, 0, 0, 0}, INT64_MIN, -EINVAL, 0},
        {"UTC", {2024, 4, 31, 0, 0, 0}, INT64_MIN, -EINVAL, 0},
        {"UTC", {2024, 1, 1, 24, 0, 0}, INT64_MIN, -EINVAL, 0},
        {"UTC", {2024, 1, 1, 0, 60, 0}, INT64_MIN, -EINVAL, 0},
        {"UTC", {2016, 12, 31, 23, 59, 60}, INT64_MIN, -EINVAL, 0},
        /* int64 nanoseconds end on 2262-04-11 23:47:16 and begin on 1677-09-21 00:12:44. */
        {"UTC", {2262, 4, 11, 23, 47, 16}, INT64_MIN, 0, 9223372036},
        {"UTC", {2262, 4, 11, 23, 47, 17}, INT64_MIN, -ERANGE, 0},
        {"UTC", {1677, 9, 21, 0, 12, 44}, INT64_MIN, 0, -9223372036},
        {"UTC", {1677, 9, 21, 0, 12, 43}, INT64_MIN, -ERANGE, 0},
        {"Europe/Berlin", {9999, 12, 31, 0, 0, 0}, INT64_MIN, -ERANGE, 0},
        {"UTC", {-2000000000, 1, 1, 0, 0, 0}, INT64_MIN, -ERANGE, 0},
        {"UTC", {2000000000, 1, 1, 0, 0, 0}, INT64_MIN, -ERANGE, 0},
    };
    const int64_t limit_s = 9223372036; /* whole seconds that int64 nanoseconds hold */

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kr_zone *zone = open_zone(cases[i].zone);
        int64_t t_ns = 42;

        KT_CHECK(kr_zone_utc(zone, &cases[i].civil, INT64_MIN, &t_ns) == cases[i].result,
                 "case %zu", i);
        CU_ASSERT_EQUAL(t_ns, cases[i].result < 0 ? 42 : cases[i].t_s * KR_NS_PER_S);
        CU_ASSERT_TRUE(cases[i].result < 0 || llabs(cases[i].t_s) == limit_s);
        kr_zone_free(&zone);
    }
}

static void names(void)
{
    static const char *const unknown[] = {
        "",      "Europe/Berlyn", "Europe",     "/usr/share/zoneinfo/Europe/Berlin",
        "UTC+8", "GMT+5",         "EST5",       "../zoneinfo/UTC",
        ":UTC",  "+25:00",        "EST5EDT,M3", "Europe/Berlin ",
    };
    char longer[200];

    for (size_t i = 0; i < KR_ARRAY_LENGTH(unknown); i++) {
        struct kr_zone *zone = (void *)&longer;
        struct kr_error error = {""};

        KT_CHECK(kr_zone_open(unknown[i], &zone, &error) == -ENOENT, "opened: %s", unknown[i]);
        CU_ASSERT_PTR_EQUAL(zone, &longer);
        KT_CHECK(strstr(error.text, unknown[i]) != NULL, "%s", error.text);
    }
    memset(longer, 'A', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    CU_ASSERT_EQUAL(kr_zone_open(longer, &(struct kr_zone *){NULL}, NULL), -ENOENT);

    struct kr_zone *zone = open_zone("America/Argentina/Buenos_Aires");
    CU_ASSERT_STRING_EQUAL(kr_zone_name(zone), "America/Argentina/Buenos_Aires");
    kr_zone_free(&zone);
    kr_zone_free(&zone);
    zone = open_zone("EST5EDT");
    kr_zone_free(&zone);
    CU_ASSERT_STRING_EQUAL(kr_zone_name(NULL), "UTC");
}

/* The environment's TZ belongs to libc's clocks, not to ours. */
static void process_zone(void)
{
    struct kr_civil civil = {2024, 7, 1, 12, 0, 0}, back;
    struct kr_zone *utc, *berlin;
    int64_t t_ns = 0;

    setenv("TZ", "Asia/Tokyo", 1);
    tzset();
    utc = open_zone("UTC");
    berlin = open_zone("Europe/Berlin");
    CU_ASSERT_EQUAL(kr_zone_utc(utc, &civil, INT64_MIN, &t_ns), 0);
    CU_ASSERT_EQUAL(t_ns, 1719835200 * KR_NS_PER_S);
    CU_ASSERT_EQUAL(kr_zone_utc(NULL, &civil, INT64_MIN, &t_ns), 0);
    CU_ASSERT_EQUAL(t_ns, 1719835200 * KR_NS_PER_S);
    kr_zone_civil(berlin, t_ns, &back);
    CU_ASSERT_EQUAL(back.hour, 14);
    kr_zone_civil(utc, t_ns, &back);
    CU_ASSERT_EQUAL(back.hour, 12);
    CU_ASSERT_STRING_EQUAL(getenv("TZ"), "Asia/Tokyo");
    CU_ASSERT_EQUAL(timezone, -9 * 3600);
    unsetenv("TZ");
    tzset();
    kr_zone_free(&utc);
    kr_zone_free(&berlin);
}

static void stamps(void)
{
    struct kr_zone *kolkata = open_zone("Asia/Kolkata");
    struct kr_stamp stamp;

    kr_zone_stamp(kolkata, INT64_C(1704047400) * KR_NS_PER_S, &stamp); /* Monday 2024-01-01 00:00 */
    CU_ASSERT_EQUAL(stamp.minute, 0);
    CU_ASSERT_EQUAL(stamp.hour, 0);
    CU_ASSERT_EQUAL(stamp.weekday, 0);
    CU_ASSERT_EQUAL(stamp.day, 1);
    CU_ASSERT_EQUAL(stamp.month, 1);
    kr_zone_stamp(kolkata, INT64_C(1704047400) * KR_NS_PER_S - 1, &stamp); /* Sunday 23:59:59.9.. */
    CU_ASSERT_EQUAL(stamp.minute, 59);
    CU_ASSERT_EQUAL(stamp.hour, 23);
    CU_ASSERT_EQUAL(stamp.weekday, 6);
    CU_ASSERT_EQUAL(stamp.day, 31);
    CU_ASSERT_EQUAL(stamp.month, 12);
    kr_zone_stamp(NULL, -1, &stamp); /* Wednesday 1969-12-31 */
    CU_ASSERT_EQUAL(stamp.weekday, 2);
    CU_ASSERT_EQUAL(stamp.hour, 23);
    kr_zone_stamp(NULL, INT64_MIN, &stamp); /* 1677-09-21 00:12 */
    CU_ASSERT_EQUAL(stamp.day, 21);
    CU_ASSERT_EQUAL(stamp.minute, 12);
    kr_zone_free(&kolkata);
}

/* Every day of 1,200 years follows its predecessor, there and back. */
static void days(void)
{
    struct kr_civil previous, civil;
    int64_t first = kr_civil_day(1500, 1, 1), last = kr_civil_day(2700, 1, 1);
    size_t n_bad = 0;

    CU_ASSERT_EQUAL(last - first, 3 * 146097);
    kr_civil_date(first - 1, &previous);
    CU_ASSERT_EQUAL(previous.year, 1499);
    for (int64_t day = first; day < last; day++) {
        bool same_month;

        kr_civil_date(day, &civil);
        same_month = civil.year == previous.year && civil.month == previous.month;
        n_bad += kr_civil_day(civil.year, civil.month, civil.day) != day;
        n_bad += same_month ? civil.day != previous.day + 1 : civil.day != 1 || previous.day < 28;
        previous = civil;
    }
    CU_ASSERT_EQUAL(n_bad, 0);
    CU_ASSERT_EQUAL(kr_weekday(0), 3);
    CU_ASSERT_EQUAL(kr_weekday(-4), 6);
    CU_ASSERT_EQUAL(kr_weekday(kr_civil_day(2000, 2, 29)), 1);
}

/* Instants across both ends of summer time, in steps that are odd on purpose, come back through
 * local time when their predecessor is known. */
static void round_trip(void)
{
    static const char *const zones[] = {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
                                        "Africa/Casablanca", "America/Havana"};
    const int64_t step_ns = 17 * 60 * KR_NS_PER_S + 13 * KR_NS_PER_S;

    for (size_t z = 0; z < KR_ARRAY_LENGTH(zones); z++) {
        struct kr_zone *zone = open_zone(zones[z]);
        int64_t previous_ns = INT64_C(1704067200) * KR_NS_PER_S; /* 2024 */
        size_t n_bad = 0, n_twice = 0;

        for (int i = 0; i < 31000; i++) {
            int64_t t_ns = previous_ns + step_ns, again_ns = 0, earlier_ns = 0;
            int64_t local_s = kr_zone_local(zone, t_ns);

            n_bad += kr_zone_utc_local(zone, local_s, previous_ns, &again_ns) != 0;
            n_bad += kr_zone_utc_local(zone, local_s, INT64_MIN, &earlier_ns) != 0;
            /* Within 17 minutes of its predecessor nothing but the fold's first pass is earlier. */
            n_bad += again_ns != t_ns;
            n_twice += earlier_ns != t_ns;
            previous_ns = t_ns;
        }
        KT_CHECK(n_bad == 0, "%s: %zu", zones[z], n_bad);
        KT_CHECK(n_twice > 0 && n_twice < 10, "%s: %zu", zones[z], n_twice);
        kr_zone_free(&zone);
    }
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"local times that occur once", plain},
        {"folds", folds},
        {"holes", holes},
        {"not a date, out of range", not_dates},
        {"names", names},
        {"TZ of the process changes nothing", process_zone},
        {"calendar fields", stamps},
        {"every day of 1,200 years", days},
        {"instants of a year there and back", round_trip},
    };

    return kt_main("zone", tests, KR_ARRAY_LENGTH(tests));
}
