/* SPDX-License-Identifier: MIT */
/* Drawing on a terminal's cells: what is seen, compared as text; what is sent, as bytes. */
#include "clients/panel.h"
#include "clients/progress.h"
#include "tests/tap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void same_text(const char *name, const char *found, const char *expected)
{
    bool same = strcmp(found, expected) == 0;

    CU_ASSERT_TRUE(same);
    if (!same)
        kt_note("%s is drawn as\n%s", name, found);
}

static void text_and_frame(void)
{
    struct kc_canvas canvas = {0};
    struct kc_text text = {0};

    CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, 12, 4), 0);
    kc_canvas_frame(&canvas, 0, 0, 12, 4, KC_INK_DIM);
    CU_ASSERT_EQUAL(kc_canvas_text(&canvas, 2, 1, KC_INK_PLAIN, 20, "größe"), 7);
    kc_canvas_text(&canvas, 8, 2, KC_INK_PLAIN, 20, "clipped at the edge");
    kc_canvas_text(&canvas, 2, 2, KC_INK_PLAIN, 3, "room");
    kc_canvas_text(&canvas, 2, 9, KC_INK_PLAIN, 3, "outside");
    kc_canvas_text(&canvas, -2, 1, KC_INK_PLAIN, 3, "abc");
    kc_canvas_write(&canvas, KC_MONO, &text);
    same_text("text", text.data,
              "╭──────────╮\n"
              "c größe    │\n"
              "│ roo   clip\n"
              "╰──────────╯\n");
    kc_text_free(&text);
    kc_canvas_free(&canvas);
}

static void control_characters(void)
{
    struct kc_canvas canvas = {0};
    struct kc_text text = {0};

    CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, 8, 1), 0);
    kc_canvas_text(&canvas, 0, 0, KC_INK_PLAIN, 8, "a\033[31mb\x7f\n");
    kc_canvas_write(&canvas, KC_MONO, &text);
    same_text("control characters", text.data, "a?[31mb?\n");
    kc_text_free(&text);
    kc_canvas_free(&canvas);
}

/* Dots of one cell, numbered as Unicode has them. */
static void dots(void)
{
    static const struct {
        int x, y;
        const char *glyph;
    } cases[] = {{0, 0, "⠁"}, {0, 1, "⠂"}, {0, 2, "⠄"}, {0, 3, "⡀"},
                 {1, 0, "⠈"}, {1, 1, "⠐"}, {1, 2, "⠠"}, {1, 3, "⢀"}};
    struct kc_canvas canvas = {0};
    struct kc_text text = {0};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, 1, 1), 0);
        kc_canvas_line(&canvas, cases[i].x, cases[i].y, cases[i].x, cases[i].y, KC_INK_LINE, 0, 0);
        text.len = 0;
        kc_canvas_row(&canvas, 0, KC_MONO, &text);
        CU_ASSERT_STRING_EQUAL(text.data, cases[i].glyph);
    }
    CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, 6, 2), 0);
    kc_canvas_line(&canvas, 0, 7, 11, 0, KC_INK_LINE, 0, 1);
    kc_canvas_line(&canvas, 0, 0, 11, 0, KC_INK_LINE, 1, 1); /* above what may be touched */
    text.len = 0;
    kc_canvas_write(&canvas, KC_MONO, &text);
    same_text("a line", text.data, "   ⣀⠔⠊\n⡠⠔⠉\n");
    kc_text_free(&text);
    kc_canvas_free(&canvas);
}

/* Areas end at an eighth of a cell; below and above come out of one glyph. */
static void areas(void)
{
    struct kc_canvas canvas = {0};
    struct kc_text text = {0};

    CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, 4, 1), 0);
    kc_canvas_fill(&canvas, 0, 0, 0, 8, KC_INK_FAN1);
    kc_canvas_fill(&canvas, 1, 0, 5, 8, KC_INK_FAN1);
    kc_canvas_fill(&canvas, 2, 0, 0, 5, KC_INK_FAN1);
    kc_canvas_fill(&canvas, 3, 0, -20, 3, KC_INK_FAN2);
    kc_canvas_fill(&canvas, 3, 0, 3, 99, KC_INK_FAN3);
    kc_canvas_row(&canvas, 0, KC_256, &text);
    same_text("areas", text.data,
              "\033[0;48;5;24m \033[0;38;5;24m▃\033[0;7;38;5;24m▃\033[0;38;5;32;48;5;25m▅\033[0m");
    text.len = 0;
    kc_canvas_row(&canvas, 0, KC_MONO, &text);
    same_text("areas in one colour", text.data, "░ ░▓");
    text.len = 0;
    kc_canvas_row(&canvas, 0, KC_TRUE, &text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "48;2;"));
    kc_text_free(&text);
    kc_canvas_free(&canvas);
}

