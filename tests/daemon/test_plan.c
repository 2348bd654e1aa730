/* SPDX-License-Identifier: MIT */
#include "daemon/plan.h"
#include "daemon/scoring.h"

#include "core/pool.h"
#include "core/series.h"
#include "core/summary.h"
#include "tests/daemon/config_files.h"
#include "tests/tap.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MIB ((size_t)1 << 20)

static struct kr_model *model;

static void load(void)
{
    struct kr_error error = {""};

    KT_CHECK(kr_model_load(kt_source("golden/pico/predictor"), kt_source("golden/pico/tokenizer"),
                           &model, &error) == 0,
             "%s", error.text);
}

/* The parts are those that the other modules say they take. */
static void sums(void)
{
    struct kd_config *config =
        kt_config_load("[limits]\nsymbols = 10\nworkers = 3\npending = 1000\n"
                       "request_bytes = 1M\nreply_bytes = 1M\n");
    struct kr_generator_size size;
    struct kr_live_config live;
    struct kd_settings settings;
    struct kd_plan plan;
    size_t n_levels, visible, stream, worker;

    if (!config || !model)
        return;
    CU_ASSERT_EQUAL_FATAL(kd_plan_make(config, model, 0, NULL, &plan, NULL), 0);
    CU_ASSERT_EQUAL(kd_config_stream(config, "A", "1m", &settings, NULL), 0);
    CU_ASSERT_EQUAL(kd_plan_live(config, &settings, model, "1m", "A", &live, NULL), 0);
    CU_ASSERT_EQUAL(live.mode, KR_MODE_ANCHORED);
    CU_ASSERT_TRUE(live.growth > 66 && live.growth <= 88);
    live.growth = 88; /* the plan knows no stream's shortening */
    stream = kr_live_size_bytes(model, &live) + kr_series_size_bytes(1024) +
             kd_scoring_bytes(&settings) + 2 * kd_plan_forecast_message(24, 7);
    CU_ASSERT_TRUE(plan.stream_bytes > stream && plan.stream_bytes <= stream + 8192);
    kd_plan_generator(config, model, &size, &n_levels, &visible);
    CU_ASSERT_TRUE(size.max_paths == 32 && size.max_horizon == 24 && size.max_context == 512);
    CU_ASSERT_TRUE(size.min_window == 64 && size.max_window == 488 && n_levels == 7);
    CU_ASSERT_EQUAL(visible, 512);
    worker = kr_engine_size_bytes(model, visible) + kr_generator_size_bytes(model, &size) +
             kr_paths_size_bytes(32, 24) + kr_summary_size_bytes(24, 32, 7) +
             kd_plan_forecast_message(24, 7);
    CU_ASSERT_TRUE(plan.worker_bytes >= worker && plan.worker_bytes < worker + 4096);
    CU_ASSERT_EQUAL(plan.n_symbols, 10);
    CU_ASSERT_EQUAL(plan.n_workers, 3);
    CU_ASSERT_EQUAL(plan.n_spares, 10 * 8 * 8 / (88 * 3) + 1);
    CU_ASSERT_EQUAL(plan.spare_rows, 488);
    CU_ASSERT_EQUAL(plan.spare_bytes, kr_pool_size_bytes(model, plan.n_spares, 488));
    CU_ASSERT_EQUAL(plan.weight_bytes, model->n_weight_bytes);
    CU_ASSERT_EQUAL(plan.total_bytes, plan.weight_bytes + 10 * plan.stream_bytes +
                                          3 * plan.worker_bytes + plan.spare_bytes +
                                          plan.control_bytes + plan.queue_bytes);
    CU_ASSERT_EQUAL(plan.limit_bytes, 0);
    CU_ASSERT_STRING_EQUAL(plan.limit_source, "no limit");
    kd_settings_free(&settings);
    kd_config_free(&config);
}

