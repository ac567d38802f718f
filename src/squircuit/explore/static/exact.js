// A circuit evaluated in double precision: p(x) = Σ_r π_r |c_r(x)|² / Z with any of the variables unknown.
//
// The message of a layer of K units is its vector of values where all of its variables are seen, and else the matrix
// ∫ ℓ ℓᴴ over those that are not; both are scaled, with the logarithm of the scale beside them. On the way down each
// layer gets D with p = Σ_ij D_ij M_ij, M being its message: that is the distribution of its variables. A block of
// columns is below products entry by entry alone, so that D is diagonal: of its M nothing else is there.

import { Block } from "./gaussian.js";

/** Complex numbers in an array of some shape. */
const zeros = (...shape) => {
  const count = shape.reduce((product, side) => product * side, 1);
  return { shape, re: new Float64Array(count), im: new Float64Array(count) };
};

/** Σ_a X[…, a, …] M[a, b] along an axis. */
function applied(x, axis, m) {
  const [n, k] = m.shape, before = x.shape.slice(0, axis).reduce((p, s) => p * s, 1), after = x.shape.slice(axis + 1).reduce((p, s) => p * s, 1);
  const out = zeros(...x.shape.slice(0, axis), k, ...x.shape.slice(axis + 1));
  for (let l = 0; l < before; l++)
    for (let a = 0; a < n; a++)
      for (let b = 0; b < k; b++) {
        const re = m.re[a * k + b], im = m.im[a * k + b];
        if (re === 0 && im === 0) continue;
        for (let r = 0, i = (l * n + a) * after, o = (l * k + b) * after; r < after; r++, i++, o++) {
          out.re[o] += x.re[i] * re - x.im[i] * im;
          out.im[o] += x.re[i] * im + x.im[i] * re;
        }
      }
  return out;
}

/** Σ over all other axes of X[…, a, …] Y[…, b, …]*. */
function correlated(x, y, axis) {
  const n = x.shape[axis], after = x.shape.slice(axis + 1).reduce((p, s) => p * s, 1), before = x.re.length / (n * after);
  const out = zeros(n, n);
  for (let l = 0; l < before; l++)
    for (let a = 0; a < n; a++)
      for (let b = 0; b < n; b++)
        for (let r = 0, i = (l * n + a) * after, j = (l * n + b) * after; r < after; r++, i++, j++) {
          out.re[a * n + b] += x.re[i] * y.re[j] + x.im[i] * y.im[j];
          out.im[a * n + b] += x.im[i] * y.re[j] - x.re[i] * y.im[j];
        }
  return out;
}

/** Entry by entry. */
function multiplied(x, y) {
  const out = zeros(...x.shape);
  for (let i = 0; i < x.re.length; i++) {
    out.re[i] = x.re[i] * y.re[i] - x.im[i] * y.im[i];
    out.im[i] = x.re[i] * y.im[i] + x.im[i] * y.re[i];
  }
  return out;
}

function divide(x, number) {
  for (let i = 0; i < x.re.length; i++) {
    x.re[i] /= number;
    x.im[i] /= number;
  }
  return x;
}

/** Σ D_ij M_ij, which is real. */
function total(d, m) {
  let sum = 0;
  for (let i = 0; i < d.re.length; i++) sum += d.re[i] * m.re[i] - d.im[i] * m.im[i];
  return sum;
}

const asMatrix = ({ value, isSeen }) => (isSeen ? correlated(value, value, 0) : value);

/** A message of largest entry 1, and the logarithm of its scale, which counts twice for a vector, as for its square. */
function scaled(value, isSeen, log) {
  let most = 1e-300;
  for (let i = 0; i < value.re.length; i++) most = Math.max(most, Math.abs(value.re[i]), Math.abs(value.im[i]));
  const scale = isSeen ? most * most : most;
  return { value: divide(value, most), isSeen, scale, log: log + Math.log(scale) };
}

