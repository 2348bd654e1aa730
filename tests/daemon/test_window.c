/* SPDX-License-Identifier: MIT */
/* What a worker does with a stream's jobs, without threads or sockets. */
#include "daemon/window.h"
#include "daemon/clock.h"
#include "tests/daemon/harness.h"
#include "tests/tap.h"

#include <stdio.h>
#include <string.h>

struct desk {
    struct kr_model *model;
    struct kd_config *config;
    struct kd_rig rig;
    struct kd_outbox outbox;
    struct kr_interval interval;
    struct kr_live_config live;
    struct kd_window window;
    struct kd_turn turn;
    struct kd_job jobs[64];
    size_t n_jobs;
};

static void open_desk(struct desk *desk, const char *text)
{
    const struct kr_model_shape shape = {.s1_bits = 3,
                                         .tok_d_model = 16,
                                         .tok_heads = 2,
                                         .tok_ff = 16,
                                         .enc_blocks = 1,
                                         .dec_blocks = 1,
                                         .d_model = 16,
                                         .heads = 2,
                                         .ff = 16,
                                         .layers = 1};
    struct kd_rig_size size;
    struct kr_error error = {""};
    char path[256];
    FILE *file;

    memset(desk, 0, sizeof(*desk));
    snprintf(path, sizeof(path), "%s/window.conf", kt_tmp());
    file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fprintf(file,
            "[forecast]\nlookback = 8\nmin_bars = 4\nhorizon = 2\npaths = 2\nmode = exact\n%s\n",
            text);
    fclose(file);
    KT_CHECK(kd_config_load(path, &desk->config, &error) == 0, "%s", error.text);
    CU_ASSERT_EQUAL_FATAL(kr_model_random(&shape, 1, &desk->model, &error), 0);
    CU_ASSERT_EQUAL_FATAL(kr_interval_parse("1m", &desk->interval), 0);
    CU_ASSERT_EQUAL_FATAL(
        kd_config_stream(desk->config, "AAA", "1m", &desk->window.settings, &error), 0);
    desk->live = (struct kr_live_config){
        .mode = KR_MODE_EXACT, .lookback = 8, .min_bars = 4, .horizon = 2, .max_context = 32};
    size.generator = kr_live_generator_size(&desk->live, 2);
    size.max_visible = 32;
    KT_CHECK(kd_rig_init(&desk->rig, desk->model, &size, &error) == 0, "%s", error.text);
    CU_ASSERT_EQUAL_FATAL(kd_outbox_init(&desk->outbox), 0);
    desk->turn = (struct kd_turn){.rig = &desk->rig,
                                  .model = desk->model,
                                  .live = &desk->live,
                                  .symbol = "AAA",
                                  .interval = &desk->interval,
                                  .ep = 5,
                                  .owner = desk,
                                  .outbox = &desk->outbox};
}

static void close_desk(struct desk *desk)
{
    kd_window_free(&desk->window);
    kd_outbox_free(&desk->outbox);
    kd_rig_free(&desk->rig);
    kr_model_free(&desk->model);
    kd_config_free(&desk->config);
}

static struct kd_job *add(struct desk *desk, enum kd_job_kind kind, size_t i)
{
    struct kd_job *job = &desk->jobs[desk->n_jobs++];

    *job = (struct kd_job){.kind = kind,
                           .change = KR_NEXT,
                           .forecast = kind != KD_JOB_SETTINGS && kind != KD_JOB_RESET,
                           .bar = kt_bar("AAA", "1m", i).bar,
                           .arrived_ns = kd_mono_ns()};
    return job;
}

/* Do what was added. */
static void run(struct desk *desk, bool behind)
{
    for (size_t i = 0; i + 1 < desk->n_jobs; i++)
        desk->jobs[i].next = &desk->jobs[i + 1];
    desk->turn.behind = behind;
    desk->turn.started_ns = kd_mono_ns();
    kd_window_run(&desk->window, &desk->turn, desk->jobs);
    desk->n_jobs = 0;
}

struct sum {
    size_t n_results, n_forecasts, n_forming, n_settled, n_asked;
    uint64_t n_skipped, seq;
    int64_t as_of_ns;
    int status;
};

