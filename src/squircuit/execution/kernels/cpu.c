/* The engine on CPUs: every function here has a twin in plain torch, named above it.

   Built by cpu.py for one type of number: NUMBER is float or double, PLANES 2 for complex numbers and 1 for
   real ones. Layers' values are planes (F, K, PLANES, B), the batch innermost; weights (S, K1, K2) are stored
   as numbers are, (re, im) side by side. S is F, or 1 where one matrix serves all folds.

   Work is cut into tasks, and every number is written by one task in an order that does not depend on how
   many threads there are: neither do results. A task has up to BATCH samples, whose planes it keeps in
   caches; W (l1 x ... x lN) is computed as sum_i a_i (sum_j W_kij b_j), with a and b products of the first
   and of the last factors, so that neither the whole product nor T = W b is ever written to memory. */

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef NUMBER real;
enum { P = PLANES, BATCH = 64, LINE = P * BATCH, DEEP = 32, ROWS = 128, MOST = 16 };

#if defined(__AVX512F__)
enum { BYTES = 64, WIDE = 2, TILE = 4 };
#elif defined(__AVX__)
enum { BYTES = 32, WIDE = 1, TILE = 4 };
#else
enum { BYTES = 16, WIDE = 2, TILE = 2 };
#endif
typedef real vec __attribute__((vector_size(BYTES), aligned(sizeof(real)), may_alias));
enum { LANES = BYTES / sizeof(real), BLOCK = WIDE * LANES };

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")
#define PARALLEL(threads) _Pragma("omp parallel num_threads(threads)")
#define EACH_TASK _Pragma("omp for schedule(dynamic)")

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t padded(int64_t n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }
static real *room(int64_t numbers) { return aligned_alloc(64, (numbers * sizeof(real) + 127) / 64 * 64); }

/* ---------------------------------------------------------------- products of matrices in caches */

/* A matrix wherever it lies: entry (i, j) at re[i * row + j * column], its imaginary part at im. */
typedef struct { const real *re, *im; int64_t row, column; } Matrix;

/* C (+)= A B, or conj(A) B, in one tile: `rows` rows, BLOCK columns. Planes of B are `plane` numbers apart,
   rows PLANES planes; those of C likewise. */
INLINE void tile(const int rows, const int conjugate, const int add, Matrix a, int64_t depth,
                 const real *b, int64_t plane, real *c, int64_t plane_c)
{
  vec re[TILE][WIDE], im[TILE][WIDE];
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int v = 0; v < WIDE; v++) {
      real *at = c + r * P * plane_c + v * LANES;
      re[r][v] = add ? *(vec *)at : (vec){0};
      if (P == 2) im[r][v] = add ? *(vec *)(at + plane_c) : (vec){0};
    }
  for (int64_t j = 0; j < depth; j++, b += P * plane) {
    vec br[WIDE], bi[WIDE];
    UNROLL for (int v = 0; v < WIDE; v++) {
      br[v] = *(const vec *)(b + v * LANES);
      if (P == 2) bi[v] = *(const vec *)(b + plane + v * LANES);
    }
    UNROLL for (int r = 0; r < rows; r++) {
      real ar = a.re[r * a.row + j * a.column], ai = P == 2 ? a.im[r * a.row + j * a.column] : 0;
      UNROLL for (int v = 0; v < WIDE; v++) {
        re[r][v] += ar * br[v];
        if (P == 2) {
          im[r][v] += ar * bi[v];
          if (conjugate) { re[r][v] += ai * bi[v]; im[r][v] -= ai * br[v]; }
          else { re[r][v] -= ai * bi[v]; im[r][v] += ai * br[v]; }
        }
      }
    }
  }
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int v = 0; v < WIDE; v++) {
      real *at = c + r * P * plane_c + v * LANES;
      *(vec *)at = re[r][v];
      if (P == 2) *(vec *)(at + plane_c) = im[r][v];
    }
}

/* C (+)= A B or conj(A) B: A (rows, depth), B (depth, PLANES, plane), C (rows, PLANES, plane_c); `columns` of
   them, a multiple of BLOCK. */
INLINE void multiply(const int conjugate, const int add, Matrix a, int64_t rows, int64_t depth,
                     const real *b, int64_t plane, real *c, int64_t plane_c, int64_t columns)
{
  for (; rows > 0; rows -= TILE, a.re += TILE * a.row, a.im += TILE * a.row, c += TILE * P * plane_c)
    for (int64_t at = 0; at < columns; at += BLOCK) {
      if (rows >= TILE) tile(TILE, conjugate, add, a, depth, b + at, plane, c + at, plane_c);
      else if (rows == 3) tile(TILE < 3 ? TILE : 3, conjugate, add, a, depth, b + at, plane, c + at, plane_c);
      else if (rows == 2) tile(2, conjugate, add, a, depth, b + at, plane, c + at, plane_c);
      else tile(1, conjugate, add, a, depth, b + at, plane, c + at, plane_c);
    }
}

