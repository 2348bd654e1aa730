/* SPDX-License-Identifier: MIT */
#include "tests/clients/run.h"

#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGUMENTS 64

static void give_up(const char *what)
{
    printf("Bail out! %s: %s\n", what, strerror(errno));
    exit(99);
}

const char *kt_kronosctl(void)
{
    static char path[1024];
    const char *folder = getenv("builddir");

    snprintf(path, sizeof(path), "%s/kronosctl", folder ? folder : ".");
    return path;
}

static void redirect(int fd, int to)
{
    if (fd < 0 || dup2(fd, to) < 0)
        _exit(127);
}

struct kt_child kt_start(const char *const *arguments)
{
    static unsigned n_children;
    struct kt_child child;
    char *argv[MAX_ARGUMENTS + 2] = {strdup(kt_kronosctl())};
    int input[2], n = 1;

    for (; arguments[n - 1] && n <= MAX_ARGUMENTS; n++)
        argv[n] = strdup(arguments[n - 1]);
    snprintf(child.out_path, sizeof(child.out_path), "%s/out.%u", kt_tmp(), n_children);
    snprintf(child.err_path, sizeof(child.err_path), "%s/err.%u", kt_tmp(), n_children++);
    signal(SIGPIPE, SIG_IGN); /* a child that has ended reads nothing any more */
    if (pipe2(input, O_CLOEXEC) != 0)
        give_up("pipe");
    fflush(stdout);
    child.pid = fork();
    if (child.pid < 0)
        give_up("fork");
    if (child.pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves nobody behind */
        redirect(input[0], STDIN_FILENO);
        redirect(open(child.out_path, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
        redirect(open(child.err_path, O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
        execv(argv[0], argv);
        _exit(127);
    }
    close(input[0]);
    child.input = input[1];
    child.pidfd = (int)syscall(SYS_pidfd_open, child.pid, 0);
    if (child.pidfd < 0)
        give_up("pidfd_open");
    while (n > 0)
        free(argv[--n]);
    return child;
}

void kt_write(struct kt_child *child, const char *text)
{
    size_t n = strlen(text);

    while (n > 0) {
        ssize_t written = write(child->input, text, n);

        if (written <= 0)
            return;
        text += written;
        n -= (size_t)written;
    }
}

void kt_close_input(struct kt_child *child)
{
    if (child->input >= 0)
        close(child->input);
    child->input = -1;
}

bool kt_ended(const struct kt_child *child, int timeout_ms)
{
    struct pollfd item = {child->pidfd, POLLIN, 0};

    return poll(&item, 1, timeout_ms) == 1;
}

static char *slurp(const char *path, size_t *ret_n)
{
    FILE *file = fopen(path, "r");
    size_t size = 0, room = 4096;
    char *text = malloc(room);

    while (file && text) {
        size += fread(text + size, 1, room - 1 - size, file);
        if (size < room - 1)
            break;
        room *= 2;
        text = realloc(text, room);
    }
    if (!file || !text)
        give_up(path);
    fclose(file);
    text[size] = '\0';
    if (ret_n)
        *ret_n = size;
    return text;
}

struct kt_run kt_finish(struct kt_child *child)
{
    struct kt_run run = {0};
    struct rusage usage;
    int status;

    kt_close_input(child);
    while (wait4(child->pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            give_up("wait");
    close(child->pidfd);
    run.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    run.peak_kb = usage.ru_maxrss;
    run.out = slurp(child->out_path, &run.out_bytes);
    run.err = slurp(child->err_path, NULL);
    unlink(child->out_path);
    unlink(child->err_path);
    return run;
}

struct kt_run kt_run(const char *input, const char *const *arguments)
{
    struct kt_child child = kt_start(arguments);

    if (input)
        kt_write(&child, input);
    return kt_finish(&child);
}

void kt_run_free(struct kt_run *run)
{
    free(run->out);
    free(run->err);
    *run = (struct kt_run){0};
}

bool kt_one_line(const char *text)
{
    const char *newline = strchr(text, '\n');

    return newline && newline > text && newline[1] == '\0';
}
