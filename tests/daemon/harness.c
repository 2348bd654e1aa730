/* SPDX-License-Identifier: MIT */
#include "tests/daemon/harness.h"

#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

int64_t kt_mono_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Configuration */

/* A path for the daemon, whose configuration lies elsewhere. */
static void absolute(char *ret, size_t size, const char *path)
{
    char *real = realpath(path, NULL);

    snprintf(ret, size, "%s", real ? real : path);
    free(real);
}

/* One key of the file. */
struct entry {
    char section[64], key[64], value[1024];
};

struct entries {
    struct entry items[64];
    size_t n;
};

static void put(struct entries *entries, const char *section, const char *key, const char *value)
{
    struct entry *entry = entries->items;

    while (entry < entries->items + entries->n &&
           (strcmp(entry->section, section) || strcmp(entry->key, key)))
        entry++;
    if (entry == entries->items + entries->n && entries->n++ == KR_ARRAY_LENGTH(entries->items))
        abort();
    snprintf(entry->section, sizeof(entry->section), "%s", section);
    snprintf(entry->key, sizeof(entry->key), "%s", key);
    snprintf(entry->value, sizeof(entry->value), "%s", value);
}

/* "[section] key = value" lines. */
static void put_lines(struct entries *entries, const char *lines)
{
    char section[64], key[64], value[1024];

    while (*lines) {
        size_t n = strcspn(lines, "\n");

        if (sscanf(lines, "[%63[^]]] %63s = %1023[^\n]", section, key, value) != 3)
            abort();
        put(entries, section, key, value);
        lines += n + (lines[n] == '\n');
    }
}

/* A section stands once in the file: at its first key. */
static void write_entries(const struct entries *entries, FILE *file)
{
    for (size_t i = 0; i < entries->n; i++) {
        const char *section = entries->items[i].section;
        size_t first = 0;

        while (strcmp(entries->items[first].section, section))
            first++;
        if (first < i)
            continue;
        fprintf(file, "[%s]\n", section);
        for (size_t k = i; k < entries->n; k++)
            if (strcmp(entries->items[k].section, section) == 0)
                fprintf(file, "%s = %s\n", entries->items[k].key, entries->items[k].value);
    }
}

static void name_files(struct kt_daemon *daemon)
{
    static unsigned next;
    const char *folder = kt_tmp();

    next++;
    snprintf(daemon->config, sizeof(daemon->config), "%s/kronosd-%u.conf", folder, next);
    snprintf(daemon->notify, sizeof(daemon->notify), "%s/notify-%u", folder, next);
    snprintf(daemon->log, sizeof(daemon->log), "%s/log-%u", folder, next);
    snprintf(daemon->feed, sizeof(daemon->feed), "ipc://%s/feed-%u", folder, next);
    snprintf(daemon->publish, sizeof(daemon->publish), "ipc://%s/publish-%u", folder, next);
    snprintf(daemon->control, sizeof(daemon->control), "ipc://%s/control-%u", folder, next);
    daemon->notify_fd = -1;
    daemon->zmq = zmq_ctx_new();
}

void kt_daemon_configure(struct kt_daemon *daemon, const char *more)
{
    static struct entries entries;
    char predictor[1024], tokenizer[1024];
    FILE *file;

    if (!*daemon->config)
        name_files(daemon);
    absolute(predictor, sizeof(predictor), kt_source("golden/pico/predictor"));
    absolute(tokenizer, sizeof(tokenizer), kt_source("golden/pico/tokenizer"));
    entries.n = 0;
    put(&entries, "model", "predictor", predictor);
    put(&entries, "model", "tokenizer", tokenizer);
    put(&entries, "feed", "bind", daemon->feed);
    put(&entries, "publish", "bind", daemon->publish);
    put(&entries, "control", "bind", daemon->control);
    put_lines(&entries, "[model] max_context = 128\n"
                        "[forecast] lookback = 64\n"
                        "[forecast] min_bars = 32\n"
                        "[forecast] growth = 24\n"
                        "[forecast] horizon = 4\n"
                        "[forecast] paths = 2\n"
                        "[forecast] backlog = all\n"
                        "[publish] status = 100ms\n"
                        "[limits] symbols = 16\n"
                        "[limits] workers = 2\n"
                        "[log] burst = 0\n"
                        "[log] level = debug\n");
    put_lines(&entries, more);
    file = fopen(daemon->config, "w");
    if (!file)
        abort();
    write_entries(&entries, file);
    fclose(file);
}

/* Life */

static int notify_socket(const struct kt_daemon *daemon)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, daemon->notify, sizeof(daemon->notify));
    unlink(daemon->notify);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        abort();
    return fd;
}

