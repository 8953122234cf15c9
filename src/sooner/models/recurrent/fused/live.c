/* One observation of live series, in float32: the step of sooner/models/recurrent/model.py without the formula of the scores.

   The state of a series is that of its N newest windows, oldest first, each the hidden state and then the cell. The observation
   advances them and starts a new one; the first is then dropped. With full memory there is one window, which is neither dropped
   nor joined by another. */

#include "shared.h"

typedef struct {
    int64_t streams, windows, fresh, size, classes, block, shares, activation, scratch_size;
    sgemm_function *sgemm;
    parallel_function *parallel; /* NULL: one thread */
    const float *projected;      /* (streams, 4H) */
    const float *recurrent;      /* (4H, H) */
    const float *peepholes;      /* (3, H) */
    const float *zeros;          /* 4H */
    const float *states;         /* (streams, windows, 2H) */
    const float *ages;           /* streams */
    const float *gamma, *beta, *mean, *var; /* H */
    const float *weight;         /* (K, H) */
    float *after;                /* (streams, windows, 2H) */
    float *logits;               /* (streams, 1 + fresh, K): of the oldest window and of the next one */
    float *scratch;              /* (shares, scratch_size) */
    double eps;
} Live;

INLINE void normalize(const Live *s, const float *hidden, float *out, int activation)
{
    const float eps = (float)s->eps;
#pragma omp simd
    for (int64_t k = 0; k < s->size; k++)
        out[k] = phi((hidden[k] - s->mean[k]) / __builtin_sqrtf(s->var[k] + eps) * s->gamma[k] + s->beta[k], activation);
}

INLINE void live_rows(const Live *s, int64_t share, int activation)
{
    const int64_t H = s->size, N = s->windows, reads = 1 + s->fresh, stop = s->streams * (share + 1) / s->shares;
    float *dropped = s->scratch + share * s->scratch_size, *new_gates = dropped + 2 * H, *sums = new_gates + 4 * H;
    float *activated = sums + s->block * N * 4 * H;
    for (int64_t start = s->streams * share / s->shares; start < stop; start += s->block) {
        const int64_t count = least(s->block, stop - start);
        if (N)
            multiply(s->sgemm, count * N, 4 * H, H, (Matrix){s->states + start * N * 2 * H, 2 * H, 0},
                     (Matrix){s->recurrent, H, 1}, 0.0f, sums);
        for (int64_t n = 0; n < count; n++) {
            const int64_t stream = start + n, age = (int64_t)s->ages[stream];
            /* The first window of a young series has not yet moved up to the oldest position. */
            const int64_t oldest = s->fresh && age < N ? N - age : 0, next = least(oldest + 1, N);
            for (int64_t j = 0; j < N + s->fresh; j++) {
                const float *before = j < N ? s->states + (stream * N + j) * 2 * H + H : s->zeros;
                float *gates = j < N ? sums + (n * N + j) * 4 * H : new_gates;
                float *out = j < s->fresh ? dropped : s->after + (stream * N + j - s->fresh) * 2 * H;
                forward_row(H, s->projected + stream * 4 * H, j < N ? gates : s->zeros, before, s->peepholes, gates, out + H,
                            out, activation);
                if (j == oldest)
                    normalize(s, out, activated + n * reads * H, activation);
                if (s->fresh && j == next)
                    normalize(s, out, activated + (n * reads + 1) * H, activation);
            }
        }
        multiply(s->sgemm, count * reads, s->classes, H, (Matrix){activated, H, 0}, (Matrix){s->weight, H, 1}, 0.0f,
                 s->logits + start * reads * s->classes);
    }
}

static void live_share(const void *live, int64_t share)
{
    if (((const Live *)live)->activation == TANH)
        live_rows(live, share, TANH);
    else
        live_rows(live, share, B2BSQRT);
}

void sooner_live(const Live *s) { on_threads(s->parallel, live_share, s, s->shares); }