/* A matrix of numbers that lie as (re, im), (rows, columns). */
static inline Matrix stored(const real *w, int64_t columns) { return (Matrix){w, w + P - 1, P * columns, P}; }
/* Its transpose. */
static inline Matrix flipped(Matrix a) { return (Matrix){a.re, a.im, a.column, a.row}; }
/* Lines of planes, (rows, LINE). */
static inline Matrix lined(const real *x) { return (Matrix){x, x + (P - 1) * BATCH, LINE, 1}; }

/* ---------------------------------------------------------------- lines: BATCH numbers, as planes */

/* z (+)= x y, or z (+)= x conj(y). */
INLINE void times(const int conjugate, const int add, const real *x, const real *y, real *z, int64_t columns)
{
  for (int64_t b = 0; b < columns; b += LANES) {
    vec xr = *(const vec *)(x + b), yr = *(const vec *)(y + b), re = xr * yr;
    if (P == 2) {
      vec xi = *(const vec *)(x + BATCH + b), yi = *(const vec *)(y + BATCH + b), im = xi * yr;
      if (conjugate) { re += xi * yi; im -= xr * yi; }
      else { re -= xi * yi; im += xr * yi; }
      if (add) im += *(vec *)(z + BATCH + b);
      *(vec *)(z + BATCH + b) = im;
    }
    if (add) re += *(vec *)(z + b);
    *(vec *)(z + b) = re;
  }
}

/* Lines of a stretch of the batch: x (rows, PLANES, batch) -> lines (rows, LINE), zeros at the end. */
static void take(const real *x, int64_t rows, int64_t batch, int64_t start, real *lines)
{
  int64_t count = least(BATCH, batch - start);
  for (int64_t r = 0; r < rows * P; r++) {
    memcpy(lines + r * BATCH, x + r * batch + start, count * sizeof(real));
    memset(lines + r * BATCH + count, 0, (BATCH - count) * sizeof(real));
  }
}

static void give(const real *lines, int64_t rows, int64_t batch, int64_t start, real *x)
{
  int64_t count = least(BATCH, batch - start);
  for (int64_t r = 0; r < rows * P; r++)
    memcpy(x + r * batch + start, lines + r * BATCH, count * sizeof(real));
}

/* ---------------------------------------------------------------- products of layers */

/* Some factors of one task, and the products of the last 1, 2, ... of them: of those, the first is the whole. */
typedef struct { int count, kronecker; int64_t units[MOST], size[MOST]; real *value[MOST], *tail[MOST]; } Side;

/* W times a product, as planned: a of `left` entries, b of `right`. */
typedef struct {
  int count, half, kronecker;
  int64_t folds, tied, units, batch, chunks, left, right, widths[MOST];
} Work;

static Side side(const Work *w, int first, int last)
{
  Side s = {.count = last - first, .kronecker = w->kronecker};
  for (int t = s.count - 1; t >= 0; t--) {
    s.units[t] = w->widths[first + t];
    s.size[t] = t == s.count - 1 ? s.units[t] : s.kronecker ? s.units[t] * s.size[t + 1] : s.units[t];
    s.value[t] = room(s.units[t] * LINE);
    s.tail[t] = t == s.count - 1 ? s.value[t] : room(s.size[t] * LINE);
  }
  return s;
}

static void end(Side *s)
{
  for (int t = 0; t < s->count; t++) {
    free(s->value[t]);
    if (t < s->count - 1) free(s->tail[t]);
  }
}

/* Reads the factors of a fold and multiplies them. */
static void read(Side *s, real *const *factors, int64_t fold, int64_t batch, int64_t start)
{
  int64_t columns = padded(least(BATCH, batch - start));
  for (int t = s->count - 1; t >= 0; t--) {
    take(factors[t] + fold * s->units[t] * P * batch, s->units[t], batch, start, s->value[t]);
    if (t == s->count - 1) continue;
    int64_t inner = s->kronecker ? s->size[t + 1] : 1;
    for (int64_t p = 0; p < s->units[t]; p++)
      for (int64_t q = 0; q < inner; q++) {
        const real *other = s->tail[t + 1] + (s->kronecker ? q : p) * LINE;
        times(0, 0, s->value[t] + p * LINE, other, s->tail[t] + (p * inner + q) * LINE, columns);
      }
  }
}

/* The gradients of the factors from that of the product, which is overwritten: g times the conjugates of the
   others. Peels off the first factor, and goes on with the product of the rest. */
