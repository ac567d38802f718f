// A block of columns: K densities N(t(x); μ_k, C_k) ∏ t'(x_v), where t are monotone maps of single columns.

const REACH = 10, STEP = 0.05; // deviations of a Gaussian that moments look at, and how finely
const NEGLIGIBLE = 1e-12; // the share of a Gaussian that is left out

export class Block {
  /** Args: means: [K, D]; covariances: [K or 1, D, D]; maps: of the columns, null for the identity. */
  constructor({ variables, means, covariances, maps }) {
    Object.assign(this, { variables, means: means.re, covariances: covariances.re, isTied: covariances.shape[0] === 1 });
    this.units = means.shape[0];
    this.maps = maps.map((map) => (map ? new Monotone(map) : IDENTITY));
  }

  /** Of every Gaussian, given the values of some columns: log of their density, and mean and covariance of the rest. */
  given(values) {
    const d = this.variables.length, seen = [], left = [], t = [];
    let slopes = 0;
    this.variables.forEach((v, i) => {
      if (values[v] === undefined) return left.push(i);
      const [at, logSlope] = this.maps[i].forward(values[v]);
      seen.push(i);
      t.push(at);
      slopes += logSlope;
    });
    const of = (k, i, j) => this.covariances[((this.isTied ? 0 : k) * d + i) * d + j];
    const terms = Array.from({ length: this.units }, (_, k) => {
      const lower = cholesky(seen.map((i) => seen.map((j) => of(k, i, j))));
      const off = forwards(lower, seen.map((i, n) => t[n] - this.means[k * d + i]));
      const gains = left.map((i) => forwards(lower, seen.map((j) => of(k, i, j))));
      const log = lower.reduce((sum, row, n) => sum - Math.log(row[n]) - (off[n] ** 2 + Math.log(2 * Math.PI)) / 2, slopes);
      return {
        log,
        means: left.map((i, n) => this.means[k * d + i] + dot(gains[n], off)),
        covariance: left.map((i, n) => left.map((j, m) => of(k, i, j) - dot(gains[n], gains[m]))),
      };
    });
    return { left, terms };
  }

  /** The density of the n-th column that is left at points, when Gaussian k has the share w_k: at most all of it. */
  densities({ left, terms }, shares, n, points) {
    const map = this.maps[left[n]], at = points.map((x) => map.forward(x));
    const counted = terms.map((term, k) => [shares[k], term.means[n], Math.sqrt(term.covariance[n][n])]).filter(([share]) => share > 0);
    return at.map(([t, logSlope]) => counted.reduce((sum, [share, mean, width]) => sum + (share / width) * Math.exp(logSlope - ((t - mean) / width) ** 2 / 2), 0) / Math.sqrt(2 * Math.PI));
  }

  /** Σ_k w_k E[x] and Σ_k w_k E[x²] of the n-th column that is left. */
  moments({ left, terms }, shares, n) {
    const map = this.maps[left[n]], found = [0, 0], most = Math.max(...shares);
    terms.forEach((term, k) => {
      if (!(shares[k] > NEGLIGIBLE * most)) return;
      const width = Math.sqrt(term.covariance[n][n]), mean = term.means[n];
      const rule = map === IDENTITY ? [[mean, 1]] : bell().map(([z, weight]) => [map.inverse(mean + width * z), weight]);
      for (const [x, weight] of rule) {
        found[0] += shares[k] * weight * x;
        found[1] += shares[k] * weight * x * x;
      }
      if (map === IDENTITY) found[1] += shares[k] * width * width;
    });
    return found;
  }

  /** The columns that are left, drawn from Gaussian k: variable → value. */
  sample({ left, terms }, k, random) {
    const { means, covariance } = terms[k], lower = cholesky(covariance), z = left.map(() => normal(random));
    return Object.fromEntries(left.map((i, n) => [this.variables[i], this.maps[i].inverse(means[n] + dot(lower[n].slice(0, n + 1), z))]));
  }
}