static void run_child(const struct kt_daemon *daemon)
{
    const char *build = getenv("builddir");
    char binary[1024];
    int log = open(daemon->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves nobody behind */
    snprintf(binary, sizeof(binary), "%s/kronosd", build ? build : ".");
    if (getenv("KT_KRONOSD"))
        snprintf(binary, sizeof(binary), "%s", getenv("KT_KRONOSD"));
    setenv("NOTIFY_SOCKET", daemon->notify, 1);
    if (getenv("KT_OPENBLAS_DEFAULT"))
        unsetenv("OPENBLAS_NUM_THREADS");
    unsetenv("JOURNAL_STREAM");
    if (log >= 0)
        dup2(log, STDERR_FILENO);
    execl(binary, binary, "--config", daemon->config, (char *)NULL);
    _exit(127);
}

static void *read_notifications(void *argument)
{
    struct kt_daemon *daemon = argument;
    char message[2048];
    ssize_t n;

    while ((n = recv(daemon->notify_fd, message, sizeof(message), 0)) > 0) {
        pthread_mutex_lock(&daemon->lock);
        if (daemon->n_notified + (size_t)n + 2 < sizeof(daemon->notified)) {
            memcpy(daemon->notified + daemon->n_notified, message, (size_t)n);
            daemon->n_notified += (size_t)n;
            memcpy(daemon->notified + daemon->n_notified++, "\n", 2);
        }
        pthread_cond_broadcast(&daemon->more);
        pthread_mutex_unlock(&daemon->lock);
    }
    return NULL;
}

static void start_reader(struct kt_daemon *daemon)
{
    daemon->notify_fd = notify_socket(daemon);
    daemon->n_notified = daemon->n_seen = 0;
    daemon->notified[0] = '\0';
    pthread_mutex_init(&daemon->lock, NULL);
    pthread_cond_init(&daemon->more, NULL);
    if (pthread_create(&daemon->reader, NULL, read_notifications, daemon))
        abort();
}

static void stop_reader(struct kt_daemon *daemon)
{
    if (daemon->notify_fd < 0)
        return;
    shutdown(daemon->notify_fd, SHUT_RD);
    pthread_join(daemon->reader, NULL);
    close(daemon->notify_fd);
    daemon->notify_fd = -1;
    pthread_cond_destroy(&daemon->more);
    pthread_mutex_destroy(&daemon->lock);
}

/* The text among what was not looked at yet. */
static bool find_notified(struct kt_daemon *daemon, const char *text)
{
    const char *found = strstr(daemon->notified + daemon->n_seen, text);

    if (found)
        daemon->n_seen = (size_t)(found - daemon->notified) + strlen(text);
    return found;
}

/* Its status is left for kt_daemon_stop(). */
static bool has_ended(const struct kt_daemon *daemon)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)daemon->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

bool kt_daemon_notified(struct kt_daemon *daemon, const char *text)
{
    int64_t end_ms = kt_mono_ms() + KT_WAIT_MS;
    bool found, ended = false;

    pthread_mutex_lock(&daemon->lock);
    while (!(found = find_notified(daemon, text)) && kt_mono_ms() < end_ms && !ended) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&daemon->more, &daemon->lock, &until);
        ended = has_ended(daemon);
    }
    found = found || find_notified(daemon, text); /* its last words */
    pthread_mutex_unlock(&daemon->lock);
    if (!found)
        kt_note("no notification %s%s", text, ended ? ": the daemon has ended" : "");
    return found;
}

static void read_log(struct kt_daemon *daemon)
{
    FILE *file = fopen(daemon->log, "r");
    size_t n = 0;

    if (file) {
        fseek(file, 0, SEEK_END);
        long size = ftell(file);

        fseek(file,
              size > (long)sizeof(daemon->text) - 1 ? size - (long)sizeof(daemon->text) + 1 : 0,
              SEEK_SET);
        n = fread(daemon->text, 1, sizeof(daemon->text) - 1, file);
        fclose(file);
    }
    daemon->text[n] = '\0';
}

static void show_log(struct kt_daemon *daemon)
{
    read_log(daemon);
    for (char *line = strtok(daemon->text, "\n"); line; line = strtok(NULL, "\n"))
        kt_note("%s", line);
}

bool kt_daemon_start(struct kt_daemon *daemon)
{
    stop_reader(daemon);
    start_reader(daemon);
    fflush(stdout);
    daemon->pid = fork();
    if (daemon->pid == 0)
        run_child(daemon);
    if (daemon->pid > 0 && kt_daemon_notified(daemon, "READY=1"))
        return true;
    show_log(daemon);
    return false;
}

bool kt_daemon_begin(struct kt_daemon *daemon, const char *more)
{
    memset(daemon, 0, sizeof(*daemon));
    kt_daemon_configure(daemon, more);
    return kt_daemon_start(daemon);
}

/* Notifications nobody waits for: a full socket would hold the daemon up. */
static void drop_notifications(const struct kt_daemon *daemon)
{
    char text[1024];

    while (recv(daemon->notify_fd, text, sizeof(text), MSG_DONTWAIT) > 0)
        ;
}

