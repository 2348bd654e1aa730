/* SPDX-License-Identifier: MIT */
/* The terminal as a full screen: taken over, drawn on, given back as it was, whatever ends the program.
 *
 * SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP and SIGCONT are read from a file descriptor, so they arrive
 * between drawings. (Through handlers and a pipe: a matrix library may have started threads before main(),
 * in which they are not blocked.) One screen a process, its main thread. */
#ifndef KC_SCREEN_H
#define KC_SCREEN_H

#include "clients/canvas.h"

/* What stdout can show: KC_MONO when NO_COLOR is set or TERM is dumb, KC_TRUE by COLORTERM. */
enum kc_depth kc_screen_depth(void);

struct kc_screen {
    struct kc_canvas canvas; /* of the terminal's size */
    enum kc_depth depth;
    int signals; /* file descriptor: readable when a signal waits */
    int keys;    /* file descriptor of the keyboard, -1: none */
    struct kc_text frame;
};

enum kc_screen_event {
    KC_SCREEN_NOTHING,
    KC_SCREEN_QUIT,   /* a signal to end, q, Ctrl-C */
    KC_SCREEN_REDRAW, /* another size, or back from a stop */
    KC_SCREEN_NEXT,   /* n, blank, arrow, page down */
    KC_SCREEN_PREVIOUS,
};

/* Take the terminal. Return: 0, -ENOTTY (stdout is none: untouched), -ENOMEM, another negative errno. */
int kc_screen_open(struct kc_screen *screen) kr_must_check;
/* Give it back. Safe twice. */
void kc_screen_close(struct kc_screen *screen);

/* What `signals` or `keys` had to say; call when either can be read. */
enum kc_screen_event kc_screen_read(struct kc_screen *screen);

/* Show the canvas. Return: 0, -ENOMEM, -EIO. */
int kc_screen_show(struct kc_screen *screen) kr_must_check;

#endif