static void write_gradients(Side *s, real *g, real *const *targets, int64_t fold, int64_t batch, int64_t start)
{
  int64_t columns = padded(least(BATCH, batch - start));
  real *rest = room(s->size[0] * LINE);
  for (int t = 0; t < s->count - 1; t++) {
    int64_t inner = s->kronecker ? s->size[t + 1] : 1;
    real *of = room(s->units[t] * LINE);
    memset(of, 0, s->units[t] * LINE * sizeof(real));
    memset(rest, 0, s->size[t + 1] * LINE * sizeof(real));
    for (int64_t p = 0; p < s->units[t]; p++)
      for (int64_t q = 0; q < inner; q++) {
        const real *one = g + (p * inner + q) * LINE;
        int64_t other = (s->kronecker ? q : p) * LINE;
        times(1, 1, one, s->tail[t + 1] + other, of + p * LINE, columns);
        times(1, 1, one, s->value[t] + p * LINE, rest + other, columns);
      }
    give(of, s->units[t], batch, start, targets[t] + fold * s->units[t] * P * batch);
    memcpy(g, rest, s->size[t + 1] * LINE * sizeof(real));
    free(of);
  }
  int last = s->count - 1;
  give(g, s->units[last], batch, start, targets[last] + fold * s->units[last] * P * batch);
  free(rest);
}

/* a takes the first factors, so that b is long enough for tiles to pay; products entry by entry have no a. */
static Work plan(int kronecker, int count, const int64_t *widths, int64_t folds, int64_t tied, int64_t units,
                 int64_t batch)
{
  Work w = {.count = count, .kronecker = kronecker, .folds = folds, .tied = tied, .units = units,
            .batch = batch, .chunks = (batch + BATCH - 1) / BATCH, .left = 1, .right = widths[0]};
  memcpy(w.widths, widths, count * sizeof(int64_t));
  if (!kronecker) return w;
  w.half = count, w.right = 1;
  while (w.half > 0 && w.right < DEEP) w.right *= widths[--w.half];
  for (int t = 0; t < w.half; t++) w.left *= widths[t];
  return w;
}

/* ---------------------------------------------------------------- W times a product: forward and backward */

/* out_k = sum_i a_i sum_j W_kij b_j. Twin: weighted_product.forward. */
void weigh(int kronecker, int count, const int64_t *widths, real *const *factors, int64_t tied, int64_t folds,
           int64_t units, int64_t batch, const real *weight, real *out, int threads)
{
  const Work w = plan(kronecker, count, widths, folds, tied, units, batch);
  const int64_t columns = w.left * w.right;
  PARALLEL(threads)
  {
    Side a = side(&w, 0, w.half), b = side(&w, w.half, count);
    real *sum = room(units * LINE), *part = room(TILE * LINE);
    EACH_TASK
    for (int64_t task = 0; task < folds * w.chunks; task++) {
      const int64_t fold = task / w.chunks, start = task % w.chunks * BATCH;
      const int64_t inside = padded(least(BATCH, batch - start));
      const real *own = weight + (tied ? 0 : fold * units * columns * P);
      read(&b, factors + w.half, fold, batch, start);
      if (!w.half)
        multiply(0, 0, stored(own, columns), units, w.right, b.tail[0], BATCH, sum, BATCH, inside);
      else {
        read(&a, factors, fold, batch, start);
        memset(sum, 0, units * LINE * sizeof(real));
        for (int64_t k = 0; k < units; k++)
          for (int64_t i = 0; i < w.left; i += TILE) {
            const int64_t rows = least(TILE, w.left - i);
            Matrix some = stored(own + (k * w.left + i) * w.right * P, w.right);
            multiply(0, 0, some, rows, w.right, b.tail[0], BATCH, part, BATCH, inside);
            for (int64_t r = 0; r < rows; r++)
              times(0, 1, part + r * LINE, a.tail[0] + (i + r) * LINE, sum + k * LINE, inside);
          }
      }
      give(sum, units, batch, start, out + fold * units * P * batch);
    }
    end(&a), end(&b);
    free(sum), free(part);
  }
}

/* With V_ij = sum_k conj(W_kij) g_k: da_i = sum_j V_ij conj(b_j), db_j = sum_i V_ij conj(a_i), and from these
   the gradients of the factors. Twin: weighted_product.backward, half of it. */