/* Blanks behind an area must not take its colour, and a row says how far it reached. */
static void blanks(void)
{
    struct kc_canvas canvas = {0};
    struct kc_text text = {0};

    CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, 6, 1), 0);
    kc_canvas_fill(&canvas, 0, 0, 0, 4, KC_INK_FAN1);
    kc_canvas_text(&canvas, 3, 0, KC_INK_PLAIN, 1, "x");
    CU_ASSERT_EQUAL(kc_canvas_row(&canvas, 0, KC_256, &text), 4);
    same_text("blanks", text.data, "\033[0;7;38;5;24m▄\033[0m  x\033[0m");
    kc_text_free(&text);
    kc_canvas_free(&canvas);
}

#define STEPS  12
#define LEVELS 7
#define CLOSES 40

static const double levels[LEVELS] = {0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95};
static double closes[CLOSES], q[LEVELS * STEPS];

static struct kc_panel make_panel(void)
{
    static const double z[LEVELS] = {-1.64, -1.28, -0.67, 0, 0.67, 1.28, 1.64};
    const int64_t minute = INT64_C(60000000000), last = INT64_C(1706693400000000000);

    for (int i = 0; i < CLOSES; i++)
        closes[i] = 100 + 3 * sin(i / 6.0) + (i % 3) * 0.2;
    for (int l = 0; l < LEVELS; l++)
        for (int i = 0; i < STEPS; i++)
            q[l * STEPS + i] = closes[CLOSES - 1] + z[l] * 0.8 * sqrt(i + 1) - 0.05 * i;
    return (struct kc_panel){.symbol = "BTCUSDT",
                             .interval = "5m",
                             .interval_ns = 5 * minute,
                             .closes = closes,
                             .n_closes = CLOSES,
                             .last_t_ns = last,
                             .n_steps = STEPS,
                             .n_levels = LEVELS,
                             .end_t_ns = last + 60 * minute,
                             .levels = levels,
                             .q = q,
                             .p_up = 0.4375,
                             .sd = 0.0271,
                             .var = 0.0446,
                             .mode = "anchored",
                             .cal = "uncalibrated",
                             .flags = "joined tail",
                             .epoch = 3,
                             .bars = 412,
                             .total_us = 12345};
}

static void panel(void)
{
    struct kc_panel shown = make_panel();
    struct kc_canvas canvas = {0};
    struct kc_range range = {0, 0};
    struct kc_text text = {0};

    CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, 72, 12), 0);
    kc_panel_draw(&canvas, 0, 0, 72, 12, &shown, &range);
    kc_canvas_write(&canvas, KC_MONO, &text);
    same_text("a panel", text.data,
              "╭─ BTCUSDT 5m ─────────────────── 2024-01-31 09:30 UTC, 12 bars ahead ─╮\n"
              "│ 100.64536  ▲ +0.09 %   P(up) ▕███▌    ▏ 44 %   uncalibrated          │\n"
              "│                                 ┊                       ░ 104.6      │\n"
              "│                                 ┊         ░░░░░░░░░▒▒▒▒▒▒            │\n"
              "│                                 ┊   ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ 102.0      │\n"
              "│                             ⢀⡠⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀▓▓ 100.6      │\n"
              "│                        ⢀⣀⠤⠔⠊⠁   ┊ ▒▒▒▒▒▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓⠉⠁ 100.1      │\n"
              "│ ⠢⢄⣀⣀⣀⣀⡀         ⢀⡠⠤⠤⠤⠒⠊⠁        ┊      ░░░▒▒▒▒▒▒▒▒▒▒▒▒▒▒▓            │\n"
              "│       ⠈⠑⠒⠒⠒⠉⠉⠒⠒⠉⠁               ┊             ░░░░░░▒▒▒▒▒ 96.9       │\n"
              "│                                 ┊                      ░░ 95.6       │\n"
              "│ 08:10                         09:30                 10:30            │\n"
              "╰─ joined tail ────────────────────────────────────────────── 12.3 ms ─╯\n");
    kc_text_free(&text);
    kc_canvas_free(&canvas);
}

static void panel_without_forecast(void)
{
    struct kc_panel shown = make_panel();
    struct kc_canvas canvas = {0};
    struct kc_range range = {0, 0};
    struct kc_text text = {0};

    shown.n_steps = 0;
    CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, 44, 8), 0);
    kc_panel_draw(&canvas, 0, 0, 44, 8, &shown, &range);
    kc_canvas_write(&canvas, KC_MONO, &text);
    same_text("a panel without a forecast", text.data,
              "╭─ BTCUSDT 5m ────── 2024-01-31 09:30 UTC ─╮\n"
              "│ 100.64536  ▲ +0.09 %                     │\n"
              "│                       ⢀⡠⠔⠒⠊⠉⠁ 100.65     │\n"
              "│                ⢀⣀⡠⠤⠤⠒⠊⠁     ┊            │\n"
              "│       ⢀⣀⡀ ⢀⡠⠔⠒⠉⠁            ┊ 98.39      │\n"
              "│  ⣀⠤⠔⠒⠉⠁ ⠈⠉⠁                 ┊            │\n"
              "│  08:45                    09:30          │\n"
              "╰──────────────────────────────────────────╯\n");
    kc_text_free(&text);
    kc_canvas_free(&canvas);
}

