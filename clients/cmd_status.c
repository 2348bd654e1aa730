/* SPDX-License-Identifier: MIT */
/* kronosctl status: the daemon's counters. */
#include "clients/ask.h"
#include "clients/packed_json.h"
#include "clients/stamp.h"

#include <inttypes.h>

/* One row: name and value; an object as its members. */
static void print_value(const msgpack_object *value)
{
    char text[KC_NUMBER_TEXT];

    switch (value->type) {
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        printf("%" PRIu64, value->via.u64);
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        printf("%" PRId64, value->via.i64);
        break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        kc_write_number(text, value->via.f64);
        fputs(text, stdout);
        break;
    case MSGPACK_OBJECT_BOOLEAN:
        fputs(value->via.boolean ? "yes" : "no", stdout);
        break;
    case MSGPACK_OBJECT_STR:
        for (uint32_t i = 0; i < value->via.str.size; i++) {
            char c = value->via.str.ptr[i];

            putchar(c < 0x20 || c > 0x7e ? '?' : c);
        }
        break;
    case MSGPACK_OBJECT_MAP:
        if (value->via.map.size == 0)
            putchar('-');
        for (uint32_t i = 0; i < value->via.map.size; i++) {
            if (i)
                fputs(", ", stdout);
            print_value(&value->via.map.ptr[i].key);
            putchar(' ');
            if (value->via.map.ptr[i].val.type != MSGPACK_OBJECT_MAP)
                print_value(&value->via.map.ptr[i].val);
        }
        break;
    default:
        putchar('-');
    }
}

static void print_table(const msgpack_object *status)
{
    for (uint32_t i = 0; i < status->via.map.size; i++) {
        const msgpack_object *key = &status->via.map.ptr[i].key;
        const msgpack_object *value = &status->via.map.ptr[i].val;
        int width = 0;

        if (key->type != MSGPACK_OBJECT_STR)
            continue;
        print_value(key);
        width = (int)KR_MIN(key->via.str.size, 16u);
        printf("%*s", 18 - width, "");
        if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER && key->via.str.size == 3 &&
            key->via.str.ptr[0] == 'p') { /* pub: the only time among them */
            char time[KC_STAMP_LENGTH];

            kc_stamp_format((int64_t)value->via.u64, time);
            fputs(time, stdout);
        } else {
            print_value(value);
        }
        putchar('\n');
    }
}

int kc_cmd_status(int argc, char **argv)
{
    struct kc_ask ask = KC_ASK_DEFAULT;
    bool json = false;
    const struct kc_option options[] = {
        {"json", NULL, "one line, keys as on the wire", KC_FLAG, &json, 0, 0, NULL, NULL},
        KC_ASK_OPTIONS(ask),
    };
    const struct kc_usage usage = {.doc = "Print what the daemon counts.",
                                   .options = options,
                                   .n_options = KR_ARRAY_LENGTH(options)};
    const msgpack_object *reply;
    struct kr_error error;
    int status, r;

    kc_parse(argc, argv, &usage, NULL, NULL);
    status = kc_ask_open(&ask);
    if (!status) {
        r = kronosd_status(ask.control, kc_ask_ms(&ask), &reply, &error);
        if (r < 0)
            status = kc_ask_failed(&ask, r, &error);
        else if (!json)
            print_table(reply);
        else if (kc_json_object(stdout, reply) < 0)
            status = kc_fail(KC_OUTPUT, "stdout: cannot be written");
    }
    kc_ask_close(&ask);
    return status;
}