void factor_gradients(int kronecker, int count, const int64_t *widths, real *const *factors, int64_t tied,
                      int64_t folds, int64_t units, int64_t batch, const real *weight, const real *gradient,
                      real *const *targets, int threads)
{
  const Work w = plan(kronecker, count, widths, folds, tied, units, batch);
  const int64_t columns = w.left * w.right;
  PARALLEL(threads)
  {
    Side a = side(&w, 0, w.half), b = side(&w, w.half, count);
    real *g = room(units * LINE), *part = room(TILE * LINE), *some = room(units * w.right * P);
    real *of_a = room(w.left * LINE), *of_b = room(w.right * LINE);
    EACH_TASK
    for (int64_t task = 0; task < folds * w.chunks; task++) {
      const int64_t fold = task / w.chunks, start = task % w.chunks * BATCH;
      const int64_t inside = padded(least(BATCH, batch - start));
      const real *own = weight + (tied ? 0 : fold * units * columns * P);
      read(&b, factors + w.half, fold, batch, start);
      take(gradient + fold * units * P * batch, units, batch, start, g);
      if (!w.half)
        multiply(1, 0, flipped(stored(own, columns)), w.right, units, g, BATCH, of_b, BATCH, inside);
      else {
        read(&a, factors, fold, batch, start);
        memset(of_a, 0, w.left * LINE * sizeof(real));
        memset(of_b, 0, w.right * LINE * sizeof(real));
        for (int64_t i = 0; i < w.left; i++) {
          for (int64_t k = 0; k < units; k++) /* rows far apart would share one set of the cache */
            memcpy(some + k * w.right * P, own + (k * columns + i * w.right) * P, w.right * P * sizeof(real));
          for (int64_t j = 0; j < w.right; j += TILE) {
            const int64_t rows = least(TILE, w.right - j);
            Matrix across = flipped(stored(some + j * P, w.right));
            multiply(1, 0, across, rows, units, g, BATCH, part, BATCH, inside);
            for (int64_t r = 0; r < rows; r++) {
              times(1, 1, part + r * LINE, b.tail[0] + (j + r) * LINE, of_a + i * LINE, inside);
              times(1, 1, part + r * LINE, a.tail[0] + i * LINE, of_b + (j + r) * LINE, inside);
            }
          }
        }
        write_gradients(&a, of_a, targets, fold, batch, start);
      }
      write_gradients(&b, of_b, targets + w.half, fold, batch, start);
    }
    end(&a), end(&b);
    free(g), free(part), free(some), free(of_a), free(of_b);
  }
}

/* conj(b) with the batch first, so that numbers of one sample lie side by side: (BATCH, PLANES, wide). */
static void transposed(const real *b, int64_t rows, int64_t wide, real *out)
{
  memset(out, 0, BATCH * P * wide * sizeof(real));
  for (int64_t r = 0; r < rows; r++)
    for (int64_t s = 0; s < BATCH; s++) {
      out[s * P * wide + r] = b[r * LINE + s];
      if (P == 2) out[(s * P + 1) * wide + r] = -b[r * LINE + BATCH + s];
    }
}

/* dW_kij (+)= sum over samples, and over folds that share W, of g_k conj(a_i) conj(b_j).
   Twin: weighted_product.backward, the other half. */
void weight_gradient(int kronecker, int count, const int64_t *widths, real *const *factors, int64_t tied,
                     int64_t folds, int64_t units, int64_t batch, const real *gradient, real *total,
                     int fresh, int threads)
{
  const Work w = plan(kronecker, count, widths, folds, tied, units, batch);
  const int64_t rows = units * w.left, wide = padded(w.right), parts = (rows + ROWS - 1) / ROWS;
  const int64_t shared = tied ? folds : 1;
  PARALLEL(threads)
  {
    Side a = side(&w, 0, w.half), b = side(&w, w.half, count);
    real *g = room(units * LINE), *outer = room(ROWS * LINE);
    real *across = room(BATCH * P * wide), *sum = room(TILE * P * wide);
    EACH_TASK
    for (int64_t task = 0; task < folds / shared * parts; task++) {
      const int64_t matrix = task / parts, first = task % parts * ROWS, some = least(ROWS, rows - first);
      real *into = total + (matrix * rows + first) * w.right * P;
      for (int64_t step = 0; step < shared * w.chunks; step++) {
        const int64_t fold = matrix * shared + step / w.chunks, start = step % w.chunks * BATCH;
        const int64_t inside = least(BATCH, batch - start);
        read(&b, factors + w.half, fold, batch, start);
        transposed(b.tail[0], w.right, wide, across);
        if (w.half) read(&a, factors, fold, batch, start);
        take(gradient + fold * units * P * batch, units, batch, start, g);
        for (int64_t r = 0; r < some; r++) {
          const real *gk = g + (first + r) / w.left * LINE;
          if (w.half) times(1, 0, gk, a.tail[0] + (first + r) % w.left * LINE, outer + r * LINE, padded(inside));
          else memcpy(outer + r * LINE, gk, LINE * sizeof(real));
        }
        for (int64_t r = 0; r < some; r += TILE) {
          const int64_t few = least(TILE, some - r);
          multiply(0, 0, lined(outer + r * LINE), few, inside, across, wide, sum, wide, wide);
          for (int64_t t = 0; t < few; t++) {
            real *at = into + (r + t) * w.right * P;
            const real *re = sum + t * P * wide, *im = re + (P - 1) * wide;
            if (fresh && !step)
              for (int64_t j = 0; j < w.right; j++) {
                at[j * P] = re[j];
                if (P == 2) at[j * P + 1] = im[j];
              }
            else
              for (int64_t j = 0; j < w.right; j++) {
                at[j * P] += re[j];
                if (P == 2) at[j * P + 1] += im[j];
              }
          }
        }
      }
    }
    end(&a), end(&b);
    free(g), free(outer), free(across), free(sum);
  }
}