int kt_daemon_stop(struct kt_daemon *daemon)
{
    int64_t end_ms = kt_mono_ms() + 5000;
    int status = 0;
    pid_t ended = 0;

    if (daemon->pid <= 0)
        return -1;
    kill(daemon->pid, SIGTERM);
    while (ended == 0 && kt_mono_ms() < end_ms) {
        drop_notifications(daemon);
        ended = waitpid(daemon->pid, &status, WNOHANG);
        if (ended == 0)
            poll(NULL, 0, 5);
    }
    if (ended != daemon->pid) {
        kt_note("the daemon did not end within 5 s");
        kill(daemon->pid, SIGKILL);
        waitpid(daemon->pid, &status, 0);
        status = -1;
    }
    daemon->pid = 0;
    if (status != 0)
        show_log(daemon);
    read_log(daemon);
    return status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void kt_daemon_end(struct kt_daemon *daemon)
{
    if (daemon->pid > 0) {
        kill(daemon->pid, SIGKILL);
        waitpid(daemon->pid, NULL, 0);
    }
    stop_reader(daemon);
    if (daemon->zmq)
        zmq_ctx_term(daemon->zmq);
    memset(daemon, 0, sizeof(*daemon));
}

/* Feed */

void *kt_feed_open(struct kt_daemon *daemon)
{
    void *feed = zmq_socket(daemon->zmq, ZMQ_XPUB);
    int nodrop = 1, linger = 10000, wait = KT_WAIT_MS;
    char subscription[KW_TOPIC_MAX];

    zmq_setsockopt(feed, ZMQ_XPUB_NODROP, &nodrop, sizeof(nodrop));
    zmq_setsockopt(feed, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(feed, ZMQ_RCVTIMEO, &wait, sizeof(wait));
    zmq_setsockopt(feed, ZMQ_SNDTIMEO, &wait, sizeof(wait));
    if (zmq_connect(feed, daemon->feed))
        kt_note("connect %s: %s", daemon->feed, zmq_strerror(errno));
    if (zmq_recv(feed, subscription, sizeof(subscription), 0) < 1)
        kt_note("the daemon does not subscribe: %s", zmq_strerror(errno));
    return feed;
}

void kt_feed_close(void **feed)
{
    if (*feed)
        zmq_close(*feed);
    *feed = NULL;
}

void kt_feed_send(void *feed, const char *topic, const void *data, size_t n_bytes)
{
    CU_ASSERT_TRUE(zmq_send(feed, topic, strlen(topic), ZMQ_SNDMORE) >= 0);
    CU_ASSERT_TRUE(zmq_send(feed, data, n_bytes, 0) >= 0);
}

/* A number in [-1, 1) that depends on the symbol and the bar alone. */
static double noise(const char *symbol, size_t i)
{
    uint64_t x = kr_fnv1a64(symbol) ^ (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return (double)(x >> 11) * 0x1p-52 - 1;
}

struct kw_bar kt_bar(const char *symbol, const char *interval, size_t i)
{
    const int64_t start_ns = INT64_C(1772409600000000000); /* 2026-03-02T00:00Z */
    struct kw_bar bar = {.final = true};
    double close = 100, open = 100;

    /* A short memory, so that any bar can be made without those before it. */
    for (size_t k = i >= 40 ? i - 40 : 0; k <= i; k++) {
        open = close;
        close *= 1 + 0.002 * noise(symbol, k);
    }
    snprintf(bar.symbol, sizeof(bar.symbol), "%s", symbol);
    if (kr_interval_parse(interval, &bar.interval))
        abort();
    bar.bar.t_ns = start_ns + (int64_t)i * bar.interval.ns;
    bar.bar.v[KR_OPEN] = open;
    bar.bar.v[KR_CLOSE] = close;
    bar.bar.v[KR_HIGH] = fmax(open, close) * (1 + 0.0005 * fabs(noise(symbol, i + 1000000)));
    bar.bar.v[KR_LOW] = fmin(open, close) * (1 - 0.0005 * fabs(noise(symbol, i + 2000000)));
    bar.bar.v[KR_VOLUME] = 10 + 5 * noise(symbol, i + 3000000);
    bar.bar.v[KR_AMOUNT] = bar.bar.v[KR_VOLUME] * close;
    return bar;
}

void kt_feed_bar(void *feed, const struct kw_bar *bar)
{
    char topic[KW_TOPIC_MAX + 1];
    msgpack_sbuffer buffer;

    msgpack_sbuffer_init(&buffer);
    kw_topic(topic, "bar", bar->interval.text, bar->symbol);
    if (kw_encode_bar(&buffer, bar))
        abort();
    kt_feed_send(feed, topic, buffer.data, buffer.size);
    msgpack_sbuffer_destroy(&buffer);
}
