/* SPDX-License-Identifier: MIT */
/* What a stream's worker has to do, in the stream's own order. */
#ifndef KD_JOB_H
#define KD_JOB_H

#include "core/live.h"

struct kd_settings;

enum kd_job_kind {
    KD_JOB_BAR,      /* an accepted bar, or a synthetic one that fills a gap */
    KD_JOB_FORMING,  /* a bar that is still forming: overlaid, then forgotten */
    KD_JOB_FORECAST, /* nothing new: forecast behind the last bar */
    KD_JOB_SETTINGS, /* other settings from here on (reload) */
    KD_JOB_RESET,    /* forget all bars */
    KD_JOB_SAVE,     /* submit to the store what it has not got */
};

struct kd_job {
    struct kd_job *next;
    enum kd_job_kind kind;
    enum kr_change change;        /* of a bar */
    bool forecast;                /* one is wanted behind this job */
    bool gap;                     /* of a bar: bars are missing before it */
    bool settles;                 /* the stream is REANCHORING until this job is done */
    struct kr_bar bar;            /* of BAR and FORMING */
    int64_t arrived_ns;           /* monotonic: the deadline that orders streams, and `lat` */
    struct kd_settings *settings; /* of SETTINGS; owned by the job */
};

#endif