/* ---------------------------------------------------------------- scaling, lookup */

/* v / |v| of every sample, and log |v| + sum of the factors' scales; 1 / |v| to `inverse`. A norm too small for
   one over it to be a number counts as 1. Squares are in double precision, where no float leaves its range;
   doubles are divided by the largest first. Twin: log_scales.normalise. */
void normalise(const real *out, int64_t folds, int64_t units, int64_t batch, int count, real *const *scales,
               real *values, real *scale, real *inverse, int threads)
{
  const real smallest = sizeof(real) == 4 ? FLT_MIN : DBL_MIN;
  const int64_t chunks = (batch + BATCH - 1) / BATCH;
  PARALLEL(threads)
  EACH_TASK
  for (int64_t task = 0; task < folds * chunks; task++) {
    const int64_t fold = task / chunks, start = task % chunks * BATCH, some = least(BATCH, batch - start);
    const real *from = out + fold * units * P * batch + start;
    real *to = values + fold * units * P * batch + start;
    double square[BATCH] = {0}, largest[BATCH];
    for (int64_t s = 0; s < some; s++) largest[s] = 1;
    if (sizeof(real) == 8) {
      memset(largest, 0, sizeof largest);
      for (int64_t r = 0; r < units * P; r++)
        for (int64_t s = 0; s < some; s++) {
          const double size = fabs((double)from[r * batch + s]); /* a NaN stays */
          largest[s] = size <= largest[s] ? largest[s] : size;
        }
    }
    for (int64_t r = 0; r < units * P; r++)
      for (int64_t s = 0; s < some; s++) {
        const double share = sizeof(real) == 4  ? (double)from[r * batch + s]
                             : largest[s] == 0 ? 0 : from[r * batch + s] / largest[s];
        square[s] += share * share;
      }
    for (int64_t s = 0; s < some; s++) {
      const int64_t at = fold * batch + start + s;
      real norm = (real)(sqrt(square[s]) * largest[s]);
      norm = norm < smallest ? 1 : norm;
      inverse[at] = 1 / norm;
      real total = (real)log((double)norm);
      for (int t = 0; t < count; t++) total += scales[t][at];
      scale[at] = total;
    }
    for (int64_t r = 0; r < units * P; r++)
      for (int64_t s = 0; s < some; s++)
        to[r * batch + s] = from[r * batch + s] * inverse[fold * batch + start + s];
  }
}

/* Columns x of tables (S, K, V): planes (F, K, PLANES, B). Twin: inputs.lookup. */
void gather(const real *table, const int64_t *x, int64_t tied, int64_t folds, int64_t units, int64_t values,
            int64_t batch, real *out, int threads)
{
  PARALLEL(threads)
  EACH_TASK
  for (int64_t fold = 0; fold < folds; fold++)
    for (int64_t k = 0; k < units; k++) {
      const real *row = table + ((tied ? 0 : fold * units) + k) * values * P;
      real *to = out + (fold * units + k) * P * batch;
      for (int64_t s = 0; s < batch; s++) {
        const int64_t at = x[fold * batch + s];
        const int known = at >= 0 && at < values; /* other values have probability 0 */
        for (int p = 0; p < P; p++) to[p * batch + s] = known ? row[at * P + p] : 0;
      }
    }
}

/* The gradient of tables: the sum of the gradients of all samples and folds with that value. */
void scatter(const real *gradient, const int64_t *x, int64_t tied, int64_t folds, int64_t units,
             int64_t values, int64_t batch, real *total, int threads)
{
  const int64_t shared = tied ? folds : 1;
  PARALLEL(threads)
  EACH_TASK
  for (int64_t task = 0; task < folds / shared * units; task++) {
    const int64_t table = task / units, k = task % units;
    real *row = total + task * values * P;
    memset(row, 0, values * P * sizeof(real));
    for (int64_t fold = table * shared; fold < (table + 1) * shared; fold++) {
      const real *from = gradient + (fold * units + k) * P * batch;
      for (int64_t s = 0; s < batch; s++) {
        const int64_t at = x[fold * batch + s];
        if (at >= 0 && at < values)
          for (int p = 0; p < P; p++) row[at * P + p] += from[p * batch + s];
      }
    }
  }
}