/* Whatever size and numbers: nothing outside the panel's cells is touched. */
static void any_size(void)
{
    static const double prices[][2] = {{1, 0}, {1e-9, 1e-12}, {1e9, 1e6}, {5, 1e-15}, {3, 100}};
    struct kc_canvas canvas = {0};
    size_t n_drawn = 0;

    for (int w = 1; w <= 130; w += 3)
        for (int h = 1; h <= 30; h += 2) {
            size_t p = (size_t)(w + h) % KR_ARRAY_LENGTH(prices);
            struct kc_panel shown = make_panel();
            struct kc_range range = {0, 0};

            for (int i = 0; i < CLOSES; i++)
                closes[i] = prices[p][0] + (i % 7) * prices[p][1];
            for (int i = 0; i < LEVELS * STEPS; i++)
                q[i] = i % 5 == 0 && w % 2 ? NAN : prices[p][0] + (i - 40) * prices[p][1];
            shown.n_closes = 1 + (size_t)(w % CLOSES);
            shown.n_steps = 1 + (size_t)(h % STEPS);
            shown.n_levels = 1 + (size_t)(w % LEVELS);
            CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, w + 4, h + 4), 0);
            kc_panel_draw(&canvas, 2, 2, w, h, &shown, &range);
            for (int y = 0; y < h + 4; y++)
                for (int x = 0; x < w + 4; x++) {
                    const struct kc_cell *cell = &canvas.cells[y * canvas.width + x];
                    bool outside = x < 2 || y < 2 || x >= w + 2 || y >= h + 2;
                    bool blank =
                        !cell->glyph[0] && !cell->dots && !cell->ground[0] && !cell->ground[7];

                    if (outside)
                        KT_CHECK(blank, "%d x %d: cell %d, %d is drawn on", w, h, x, y);
                    n_drawn += !blank;
                }
        }
    CU_ASSERT_TRUE(n_drawn > 10000);
    kc_canvas_free(&canvas);
}

/* The range stays while it fits, and moves when it does not. */
static void range_is_steady(void)
{
    struct kc_panel shown = make_panel();
    struct kc_canvas canvas = {0};
    struct kc_range range = {0, 0}, before;

    CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, 72, 12), 0);
    kc_panel_draw(&canvas, 0, 0, 72, 12, &shown, &range);
    before = range;
    closes[CLOSES - 1] += 0.01;
    kc_panel_draw(&canvas, 0, 0, 72, 12, &shown, &range);
    CU_ASSERT_EQUAL(range.low, before.low);
    CU_ASSERT_EQUAL(range.high, before.high);
    closes[CLOSES - 1] = before.high + 1;
    kc_panel_draw(&canvas, 0, 0, 72, 12, &shown, &range);
    CU_ASSERT_TRUE(range.high > before.high + 1);
    kc_canvas_free(&canvas);
}

static void times(void)
{
    char text[24];

    kc_panel_time(text, INT64_C(1706693400000000000), INT64_C(60000000000));
    CU_ASSERT_STRING_EQUAL(text, "2024-01-31 09:30");
    kc_panel_time(text, INT64_C(1706693401000000000), INT64_C(1000000000));
    CU_ASSERT_STRING_EQUAL(text, "2024-01-31 09:30:01");
    kc_panel_time(text, INT64_C(1706693400000000000), INT64_C(86400000000000));
    CU_ASSERT_STRING_EQUAL(text, "2024-01-31");
    kc_panel_time(text, -1, INT64_C(60000000000));
    CU_ASSERT_STRING_EQUAL(text, "1969-12-31 23:59");
}

static void progress(void)
{
    const struct kc_progress known = {.label = "feeding", .unit = "bars", .total = 5760};
    const struct kc_progress unknown = {.label = "feeding", .unit = "bars"};
    const int64_t second = INT64_C(1000000000);
    char line[KC_PROGRESS_TEXT];

    CU_ASSERT_EQUAL(kc_progress_line(line, &known, 2000, second, 90), strlen(line));
    same_text("progress", line,
              "feeding ▕█████▌          ▏ 34 %  2,000/5,760 bars  2,000/s  0:02 left");
    kc_progress_line(line, &known, 5760, 2 * second, 60);
    same_text("narrow progress", line, "feeding 100 %  5,760/5,760 bars  2,880/s");
    kc_progress_line(line, &known, 30, 2 * second, 60);
    same_text("slow progress", line, "feeding   0 %  30/5,760 bars  15.0/s  6:22 left");
    kc_progress_line(line, &unknown, 1234567, second, 90);
    same_text("progress without an end", line, "feeding 1,234,567 bars  1,234,567/s");
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"text and frames, clipped", text_and_frame},
        {"control characters are shown, not sent", control_characters},
        {"braille dots and lines", dots},
        {"areas to an eighth of a cell", areas},
        {"blanks behind areas", blanks},
        {"a stream's panel", panel},
        {"a panel before the first forecast", panel_without_forecast},
        {"panels of any size stay within it", any_size},
        {"the price range does not tremble", range_is_steady},
        {"times by interval", times},
        {"progress lines", progress},
    };

    return kt_main("draw_text", tests, KR_ARRAY_LENGTH(tests));
}
