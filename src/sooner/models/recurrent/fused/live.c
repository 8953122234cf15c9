/* One observation of live series, in float32: the step of sooner/models/recurrent/model.py after the encoder.

   The state of a series is that of its N newest windows, oldest first, each the hidden state and then the cell; the scores; the
   logits of the second-oldest window; and the number of observations read, at most N+1. The observation advances the windows
   and starts a new one; the first is then dropped. With full memory there is one window, which is neither dropped nor joined by
   another, and neither logits nor age. */

#include "shared.h"

typedef struct {
    int64_t streams, channels, windows, fresh, adds, size, classes, block, shares, activation, scratch_size;
    sgemm_function *sgemm;
    parallel_function *parallel; /* NULL: one thread */
    const float *observations;   /* (streams, channels) */
    const float *input, *bias;   /* (4H, channels) and 4H */
    const float *recurrent;      /* (4H, H) */
    const float *peepholes;      /* (3, H), or NULL for none */
    const float *gamma, *beta, *mean, *var; /* H */
    const float *weight;         /* (K, H) */
    const float *prior;          /* K, or NULL for none */
    const float *states;         /* (streams, windows, 2H) */
    const float *scores;         /* (streams, K) */
    const float *logits;         /* (streams, K) */
    const float *ages;           /* streams */
    float *new_states, *new_scores, *new_logits, *new_ages; /* as before; without `fresh`, the last two are not written */
    float *scratch;              /* (shares, scratch_size), then (streams, 4H) for the projection */
    double eps;
} Live;

INLINE void normalize(const Live *s, const float *hidden, float *out, int activation)
{
    const float eps = (float)s->eps;
#pragma omp simd
    for (int64_t k = 0; k < s->size; k++)
        out[k] = phi((hidden[k] - s->mean[k]) / __builtin_sqrtf(s->var[k] + eps) * s->gamma[k] + s->beta[k], activation);
}

INLINE float *projected(const Live *s) { return s->scratch + s->shares * s->scratch_size; }

/* One product for all series: a block has few rows, and the weights may be large. */
static void project(const Live *s)
{
    const int64_t gates = 4 * s->size;
    for (int64_t n = 0; n < s->streams; n++)
        for (int64_t k = 0; k < gates; k++)
            projected(s)[n * gates + k] = s->bias[k];
    multiply(s->sgemm, s->streams, gates, s->channels, (Matrix){s->observations, s->channels, 0},
             (Matrix){s->input, s->channels, 1}, 1.0f, projected(s));
}

/* The formula of the scores, see `m_tandem_step` of sooner/scores.py; `now` are the logits of the oldest window. */
INLINE void score(const Live *s, int64_t stream, const float *now, const float *zeros)
{
    const int64_t K = s->classes;
    const int old = s->adds && s->ages[stream] > (float)s->windows;
    const float *before = old ? s->scores + stream * K : zeros;
    const float *prior = s->prior ? s->prior : zeros, *less = old && s->windows ? s->logits + stream * K : prior;
    for (int64_t k = 0; k < K; k++)
        s->new_scores[stream * K + k] = before[k] + now[k] - less[k];
}

INLINE void live_rows(const Live *s, int64_t share, int activation)
{
    const int64_t H = s->size, K = s->classes, N = s->windows, reads = 1 + s->fresh, stop = s->streams * (share + 1) / s->shares;
    float *zeros = s->scratch + share * s->scratch_size, *dropped = zeros + (4 * H > K ? 4 * H : K), *new_gates = dropped + 2 * H;
    float *sums = new_gates + 4 * H, *activated = sums + s->block * N * 4 * H, *logits = activated + s->block * reads * H;
    for (float *zero = zeros; zero < dropped; zero++)
        *zero = 0.0f;
    const float *peepholes = s->peepholes ? s->peepholes : zeros;
    for (int64_t start = s->streams * share / s->shares; start < stop; start += s->block) {
        const int64_t count = least(s->block, stop - start);
        if (N)
            multiply(s->sgemm, count * N, 4 * H, H, (Matrix){s->states + start * N * 2 * H, 2 * H, 0},
                     (Matrix){s->recurrent, H, 1}, 0.0f, sums);
        for (int64_t n = 0; n < count; n++) {
            const int64_t stream = start + n, age = s->fresh ? (int64_t)s->ages[stream] : 0;
            /* The first window of a young series has not yet moved up to the oldest position. */
            const int64_t oldest = s->fresh && age < N ? N - age : 0, next = least(oldest + 1, N);
            for (int64_t j = 0; j < N + s->fresh; j++) {
                const float *before = j < N ? s->states + (stream * N + j) * 2 * H + H : zeros;
                float *gates = j < N ? sums + (n * N + j) * 4 * H : new_gates;
                float *out = j < s->fresh ? dropped : s->new_states + (stream * N + j - s->fresh) * 2 * H;
                forward_row(H, projected(s) + stream * 4 * H, j < N ? gates : zeros, before, peepholes, gates, out + H, out,
                            activation);
                if (j == oldest)
                    normalize(s, out, activated + n * reads * H, activation);
                if (s->fresh && j == next)
                    normalize(s, out, activated + (n * reads + 1) * H, activation);
            }
            if (s->fresh)
                s->new_ages[stream] = (float)least(age + 1, N + 1);
        }
        multiply(s->sgemm, count * reads, K, H, (Matrix){activated, H, 0}, (Matrix){s->weight, H, 1}, 0.0f, logits);
        for (int64_t n = 0; n < count; n++) {
            const float *now = logits + n * reads * K;
            score(s, start + n, now, zeros);
            for (int64_t k = 0; s->fresh && k < K; k++)
                s->new_logits[(start + n) * K + k] = now[K + k];
        }
    }
}

static void live_share(const void *live, int64_t share)
{
    if (((const Live *)live)->activation == TANH)
        live_rows(live, share, TANH);
    else
        live_rows(live, share, B2BSQRT);
}

void sooner_live(const Live *s)
{
    project(s);
    on_threads(s->parallel, live_share, s, s->shares);
}