/* ---------------------------------------------------------------- a step on the manifold */

typedef double wide __attribute__((vector_size(BYTES)));
enum { DOUBLES = BYTES / sizeof(double) };

/* Matrices (n, n) in double precision as two planes of n rows, each filled up to `row` numbers. */
typedef struct { int64_t n, row; } Small;

static double *small_room(Small s, int count) { return (double *)room(2 * s.n * s.row * count * 8 / sizeof(real)); }

/* C = A B. */
static void small_product(Small s, const double *a, const double *b, double *c)
{
  const int64_t plane = s.n * s.row;
  for (int64_t i = 0; i < s.n; i++)
    for (int64_t at = 0; at < s.row; at += DOUBLES) {
      wide re = {0}, im = {0};
      for (int64_t j = 0; j < s.n; j++) {
        const double ar = a[i * s.row + j], ai = a[plane + i * s.row + j];
        const wide br = *(const wide *)(b + j * s.row + at), bi = *(const wide *)(b + plane + j * s.row + at);
        re += ar * br, re -= ai * bi, im += ar * bi, im += ai * br;
      }
      *(wide *)(c + i * s.row + at) = re, *(wide *)(c + plane + i * s.row + at) = im;
    }
}

/* C = x A + y B^H; C may be A, not B. */
static void small_add_adjoint(Small s, double x, const double *a, double y, const double *b, double *c)
{
  const int64_t plane = s.n * s.row;
  for (int64_t i = 0; i < s.n; i++)
    for (int64_t j = 0; j < s.n; j++) {
      const int64_t at = i * s.row + j, across = j * s.row + i;
      c[at] = x * a[at] + y * b[across];
      c[plane + at] = x * a[plane + at] - y * b[plane + across];
    }
}

/* C = x I + y A. */
static void small_shifted(Small s, double x, double y, const double *a, double *c)
{
  for (int64_t at = 0; at < 2 * s.n * s.row; at++) c[at] = y * a[at];
  for (int64_t i = 0; i < s.n; i++) c[i * s.row + i] += x;
}

/* A^H. */
static void small_adjoint(Small s, const double *a, double *c) { small_add_adjoint(s, 0, a, 1, a, c); }

/* alpha, beta of X+ = alpha X + beta M from the Grams of X and M. Twin: polar.polar_factors, line by line. */
static void polar_factors(Small s, const double *xx, const double *xm, const double *mm, const double *scale,
                          int by_row, double most, double trust, int steps, double *alpha, double *beta,
                          double *work)
{
  const int64_t size = 2 * s.n * s.row, plane = s.n * s.row;
  double *a = work, *towards = a + size, *square = towards + size, *half = square + size, *other = half + size;
  small_add_adjoint(s, -0.5, xm, -0.5, xm, a); /* D = a X + b M is tangent, with b = 1 */
  for (int64_t i = 0; i < s.n; i++)
    for (int64_t j = 0; j < s.n; j++) /* scaled; rows that differ in it are made tangent again below */
      a[i * s.row + j] *= scale[i], a[plane + i * s.row + j] *= scale[i];
  for (int again = !by_row; again < 2; again++) { /* D X^H = a XX^H + b (X M^H)^H */
    small_product(s, a, xx, towards);
    small_adjoint(s, xm, other);
    for (int64_t i = 0; i < s.n; i++)
      for (int64_t j = 0; j < s.n; j++) {
        towards[i * s.row + j] += scale[i] * other[i * s.row + j];
        towards[plane + i * s.row + j] += scale[i] * other[plane + i * s.row + j];
      }
    if (again) break;
    small_add_adjoint(s, 1, towards, 1, towards, other);
    for (int64_t at = 0; at < size; at++) a[at] -= 0.5 * other[at];
  }
  small_product(s, a, xm, half); /* D D^H = (D X^H) a^H + (a X M^H + b M M^H) b^H */
  small_adjoint(s, a, other);
  small_product(s, towards, other, square);
  double trace = 0;
  for (int64_t i = 0; i < s.n; i++) {
    for (int64_t j = 0; j < s.n; j++)
      for (int64_t at = i * s.row + j; at < size; at += plane)
        square[at] += (half[at] + scale[i] * mm[at]) * scale[j];
    trace += square[i * s.row + i];
  }
  const double bound = trust / (sqrt(trace > 0 ? trace : 0) + 1e-30), rate = bound < most ? bound : most;
  small_add_adjoint(s, 1, towards, 1, towards, other);
  for (int64_t at = 0; at < size; at++) square[at] = xx[at] - rate * other[at] + rate * rate * square[at];
  double *root = alpha; /* the inverse square root by Newton-Schulz, see gram.inverse_square_root */
  small_shifted(s, 1.5, -0.5, square, half);
  memcpy(root, half, size * sizeof(double));
  for (int step = 1; step < steps; step++) {
    small_product(s, half, square, other);
    small_product(s, other, half, square);
    small_shifted(s, 1.5, -0.5, square, half);
    small_product(s, half, root, other);
    memcpy(root, other, size * sizeof(double));
  }
  for (int64_t i = 0; i < s.n; i++)
    for (int64_t j = 0; j < s.n; j++)
      for (int64_t at = i * s.row + j; at < size; at += plane) beta[at] = -rate * scale[j] * root[at];
  small_product(s, root, a, other);
  for (int64_t at = 0; at < size; at++) root[at] -= rate * other[at];
}

