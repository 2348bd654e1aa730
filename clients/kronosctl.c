/* SPDX-License-Identifier: MIT */
/* kronosctl: forecasts offline, and everything a person does with a running kronosd. */
#include "config.h"

#include "clients/ctl.h"
#include "clients/single.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const struct kc_command commands[] = {
    {"backtest", "walk forward over a file: scores, calibration, a plot", kc_cmd_backtest},
    {"bench", "measure this machine's peaks and what the model costs on it", kc_cmd_bench},
    {"drain", "ask the daemon to finish its work and stop", kc_cmd_control},
    {"feed", "replay a file, or JSON lines, to the daemon as bars", kc_cmd_feed},
    {"forecast", "ask the daemon for a forecast of your own, now", kc_cmd_forecast},
    {"load", "give the daemon a stream's history", kc_cmd_load},
    {"ping", "see whether the daemon answers", kc_cmd_control},
    {"plot", "draw a stream's last closes and forecast as SVG", kc_cmd_plot},
    {"predict", "forecast from a file of bars, without a daemon", kc_cmd_predict},
    {"reload", "ask the daemon to read its configuration again", kc_cmd_control},
    {"reset", "make the daemon forget a stream", kc_cmd_control},
    {"simulate", "make up markets: bars as files or as a feed", kc_cmd_simulate},
    {"snapshot", "print the last forecast of a stream", kc_cmd_snapshot},
    {"status", "print the daemon's counters", kc_cmd_status},
    {"symbols", "list the daemon's streams", kc_cmd_symbols},
    {"version", "print the versions of daemon and model", kc_cmd_control},
    {"watch", "follow forecasts as they come, drawn or as JSON lines", kc_cmd_watch},
};

static void print_help(void)
{
    printf("Usage: kronosctl COMMAND [OPTION...]\n"
           "Forecasts from candlesticks: offline, and with a running kronosd.\n\n"
           "Commands:\n");
    for (size_t i = 0; i < KR_ARRAY_LENGTH(commands); i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    printf("\n  kronosctl COMMAND --help lists a command's options; kronosctl --version prints the "
           "version.\n"
           "\nExit status: 0, 64 usage, 65 bad data or model file, 66 no such input, 69 daemon\n"
           "unreachable, 71 system, 74 output, 75 timeout, 78 configuration. See kronosctl(1).\n");
}

int main(int argc, char **argv)
{
    char name[64];
    int status;

    kw_single_openblas(argv);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an output error like any other */
    if (argc < 2)
        return kc_fail(KC_USAGE, "expected a command, found none (see kronosctl --help)");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help();
        return fflush(stdout) == 0 ? KC_OK : KC_OUTPUT;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        puts("kronosctl " PACKAGE_VERSION);
        return fflush(stdout) == 0 ? KC_OK : KC_OUTPUT;
    }
    for (size_t i = 0; i < KR_ARRAY_LENGTH(commands); i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        snprintf(name, sizeof(name), "kronosctl %s", commands[i].name);
        argv[1] = name;
        status = commands[i].run(argc - 1, argv + 1);
        if (fflush(stdout) != 0 && status == KC_OK)
            status = kc_fail(KC_OUTPUT, "stdout: cannot be written");
        return status;
    }
    return kc_fail(KC_USAGE, "expected a command, found \"%s\" (see kronosctl --help)", argv[1]);
}
