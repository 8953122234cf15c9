/* The window kernel of sooner/models/recurrent/kernel.py in float32, with one pass over memory for each position.

   symbol     meaning
   T, B, H    time steps, series, hidden units
   P, W       positions of a window, windows of a series (T-P+1)
   i, f, g, o gates, stored in this order in a row of 4H
   c, h       cell and hidden state
   phi        the activation

   Row b*W + w is window w of series b; at position p it reads row b*T + w + p of the projected inputs. A share is
   of whole series, so that no two of them add to the same row of a gradient. */

#include "shared.h"

#include <string.h>

typedef struct {
    int64_t series, windows, positions, size, kept, block, shares, activation, scratch_size;
    sgemm_function *sgemm;
    parallel_function *parallel; /* NULL: one thread */
    const float *projected; /* (B, T, 4H) */
    const float *recurrent; /* (H, 4H) */
    const float *peepholes; /* (3, H) */
    const float *zeros;     /* 4H */
    float *gates;           /* (kept, rows, 4H), where `kept` is P or 2 */
    float *cells;           /* (kept, rows, H) */
    float *hidden;          /* (P, rows, H) */
    /* The rest is for the backward pass. */
    const float *recurrent_back; /* (4H, H) */
    const float *d_hidden;       /* (P, rows, H) */
    float *d_projected;          /* (B, T, 4H) */
    float *d_recurrent;          /* (shares, H, 4H), zeros */
    double *d_peepholes;         /* (shares, 3, H), zeros */
    float *scratch;              /* (shares, scratch_size) */
} Sweep;

/* From the gradients of the hidden state (`d_hidden` and, from later positions, `dh`) and of the cell to those of the sums and of
   the cell before. The gradients of the peepholes are added to `terms`. */
INLINE void backward_row(int64_t H, const float *gates, const float *cell, const float *before, const float *peepholes,
                         const float *d_hidden, const float *dh, float *d_cell, float *d_gates, const float *sum_before,
                         float *d_projected, float *terms, int activation)
{
#pragma omp simd
    for (int64_t k = 0; k < H; k++) {
        float i = gates[k], f = gates[H + k], g = gates[2 * H + k], o = gates[3 * H + k];
        float now = cell[k], c = before[k], value = phi(now, activation);
        float d = d_hidden[k] + dh[k];
        float d_o = d * value * o * (1.0f - o);
        float dc = d_cell[k] + d * o * slope(value, activation) + d_o * peepholes[2 * H + k];
        float d_i = dc * g * i * (1.0f - i);
        float d_f = dc * c * f * (1.0f - f);
        float d_g = dc * i * slope(g, activation);
        d_cell[k] = dc * f + d_i * peepholes[k] + d_f * peepholes[H + k];
        d_gates[k] = d_i;
        d_gates[H + k] = d_f;
        d_gates[2 * H + k] = d_g;
        d_gates[3 * H + k] = d_o;
        d_projected[k] = sum_before[k] + d_i;
        d_projected[H + k] = sum_before[H + k] + d_f;
        d_projected[2 * H + k] = sum_before[2 * H + k] + d_g;
        d_projected[3 * H + k] = sum_before[3 * H + k] + d_o;
        terms[k] += d_i * c;
        terms[H + k] += d_f * c;
        terms[2 * H + k] += d_o * now;
    }
}

