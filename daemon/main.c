/* SPDX-License-Identifier: MIT */
/* kronosd: the command line, and a list of initialisations with their exact reverse. */
#include "clients/single.h"
#include "core/product.h"
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/notify.h"

#include <argp.h>
#include <config.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define DEFAULT_CONFIG KR_SYSCONFDIR "/kronosd/kronosd.conf"

const char *argp_program_version = "kronosd " PACKAGE_VERSION;

struct options {
    const char *config;
    bool check, print;
};

enum { OPTION_CHECK = 256, OPTION_PRINT };

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 'c':
        options->config = argument;
        return 0;
    case OPTION_CHECK:
        options->check = true;
        return 0;
    case OPTION_PRINT:
        options->print = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: no arguments are expected", argument);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_options(int argc, char **argv, struct options *ret)
{
    static const struct argp_option table[] = {
        {"config", 'c', "FILE", 0, "Configuration (default " DEFAULT_CONFIG ")", 0},
        {"check-config", OPTION_CHECK, NULL, 0,
         "Check the configuration, the model and the memory plan, then end", 0},
        {"print-config", OPTION_PRINT, NULL, 0,
         "Print the whole configuration, defaults included, and the memory plan, then end", 0},
        {0},
    };
    static const struct argp argp = {
        .options = table,
        .parser = parse_option,
        .doc =
            "Take bars of market streams, publish sampled forecasts of each.\v"
            "Exit status: 0; 64 wrong usage; 70 an internal failure; 78 a configuration, model or "
            "endpoint that cannot be used, said in one line.",
    };

    argp_err_exit_status = EX_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, ret);
}