static struct sum collect(struct desk *desk)
{
    struct kd_result *result = kd_outbox_take(&desk->outbox);
    struct sum sum = {0};

    while (result) {
        struct kd_result *next = result->next;

        CU_ASSERT_PTR_EQUAL(result->owner, desk);
        CU_ASSERT_EQUAL(result->has_forecast, result->forecast.size > 0);
        sum.n_results++;
        sum.n_forecasts += result->has_forecast;
        sum.n_forming += result->forming;
        sum.n_settled += result->n_settled;
        sum.n_asked += result->n_asked;
        sum.n_skipped += result->n_skipped;
        if (result->has_forecast) {
            CU_ASSERT_TRUE(result->seq > sum.seq);
            sum.seq = result->seq;
            sum.as_of_ns = result->as_of_ns;
        }
        sum.status = result->status ? result->status : sum.status;
        kd_outbox_reuse(&desk->outbox, result);
        result = next;
    }
    return sum;
}

static void all_and_latest(void)
{
    struct desk desk;
    struct sum sum;

    open_desk(&desk, "backlog = all");
    for (size_t i = 0; i < 10; i++)
        add(&desk, KD_JOB_BAR, i);
    desk.jobs[7].forecast = false; /* not due */
    run(&desk, true);
    sum = collect(&desk);
    CU_ASSERT_EQUAL(sum.n_forecasts, 6); /* behind the 4th to the 10th but for one */
    CU_ASSERT_EQUAL(sum.seq, 6);
    CU_ASSERT_EQUAL(sum.n_skipped, 0);
    CU_ASSERT_EQUAL(sum.as_of_ns, kt_bar("AAA", "1m", 9).bar.t_ns);
    close_desk(&desk);
    open_desk(&desk, "backlog = latest");
    for (size_t i = 0; i < 10; i++)
        add(&desk, KD_JOB_BAR, i);
    run(&desk, true); /* others wait: none now */
    sum = collect(&desk);
    CU_ASSERT_EQUAL(sum.n_forecasts, 0);
    CU_ASSERT_EQUAL(sum.n_skipped, 7);
    for (size_t i = 10; i < 13; i++)
        add(&desk, KD_JOB_BAR, i);
    run(&desk, false);
    sum = collect(&desk);
    CU_ASSERT_EQUAL(sum.n_forecasts, 1);
    CU_ASSERT_EQUAL(sum.n_skipped, 2);
    CU_ASSERT_EQUAL(sum.as_of_ns, kt_bar("AAA", "1m", 12).bar.t_ns);
    close_desk(&desk);
}

static void forming(void)
{
    struct desk desk;
    struct sum sum;

    open_desk(&desk, "backlog = latest");
    for (size_t i = 0; i < 6; i++)
        add(&desk, KD_JOB_BAR, i);
    add(&desk, KD_JOB_FORMING, 6);
    run(&desk, false);
    sum = collect(&desk);
    CU_ASSERT_EQUAL(sum.n_forecasts, 2); /* the last final one is not sacrificed to it */
    CU_ASSERT_EQUAL(sum.n_forming, 1);
    CU_ASSERT_EQUAL(sum.as_of_ns, kt_bar("AAA", "1m", 6).bar.t_ns);
    /* overtaken by the final bar */
    add(&desk, KD_JOB_FORMING, 6);
    add(&desk, KD_JOB_BAR, 6);
    run(&desk, false);
    sum = collect(&desk);
    CU_ASSERT_EQUAL(sum.n_forecasts, 1);
    CU_ASSERT_EQUAL(sum.n_forming, 0);
    add(&desk, KD_JOB_FORMING, 6);
    run(&desk, false);
    CU_ASSERT_EQUAL(collect(&desk).n_results, 0);
    close_desk(&desk);
}

