/* SPDX-License-Identifier: MIT */
#include "core/bar.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>

static void fill(void)
{
    double missing[KR_COLUMNS] = {1, 2, 0.5, 1.5, NAN, 7};
    double volume[KR_COLUMNS] = {1, 2, 0.5, 1.5, 8, -1};
    double both[KR_COLUMNS] = {1, 2, 0.5, 1.5, 8, 9};

    kr_bar_fill(missing);
    CU_ASSERT_EQUAL(missing[KR_VOLUME], 0);
    CU_ASSERT_EQUAL(missing[KR_AMOUNT], 0);
    kr_bar_fill(volume);
    CU_ASSERT_EQUAL(volume[KR_AMOUNT], 8 * 1.25);
    kr_bar_fill(both);
    CU_ASSERT_EQUAL(both[KR_AMOUNT], 9);
}

static void check(void)
{
    static const struct {
        double v[KR_COLUMNS];
        enum kr_bar_fault fault;
    } cases[] = {
        {{1, 2, 0.5, 1.5, 8, 9}, KR_BAR_OK},
        {{1, 1, 1, 1, NAN, NAN}, KR_BAR_OK},
        {{1, NAN, 0.5, 1.5, 8, 9}, KR_BAR_NOT_FINITE},
        {{1, 2, 0.5, INFINITY, 8, 9}, KR_BAR_NOT_FINITE},
        {{1, 2, 0.5, 1.5, INFINITY, 9}, KR_BAR_NOT_FINITE},
        {{1, 2, 0, 1.5, 8, 9}, KR_BAR_PRICE_NOT_POSITIVE},
        {{1, 1.4, 0.5, 1.5, 8, 9}, KR_BAR_HIGH_LOW},
        {{1, 2, 1.1, 1.5, 8, 9}, KR_BAR_HIGH_LOW},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++)
        CU_ASSERT_EQUAL(kr_bar_check(cases[i].v), cases[i].fault);
}

static void interval(void)
{
    static const char *const bad[] = {"",   "m",   "0m",  "05m",      "5",
                                      "5M", "5mm", "-5m", "1234567m", "99999w"};
    struct kr_interval parsed = {{0}, 0};

    CU_ASSERT_EQUAL(kr_interval_parse("5m", &parsed), 0);
    CU_ASSERT_EQUAL(parsed.ns, INT64_C(300000000000));
    CU_ASSERT_STRING_EQUAL(parsed.text, "5m");
    CU_ASSERT_EQUAL(kr_interval_parse("2w", &parsed), 0);
    CU_ASSERT_EQUAL(parsed.ns, INT64_C(1209600) * 1000000000);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(bad); i++)
        KT_CHECK(kr_interval_parse(bad[i], &parsed) == -EINVAL, "accepted: %s", bad[i]);
    CU_ASSERT_STRING_EQUAL(parsed.text, "2w");
}

static void symbol(void)
{
    CU_ASSERT_TRUE(kr_symbol_valid("BTC/USDT:perp", 13));
    CU_ASSERT_TRUE(kr_symbol_valid("01234567890123456789012345678901", 32));
    CU_ASSERT_FALSE(kr_symbol_valid("012345678901234567890123456789012", 33));
    CU_ASSERT_FALSE(kr_symbol_valid("", 0));
    CU_ASSERT_FALSE(kr_symbol_valid("A|B", 3));
    CU_ASSERT_FALSE(kr_symbol_valid("A B", 3));
    CU_ASSERT_FALSE(kr_symbol_valid("A\xc3", 2));
    CU_ASSERT_FALSE(kr_symbol_valid("A\0B", 3));
}

static void hash(void)
{
    CU_ASSERT_EQUAL(kr_fnv1a64(""), UINT64_C(0xcbf29ce484222325));
    CU_ASSERT_EQUAL(kr_fnv1a64("a"), UINT64_C(0xaf63dc4c8601ec8c));
    CU_ASSERT_EQUAL(kr_fnv1a64("foobar"), UINT64_C(0x85944171f73967e8));
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"missing volume and amount", fill},
        {"faults of a bar", check},
        {"intervals", interval},
        {"symbols", symbol},
        {"fnv1a64 test vectors", hash},
    };

    return kt_main("bar", tests, KR_ARRAY_LENGTH(tests));
}
