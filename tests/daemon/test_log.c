/* SPDX-License-Identifier: MIT */
#include "daemon/log.h"
#include "daemon/notify.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int64_t now;

static int64_t fake_now(void)
{
    return now;
}

static char captured[8][2048]; /* one entry's fields, a line each */
static int n_captured;

static int capture(const struct iovec *fields, int n)
{
    char *text = captured[n_captured++ % 8];

    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        strncat(text, fields[i].iov_base, fields[i].iov_len);
        strcat(text, "\n");
    }
    return 0;
}

static char *text;
static size_t n_text;
static FILE *stream;

static void open_lines(int level, size_t burst)
{
    struct kd_log_config config = {.level = level,
                                   .force_stderr = true,
                                   .burst = burst,
                                   .interval_ns = 1000,
                                   .now_ns = fake_now};

    stream = open_memstream(&text, &n_text);
    config.stream = stream;
    kd_log_init(&config);
}

static void close_lines(void)
{
    struct kd_log_config config = {.level = LOG_INFO, .force_stderr = true};

    kd_log_init(&config);
    fclose(stream);
    free(text);
}

/* Lines written so far without their times; "" past the end. */
static const char *line(int i)
{
    static char copy[2048];
    const char *at = text;

    fflush(stream);
    for (; i > 0 && at; i--) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (!at || !*at)
        return "";
    at += strlen("2026-11-30T20:11:05.123Z ");
    snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(at, "\n"), at);
    return copy;
}

static void lines(void)
{
    unsigned y, mo, d, h, mi, s, ms;

    open_lines(LOG_NOTICE, 0);
    errno = ENOENT;
    kd_log(KD_MSG_GAP, "BTCUSDT", "5m", "hold", "%d bars: %m", 3);
    CU_ASSERT_EQUAL(errno, ENOENT);
    kd_say(KD_MSG_FATAL, "first\nsecond\x1b[31m");
    kd_say(KD_MSG_NOTE, "not urgent enough");
    CU_ASSERT_TRUE(kd_log_enabled(KD_MSG_GAP));
    CU_ASSERT_FALSE(kd_log_enabled(KD_MSG_NOTE));
    CU_ASSERT_STRING_EQUAL(line(0), "notice gap BTCUSDT|5m: 3 bars: No such file or directory");
    CU_ASSERT_STRING_EQUAL(line(1), "err fatal: first?second?[31m");
    CU_ASSERT_STRING_EQUAL(line(2), "");
    CU_ASSERT_EQUAL(sscanf(text, "%4u-%2u-%2uT%2u:%2u:%2u.%3uZ ", &y, &mo, &d, &h, &mi, &s, &ms),
                    7);
    close_lines();
}

static void rates(void)
{
    open_lines(LOG_DEBUG, 2);
    now = 5000;
    for (int i = 0; i < 5; i++)
        kd_log(KD_MSG_LATE, "A", "1m", NULL, "bar %d", i);
    kd_log(KD_MSG_STALE, "A", "1m", NULL, "another kind");
    for (int i = 0; i < 4; i++)
        kd_say(KD_MSG_READY, "kinds of the daemon's own few are not limited");
    CU_ASSERT_STRING_EQUAL(line(1), "notice late A|1m: bar 1");
    CU_ASSERT_STRING_EQUAL(line(2), "warning stale A|1m: another kind");
    CU_ASSERT_STRING_EQUAL(line(7), "");
    CU_ASSERT_EQUAL(kd_log_suppressed(KD_MSG_LATE), 3);
    now = 5999;
    kd_log_flush(false);
    CU_ASSERT_STRING_EQUAL(line(7), "");
    now = 6000;
    kd_log(KD_MSG_LATE, "A", "1m", NULL, "again");
    CU_ASSERT_STRING_EQUAL(line(7), "notice late: 3 further messages of this kind were held back");
    CU_ASSERT_STRING_EQUAL(line(8), "notice late A|1m: again");
    for (int i = 0; i < 3; i++)
        kd_log(KD_MSG_LATE, "A", "1m", NULL, "more");
    now = 7000;
    kd_log_flush(false);
    CU_ASSERT_STRING_EQUAL(line(10), "notice late: 2 further messages of this kind were held back");
    for (int i = 0; i < 3; i++)
        kd_log(KD_MSG_LATE, "A", "1m", NULL, "more");
    kd_log_flush(true);
    CU_ASSERT_STRING_EQUAL(line(13), "notice late: 1 further messages of this kind were held back");
    kd_log_flush(true);
    CU_ASSERT_STRING_EQUAL(line(14), "");
    CU_ASSERT_EQUAL(kd_log_suppressed(KD_MSG_LATE), 6);
    close_lines();
}

