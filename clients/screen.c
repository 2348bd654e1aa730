/* SPDX-License-Identifier: MIT */
#include "clients/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Alternate screen, no cursor, no wrapping; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"
/* Drawn as one: terminals that do not know it ignore it. */
#define BEGIN_FRAME "\033[?2026h\033[H"
#define END_FRAME   "\033[0m\033[?2026l"

static struct termios saved; /* of the keyboard's terminal */
static bool keys_saved, entered;

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT};
static int signal_pipe = -1; /* its writing end */

static void on_signal(int number)
{
    unsigned char byte = (unsigned char)number;
    int code = errno;

    (void)!write(signal_pipe, &byte, 1);
    errno = code;
}

/* Return: the descriptor that signals are read from, or a negative errno. */
static int catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -errno;
    signal_pipe = ends[1];
    for (size_t i = 0; i < KR_ARRAY_LENGTH(numbers); i++)
        sigaction(numbers[i], &action, NULL);
    return ends[0];
}

static void release_signals(int fd)
{
    for (size_t i = 0; i < KR_ARRAY_LENGTH(numbers); i++)
        signal(numbers[i], SIG_DFL);
    close(signal_pipe);
    close(fd);
    signal_pipe = -1;
}

enum kc_depth kc_screen_depth(void)
{
    const char *term = getenv("TERM"), *colour = getenv("COLORTERM"), *none = getenv("NO_COLOR");

    if ((none && none[0]) || !term || !term[0] || strcmp(term, "dumb") == 0)
        return KC_MONO;
    if (colour && (strcmp(colour, "truecolor") == 0 || strcmp(colour, "24bit") == 0))
        return KC_TRUE;
    return KC_256;
}

static int write_all(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, n);

        if (written < 0 && errno != EINTR && errno != EAGAIN)
            return -EIO;
        if (written < 0)
            continue;
        bytes += written;
        n -= (size_t)written;
    }
    return 0;
}

static void enter(int keys)
{
    if (keys >= 0 && tcgetattr(keys, &saved) == 0) {
        struct termios raw = saved;

        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        keys_saved = tcsetattr(keys, TCSANOW, &raw) == 0;
    }
    entered = write_all(ENTER, strlen(ENTER)) == 0;
}

static void leave(void)
{
    if (entered)
        (void)!write_all(LEAVE, strlen(LEAVE));
    if (keys_saved)
        tcsetattr(STDIN_FILENO, TCSANOW, &saved);
    entered = keys_saved = false;
}

static int fit(struct kc_screen *screen)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row) {
        size.ws_col = 80;
        size.ws_row = 24;
    }
    if (size.ws_col == screen->canvas.width && size.ws_row == screen->canvas.height)
        return 0;
    return kc_canvas_resize(&screen->canvas, size.ws_col, size.ws_row);
}

int kc_screen_open(struct kc_screen *screen)
{
    static bool registered;
    int r;

    *screen = (struct kc_screen){.signals = -1, .keys = -1, .depth = kc_screen_depth()};
    if (!isatty(STDOUT_FILENO))
        return -ENOTTY;
    r = fit(screen);
    if (r < 0)
        return r;
    screen->signals = catch_signals();
    if (screen->signals < 0) {
        r = screen->signals;
        kc_canvas_free(&screen->canvas);
        return r;
    }
    screen->keys = isatty(STDIN_FILENO) ? STDIN_FILENO : -1;
    if (!registered)
        registered = atexit(leave) == 0;
    enter(screen->keys);
    return 0;
}

void kc_screen_close(struct kc_screen *screen)
{
    leave();
    if (screen->signals >= 0)
        release_signals(screen->signals);
    screen->signals = screen->keys = -1;
    kc_canvas_free(&screen->canvas);
    kc_text_free(&screen->frame);
}

static enum kc_screen_event read_signal(struct kc_screen *screen)
{
    unsigned char number;

    if (read(screen->signals, &number, 1) != 1)
        return KC_SCREEN_NOTHING;
    switch (number) {
    case SIGWINCH:
        return fit(screen) == 0 ? KC_SCREEN_REDRAW : KC_SCREEN_QUIT;
    case SIGTSTP:
        leave();
        raise(SIGSTOP);
        enter(screen->keys);
        return fit(screen) == 0 ? KC_SCREEN_REDRAW : KC_SCREEN_QUIT;
    case SIGCONT:
        return KC_SCREEN_REDRAW;
    default:
        return KC_SCREEN_QUIT;
    }
}

static enum kc_screen_event read_key(struct kc_screen *screen)
{
    char keys[16];
    ssize_t n = screen->keys >= 0 ? read(screen->keys, keys, sizeof(keys)) : 0;

    if (n <= 0)
        return KC_SCREEN_NOTHING;
    if (n >= 3 && keys[0] == 033 && keys[1] == '[') /* arrows and page keys */
        return strchr("BC6", keys[2])   ? KC_SCREEN_NEXT
               : strchr("AD5", keys[2]) ? KC_SCREEN_PREVIOUS
                                        : KC_SCREEN_NOTHING;
    switch (keys[0]) {
    case 'q':
    case 'Q':
    case 3:
        return KC_SCREEN_QUIT;
    case 'n':
    case ' ':
        return KC_SCREEN_NEXT;
    case 'p':
        return KC_SCREEN_PREVIOUS;
    case 12:
        return KC_SCREEN_REDRAW;
    default:
        return KC_SCREEN_NOTHING;
    }
}

enum kc_screen_event kc_screen_read(struct kc_screen *screen)
{
    enum kc_screen_event event = read_signal(screen);

    return event == KC_SCREEN_NOTHING ? read_key(screen) : event;
}

int kc_screen_show(struct kc_screen *screen)
{
    struct kc_text *frame = &screen->frame;

    frame->len = 0;
    kc_text_bytes(frame, BEGIN_FRAME, strlen(BEGIN_FRAME));
    for (int y = 0; y < screen->canvas.height; y++) {
        /* Behind a full row the cursor still stands on its last cell: erasing would take that. */
        if (kc_canvas_row(&screen->canvas, y, screen->depth, frame) < screen->canvas.width)
            kc_text_add(frame, "\033[K");
        if (y + 1 < screen->canvas.height)
            kc_text_add(frame, "\r\n");
    }
    kc_text_bytes(frame, END_FRAME, strlen(END_FRAME));
    if (frame->failed)
        return -ENOMEM;
    return write_all(frame->data, frame->len);
}