/* Some columns of numbers that lie as (re, im), (rows, all), as lines (rows, LINE), zeros at the end. */
static void take_columns(const real *x, int64_t rows, int64_t all, int64_t start, real *lines)
{
  const int64_t count = least(BATCH, all - start);
  for (int64_t r = 0; r < rows; r++) {
    const real *from = x + (r * all + start) * P;
    real *line = lines + r * LINE;
    if (count < BATCH) memset(line, 0, LINE * sizeof(real));
    for (int64_t j = 0; j < count; j++)
      for (int p = 0; p < P; p++) line[p * BATCH + j] = from[j * P + p];
  }
}

static inline double total(vec x)
{
  double sum = 0;
  for (unsigned v = 0; v < LANES; v++) sum += x[v];
  return sum;
}

/* sums[i][j] += Z_i Z_j^H over the numbers of lines, lane by lane, for rows i and j to j + 3 of Z. */
INLINE void add_gram(const int across, const real *left, const real *right, vec *sums)
{
  vec re[4], im[4];
  UNROLL for (int j = 0; j < across; j++) re[j] = sums[j * P], im[j] = sums[j * P + P - 1];
  for (int64_t b = 0; b < BATCH; b += LANES) {
    const vec zr = *(const vec *)(left + b), zi = *(const vec *)(left + (P - 1) * BATCH + b);
    UNROLL for (int j = 0; j < across; j++) {
      const real *other = right + j * LINE;
      const vec yr = *(const vec *)(other + b), yi = *(const vec *)(other + (P - 1) * BATCH + b);
      re[j] += zr * yr;
      if (P == 2) re[j] += zi * yi, im[j] += zi * yr, im[j] -= zr * yi;
    }
  }
  UNROLL for (int j = 0; j < across; j++) {
    if (P == 2) sums[j * P + P - 1] = im[j];
    sums[j * P] = re[j];
  }
}

/* One step of Polar for each of `count` matrices X (rows, columns) with gradients G and momenta M: M <- M +
   factor (G - M), X <- alpha X + beta M, while both lie in caches. scale: of the rows, (count, rows).
   Twin: Polar.update in its parts, Stacks.advance, polar_factors and Stacks.apply. */