INLINE void forward_range(const Sweep *s, int64_t first, int64_t stop, int activation)
{
    const int64_t H = s->size, W = s->windows, P = s->positions, rows = s->series * W;
    for (int64_t start = first; start < stop; start += s->block) {
        const int64_t end = start + s->block < stop ? start + s->block : stop;
        for (int64_t p = 0; p < P; p++) {
            float *gates = s->gates + (p % s->kept) * rows * 4 * H, *cells = s->cells + (p % s->kept) * rows * H;
            float *hidden = s->hidden + p * rows * H;
            const float *cells_before = s->cells + ((p + s->kept - 1) % s->kept) * rows * H;
            if (p)
                multiply(s->sgemm, end - start, 4 * H, H, (Matrix){hidden - rows * H + start * H, H, 0},
                         (Matrix){s->recurrent, 4 * H, 0}, 0.0f, gates + start * 4 * H);
            for (int64_t r = start; r < end; r++) {
                const float *x = s->projected + (r + r / W * (P - 1) + p) * 4 * H;
                const float *before = p ? cells_before + r * H : s->zeros, *sums = p ? gates + r * 4 * H : s->zeros;
                forward_row(H, x, sums, before, s->peepholes, gates + r * 4 * H, cells + r * H, hidden + r * H, activation);
            }
        }
    }
}

INLINE void backward_range(const Sweep *s, int64_t first, int64_t stop, int64_t share, int activation)
{
    const int64_t H = s->size, W = s->windows, P = s->positions, rows = s->series * W;
    float *dh = s->scratch + share * s->scratch_size, *d_cell = dh + s->block * H, *d_gates = d_cell + s->block * H;
    float *terms = d_gates + s->block * 4 * H, *d_recurrent = s->d_recurrent + share * 4 * H * H;
    double *d_peepholes = s->d_peepholes + share * 3 * H;
    for (int64_t start = first; start < stop; start += s->block) {
        const int64_t count = start + s->block < stop ? s->block : stop - start;
        memset(dh, 0, 2 * s->block * H * sizeof(float)); /* and d_cell */
        for (int64_t p = P - 1; p >= 0; p--) {
            memset(terms, 0, 3 * H * sizeof(float));
            for (int64_t n = 0; n < count; n++) {
                const int64_t r = start + n, at = p * rows + r;
                const float *before = p ? s->cells + (at - rows) * H : s->zeros;
                const int seen = p < P - 1 && r % W; /* by a later position of the window before */
                float *d_projected = s->d_projected + (r + r / W * (P - 1) + p) * 4 * H;
                backward_row(H, s->gates + at * 4 * H, s->cells + at * H, before, s->peepholes, s->d_hidden + at * H,
                             dh + n * H, d_cell + n * H, d_gates + n * 4 * H, seen ? d_projected : s->zeros, d_projected, terms,
                             activation);
            }
            for (int64_t k = 0; k < 3 * H; k++)
                d_peepholes[k] += terms[k];
            if (!p)
                break;
            const Matrix gradient = {d_gates, 4 * H, 0}, hidden_turned = {s->hidden + ((p - 1) * rows + start) * H, H, 1};
            multiply(s->sgemm, count, H, 4 * H, gradient, (Matrix){s->recurrent_back, H, 0}, 0.0f, dh);
            multiply(s->sgemm, H, 4 * H, count, hidden_turned, gradient, 1.0f, d_recurrent);
        }
    }
}

/* One share: some of the series. Sums are by share, so that they do not depend on which thread takes it. */
static void sweep_share(const Sweep *s, int64_t share, int backward)
{
    const int64_t first = s->series * share / s->shares * s->windows;
    const int64_t stop = s->series * (share + 1) / s->shares * s->windows;
    if (backward && s->activation == TANH)
        backward_range(s, first, stop, share, TANH);
    else if (backward)
        backward_range(s, first, stop, share, B2BSQRT);
    else if (s->activation == TANH)
        forward_range(s, first, stop, TANH);
    else
        forward_range(s, first, stop, B2BSQRT);
}

static void forward_share(const void *sweep, int64_t share) { sweep_share(sweep, share, 0); }
static void backward_share(const void *sweep, int64_t share) { sweep_share(sweep, share, 1); }

void sooner_forward(const Sweep *s) { on_threads(s->parallel, forward_share, s, s->shares); }
void sooner_backward(const Sweep *s) { on_threads(s->parallel, backward_share, s, s->shares); }