static void journal(void)
{
    struct kd_log_config config = {.level = LOG_INFO, .send = capture};
    char expected[512];

    kd_log_init(&config);
    CU_ASSERT_TRUE(kd_log_to_journal());
    kd_log(KD_MSG_QUARANTINED, "X", "1h", "off_grid", "a bar at %d", 7);
    snprintf(expected, sizeof(expected),
             "MESSAGE=a bar at 7\nPRIORITY=4\nSYSLOG_IDENTIFIER=kronosd\nMESSAGE_ID=%s\n"
             "KRONOSD_KIND=quarantined\nKRONOSD_SYMBOL=X\nKRONOSD_INTERVAL=1h\n"
             "KRONOSD_REASON=off_grid\n",
             kd_message_id(KD_MSG_QUARANTINED));
    CU_ASSERT_STRING_EQUAL(captured[0], expected);
    kd_say(KD_MSG_NOTE, "x=%s", "1\nPRIORITY=0");
    CU_ASSERT_STRING_EQUAL(captured[1], "MESSAGE=x=1?PRIORITY=0\nPRIORITY=6\n"
                                        "SYSLOG_IDENTIFIER=kronosd\nKRONOSD_KIND=note\n");
    CU_ASSERT_EQUAL(n_captured, 2);
}

/* JOURNAL_STREAM that does not name our stderr must not send lines to the journal. */
static void not_the_journal(void)
{
    struct kd_log_config config = {.level = LOG_INFO};

    stream = open_memstream(&text, &n_text);
    config.stream = stream;
    setenv("JOURNAL_STREAM", "1:1", 1);
    kd_log_init(&config);
    CU_ASSERT_FALSE(kd_log_to_journal());
    kd_say(KD_MSG_NOTE, "here");
    CU_ASSERT_STRING_EQUAL(line(0), "info note: here");
    setenv("JOURNAL_STREAM", "9999999999999999999999:x", 1);
    kd_log_init(&config);
    kd_say(KD_MSG_NOTE, "there");
    CU_ASSERT_STRING_EQUAL(line(1), "info note: there");
    unsetenv("JOURNAL_STREAM");
    close_lines();
}

/* ---- notifications, received as the manager would ---- */

static int manager;

static const char *received(void)
{
    static char message[1024];
    ssize_t n = recv(manager, message, sizeof(message) - 1, MSG_DONTWAIT);

    message[n > 0 ? n : 0] = '\0';
    return message;
}

static void notify(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *message;
    int64_t interval = 7;
    long long us;

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", kt_tmp());
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_EQUAL_FATAL(bind(manager, (struct sockaddr *)&address, sizeof(address)), 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    kd_notify_status("loading %s", "pico");
    CU_ASSERT_STRING_EQUAL(received(), "STATUS=loading pico");
    kd_notify_ready("%d streams\nWATCHDOG=1", 3);
    CU_ASSERT_STRING_EQUAL(received(), "READY=1\nSTATUS=3 streams WATCHDOG=1");
    kd_notify_reloading();
    message = received();
    CU_ASSERT_EQUAL(sscanf(message, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=", &us), 1);
    CU_ASSERT(us > 0);
    kd_notify_extend(INT64_C(90000000000));
    CU_ASSERT_STRING_EQUAL(received(), "EXTEND_TIMEOUT_USEC=90000000");
    kd_notify_watchdog();
    CU_ASSERT_STRING_EQUAL(received(), "WATCHDOG=1");
    kd_notify_stopping("bye");
    CU_ASSERT_STRING_EQUAL(received(), "STOPPING=1\nSTATUS=bye");
    close(manager);
    /* nobody listens any more, and no manager at all: nothing happens */
    kd_notify_ready("x");
    unsetenv("NOTIFY_SOCKET");
    kd_notify_ready("x");
    kd_notify_watchdog();

    unsetenv("WATCHDOG_USEC");
    CU_ASSERT_FALSE(kd_notify_watchdog_interval(&interval));
    CU_ASSERT_EQUAL(interval, 7);
    setenv("WATCHDOG_USEC", "30000000", 1);
    CU_ASSERT_TRUE(kd_notify_watchdog_interval(&interval));
    CU_ASSERT_EQUAL(interval, INT64_C(15000000000));
    unsetenv("WATCHDOG_USEC");
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"lines on stderr", lines},          {"rate limits", rates},
        {"fields for the journal", journal}, {"a stderr that is not the journal", not_the_journal},
        {"notifications", notify},
    };

    return kt_main("log", tests, KR_ARRAY_LENGTH(tests));
}