void polar_step(int64_t count, int64_t rows, int64_t columns, real *x, const real *g, real *m, double factor,
                const double *scale, int by_row, double most, double trust, int steps, int threads)
{
  const Small s = {rows, (rows + DOUBLES - 1) / DOUBLES * DOUBLES};
  const int64_t size = 2 * rows * s.row, numbers = rows * columns * P, twice = 2 * rows, even = (twice + 3) / 4 * 4;
  PARALLEL(threads)
  {
    real *z = room(even * LINE), *y = room(rows * LINE), *both = room(twice * rows * P);
    vec *sums = (vec *)room(twice * even * P * LANES);
    double *small = small_room(s, 10);
    memset(z, 0, even * LINE * sizeof(real));
    EACH_TASK
    for (int64_t matrix = 0; matrix < count; matrix++) {
      real *own = x + matrix * numbers, *average = m + matrix * numbers;
      const real *found = g + matrix * numbers;
      for (int64_t at = 0; at < numbers; at++) average[at] += (real)factor * (found[at] - average[at]);
      memset(sums, 0, twice * even * P * sizeof(vec));
      for (int64_t start = 0; start < columns; start += BATCH) {
        take_columns(own, rows, columns, start, z);
        take_columns(average, rows, columns, start, z + rows * LINE);
        for (int64_t i = 0; i < twice; i++)
          for (int64_t j = i / 4 * 4; j < twice; j += 4)
            add_gram(4, z + i * LINE, z + j * LINE, sums + (i * even + j) * P);
      }
      memset(small, 0, 3 * size * sizeof(double));
      for (int64_t i = 0; i < twice; i++) /* blocks of Z Z^H: XX^H, XM^H, MM^H */
        for (int64_t j = i; j < twice; j++) {
          const vec *sum = sums + (i * even + j) * P;
          const double re = total(sum[0]), im = P == 2 ? total(sum[1]) : 0;
          const int64_t block = (i >= rows) + (j >= rows), down = i % rows, right = j % rows;
          double *gram = small + block * size;
          gram[down * s.row + right] = re, gram[(rows + down) * s.row + right] = im;
          if (block != 1) gram[right * s.row + down] = re, gram[(rows + right) * s.row + down] = i == j ? 0 : -im;
        }
      double *alpha = small + 3 * size, *beta = alpha + size;
      memset(alpha, 0, 7 * size * sizeof(double));
      polar_factors(s, small, small + size, small + 2 * size, scale + matrix * rows, by_row, most, trust, steps,
                    alpha, beta, beta + size);
      for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++)
          for (int p = 0; p < P; p++) {
            both[(i * twice + j) * P + p] = (real)alpha[(p * rows + i) * s.row + j];
            both[(i * twice + rows + j) * P + p] = (real)beta[(p * rows + i) * s.row + j];
          }
      for (int64_t start = 0; start < columns; start += BATCH) {
        const int64_t some = least(BATCH, columns - start);
        take_columns(own, rows, columns, start, z);
        take_columns(average, rows, columns, start, z + rows * LINE);
        multiply(0, 0, stored(both, twice), rows, twice, z, BATCH, y, BATCH, padded(some));
        for (int64_t r = 0; r < rows; r++)
          for (int64_t j = 0; j < some; j++)
            for (int p = 0; p < P; p++) own[(r * columns + start + j) * P + p] = y[r * LINE + p * BATCH + j];
      }
    }
    free(z), free(y), free(both), free(sums), free(small);
  }
}

/* ---------------------------------------------------------------- a look at the weights */

/* The largest entry of W (W^H z) - z for two real vectors z, (2, rows), of each of `count` matrices W (rows,
   columns). W is read once: some columns of both products at a time, summed in double precision.
   Twin: Normalisation._quick. */
void look(int64_t count, int64_t rows, int64_t columns, const real *weight, const real *z, double *largest,
          int threads)
{
  enum { SOME = 16 * LANES };
  const int64_t width = columns * P;
  PARALLEL(threads)
  {
    double *sums = malloc(2 * P * rows * sizeof(double));
    real *y = room(2 * P * SOME), *row = room(SOME);
    EACH_TASK
    for (int64_t matrix = 0; matrix < count; matrix++) {
      memset(sums, 0, 2 * P * rows * sizeof(double));
      for (int64_t start = 0; start < width; start += SOME) {
        const real *from = weight + matrix * rows * width + start;
        const int64_t some = least(SOME, width - start), whole = (some + LANES - 1) / LANES * LANES;
        memset(y, 0, 2 * P * SOME * sizeof(real)), memset(row, 0, SOME * sizeof(real));
        for (int64_t k = 0; k < rows; k++) { /* y = W^H z, not conjugated */
          const real *w = some < whole ? memcpy(row, from + k * width, some * sizeof(real)) : from + k * width;
          for (int64_t b = 0; b < whole; b += LANES) {
            const vec numbers = *(const vec *)(w + b);
            *(vec *)(y + b) += z[k] * numbers, *(vec *)(y + SOME + b) += z[rows + k] * numbers;
          }
        }
        if (P == 2) /* and turned: so its product with (re, im) is the imaginary part */
          for (int64_t b = 0; b < 2 * SOME; b += 2) y[2 * SOME + b] = y[b + 1], y[2 * SOME + b + 1] = -y[b];
        for (int64_t k = 0; k < rows; k++) {
          const real *w = some < whole ? memcpy(row, from + k * width, some * sizeof(real)) : from + k * width;
          vec found[2 * P] = {0};
          for (int64_t b = 0; b < whole; b += LANES)
            UNROLL for (int p = 0; p < 2 * P; p++) found[p] += *(const vec *)(w + b) * *(const vec *)(y + p * SOME + b);
          for (int p = 0; p < 2 * P; p++) sums[p * rows + k] += total(found[p]);
        }
      }
      double most = 0;
      for (int64_t at = 0; at < 2 * rows; at++) {
        const double re = sums[at] - z[at], im = P == 2 ? sums[(P - 1) * 2 * rows + at] : 0;
        const double size = sqrt(re * re + im * im);
        most = size <= most ? most : size; /* a NaN stays */
      }
      largest[matrix] = most;
    }
    free(sums), free(y), free(row);
  }
}