static void largest_variant(void)
{
    struct kd_config *config = kt_config_load("[limits]\nsymbols = 1\n"
                                              "[stream A]\npaths = 64\npublish_paths = yes\n"
                                              "[stream B]\nlookback = 128\nhorizon = 200\n");
    struct kr_generator_size size;
    struct kd_plan plan, plain;
    size_t n_levels, visible;
    struct kd_config *defaults = kt_config_load("[limits]\nsymbols = 1\n");

    if (!config || !defaults || !model)
        return;
    CU_ASSERT_EQUAL_FATAL(kd_plan_make(config, model, 0, NULL, &plan, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(kd_plan_make(defaults, model, 0, NULL, &plain, NULL), 0);
    kd_plan_generator(config, model, &size, &n_levels, &visible);
    CU_ASSERT_TRUE(size.max_paths == 64 && size.max_horizon == 200);
    CU_ASSERT_TRUE(plan.worker_bytes > plain.worker_bytes);
    CU_ASSERT_TRUE(plan.stream_bytes >= plain.stream_bytes + 2 * 24 * 64 * 24);
    kd_config_free(&config);
    kd_config_free(&defaults);
}

/* Where calibration is kept, its way to the disk counts, by the stream with most to keep. */
static void state(void)
{
    static const char keys[] = "[stream A]\npaths = 64\n[stream B]\nhorizon = 48\n"
                               "[limits]\nsymbols = 7\n[state]\ndirectory = /nowhere\n";
    const struct kr_pending_size size = {48, 32, 7, 0};
    struct kd_config *config = kt_config_load(keys), *without;
    struct kd_keep_plan keep;
    struct kd_plan plan, plain;
    char text[4096] = "";
    FILE *out;

    without = kt_config_load("[limits]\nsymbols = 7\n[stream A]\npaths = 64\n[stream B]\n"
                             "horizon = 48\n");
    if (!config || !without || !model)
        return;
    CU_ASSERT_EQUAL_FATAL(kd_plan_make(config, model, 0, NULL, &plan, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(kd_plan_make(without, model, 0, NULL, &plain, NULL), 0);
    CU_ASSERT_TRUE(
        kd_keep_plan(&size, 7, &keep)); /* 57 forecasts of 48 steps: more than 33 of 24 */
    CU_ASSERT_EQUAL(plan.keep.queue_bytes, keep.queue_bytes);
    CU_ASSERT_EQUAL(plan.keep.map_bytes, keep.map_bytes);
    CU_ASSERT_EQUAL(plan.state_bytes, 3 * keep.queue_bytes);
    CU_ASSERT_EQUAL(plan.total_bytes, plain.total_bytes + plan.state_bytes);
    CU_ASSERT_TRUE(plain.state_bytes == 0 && plain.keep.map_bytes == 0);
    out = fmemopen(text, sizeof(text), "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    CU_ASSERT_EQUAL(kd_plan_print(&plan, out), 0);
    fclose(out);
    KT_CHECK(strstr(text, "# state on its way to the disk ") &&
                 strstr(text, " on the disk)\n# total "),
             "%s", text);
    kd_config_free(&config);
    kd_config_free(&without);
}

static void limits(void)
{
    struct kd_config *config = kt_config_load("[limits]\nsymbols = 1000\nmemory = 64M\n");
    struct kr_error error = {""};
    struct kd_plan plan = {0};

    if (!config || !model)
        return;
    CU_ASSERT_EQUAL(kd_plan_make(config, model, 0, NULL, &plan, &error), -E2BIG);
    KT_CHECK(strstr(error.text, "test.conf: memory plan: 1000 streams of ") != NULL, "%s",
             error.text);
    KT_CHECK(strstr(error.text, "expected at most 64.0 MiB ([limits] memory)") != NULL, "%s",
             error.text);
    KT_CHECK(!strchr(error.text, '\n'), "one line");
    CU_ASSERT_TRUE(plan.total_bytes > plan.limit_bytes && plan.limit_bytes == 64 * MIB);
    CU_ASSERT_EQUAL(config->limits.symbols, 1000);
    kd_config_free(&config);

    /* the default number of symbols gives way, down to one, and no further */
    config = kt_config_load("");
    CU_ASSERT_EQUAL(kd_plan_make(config, model, 400 * MIB, "the cgroup", &plan, &error), 0);
    CU_ASSERT_TRUE(plan.lowered && plan.n_symbols < 1000 && plan.n_symbols > 1);
    CU_ASSERT_EQUAL(config->limits.symbols, plan.n_symbols);
    CU_ASSERT_TRUE(plan.total_bytes <= 400 * MIB);
    CU_ASSERT_TRUE(plan.total_bytes + 2 * plan.stream_bytes > 400 * MIB);
    CU_ASSERT_STRING_EQUAL(plan.limit_source, "the cgroup");
    kd_config_free(&config);
    config = kt_config_load("");
    CU_ASSERT_EQUAL(kd_plan_make(config, model, 40 * MIB, "the cgroup", &plan, &error), -E2BIG);
    KT_CHECK(strstr(error.text, "memory plan: 1 streams of ") != NULL, "%s", error.text);
    CU_ASSERT_EQUAL(config->limits.symbols, 1000);
    kd_config_free(&config);
}

static void impossible(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"[forecast]\nmode = rolling\n", ": mode: expected exact or anchored"},
        {"[forecast]\n[stream A*]\nmode = anchored\nhorizon = 100\n",
         ":2: [stream A*]: growth: expected at least 24 for mode anchored"},
        {"[stream A]\nmode = anchored\ngrowth = 200\n", ":1: [stream A]: max_context: expected"},
    };
    struct kr_error error = {""};
    struct kd_plan plan;

    if (!model)
        return;
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kd_config *config = kt_config_load(cases[i].text);

        CU_ASSERT_EQUAL(kd_plan_make(config, model, 0, NULL, &plan, &error), -EINVAL);
        KT_CHECK(strstr(error.text, cases[i].message) != NULL, "expected %s, found %s",
                 cases[i].message, error.text);
        kd_config_free(&config);
    }
}

static void printed(void)
{
    struct kd_config *config = kt_config_load("[limits]\nsymbols = 2\n");
    struct kd_plan plan;
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    if (!config || !model)
        return;
    CU_ASSERT_EQUAL(kd_plan_make(config, model, 900 * MIB, "the cgroup", &plan, NULL), 0);
    CU_ASSERT_EQUAL(kd_config_print(config, out), 0);
    CU_ASSERT_EQUAL(kd_plan_print(&plan, out), 0);
    fclose(out);
    KT_CHECK(strstr(text, "\n# 2 streams of ") && strstr(text, " of 900.0 MiB (the cgroup)\n"),
             "%s", text);
    kd_config_free(&config);
    config = kt_config_load(text); /* comments, so still a configuration */
    CU_ASSERT_PTR_NOT_NULL(config);
    kd_config_free(&config);
    free(text);
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[1200];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    file = fopen(path, "w");
    if (!file)
        abort();
    fputs(text, file);
    fclose(file);
}

static void system_limit(void)
{
    const char *source = "unset";
    char root[900];

    snprintf(root, sizeof(root), "%s/root", kt_tmp());
    mkdir(root, 0755);
    CU_ASSERT_EQUAL(kd_plan_system_limit(root, &source), 0);
    CU_ASSERT_STRING_EQUAL(source, "unset");
    put(root, "proc/meminfo", "MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n");
    CU_ASSERT_EQUAL(kd_plan_system_limit(root, &source), 2 * MIB);
    CU_ASSERT_STRING_EQUAL(source, "available memory");
    put(root, "proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/kronosd.service\n");
    put(root, "sys/fs/cgroup/system.slice/kronosd.service/memory.max", "max\n");
    CU_ASSERT_EQUAL(kd_plan_system_limit(root, &source), 2 * MIB);
    put(root, "sys/fs/cgroup/system.slice/memory.max", "1048576\n");
    CU_ASSERT_EQUAL(kd_plan_system_limit(root, &source), MIB);
    CU_ASSERT_STRING_EQUAL(source, "the cgroup");
    put(root, "sys/fs/cgroup/system.slice/kronosd.service/memory.max", "65536\n");
    CU_ASSERT_EQUAL(kd_plan_system_limit(root, &source), 65536);
    put(root, "sys/fs/cgroup/memory.max", "4096\n"); /* a container's own root */
    CU_ASSERT_EQUAL(kd_plan_system_limit(root, &source), 4096);
    put(root, "proc/self/cgroup", "0::/\n");
    CU_ASSERT_EQUAL(kd_plan_system_limit(root, &source), 4096);
    CU_ASSERT_TRUE(kd_plan_system_limit(NULL, &source) > 0);
}

static void messages(void)
{
    cpu_set_t one, all;

    CU_ASSERT_TRUE(kd_plan_forecast_message(24, 7) > 24 * 9 * (7 * 9 + 2));
    CU_ASSERT_TRUE(kd_plan_forecast_message(24, 7) < 32768);
    CU_ASSERT_TRUE(kd_plan_paths_message(24, 32) >= 24 * 32 * 24);
    CU_ASSERT_EQUAL(kd_plan_forecast_message(SIZE_MAX / 16, 7), 0);
    CU_ASSERT_EQUAL(kd_plan_paths_message(SIZE_MAX / 2, 32), 0);

    CPU_ZERO(&one);
    sched_getaffinity(0, sizeof(all), &all);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    CU_ASSERT_EQUAL(kd_plan_cpus(), (size_t)CPU_COUNT(&all));
    CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof(one), &one), 0);
    CU_ASSERT_EQUAL(kd_plan_cpus(), 1);
    sched_setaffinity(0, sizeof(all), &all);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"the model", load},
        {"parts and total", sums},
        {"the largest of the sections", largest_variant},
        {"what is kept on disk", state},
        {"over the limit", limits},
        {"what the model cannot do", impossible},
        {"printed as comments", printed},
        {"cgroup and available memory", system_limit},
        {"messages and processors", messages},
    };
    int status = kt_main("plan", tests, KR_ARRAY_LENGTH(tests));

    kr_model_free(&model);
    return status;
}
