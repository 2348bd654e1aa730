/* SPDX-License-Identifier: MIT */
/* kronosctl symbols: the daemon's streams. */
#include "clients/ask.h"
#include "clients/packed_json.h"
#include "clients/stamp.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Streams come in pages: `more` says that there is another. */
struct list {
    msgpack_sbuffer packed; /* all entries, one after the other */
    msgpack_packer packer;
    size_t n;
};

static int take_page(struct kc_ask *ask, struct list *list, bool *ret_more)
{
    msgpack_packer *packer = kronosd_request_begin(ask->control, "symbols", list->n ? 1 : 0);
    const msgpack_object *reply, *page;
    struct kr_error error;
    int r;

    if (list->n)
        kronosd_pack_int(packer, "from", (int64_t)list->n);
    r = kronosd_request(ask->control, kc_ask_ms(ask), &reply, &error);
    if (r < 0)
        return kc_ask_failed(ask, r, &error);
    page = kronosd_get(reply, "symbols");
    if (!page || page->type != MSGPACK_OBJECT_ARRAY)
        return kc_fail(KC_UNAVAILABLE, "%s: symbols: expected an array, found none", ask->endpoint);
    for (uint32_t i = 0; i < page->via.array.size; i++)
        if (msgpack_pack_object(&list->packer, page->via.array.ptr[i]) != 0)
            return kc_fail(KC_SYSTEM, "out of memory");
    list->n += page->via.array.size;
    *ret_more = page->via.array.size > 0 && kronosd_get_bool(reply, "more", false);
    return 0;
}

static int print_json(const struct list *list)
{
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    int r;

    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    r = msgpack_pack_array(&packer, list->n);
    if (r == 0 && list->packed.size)
        r = msgpack_sbuffer_write(&buffer, list->packed.data, list->packed.size);
    if (r == 0)
        r = kc_json_packed(stdout, buffer.data, buffer.size);
    msgpack_sbuffer_destroy(&buffer);
    return r == 0 ? 0 : kc_fail(KC_OUTPUT, "stdout: cannot be written");
}

/* Numbers of a stream whose forecasts have been scored; "-" before. */
static void print_trust(const msgpack_object *trust)
{
    double skill = kronosd_get_real(trust, "skill_cal", NAN);
    double cover = kronosd_get_real(trust, "cover_cal", NAN);

    if (isfinite(skill) && isfinite(cover))
        printf(" %10" PRIu64 " %7.3f %6.1f%%\n", kronosd_get_uint(trust, "scored", 0), skill,
               cover * 100);
    else
        printf(" %10s %7s %7s\n", "-", "-", "-");
}

static void print_row(const msgpack_object *entry)
{
    const msgpack_object *last = kronosd_get(entry, "last");
    char symbol[KR_SYMBOL_MAX + 1], interval[8], state[20], mode[20], calibration[20];
    char time[KC_STAMP_LENGTH] = "-", close[KC_NUMBER_TEXT] = "-";

    kronosd_get_string(entry, "sym", symbol, sizeof(symbol));
    kronosd_get_string(entry, "iv", interval, sizeof(interval));
    kronosd_get_string(entry, "state", state, sizeof(state));
    kronosd_get_string(entry, "mode", mode, sizeof(mode));
    kronosd_get_string(entry, "cal", calibration, sizeof(calibration));
    if (last) {
        kc_stamp_format(kronosd_get_int(last, "t", 0), time);
        kc_write_number(close, kronosd_get_real(last, "c", 0));
    }
    printf("%-16s %-8s %-12s %-10s %10" PRId64 " %8" PRIu64 "  %-20s %14s  %-12s", symbol, interval,
           state, mode, kronosd_get_int(entry, "row", 0), kronosd_get_uint(entry, "epoch", 0), time,
           close, calibration);
    print_trust(kronosd_get(entry, "trust"));
}

static int print_table(const struct list *list)
{
    msgpack_unpacked entry;
    size_t at = 0;

    printf("%-16s %-8s %-12s %-10s %10s %8s  %-20s %14s  %-12s %10s %7s %7s\n", "SYMBOL",
           "INTERVAL", "STATE", "MODE", "ROW", "EPOCH", "LAST", "CLOSE", "CALIBRATION", "SCORED",
           "SKILL", "COVER");
    msgpack_unpacked_init(&entry);
    while (at < list->packed.size &&
           msgpack_unpack_next(&entry, list->packed.data, list->packed.size, &at) ==
               MSGPACK_UNPACK_SUCCESS)
        print_row(&entry.data);
    msgpack_unpacked_destroy(&entry);
    return 0;
}

static int list_symbols(struct kc_ask *ask, bool json)
{
    struct list list = {.n = 0};
    bool more = true;
    int status = 0;

    msgpack_sbuffer_init(&list.packed);
    msgpack_packer_init(&list.packer, &list.packed, msgpack_sbuffer_write);
    while (more && !status)
        status = take_page(ask, &list, &more);
    if (!status)
        status = json ? print_json(&list) : print_table(&list);
    msgpack_sbuffer_destroy(&list.packed);
    return status;
}

int kc_cmd_symbols(int argc, char **argv)
{
    struct kc_ask ask = KC_ASK_DEFAULT;
    bool json = false;
    const struct kc_option options[] = {
        {"json", NULL, "an array of objects on one line", KC_FLAG, &json, 0, 0, NULL, NULL},
        KC_ASK_OPTIONS(ask),
    };
    const struct kc_usage usage = {.doc = "List the daemon's streams.",
                                   .options = options,
                                   .n_options = KR_ARRAY_LENGTH(options)};
    int status;

    kc_parse(argc, argv, &usage, NULL, NULL);
    status = kc_ask_open(&ask);
    if (!status)
        status = list_symbols(&ask, json);
    kc_ask_close(&ask);
    return status;
}