/* Before any thread is there: all inherit it, and signalfd takes them. */
static void block_signals(void)
{
    sigset_t signals;

    sigfillset(&signals);
    /* Faults of our own stay what they are. */
    sigdelset(&signals, SIGSEGV);
    sigdelset(&signals, SIGBUS);
    sigdelset(&signals, SIGFPE);
    sigdelset(&signals, SIGILL);
    sigdelset(&signals, SIGABRT);
    sigdelset(&signals, SIGTRAP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

static int fail(const struct kr_error *error)
{
    kd_notify_status("failed: %s", error->text);
    kd_say(KD_MSG_FATAL, "%s", error->text);
    kd_log_flush(true);
    return EX_CONFIG;
}

/* No configuration, so no [log] says where messages go: a service's to the journal, with its fields
 * as every other reason that it does not start; anybody else gets the bare line. */
static int refuse(const struct options *options, const struct kr_error *error)
{
    kd_log_init(&(struct kd_log_config){.level = LOG_INFO});
    if (!options->check && !options->print && kd_log_to_journal())
        return fail(error);
    fprintf(stderr, "%s\n", error->text);
    return EX_CONFIG;
}

static int load_config(const struct options *options, struct kd_config **ret,
                       struct kr_error *error)
{
    const char *path = options->config;

    if (!path && access(DEFAULT_CONFIG, F_OK) == 0)
        path = DEFAULT_CONFIG;
    return kd_config_load(path, ret, error);
}

/* The model of the configuration and the memory plan of both. */
static int load_plan(struct kd_config *config, struct kr_model **ret_model, struct kd_plan *ret,
                     struct kr_error *error)
{
    const char *source = NULL;
    size_t limit = kd_plan_system_limit(NULL, &source);
    const struct kr_products *products;
    int status = kr_products_choose((enum kr_matmul)config->model.matmul,
                                    (enum kr_precision)config->model.precision, &products, error);

    if (status == 0)
        status = kr_model_load_or_builtin(config->model.predictor, config->model.tokenizer,
                                          products, ret_model, error);
    return status ? status : kd_plan_make(config, *ret_model, limit, source, ret, error);
}

static int print(struct kd_config *config)
{
    struct kr_model *model = NULL;
    struct kd_plan plan;
    struct kr_error error;
    int status = load_plan(config, &model, &plan, &error);

    if (kd_config_print(config, stdout))
        return EX_IOERR;
    if (status == 0 || status == -E2BIG)
        (void)!kd_plan_print(&plan, stdout);
    if (status)
        fprintf(stderr, "%s\n", error.text);
    kr_model_free(&model);
    return status ? EX_CONFIG : fflush(stdout) ? EX_IOERR : EX_OK;
}

static int check(struct kd_config *config)
{
    struct kr_model *model = NULL;
    struct kd_plan plan;
    struct kr_error error;
    int status = load_plan(config, &model, &plan, &error);

    if (status)
        fprintf(stderr, "%s\n", error.text);
    kr_model_free(&model);
    return status ? EX_CONFIG : EX_OK;
}

static void list(char *ret, size_t size, const char *name, const struct kd_list *endpoints)
{
    for (size_t i = 0; i < endpoints->n; i++) {
        size_t length = strlen(ret);

        snprintf(ret + length, size - length, "%s%s %s", *ret ? ", " : "", name,
                 endpoints->items[i]);
    }
}

/* "659 MiB of 2048 MiB ([limits] memory)". */
static const char *memory_text(const struct kd_plan *plan, char *ret, size_t size)
{
    if (plan->limit_bytes)
        snprintf(ret, size, "%zu MiB of %zu MiB (%s)", plan->total_bytes >> 20,
                 plan->limit_bytes >> 20, plan->limit_source);
    else
        snprintf(ret, size, "%zu MiB (%s)", plan->total_bytes >> 20, plan->limit_source);
    return ret;
}

/* What an operator looks for first. */
static void say_ready(const struct kd_daemon *daemon)
{
    const struct kd_config *config = daemon->config;
    char endpoints[1024] = "", memory[128];

    list(endpoints, sizeof(endpoints), "feed", &config->feed.bind);
    list(endpoints, sizeof(endpoints), "feed from", &config->feed.connect);
    list(endpoints, sizeof(endpoints), "publish", &config->publish.bind);
    list(endpoints, sizeof(endpoints), "control", &config->control.bind);
    kd_say(KD_MSG_READY, "kronosd %s ready: model %s, %s, %zu workers; %s; memory plan %s",
           PACKAGE_VERSION, daemon->model->name, daemon->model->isa, daemon->plan.n_workers,
           endpoints, memory_text(&daemon->plan, memory, sizeof(memory)));
    kd_notify_ready("ready: model %s, %s", daemon->model->name, endpoints);
}

static int run(struct kd_config *config)
{
    struct kr_model *model = NULL;
    struct kd_daemon daemon;
    struct kd_plan plan;
    struct kr_error error;
    char memory[128];
    int status, result = EX_OK;

    kd_daemon_log(config);
    kd_say(KD_MSG_STARTING, "kronosd %s starts with %s", PACKAGE_VERSION,
           *config->path ? config->path : "its defaults");
    kd_notify_status("loading the model");
    kd_notify_extend(INT64_C(60000000000));
    status = load_plan(config, &model, &plan, &error);
    if (status) {
        result = fail(&error);
        kr_model_free(&model);
        kd_config_free(&config);
        return result;
    }
    kd_say(KD_MSG_MODEL_LOADED, "model %s, sha256 %s, %s, products %s %s", model->name,
           model->sha256, model->isa, model->products->panel ? "native" : "openblas",
           kr_precision_names[model->products->precision]);
    kd_say(KD_MSG_PLAN, "memory plan: %s, %zu streams%s, %zu workers",
           memory_text(&plan, memory, sizeof(memory)), plan.n_symbols,
           plan.lowered ? " (fewer than the default, to fit)" : "", plan.n_workers);
    kd_notify_status("opening sockets");
    status = kd_daemon_start(&daemon, &config, &model, &plan, &error);
    if (status) {
        result = fail(&error);
    } else {
        say_ready(&daemon);
        status = kd_daemon_run(&daemon, &error);
        if (status) {
            kd_say(KD_MSG_FATAL, "%s", error.text);
            result = EX_SOFTWARE;
        }
        kd_daemon_finish(&daemon);
    }
    kd_daemon_free(&daemon);
    if (daemon.stuck)
        _exit(result); /* a thread holds what exit() would free */
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct kd_config *config = NULL;
    struct kr_error error;
    int result;

    kw_single_openblas(argv);
    parse_options(argc, argv, &options);
    if (load_config(&options, &config, &error))
        return refuse(&options, &error);
    if (options.print || options.check) {
        result = options.print ? print(config) : check(config);
        kd_config_free(&config);
        return result;
    }
    block_signals();
    return run(config);
}
