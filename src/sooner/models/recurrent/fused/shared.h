/* What windows.c, readout.c and live.c share. Matrix products are those of PyTorch's own BLAS and threads those of its own OpenMP: both
   come as pointers, so that the files are compiled and linked without either. */

#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

typedef void sgemm_function(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                            const int *, const float *, const int *, const float *, float *, const int *);
typedef void parallel_function(void (*)(void *), void *, unsigned, unsigned);

enum { TANH = 0, B2BSQRT = 1 };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

typedef union {
    float value;
    int32_t bits;
} Bits;

/* 1 / (1 + e^-x). Without branches or comparisons of floats, which cost as much as the rest: x is cut off at +-87, where the
   result is still a normal number, by a minimum of bits; x - x is zero, but NaN for NaN and infinity, which would be lost. */
INLINE float sigmoid(float x)
{
    const Bits given = {x};
    const int32_t most = 0x42AE0000, size = given.bits & 0x7FFFFFFF; /* 87 and |x| */
    const Bits cut = {.bits = (size < most ? size : most) | (~given.bits & (int32_t)0x80000000)};
    const Bits shifted = {cut.value * 1.44269504f + 12582912.0f}; /* + 1.5 * 2^23 rounds to a whole number, in the low bits */
    const float whole = shifted.value - 12582912.0f;
    const float r = cut.value - whole * 0.693359375f + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    const Bits scale = {.bits = (int32_t)((uint32_t)(shifted.bits - 0x4B400000 + 127) << 23)};
    return 1.0f / (1.0f + (x - x) + p * scale.value);
}

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

/* A matrix in rows; where `turned`, its transpose is what is stored. `stride` is from one stored row to the next. */
typedef struct {
    const float *first;
    int64_t stride;
    int turned;
} Matrix;

/* out (m, n) = a (m, k) b (k, n) + beta out. BLAS counts in columns. */
static void multiply(sgemm_function *sgemm, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, float beta, float *out)
{
    const int rows = (int)m, columns = (int)n, inner = (int)k, a_stride = (int)a.stride, b_stride = (int)b.stride;
    const float one = 1.0f;
    sgemm(b.turned ? "T" : "N", a.turned ? "T" : "N", &columns, &rows, &inner, &one, b.first, &b_stride, a.first, &a_stride,
          &beta, out, &columns);
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

typedef void share_function(const void *arguments, int64_t share);

typedef struct {
    share_function *function;
    const void *arguments;
    int64_t shares, next;
} Work;

/* The runtime may give fewer threads than were asked for, so each takes shares as long as there are any. */
static void take_shares(void *given)
{
    Work *work = given;
    for (int64_t share; (share = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) < work->shares;)
        work->function(work->arguments, share);
}

static void on_threads(parallel_function *parallel, share_function *function, const void *arguments, int64_t shares)
{
    Work work = {function, arguments, shares, 0};
    if (shares > 1 && parallel)
        parallel(take_shares, &work, (unsigned)shares, 0);
    else
        take_shares(&work);
}