export class Circuit {
  /** Args: document: layers from the inputs up, roots, shares; numbers: a place in the document → complex numbers; points: of every variable. */
  constructor({ layers, roots, shares }, numbers, points) {
    this.layers = layers.map((layer) => ({ ...layer, ...Object.fromEntries(["weight", "table", "gram", "first", "second", "means", "covariances"].filter((name) => layer[name]).map((name) => [name, numbers(layer[name])])) }));
    this.points = points;
    for (const layer of this.layers) {
      if (layer.kind === "block") layer.block = new Block(layer);
      if (layer.kind !== "input") continue;
      layer.weights ??= Array(layer.table.shape[1]).fill(1);
      layer.gram ??= correlated(layer.table, layer.table, 0);
    }
    for (const layer of this.layers) if (layer.kind === "sum") this.#join(layer);
    this.layers.forEach((layer) => layer.kind === "kronecker" && this.#join(layer));
    this.roots = roots;
    this.shares = shares;
    this.logZ = 0;
    this.logZ = this.logProb({});
  }

  /** A sum takes what its product multiplies, so that the product itself, K times K times …, is not formed. */
  #join(layer) {
    const units = (i) => this.layers[i].units;
    const [only] = layer.inputs, product = this.layers[only];
    layer.parts = layer.kind === "sum" && product.kind !== "kronecker" ? [only] : layer.kind === "sum" ? product.inputs : layer.inputs;
    if (layer.kind === "kronecker") {
      layer.weight = zeros(layer.units, layer.units);
      for (let i = 0; i < layer.units; i++) layer.weight.re[i * layer.units + i] = 1;
    }
    layer.weight = { ...layer.weight, shape: [layer.units, ...layer.parts.map(units)] };
  }

