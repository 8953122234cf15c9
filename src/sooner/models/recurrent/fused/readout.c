/* The readout of sooner/models/recurrent/readout.py in float32: batch norm, activation and linear layer over rows of hidden states.

       z = scale h + shift        logits = phi(z) W'

   Rows are divided into shares, and a share into blocks that stay in the cache. Sums are by share, in double. */

#include "shared.h"

#include <string.h>

typedef struct {
    int64_t rows, size, classes, block, shares, activation, scratch_size;
    sgemm_function *sgemm;
    parallel_function *parallel; /* NULL: one thread */
    const float *hidden;         /* (rows, H) */
    const float *scale;          /* H */
    const float *shift;          /* H */
    const float *weight;         /* (K, H) */
    float *logits;               /* (rows, K) */
    const float *d_logits;       /* (rows, K) */
    float *d_hidden;             /* (rows, H) */
    float *d_weight;             /* (shares, K, H), zeros */
    double *sums;                /* (shares, 2, H), zeros */
    const float *slope;          /* H */
    const float *offset;         /* H */
    float *scratch;              /* (shares, scratch_size) */
} Rows;

static int64_t first_row(const Rows *s, int64_t share) { return s->rows * share / s->shares; }

/* The sums of h - shift and of its square, where `shift` is a row of the batch or its mean. */
static void moments_share(const void *rows, int64_t share)
{
    const Rows *s = rows;
    const int64_t H = s->size, stop = first_row(s, share + 1);
    float *sum = s->scratch + share * s->scratch_size, *square = sum + H;
    for (int64_t start = first_row(s, share); start < stop; start += s->block) {
        memset(sum, 0, 2 * H * sizeof(float));
        for (int64_t r = start; r < least(start + s->block, stop); r++) {
#pragma omp simd
            for (int64_t k = 0; k < H; k++) {
                const float from = s->hidden[r * H + k] - s->shift[k];
                sum[k] += from;
                square[k] += from * from;
            }
        }
        for (int64_t k = 0; k < 2 * H; k++)
            s->sums[share * 2 * H + k] += sum[k];
    }
}

INLINE void activate(const Rows *s, const float *hidden, float *out, int64_t count, int activation)
{
    for (int64_t r = 0; r < count; r++) {
#pragma omp simd
        for (int64_t k = 0; k < s->size; k++)
            out[r * s->size + k] = phi(s->scale[k] * hidden[r * s->size + k] + s->shift[k], activation);
    }
}

INLINE void forward_rows(const Rows *s, int64_t share, int activation)
{
    const int64_t H = s->size, stop = first_row(s, share + 1);
    float *activated = s->scratch + share * s->scratch_size;
    for (int64_t start = first_row(s, share); start < stop; start += s->block) {
        const int64_t count = least(s->block, stop - start);
        activate(s, s->hidden + start * H, activated, count, activation);
        multiply(s->sgemm, count, s->classes, H, (Matrix){activated, H, 0}, (Matrix){s->weight, H, 1}, 0.0f,
                 s->logits + start * s->classes);
    }
}

/* The gradients of z into `d_hidden`, their sums with and without h, and the gradient of W. */
INLINE void backward_rows(const Rows *s, int64_t share, int activation)
{
    const int64_t H = s->size, K = s->classes, stop = first_row(s, share + 1);
    float *activated = s->scratch + share * s->scratch_size, *sum = activated + s->block * H, *correlation = sum + H;
    for (int64_t start = first_row(s, share); start < stop; start += s->block) {
        const int64_t count = least(s->block, stop - start);
        const float *d_logits = s->d_logits + start * K;
        activate(s, s->hidden + start * H, activated, count, activation);
        multiply(s->sgemm, K, H, count, (Matrix){d_logits, K, 1}, (Matrix){activated, H, 0}, 1.0f, s->d_weight + share * K * H);
        multiply(s->sgemm, count, H, K, (Matrix){d_logits, K, 0}, (Matrix){s->weight, H, 0}, 0.0f, s->d_hidden + start * H);
        memset(sum, 0, 2 * H * sizeof(float));
        for (int64_t r = 0; r < count; r++) {
            const float *hidden = s->hidden + (start + r) * H, *value = activated + r * H;
            float *dz = s->d_hidden + (start + r) * H;
#pragma omp simd
            for (int64_t k = 0; k < H; k++) {
                const float d = dz[k] * slope(value[k], activation);
                dz[k] = d;
                sum[k] += d;
                correlation[k] += d * hidden[k];
            }
        }
        for (int64_t k = 0; k < 2 * H; k++)
            s->sums[share * 2 * H + k] += sum[k];
    }
}

static void forward_share(const void *rows, int64_t share)
{
    if (((const Rows *)rows)->activation == TANH)
        forward_rows(rows, share, TANH);
    else
        forward_rows(rows, share, B2BSQRT);
}

static void backward_share(const void *rows, int64_t share)
{
    if (((const Rows *)rows)->activation == TANH)
        backward_rows(rows, share, TANH);
    else
        backward_rows(rows, share, B2BSQRT);
}

/* From the gradients of z to those of h: the mean and the variance depend on every row. */
static void center_share(const void *rows, int64_t share)
{
    const Rows *s = rows;
    const int64_t H = s->size;
    for (int64_t r = first_row(s, share); r < first_row(s, share + 1); r++) {
        const float *hidden = s->hidden + r * H;
        float *dz = s->d_hidden + r * H;
#pragma omp simd
        for (int64_t k = 0; k < H; k++)
            dz[k] = dz[k] * s->scale[k] + (hidden[k] * s->slope[k] + s->offset[k]);
    }
}

void sooner_moments(const Rows *s) { on_threads(s->parallel, moments_share, s, s->shares); }
void sooner_readout(const Rows *s) { on_threads(s->parallel, forward_share, s, s->shares); }
void sooner_readout_backward(const Rows *s) { on_threads(s->parallel, backward_share, s, s->shares); }
void sooner_center(const Rows *s) { on_threads(s->parallel, center_share, s, s->shares); }
