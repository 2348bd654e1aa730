/* SPDX-License-Identifier: MIT */
/* A calendar from the bars seen.
 *
 * The survey counts, for each weekday and each slot of the local day, on how many active days (days
 * that hold a bar) the slot was within the span of the bars, and on how many of them a bar lay over
 * it. From it the week is closed in three steps, coarse to fine: weekdays, slots of the day, slots
 * of a weekday. Nothing closes on thin evidence: a gap must come back at the same time, or be
 * longer than any feed should be silent, and must be hard to explain by bars that are missing at
 * random. */
#include "core/calendar.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Only recent bars speak: sessions move when daylight saving begins elsewhere. */
#define RECENT_DAYS 35
#define RECENT_BARS 512

/* The shortest break; the silence that closes slots even though they were covered only once; and
 * the same in a market that is known to have breaks. */
#define BREAK_S         600
#define SILENCE_S       (6 * 3600)
#define SHORT_SILENCE_S 3600

/* A slot may belong to a break if it is seen less often than `rare` times what is usual; the break
 * as a whole must be `rarest` times as rare. */
#define RARE   0.25
#define RAREST (1.0 / 12)

/* Log-evidence beyond chance that a break wants, over the number of places where one could be. */
#define EVIDENCE 10.0

/* Places on either side that say how often a bar is missing there, if the stretch has fewer. */
#define NEIGHBOURS 8

/* Coverings that a slot of one weekday needs. */
#define WEEKS 3

enum { FRIDAY = 4, SATURDAY = 5, SUNDAY = 6 };

struct survey {
    int64_t slot_s; /* every open time and the interval are multiples of it */
    size_t n_slots; /* in a day */
    size_t interval_slots;
    int32_t *seen;               /* [7][n_slots] active days on which a bar lay over the slot */
    bool *closed;                /* [7][n_slots] */
    int32_t active[7], whole[7]; /* days with a bar; days wholly within the span */
    int64_t first_day, last_day; /* of the span */
    size_t first_slot, end_slot; /* on these days */
};

