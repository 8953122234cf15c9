/* The window kernel of sooner/models/recurrent/kernel.py in float32, with one pass over memory for each position.

   symbol     meaning
   T, B, H    time steps, series, hidden units
   P, W       positions of a window, windows of a series (T-P+1)
   i, f, g, o gates, stored in this order in a row of 4H
   c, h       cell and hidden state
   phi        the activation

   Row b*W + w is window w of series b; at position p it reads row b*T + w + p of the projected inputs. A share is
   of whole series, so that no two of them add to the same row of a gradient. Matrix products are those of PyTorch's own BLAS and threads
   those of its own OpenMP: both come as pointers, so that the file is compiled and linked without either. */

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef void sgemm_function(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                            const int *, const float *, const int *, const float *, float *, const int *);
typedef void parallel_function(void (*)(void *), void *, unsigned, unsigned);

enum { TANH = 0, B2BSQRT = 1 };

typedef struct {
    int64_t series, windows, positions, size, kept, block, shares, activation, scratch_size;
    sgemm_function *sgemm;
    parallel_function *parallel; /* NULL: one thread */
    int64_t entered;             /* threads that have begun: the next share */
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
    float *d_projected;          /* (B, T, 4H), zeros */
    float *d_recurrent;          /* (shares, H, 4H), zeros */
    double *d_peepholes;         /* (shares, 3, H), zeros */
    float *scratch;              /* (shares, scratch_size) */
} Sweep;

/* e^x to one unit in the last place, for x clamped to where the result is a normal number; NaN stays NaN. */
INLINE float exponential(float x)
{
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer, which is then in the low bits */
    float shifted = x * 1.44269504f + shift;
    float whole = shifted - shift;
    float r = x - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union { float value; int32_t bits; } low = {shifted}, scale;
    scale.bits = (int32_t)((uint32_t)(low.bits - 0x4B400000 + 127) << 23);
    return p * scale.value;
}

INLINE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

INLINE float phi(float x, int activation)
{
    if (activation == TANH)
        return 2.0f * sigmoid(2.0f * x) - 1.0f;
    float size = __builtin_sqrtf(1.0f + __builtin_fabsf(x)) - 1.0f;
    return __builtin_copysignf(size, x);
}

/* The slope of phi as a function of its value. */
INLINE float slope(float value, int activation)
{
    return activation == TANH ? 1.0f - value * value : 0.5f / (__builtin_fabsf(value) + 1.0f);
}

/* `sums` (h R) may be `gates` itself. */
INLINE void forward_row(int64_t H, const float *x, const float *sums, const float *before, const float *peepholes,
                        float *gates, float *cell, float *hidden, int activation)
{
#pragma omp simd
    for (int64_t k = 0; k < H; k++) {
        float c = before[k];
        float i = sigmoid(x[k] + sums[k] + peepholes[k] * c);
        float f = sigmoid(x[H + k] + sums[H + k] + peepholes[H + k] * c);
        float g = phi(x[2 * H + k] + sums[2 * H + k], activation);
        float now = f * c + i * g;
        float o = sigmoid(x[3 * H + k] + sums[3 * H + k] + peepholes[2 * H + k] * now);
        gates[k] = i;
        gates[H + k] = f;
        gates[2 * H + k] = g;
        gates[3 * H + k] = o;
        cell[k] = now;
        hidden[k] = o * phi(now, activation);
    }
}

/* From the gradients of the hidden state (`d_hidden` and, from later positions, `dh`) and of the cell to those of the sums and of
   the cell before. The gradients of the peepholes are added to `terms`. */
INLINE void backward_row(int64_t H, const float *gates, const float *cell, const float *before, const float *peepholes,
                         const float *d_hidden, const float *dh, float *d_cell, float *d_gates, float *d_projected,
                         float *terms, int activation)
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
        d_projected[k] += d_i;
        d_projected[H + k] += d_f;
        d_projected[2 * H + k] += d_g;
        d_projected[3 * H + k] += d_o;
        terms[k] += d_i * c;
        terms[H + k] += d_f * c;
        terms[2 * H + k] += d_o * now;
    }
}

/* out (m, n) = a (m, k) b (k, n) + beta out, in rows; a is stored as (k, m) where `turned`. BLAS counts in columns. */
static void multiply(const Sweep *s, int turned, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float beta,
                     float *out)
{
    const int rows = (int)m, columns = (int)n, inner = (int)k, stride = turned ? rows : inner;
    const float one = 1.0f;
    s->sgemm("N", turned ? "T" : "N", &columns, &rows, &inner, &one, b, &columns, a, &stride, &beta, out, &columns);
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
                multiply(s, 0, end - start, 4 * H, H, hidden - rows * H + start * H, s->recurrent, 0.0f, gates + start * 4 * H);
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
                float *d_projected = s->d_projected + (r + r / W * (P - 1) + p) * 4 * H;
                backward_row(H, s->gates + at * 4 * H, s->cells + at * H, before, s->peepholes, s->d_hidden + at * H,
                             dh + n * H, d_cell + n * H, d_gates + n * 4 * H, d_projected, terms, activation);
            }
            for (int64_t k = 0; k < 3 * H; k++)
                d_peepholes[k] += terms[k];
            if (!p)
                break;
            multiply(s, 0, count, H, 4 * H, d_gates, s->recurrent_back, 0.0f, dh);
            multiply(s, 1, H, 4 * H, count, s->hidden + ((p - 1) * rows + start) * H, d_gates, 1.0f, d_recurrent);
        }
    }
}

/* One share: some of the series. Sums are by share, so that they do not depend on which thread takes it. */
static void one_share(const Sweep *s, int64_t share, int backward)
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

/* The runtime may give fewer threads than were asked for, so each takes shares as long as there are any. */
static void all_shares(Sweep *s, int backward)
{
    for (int64_t share; (share = __atomic_fetch_add(&s->entered, 1, __ATOMIC_RELAXED)) < s->shares;)
        one_share(s, share, backward);
}

static void forward_thread(void *sweep) { all_shares(sweep, 0); }
static void backward_thread(void *sweep) { all_shares(sweep, 1); }

static void on_threads(Sweep *s, void (*function)(void *))
{
    s->entered = 0;
    if (s->shares > 1 && s->parallel)
        s->parallel(function, s, (unsigned)s->shares, 0);
    else
        function(s);
}

void sooner_forward(Sweep *s) { on_threads(s, forward_thread); }
void sooner_backward(Sweep *s) { on_threads(s, backward_thread); }
