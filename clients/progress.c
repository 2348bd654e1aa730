/* SPDX-License-Identifier: MIT */
#include "clients/progress.h"

#include "clients/ctl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FIRST_DRAW_NS INT64_C(200000000)
#define REDRAW_NS     INT64_C(100000000)

void kc_progress_start(struct kc_progress *progress, const char *label, const char *unit,
                       uint64_t total)
{
    *progress = (struct kc_progress){.label = label,
                                     .unit = unit,
                                     .total = total,
                                     .active = isatty(STDERR_FILENO) == 1,
                                     .start_ns = kc_now_ns()};
}

/* "1234567" -> "1,234,567" */
static const char *grouped(char text[32], uint64_t n)
{
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

/* A bar of `cells` cells, filled in eighths. */
static void append_bar(char *ret, size_t size, double share, size_t cells)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    size_t filled = (size_t)(share * (double)cells * 8);

    ret[0] = '\0';
    for (size_t i = 0; i < cells && strlen(ret) + 4 < size; i++)
        strcat(ret, filled >= (i + 1) * 8 ? "█" : filled <= i * 8 ? " " : eighths[filled % 8]);
}

size_t kc_progress_line(char ret[KC_PROGRESS_TEXT], const struct kc_progress *progress,
                        uint64_t done, int64_t elapsed_ns, size_t columns)
{
    double seconds = (double)elapsed_ns / 1e9, rate = seconds > 0 ? (double)done / seconds : 0;
    double share = progress->total ? fmin((double)done / (double)progress->total, 1) : 0, left;
    char bar[160], count[32], total[32], speed[32];
    size_t cells = columns >= 110 ? 30 : columns >= 80 ? 16 : 0, length;

    grouped(count, done);
    grouped(total, progress->total);
    if (rate < 100)
        snprintf(speed, sizeof(speed), "%.1f", rate);
    else
        grouped(speed, (uint64_t)rate);
    if (!progress->total)
        return (size_t)snprintf(ret, KC_PROGRESS_TEXT, "%s %s %s  %s/s", progress->label, count,
                                progress->unit, speed);
    append_bar(bar, sizeof(bar), share, cells);
    length = (size_t)snprintf(ret, KC_PROGRESS_TEXT, "%s %s%s%s%3.0f %%  %s/%s %s  %s/s",
                              progress->label, cells ? "▕" : "", bar, cells ? "▏" : "",
                              floor(share * 100), count, total, progress->unit, speed);
    if (rate > 0 && done < progress->total && length < KC_PROGRESS_TEXT) {
        left = fmin(ceil((double)(progress->total - done) / rate), 359999);
        length += (size_t)snprintf(ret + length, KC_PROGRESS_TEXT - length, "  %d:%02d left",
                                   (int)left / 60, (int)left % 60);
    }
    return KR_MIN(length, (size_t)KC_PROGRESS_TEXT - 1);
}

void kc_progress_update(struct kc_progress *progress, uint64_t done)
{
    char line[KC_PROGRESS_TEXT];
    struct winsize size;
    int64_t now;

    if (!progress->active)
        return;
    now = kc_now_ns();
    if (now - progress->start_ns < FIRST_DRAW_NS || now - progress->last_ns < REDRAW_NS)
        return;
    progress->last_ns = now;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        size.ws_col = 80;
    kc_progress_line(line, progress, done, now - progress->start_ns, size.ws_col);
    /* No wrapping: a narrow terminal cuts the line instead of scrolling. */
    fprintf(stderr, "\r\033[?7l%s\033[K\033[?7h", line);
    fflush(stderr);
    progress->drawn = true;
}

void kc_progress_end(struct kc_progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->active = progress->drawn = false;
}