static void other_jobs(void)
{
    struct desk desk;
    struct kd_settings settings;
    struct kd_job *job;
    struct kd_result *result;
    struct sum sum;

    open_desk(&desk, "backlog = all");
    for (size_t i = 0; i < 5; i++)
        add(&desk, KD_JOB_BAR, i)->forecast = false;
    job = add(&desk, KD_JOB_BAR, 9);
    job->change = KR_REANCHOR;
    job->settles = true;
    job->gap = true;
    job->forecast = false;
    add(&desk, KD_JOB_FORECAST, 0);
    run(&desk, false);
    sum = collect(&desk);
    CU_ASSERT_EQUAL(sum.n_forecasts, 1);
    CU_ASSERT_EQUAL(sum.n_settled, 1);
    CU_ASSERT_EQUAL(sum.n_asked, 1);
    /* what is asked for too early is answered for all that */
    add(&desk, KD_JOB_RESET, 0);
    add(&desk, KD_JOB_FORECAST, 0);
    run(&desk, false);
    sum = collect(&desk);
    CU_ASSERT_EQUAL(sum.n_forecasts, 0);
    CU_ASSERT_EQUAL(sum.n_asked, 1);
    /* settings hold from their job on; numbers go on */
    kd_settings_copy(&settings, &desk.window.settings);
    settings.seed = 99;
    settings.publish_paths = true;
    for (size_t i = 0; i < 4; i++)
        add(&desk, KD_JOB_BAR, i)->forecast = i == 3;
    add(&desk, KD_JOB_SETTINGS, 0)->settings = &settings;
    add(&desk, KD_JOB_BAR, 4);
    run(&desk, false);
    result = kd_outbox_take(&desk.outbox);
    CU_ASSERT_PTR_NOT_NULL_FATAL(result);
    CU_ASSERT_EQUAL(result->seq, 2);
    CU_ASSERT_EQUAL(result->n_resets, 1);
    CU_ASSERT_EQUAL(result->paths.size, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(result->next);
    CU_ASSERT_EQUAL(result->next->seq, 3);
    CU_ASSERT_TRUE(result->next->paths.size > 0);
    kd_outbox_reuse(&desk.outbox, result->next);
    kd_outbox_reuse(&desk.outbox, result);
    kd_settings_free(&settings);
    close_desk(&desk);
}

/* A window that cannot be made: said once, then silence until reset. */
static void fault(void)
{
    struct desk desk;
    struct sum sum;

    open_desk(&desk, "backlog = all");
    desk.live.mode = KR_MODE_AUTO; /* never resolved */
    add(&desk, KD_JOB_BAR, 0)->settles = true;
    add(&desk, KD_JOB_BAR, 1);
    run(&desk, false);
    sum = collect(&desk);
    CU_ASSERT_EQUAL(sum.n_results, 1);
    CU_ASSERT_TRUE(sum.status < 0);
    CU_ASSERT_EQUAL(sum.n_settled, 1);
    add(&desk, KD_JOB_BAR, 2);
    run(&desk, false);
    CU_ASSERT_EQUAL(collect(&desk).n_results, 0);
    desk.live.mode = KR_MODE_EXACT;
    add(&desk, KD_JOB_RESET, 0);
    for (size_t i = 0; i < 4; i++)
        add(&desk, KD_JOB_BAR, i);
    run(&desk, false);
    CU_ASSERT_EQUAL(collect(&desk).n_forecasts, 1);
    close_desk(&desk);
}

static bool stop(void *context, size_t step)
{
    (void)context;
    (void)step;
    return false;
}

/* A forecast that is told to end is skipped and leaves the window whole. */
static void cancelled(void)
{
    struct desk desk;
    struct sum sum;

    open_desk(&desk, "backlog = all");
    for (size_t i = 0; i < 4; i++)
        add(&desk, KD_JOB_BAR, i);
    desk.turn.keep_going = stop;
    run(&desk, false);
    sum = collect(&desk);
    CU_ASSERT_EQUAL(sum.n_forecasts, 0);
    CU_ASSERT_EQUAL(sum.n_skipped, 1);
    desk.turn.keep_going = NULL;
    add(&desk, KD_JOB_BAR, 4);
    run(&desk, false);
    sum = collect(&desk);
    CU_ASSERT_EQUAL(sum.n_forecasts, 1);
    CU_ASSERT_EQUAL(sum.seq, 1);
    close_desk(&desk);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"backlog = all, backlog = latest", all_and_latest},
        {"forming bars", forming},
        {"reanchoring, asking, settings, reset", other_jobs},
        {"a fault, until reset", fault},
        {"a forecast told to end", cancelled},
    };

    return kt_main("window", tests, sizeof(tests) / sizeof(tests[0]));
}