/** The rational-quadratic spline of the program, and its tails: see squircuit.Monotone. */
class Monotone {
  constructor({ knots, values, slopes, tails }) {
    Object.assign(this, { knots, values, slopes, tails });
  }

  /** The piece of a point among ends: its number, and what is the same in both directions. */
  #piece(ends, at) {
    let low = 0, high = ends.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (at < ends[middle]) high = middle;
      else low = middle;
    }
    const { knots, values, slopes } = this, width = knots[low + 1] - knots[low], rise = values[low + 1] - values[low];
    return { x: knots[low], y: values[low], width, rise, slope: rise / width, near: slopes[low], far: slopes[low + 1] };
  }

  /** t(x) and log t'(x). */
  forward(at) {
    const { knots } = this, inside = Math.min(Math.max(at, knots[0]), knots.at(-1));
    const { x, y, width, rise, slope, near, far } = this.#piece(knots, inside);
    const theta = (inside - x) / width, mixed = theta * (1 - theta), below = slope + (far + near - 2 * slope) * mixed;
    let t = y + (rise * (slope * theta ** 2 + near * mixed)) / below;
    let log = 2 * Math.log(slope) + Math.log(far * theta ** 2 + 2 * slope * mixed + near * (1 - theta) ** 2) - 2 * Math.log(below);
    for (const [sign, end, steep, bend] of this.#tails(knots)) {
      const beyond = Math.max(sign * (at - end) * steep, 0), bent = Math.log1p(bend * beyond);
      t += sign * (bend ? bent / bend : beyond);
      log -= bent;
    }
    return [t, log];
  }

  /** The x with t(x) = t. */
  inverse(t) {
    const { values } = this, inside = Math.min(Math.max(t, values[0]), values.at(-1));
    const piece = this.#piece(values, inside), { width, rise, slope, near, far } = piece, above = inside - piece.y;
    const bow = far + near - 2 * slope, a = rise * (slope - near) + above * bow, b = rise * near - above * bow, c = -slope * above;
    let x = piece.x + width * Math.min(Math.max((2 * c) / (-b - Math.sqrt(Math.max(b * b - 4 * a * c, 0))) || 0, 0), 1);
    for (const [sign, end, steep, bend] of this.#tails(values)) {
      const beyond = Math.max(sign * (t - end), 0);
      x += (sign * (bend ? Math.expm1(bend * beyond) / bend : beyond)) / steep;
    }
    return x;
  }

  #tails(ends) {
    return [[-1, ends[0], this.slopes[0], this.tails[0]], [1, ends.at(-1), this.slopes.at(-1), this.tails[1]]];
  }
}

const IDENTITY = { forward: (x) => [x, 0], inverse: (t) => t };

/** Points and weights of a standard normal distribution, for smooth functions. */
function bell() {
  if (bell.rule) return bell.rule;
  const points = Array.from({ length: (2 * REACH) / STEP + 1 }, (_, i) => i * STEP - REACH);
  return (bell.rule = points.map((z) => [z, (STEP * Math.exp((-z * z) / 2)) / Math.sqrt(2 * Math.PI)]));
}

function cholesky(matrix) {
  const lower = matrix.map((row) => row.map(() => 0));
  for (let i = 0; i < matrix.length; i++)
    for (let j = 0; j <= i; j++) {
      const rest = matrix[i][j] - dot(lower[i].slice(0, j), lower[j]);
      lower[i][j] = i === j ? Math.sqrt(Math.max(rest, 1e-300)) : rest / lower[j][j];
    }
  return lower;
}

/** x with L x = b. */
function forwards(lower, b) {
  const x = [];
  for (let i = 0; i < b.length; i++) x.push((b[i] - dot(x, lower[i])) / lower[i][i]);
  return x;
}

function dot(short, long) {
  let sum = 0;
  for (let i = 0; i < short.length; i++) sum += short[i] * long[i];
  return sum;
}

function normal(random) {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}