  /** Which layers are evaluated: products that sums have taken over are not. */
  #used() {
    if (this.used) return this.used;
    const used = new Set(this.roots);
    for (let i = this.layers.length - 1; i >= 0; i--) if (used.has(i)) (this.layers[i].parts ?? this.layers[i].inputs ?? []).forEach((part) => used.add(part));
    return (this.used = [...used].sort((a, b) => a - b));
  }

  /** The message of a layer; those of its inputs are there. */
  #message(layer, messages, seen) {
    if (layer.kind === "input") {
      const state = seen[layer.variable], isSeen = state !== undefined;
      return scaled(isSeen ? column(layer.table, state) : copied(layer.gram), isSeen, 0);
    }
    if (layer.kind === "block") return this.#ofBlock(layer, seen);
    const parts = (layer.parts ?? layer.inputs).map((i) => messages[i]), isSeen = parts.every((part) => part.isSeen);
    const log = parts.reduce((sum, part) => sum + part.log, 0);
    if (layer.kind === "hadamard") return scaled(copied(parts.map((part) => (isSeen ? part.value : asMatrix(part))).reduce(multiplied)), isSeen, log);
    const [seenParts, all] = this.#through(layer, messages, -1);
    return scaled(isSeen ? { ...seenParts, shape: [layer.units, 1] } : correlated(all, seenParts, 0), isSeen, log);
  }

  /** The diagonal of the message of a block; what is seen is the number of a point, or a value that was drawn. */
  #ofBlock({ block, units }, seen) {
    const values = Object.fromEntries(block.variables.filter((v) => seen[v] !== undefined).map((v) => [v, seen[v].value ?? this.points[v][seen[v]]]));
    const given = block.given(values), most = Math.max(...given.terms.map((term) => term.log)), value = zeros(units, units);
    given.terms.forEach((term, k) => (value.re[k * units + k] = Math.exp(term.log - most)));
    return { ...scaled(value, false, most), given };
  }

  /** The weight of a layer times the messages of its parts, but one: the vectors alone, and the matrices as well. */
  #through(layer, messages, but) {
    const times = (weight, isSeen) => layer.parts.reduce((product, part, i) =>
      i !== but && messages[part].isSeen === isSeen ? applied(product, i + 1, messages[part].value) : product, weight);
    const seenParts = times(layer.weight, true);
    return [seenParts, times(seenParts, false)];
  }

  /** All messages, by the number of the layer. Args: seen: variable → number of its state or point. */
  messages(seen) {
    const messages = [];
    for (const i of this.#used()) messages[i] = this.#message(this.layers[i], messages, seen);
    return messages;
  }

  /** D of one part of a layer, from that of the layer. */
  #down(layer, messages, d, at) {
    if (layer.kind === "hadamard") return (layer.inputs.map((i) => asMatrix(messages[i])).filter((_, i) => i !== at)).reduce(multiplied, d);
    const [seenParts, all] = this.#through(layer, messages, at);
    return correlated(applied(all, 0, d), seenParts, at + 1);
  }

  /** log π_r |c_r|² of every root unit: [layer, unit, log] each. */
  #units(messages) {
    let number = 0;
    return this.roots.flatMap((root) => Array.from({ length: this.layers[root].units }, (_, unit) => {
      const { value, log } = messages[root], k = value.shape[0];
      const square = messages[root].isSeen ? value.re[unit] ** 2 + value.im[unit] ** 2 : value.re[unit * k + unit];
      return [root, unit, Math.log(this.shares[number++] * Math.max(square, 0)) + log];
    }));
  }

  logProb(seen, messages = this.messages(seen)) {
    return logSum(this.#units(messages).map(([, , log]) => log)) - this.logZ;
  }

  /** p(m | what is seen) of every root layer m. */
  members(seen, messages = this.messages(seen)) {
    const units = this.#units(messages), all = logSum(units.map(([, , log]) => log));
    return this.roots.map((_, m) => Math.exp(logSum(units.filter(([root]) => root === this.roots[m]).map(([, , log]) => log)) - all));
  }

  /** The distribution of every variable that is not seen, by itself: values at its states or points, mean and variance of its numbers. */
  marginals(seen, numbers) {
    const messages = this.messages(seen), ds = [], largest = Math.max(...this.roots.map((root) => messages[root].log));
    let number = 0;
    for (const root of this.roots) {
      const d = zeros(this.layers[root].units, this.layers[root].units), k = d.shape[0];
      for (let i = 0; i < k; i++) d.re[i * k + i] = this.shares[number++] * Math.exp(messages[root].log - largest);
      add(ds, root, d);
    }
    const found = {};
    for (const i of [...this.#used()].reverse()) {
      const layer = this.layers[i];
      if (messages[i].isSeen) continue;
      if (layer.kind === "input") collect(found, layer, ds[i], numbers?.[layer.variable]);
      else if (layer.kind === "block") this.#collectBlock(found, layer, sharesOf(ds[i], messages[i].value), messages[i].given, Boolean(numbers));
      else (layer.parts ?? layer.inputs).forEach((part, at) => messages[part].isSeen || add(ds, part, divide(this.#down(layer, messages, ds[i], at), messages[i].scale)));
    }
    for (const one of Object.values(found)) {
      one.values = one.values.map((value) => Math.max(value / one.total, 0));
      one.mean /= one.total;
      one.variance = Math.max(one.square / one.total - one.mean ** 2, 0);
    }
    return found;
  }

  #collectBlock(found, { block }, shares, given, withMoments) {
    given.left.forEach((i, n) => {
      const v = block.variables[i], values = block.densities(given, shares, n, this.points[v]);
      const one = (found[v] ??= { values: null, total: 0, mean: 0, square: 0 });
      one.values = one.values ? one.values.map((value, at) => value + values[at]) : values;
      one.total += shares.reduce((sum, share) => sum + share, 0);
      if (!withMoments) return;
      const [mean, square] = block.moments(given, shares, n);
      one.mean += mean;
      one.square += square;
    });
  }

  /** A joint sample of all variables that are not seen: variable → number of its state or point, or { value } of a column of a block. Args: member: only of this root layer. */
  sample(seen, random, messages = this.messages(seen), member = null) {
    const own = [...messages], x = {};
    const units = this.#units(messages).filter(([root]) => member === null || root === this.roots[member]);
    const [root, unit] = units[chosenBy(softmax(units.map(([, , log]) => log)), random)];
    const d = zeros(this.layers[root].units, this.layers[root].units);
    d.re[unit * d.shape[0] + unit] = 1;
    this.#descend(root, d, own, x, random);
    return x;
  }

  #descend(i, d, messages, x, random) {
    const layer = this.layers[i];
    if (messages[i].isSeen) return;
    divide(d, Math.max(total(d, messages[i].value), 1e-300));
    if (layer.kind === "block") {
      const drawn = layer.block.sample(messages[i].given, chosenBy(sharesOf(d, messages[i].value), random), random);
      for (const [v, value] of Object.entries(drawn)) x[v] = { value };
      return;
    }
    if (layer.kind === "input") {
      x[layer.variable] = chosenBy(densities(layer, d).map((value, s) => Math.max(value, 0) * layer.weights[s]), random);
    } else (layer.parts ?? layer.inputs).forEach((part, at) => this.#descend(part, this.#down(layer, messages, d, at), messages, x, random));
    messages[i] = this.#message(layer, messages, x);
  }
}

/** D_kk M_kk of a block: how much of p every Gaussian has. */
function sharesOf(d, m) {
  const k = d.shape[0];
  return Array.from({ length: k }, (_, i) => d.re[i * k + i] * m.re[i * k + i]);
}

function copied(x) {
  return { shape: x.shape, re: x.re.slice(), im: x.im.slice() };
}

function column(table, state) {
  const [units, states] = table.shape, out = zeros(units, 1);
  for (let k = 0; k < units; k++) {
    out.re[k] = table.re[k * states + state];
    out.im[k] = table.im[k * states + state];
  }
  return out;
}

/** Σ_ab D_ab φ_a φ_b* at every state or point. */
function densities({ table }, d) {
  const [units, states] = table.shape, half = applied(table, 0, d), out = Array(states).fill(0);
  for (let b = 0, i = 0; b < units; b++)
    for (let state = 0; state < states; state++, i++) out[state] += half.re[i] * table.re[i] + half.im[i] * table.im[i];
  return out;
}

function collect(found, layer, d, numbers) {
  const one = (found[layer.variable] ??= { values: null, total: 0, mean: 0, square: 0 });
  const values = densities(layer, d);
  one.values = one.values ? one.values.map((value, i) => value + values[i]) : values;
  one.total += total(d, layer.gram);
  if (layer.first) {
    one.mean += total(d, layer.first);
    one.square += total(d, layer.second);
  } else if (numbers) values.forEach((value, i) => {
    one.mean += value * numbers[i];
    one.square += value * numbers[i] ** 2;
  });
}

function add(ds, i, d) {
  if (!ds[i]) ds[i] = d;
  else for (let j = 0; j < d.re.length; j++) {
    ds[i].re[j] += d.re[j];
    ds[i].im[j] += d.im[j];
  }
}

function logSum(logs) {
  const most = Math.max(...logs);
  return most === -Infinity ? most : most + Math.log(logs.reduce((sum, log) => sum + Math.exp(log - most), 0));
}

function softmax(logs) {
  const all = logSum(logs);
  return logs.map((log) => Math.exp(log - all));
}

/** A number drawn with these weights. */
function chosenBy(weights, random) {
  let left = random() * weights.reduce((sum, weight) => sum + weight, 0);
  for (let i = 0; i < weights.length; i++) if ((left -= weights[i]) < 0) return i;
  return weights.findLastIndex((weight) => weight > 0);
}

/** Numbers from 0 to 1 that a seed determines. */
export function generator(seed) {
  let state = (seed * 2654435761 + 1) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
