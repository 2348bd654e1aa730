/* SPDX-License-Identifier: MIT */
/* Endpoints and patterns: well-formed, and nothing that listens beyond this machine. */
#include "daemon/config_internal.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <glib.h>
#include <string.h>
#include <sys/un.h>

/* Stars of one pattern: fnmatch() tries every way to share a name among them. */
#define MAX_STARS 4

static const char *const remote = "only loopback addresses (127.0.0.0/8, [::1]) may be bound: "
                                  "others need keys, which arrive with "
                                  "CURVE support";

static bool is_loopback(const char *host)
{
    struct in_addr address;

    if (strcmp(host, "[::1]") == 0)
        return true;
    return inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static bool is_host(const char *host)
{
    char address[64];
    struct in6_addr parsed;
    size_t length = strlen(host);

    if (host[0] == '[') {
        if (length < 4 || length >= sizeof(address) || host[length - 1] != ']')
            return false;
        g_strlcpy(address, host + 1, length - 1);
        return inet_pton(AF_INET6, address, &parsed) == 1;
    }
    for (size_t i = 0; i < length; i++)
        if (!g_ascii_isalnum(host[i]) && host[i] != '.' && host[i] != '-' && host[i] != '_')
            return false;
    return length > 0;
}

static bool is_port(const char *port, bool bind)
{
    unsigned n = 0;

    if (bind && strcmp(port, "*") == 0)
        return true;
    if (strlen(port) < 1 || strlen(port) > 5)
        return false;
    for (; *port; port++) {
        if (!g_ascii_isdigit(*port))
            return false;
        n = n * 10 + (unsigned)(*port - '0');
    }
    return n >= 1 && n <= 65535;
}

static const char *tcp_fault(const char *address, bool bind)
{
    char host[256];
    const char *colon = strrchr(address, ':');

    if (!colon || colon == address || (size_t)(colon - address) >= sizeof(host))
        return "tcp needs HOST:PORT";
    g_strlcpy(host, address, (size_t)(colon - address) + 1);
    if (!is_port(colon + 1, bind))
        return bind ? "a port is a number from 1 to 65535, or * for any free one"
                    : "a port is a number from 1 to 65535";
    if (bind && !is_loopback(host))
        return remote;
    return is_host(host) ? NULL : "not a host";
}

const char *kd_endpoint_fault(const char *endpoint, bool bind)
{
    size_t length = strlen(endpoint);

    for (size_t i = 0; i < length; i++)
        if (endpoint[i] <= ' ' || endpoint[i] > '~')
            return "not printable ASCII";
    if (length > 255)
        return "longer than 255 characters";
    if (strncmp(endpoint, "tcp://", 6) == 0)
        return tcp_fault(endpoint + 6, bind);
    if (strncmp(endpoint, "inproc://", 9) == 0)
        return length > 9 ? NULL : "inproc needs a name";
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        if (endpoint[6] != '/' && endpoint[6] != '@')
            return "ipc needs an absolute path, or @NAME";
        if (length - 6 >= sizeof(((struct sockaddr_un *)0)->sun_path))
            return "a socket's path has at most 107 characters";
        return NULL;
    }
    return "expected tcp://, ipc:// or inproc://";
}

const char *kd_glob_fault(const char *pattern)
{
    size_t bars = 0, stars = 0, length = strlen(pattern);

    if (length < 1 || length > 128)
        return "a pattern has 1 to 128 characters";
    for (size_t i = 0; i < length; i++) {
        if (pattern[i] <= ' ' || pattern[i] > '~')
            return "not printable ASCII without spaces";
        bars += pattern[i] == '|';
        stars += pattern[i] == '*';
    }
    if (bars > 1)
        return "more than one |: a pattern is SYMBOL or SYMBOL|INTERVAL";
    if (stars > MAX_STARS)
        return "more than 4 stars";
    return NULL;
}

bool kd_glob(const char *pattern, const char *symbol, const char *interval)
{
    char stream[KR_SYMBOL_MAX + sizeof(((struct kr_interval *)0)->text) + 2];

    if (!strchr(pattern, '|'))
        return fnmatch(pattern, symbol, 0) == 0;
    g_snprintf(stream, sizeof(stream), "%s|%s", symbol, interval);
    return fnmatch(pattern, stream, 0) == 0;
}
