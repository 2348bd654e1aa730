/* SPDX-License-Identifier: MIT */
/* Expected values: 20 digits of mpmath's gammainc and betainc. */
#include "core/special.h"
#include "tests/tap.h"

#include <math.h>

#define NEAR(found, expected)                                                                      \
    KT_CHECK(fabs((found) - (expected)) <= 1e-12 * fabs(expected), "expected %.17g, found %.17g",  \
             (double)(expected), (double)(found))

static void incomplete_gamma(void)
{
    static const struct {
        double a, x, q;
    } cases[] = {
        {4.5, 8.459, 0.050015680010096183}, {4.5, 2, 0.91141252683167917},
        {0.5, 0.5, 0.3173105078629141},     {10, 30, 7.1217508628155771e-6},
        {100, 90, 0.84177901081356983},     {100, 110, 0.15827867006008709},
        {4.5, 100, 3.3129923939095531e-38}, {0.01, 0.3, 0.009072396421765093},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++)
        NEAR(kr_gamma_upper(cases[i].a, cases[i].x), cases[i].q);
    CU_ASSERT_EQUAL(kr_gamma_upper(4.5, 0), 1);
    CU_ASSERT_EQUAL(kr_gamma_upper(4.5, INFINITY), 0);
    NEAR(kr_gamma_upper(1, 700), exp(-700.0));
}

static void incomplete_beta(void)
{
    static const struct {
        double a, b, x, i;
    } cases[] = {
        {2, 3, 0.4, 0.5248},
        {0.5, 0.5, 0.3, 0.36901011956554538},
        {10, 0.5, 0.9, 0.15164090963470997},
        {35.5, 0.5, 0.95, 0.057213312480355928},
        {5, 5, 0.5, 0.5},
        {200, 0.5, 0.999, 0.52724410702523517},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++)
        NEAR(kr_beta_lower(cases[i].a, cases[i].b, cases[i].x), cases[i].i);
    CU_ASSERT_EQUAL(kr_beta_lower(3, 4, 0), 0);
    CU_ASSERT_EQUAL(kr_beta_lower(3, 4, 1), 1);
}

static void chi_square(void)
{
    NEAR(kr_chi_square_p(16.918977604620448, 9), 0.05);
    NEAR(kr_chi_square_p(21.665994333461924, 9), 0.01);
    NEAR(kr_chi_square_p(3.8414588206941254, 1), 0.05);
    NEAR(kr_chi_square_p(5, 9), 0.83430826019340755);
    NEAR(kr_chi_square_p(50, 9), 1.0772382022574716e-7);
    CU_ASSERT_EQUAL(kr_chi_square_p(0, 9), 1);
    CU_ASSERT_EQUAL(kr_chi_square_p(1e9, 9), 0);
}

static void student(void)
{
    NEAR(kr_student_p(2, 10), 0.073388034770740366);
    NEAR(kr_student_p(-2, 10), 0.073388034770740366);
    NEAR(kr_student_p(2.2281388519649385, 10), 0.050000000001808669);
    NEAR(kr_student_p(1, 1), 0.5);
    NEAR(kr_student_p(-3, 5), 0.030099247897462574);
    CU_ASSERT_DOUBLE_EQUAL(kr_student_p(1.96, 100000), 0.049998563194301637, 1e-11);
    NEAR(kr_student_p(0.001, 7), 0.99923001724499885);
    CU_ASSERT_EQUAL(kr_student_p(0, 7), 1);
    CU_ASSERT_EQUAL(kr_student_p(-INFINITY, 7), 0);
    CU_ASSERT(kr_student_p(1e200, 7) >= 0 && kr_student_p(1e200, 7) < 1e-300);
}

static void normal(void)
{
    NEAR(kr_normal_density(0), 0.39894228040143268);
    NEAR(kr_normal_density(-1.5), 0.12951759566589174);
    CU_ASSERT_EQUAL(kr_normal_below(0), 0.5);
    NEAR(kr_normal_below(1.6448536269514722), 0.95);
    NEAR(kr_normal_below(-1.6448536269514722), 0.05);
    NEAR(kr_normal_below(-30), 4.906713927148187e-198);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"incomplete gamma", incomplete_gamma},
        {"incomplete beta", incomplete_beta},
        {"chi-square", chi_square},
        {"Student's t", student},
        {"normal", normal},
    };

    return kt_main("special", tests, KR_ARRAY_LENGTH(tests));
}