static void survey_free(struct survey *survey)
{
    free(survey->seen);
    free(survey->closed);
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Active days of a weekday that cover a slot. */
static int32_t covered(const struct survey *survey, size_t weekday, size_t slot)
{
    return survey->active[weekday] -
           (kr_weekday(survey->first_day) == weekday && slot < survey->first_slot) -
           (kr_weekday(survey->last_day) == weekday && slot >= survey->end_slot);
}

static void mark(struct survey *survey, int64_t day, size_t from, size_t to)
{
    int32_t *seen = survey->seen + kr_weekday(day) * survey->n_slots;

    for (size_t slot = from; slot < KR_MIN(to, survey->n_slots); slot++)
        seen[slot]++;
}

static void count_days(struct survey *survey, const int64_t *local_s, size_t n)
{
    int64_t day = INT64_MIN;
    size_t marked = 0; /* slots of `day` that are counted; any beyond n_slots are the next day's */

    for (size_t i = 0; i < n; i++) {
        int64_t this_day = kr_floor_div(local_s[i], KR_S_PER_DAY);
        size_t from = (size_t)(kr_floor_mod(local_s[i], KR_S_PER_DAY) / survey->slot_s);
        size_t to = from + survey->interval_slots;

        if (this_day != day) {
            bool follows = day != INT64_MIN && this_day == day + 1 && marked > survey->n_slots;

            marked = follows ? marked - survey->n_slots : 0;
            mark(survey, this_day, 0, marked);
            survey->active[kr_weekday(this_day)]++;
            day = this_day;
        }
        /* In a fold local time steps back: the second pass is counted already. */
        mark(survey, day, KR_MAX(marked, from), to);
        marked = KR_MAX(marked, to);
    }
    for (day = survey->first_day; day <= survey->last_day; day++)
        survey->whole[kr_weekday(day)] +=
            (day > survey->first_day || survey->first_slot == 0) &&
            (day < survey->last_day || survey->end_slot >= survey->n_slots);
}

/* local_s [n]: open times in local seconds. */
static int survey_take(struct survey *survey, int64_t interval_s, const int64_t *local_s, size_t n)
{
    const int64_t first_s = local_s[0], last_s = local_s[n - 1];

    survey->slot_s = greatest_common_divisor(KR_S_PER_DAY, interval_s);
    for (size_t i = 0; i < n; i++)
        survey->slot_s =
            greatest_common_divisor(survey->slot_s, kr_floor_mod(local_s[i], KR_S_PER_DAY));
    survey->n_slots = (size_t)(KR_S_PER_DAY / survey->slot_s);
    survey->interval_slots = (size_t)(interval_s / survey->slot_s);
    survey->first_day = kr_floor_div(first_s, KR_S_PER_DAY);
    survey->last_day = kr_floor_div(last_s, KR_S_PER_DAY);
    survey->first_slot = (size_t)(kr_floor_mod(first_s, KR_S_PER_DAY) / survey->slot_s);
    survey->end_slot =
        (size_t)(kr_floor_mod(last_s, KR_S_PER_DAY) / survey->slot_s) + survey->interval_slots;
    survey->seen = kr_alloc(7 * survey->n_slots, sizeof(*survey->seen));
    survey->closed = kr_alloc(7 * survey->n_slots, sizeof(*survey->closed));
    if (!survey->seen || !survey->closed)
        return -ENOMEM;
    count_days(survey, local_s, n);
    return 0;
}

/* ---- Weekdays ---- */

/* Weekdays without bars though the span covers them. Saturday and Sunday close on little evidence,
 * and Friday where Sunday is a working day; other days must be missing thrice, as holidays come in
 * pairs. */
static void absent_weekdays(const struct survey *survey, bool ret[7])
{
    for (size_t w = 0; w < 7; w++) {
        bool absent = survey->active[w] == 0 && survey->whole[w] >= 1;
        bool rare = survey->whole[w] >= 4 && survey->active[w] < RARE * survey->whole[w];
        bool weekend = w == SATURDAY || w == SUNDAY ||
                       (w == FRIDAY && survey->active[SATURDAY] == 0 && survey->active[SUNDAY] > 0);

        ret[w] = rare || (absent && (weekend || survey->whole[w] >= WEEKS));
    }
}

/* ---- Breaks ---- */

/* A slot of the day or of the week, as it was seen and as it would be if it were open. */
struct place {
    double covered; /* days; 0: cannot be judged */
    double seen;    /* days */
    double rate;    /* of seeing it on a day that covers it, if open */
};

static bool place_is_rare(const struct place *place)
{
    return place->covered > 0 && place->seen < RARE * place->rate * place->covered;
}

/* How often a bar lies over places [start, start + n) that are open. Closed ones must not dilute
 * it: so, how often a place that was seen is seen on another day; or the share of days over the
 * places ever seen, which is less where busy places would outshine quiet ones. Where each was
 * covered once: how often a bar is followed by the next. Return: 1 if there is nothing to tell. */
static double rate_of(const struct survey *survey, const struct place *places, size_t n_places,
                      size_t start, size_t n)
{
    double again = 0, seen = 0, seen_of = 0, followed = 0, followed_of = 0;

    for (size_t i = start; i < start + n; i++) {
        const struct place *place = &places[i % n_places];
        const struct place *next = &places[(i + survey->interval_slots) % n_places];

        if (place->seen == 0)
            continue;
        if (place->covered >= 2) {
            again += place->seen * (place->seen - 1) / (place->covered - 1);
            seen += place->seen;
            seen_of += place->covered;
        } else if (next->covered > 0) {
            followed += next->seen > 0;
            followed_of++;
        }
    }
    if (seen > 0)
        return KR_MIN(again / seen, seen / seen_of);
    return followed_of > 0 ? followed / followed_of : 1;
}

/* The lower of the rates before and after a stretch, over its own length or a little more. The very
 * next place was seen or it would belong to the stretch, so it is no fair witness. */
static double rate_beside(const struct survey *survey, const struct place *places, size_t n_places,
                          size_t start, size_t n)
{
    size_t n_beside = KR_MIN(KR_MAX(n, (size_t)NEIGHBOURS), (n_places - n) / 2);

    if (n_beside < 2)
        return 1;
    return KR_MIN(rate_of(survey, places, n_places, start + n_places - n_beside, n_beside - 1),
                  rate_of(survey, places, n_places, start + n + 1, n_beside - 1));
}

/* Are n places in a row, from `start` on a circle of n_places, a break? That is, would bars that
 * are missing at random, as often as they are beside it, hardly ever leave it so empty? */
static bool is_break(const struct survey *survey, const struct place *places, size_t n_places,
                     size_t start, size_t n, int64_t silence_s)
{
    /* All slots under one bar are one witness, hence interval_slots. */
    double enough = (log((double)n_places) + EVIDENCE) * (double)survey->interval_slots;
    double beside = rate_beside(survey, places, n_places, start, n);
    double seen = 0, expected = 0, once = 0, repeated = 0;
    int64_t length_s = (int64_t)n * survey->slot_s;

    for (size_t i = start; i < start + n; i++) {
        const struct place *place = &places[i % n_places];
        double rate = KR_MIN(place->rate, beside);
        double evidence = -place->covered * log(1 - KR_MIN(rate, 0.99));

        seen += place->seen;
        expected += place->covered * rate;
        if (place->covered >= 2)
            repeated += evidence;
        else
            once += evidence;
    }
    if (seen > expected * RAREST)
        return false;
    return (length_s >= BREAK_S && repeated >= enough) ||
           (length_s >= silence_s && once + repeated >= enough);
}

/* Find the breaks among places on a circle (a day, a week). */
static void find_breaks(const struct survey *survey, const struct place *places, size_t n_places,
                        int64_t silence_s, bool *ret_closed)
{
    size_t start = 0; /* outside of any stretch of rare places */

    while (start < n_places && place_is_rare(&places[start]))
        start++;
    for (size_t i = 0; i < n_places; i++) {
        size_t n = 0;

        while (i + n < n_places && place_is_rare(&places[(start + i + n) % n_places]))
            n++;
        if (n > 0 && is_break(survey, places, n_places, start + i, n, silence_s))
            for (size_t k = start + i; k < start + i + n; k++)
                ret_closed[k % n_places] = true;
        i += n;
    }
}

/* Sum over weekdays for a slot of the day. */
static struct place slot_place(const struct survey *survey, size_t slot)
{
    struct place place = {0};

    for (size_t w = 0; w < 7; w++) {
        place.covered += covered(survey, w, slot);
        place.seen += survey->seen[w * survey->n_slots + slot];
    }
    return place;
}

/* Slots of the day that hardly any active day has. Return: 1 if there are some, 0, or -ENOMEM. */
static int close_slots(struct survey *survey)
{
    size_t n = survey->n_slots;
    double usual;
    int any = 0;

    kr_cleanup(kr_freep) struct place *places = kr_alloc(n, sizeof(*places));
    kr_cleanup(kr_freep) bool *closed = kr_alloc(n, sizeof(*closed));

    if (!places || !closed)
        return -ENOMEM;
    for (size_t s = 0; s < n; s++)
        places[s] = slot_place(survey, s);
    usual = rate_of(survey, places, n, 0, n);
    for (size_t s = 0; s < n; s++)
        places[s].rate = usual;
    find_breaks(survey, places, n, SILENCE_S, closed);
    for (size_t i = 0; i < n; i++)
        any = any || closed[i];
    if (any)
        find_breaks(survey, places, n, SHORT_SILENCE_S, closed);
    for (size_t i = 0; i < 7 * n; i++)
        survey->closed[i] = survey->closed[i] || closed[i % n];
    return any;
}

/* Slots that a weekday lacks though the others have them: the day before and after a weekend. */
static int close_weekday_slots(struct survey *survey)
{
    size_t n = survey->n_slots;

    kr_cleanup(kr_freep) struct place *places = kr_alloc(7 * n, sizeof(*places));

    if (!places)
        return -ENOMEM;
    for (size_t s = 0; s < n; s++) {
        struct place all = slot_place(survey, s);

        for (size_t w = 0; w < 7; w++) {
            struct place *place = &places[w * n + s];
            double others = all.covered - covered(survey, w, s);

            if (survey->closed[w * n + s] || covered(survey, w, s) < WEEKS || others <= 0)
                continue;
            place->covered = covered(survey, w, s);
            place->seen = survey->seen[w * n + s];
            place->rate = (all.seen - place->seen) / others;
        }
    }
    find_breaks(survey, places, 7 * n, SILENCE_S, survey->closed);
    return 0;
}

/* A closed weekday's closure reaches over the slots beside it that were never seen: in a file of
 * one week the evening before a weekend has no other witness. */
static void widen_weekdays(struct survey *survey, const bool closed[7])
{
    const size_t n = survey->n_slots, week = 7 * n;

    for (size_t w = 0; w < 7; w++)
        for (int back = 0; closed[w] && back < 2; back++) {
            size_t i = back ? (w * n + week - 1) % week : (w + 1) * n % week;

            while (!survey->closed[i] && survey->seen[i] == 0 &&
                   covered(survey, i / n, i % n) > 0) {
                survey->closed[i] = true;
                i = (back ? i + week - 1 : i + 1) % week;
            }
        }
}

/* ---- The calendar ---- */

static int close_week(struct survey *survey)
{
    bool closed[7];
    int breaks, result;

    absent_weekdays(survey, closed);
    for (size_t i = 0; i < 7 * survey->n_slots; i++)
        survey->closed[i] = closed[i / survey->n_slots];
    if ((breaks = close_slots(survey)) < 0 || (result = close_weekday_slots(survey)) < 0)
        return -ENOMEM;
    widen_weekdays(survey, closed);
    /* A market that has breaks has a weekend, seen or not. */
    for (size_t w = SATURDAY; breaks && w <= SUNDAY; w++)
        for (size_t s = 0; survey->active[w] == 0 && s < survey->n_slots; s++)
            survey->closed[w * survey->n_slots + s] = true;
    return 0;
}

static int open_windows(const struct kr_zone *zone, const struct survey *survey,
                        struct kr_calendar **ret)
{
    size_t n[7] = {0}, total = 0;

    kr_cleanup(kr_freep) struct kr_window *windows =
        kr_alloc(7 * (survey->n_slots / 2 + 1), sizeof(*windows));

    if (!windows)
        return -ENOMEM;
    for (size_t w = 0; w < 7; w++)
        for (size_t s = 0; s < survey->n_slots; s++) {
            int32_t start_s = (int32_t)((int64_t)s * survey->slot_s);

            if (survey->closed[w * survey->n_slots + s])
                continue;
            if (n[w] == 0 || windows[total - 1].end_s != start_s) {
                windows[total++].start_s = start_s;
                n[w]++;
            }
            windows[total - 1].end_s = start_s + (int32_t)survey->slot_s;
        }
    return kr_calendar_from_windows(zone, windows, n, NULL, 0, ret);
}

/* Daily bars tell weekdays only; a day is open from its bar's time to the next day's. */
static int weekday_windows(const struct kr_zone *zone, const struct survey *survey, int32_t start_s,
                           struct kr_calendar **ret)
{
    struct kr_window windows[7];
    bool closed[7];
    size_t n[7] = {0}, total = 0;

    absent_weekdays(survey, closed);
    for (size_t w = 0; w < 7; w++)
        if (!closed[w]) {
            windows[total++] = (struct kr_window){start_s, start_s + (int32_t)KR_S_PER_DAY};
            n[w] = 1;
        }
    return kr_calendar_from_windows(zone, windows, n, NULL, 0, ret);
}

int kr_calendar_infer(const struct kr_zone *zone, const struct kr_interval *interval,
                      const int64_t *open_ns, size_t n, struct kr_calendar **ret)
{
    const uint64_t recent_ns = (uint64_t)(RECENT_DAYS * KR_S_PER_DAY * KR_NS_PER_S);
    const int64_t interval_s = interval->ns / KR_NS_PER_S;
    kr_cleanup(survey_free) struct survey survey = {0};
    kr_cleanup(kr_freep) int64_t *local_s = NULL;
    size_t n_recent = KR_MIN(n, (size_t)RECENT_BARS);
    int result;

    if (n < 2)
        return -EINVAL;
    if (interval_s > KR_S_PER_DAY)
        return kr_calendar_new(zone, NULL, NULL, NULL, ret, NULL);
    while (n_recent < n &&
           (uint64_t)open_ns[n - 1] - (uint64_t)open_ns[n - 1 - n_recent] <= recent_ns)
        n_recent++;
    local_s = kr_alloc(n_recent, sizeof(*local_s));
    if (!local_s)
        return -ENOMEM;
    for (size_t i = 0; i < n_recent; i++)
        local_s[i] = kr_zone_local(zone, open_ns[n - n_recent + i]);
    result = survey_take(&survey, interval_s, local_s, n_recent);
    if (result < 0)
        return result;
    if (interval_s == KR_S_PER_DAY)
        result = weekday_windows(zone, &survey,
                                 (int32_t)kr_floor_mod(local_s[n_recent - 1], KR_S_PER_DAY), ret);
    else if ((result = close_week(&survey)) == 0)
        result = open_windows(zone, &survey, ret);
    /* All closed: only bars that contradict the very idea of a week come to that. */
    return result == -EINVAL ? kr_calendar_new(zone, NULL, NULL, NULL, ret, NULL) : result;
}
