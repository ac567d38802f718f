// In an exported page, in place of server.js: the answers, computed here by the circuit that the page holds.

import { partsOf, textOf } from "./calendar.js";
import { Circuit, generator } from "./exact.js";

export const canScore = false;
const SIDE = 41; // points along a side of a heat map, at most
const MEMORY = {};

/** The page's own model: what is said of it, its circuit, and what the states and points of its columns are. */
function model() {
  return (MEMORY.model ??= unpacked(JSON.parse(document.getElementById("model").textContent)));
}

export function unpacked(held) {
  const bytes = Uint8Array.from(atob(held.numbers), (letter) => letter.charCodeAt(0));
  const numbers = ({ at, shape, bits, complex }) => {
    const count = shape.reduce((product, side) => product * side, 1), make = bits === 32 ? Float32Array : Float64Array;
    const all = Float64Array.from(new make(bytes.buffer, at, complex ? 2 * count : count));
    return complex ? { shape, re: all.filter((_, i) => i % 2 === 0), im: all.filter((_, i) => i % 2) } : { shape, re: all, im: new Float64Array(count) };
  };
  return { ...held, circuit: new Circuit(held.circuit, numbers, held.columns.map((column) => column.points)) };
}

const QUESTIONS = {
  shelf: ({ described }) => ({ names: [described.name] }),
  model: ({ described }) => described,
  properties: ({ properties }) => properties,
  drawing: ({ drawing }) => drawing,
  completions(held, { pixels, count, seed, class: name }) {
    const seen = seenPixels(held, pixels), random = generator(seed), messages = held.circuit.messages(seen);
    const member = name === undefined ? null : held.described.classes.indexOf(name);
    const draw = () => held.circuit.sample(seen, random, messages, member);
    return { completions: Array.from({ length: count }, draw).map((x) => pixels.map((value, v) => value ?? held.columns[v].points[x[v]])) };
  },
  likelihood(held, { pixels }) {
    const seen = seenPixels(held, pixels), messages = held.circuit.messages(seen), log_prob = held.circuit.logProb(seen, messages), count = Object.keys(seen).length;
    return { log_prob, seen: count, bits: count ? -log_prob / count / Math.LN2 : null, members: memberShares(held, seen, messages), classes: held.described.classes };
  },
  spread(held, { pixels }) {
    const found = held.circuit.marginals(seenPixels(held, pixels), held.columns.map((column) => column.points));
    return { mean: pixels.map((value, v) => value ?? found[v].mean), deviation: pixels.map((value, v) => (value === null ? Math.sqrt(found[v].variance) : 0)) };
  },
  distributions(held, { evidence }) {
    const seen = seenCells(held, evidence), messages = held.circuit.messages(seen), numbers = held.columns.map((column) => column.points);
    const whole = held.circuit.marginals(seen, numbers);
    const groups = tableOfParts(held), found = new Map();
    const of = (v) => {
      const [name, those] = [...groups].find(([, some]) => some.includes(v));
      if (those.every((part) => seen[part] === undefined)) return whole[v];
      if (!found.has(name)) found.set(name, held.circuit.marginals(Object.fromEntries(Object.entries(seen).filter(([other]) => !those.includes(Number(other)))), numbers));
      return found.get(name)[v];
    };
    return {
      log_prob: held.circuit.logProb(seen, messages),
      members: memberShares(held, seen, messages),
      columns: Object.fromEntries(held.columns.map((column, v) => [column.name, { ...distribution(column, of(v)), ...(seen[v] === undefined ? {} : { value: cell(column, seen[v]) }) }])),
    };
  },
  samples(held, { evidence, count, seed }) {
    const seen = seenCells(held, evidence), random = generator(seed), messages = held.circuit.messages(seen);
    const rows = Array.from({ length: count }, () => held.circuit.sample(seen, random, messages));
    const names = [...tableOfParts(held).keys()];
    return { names, rows: rows.map((x) => names.map((name) => word(held, name, { ...seen, ...x }))) };
  },
  pair(held, { x, y, evidence }) {
    const [first, second] = [x, y].map((name) => held.columns.findIndex((column) => column.name === name));
    const seen = seenCells(held, evidence);
    delete seen[first];
    delete seen[second];
    const [across, upwards] = [first, second].map((v) => some(held.columns[v]));
    const p = held.circuit.logProb(seen);
    const values = across.map((state) => {
      const given = { ...seen, [first]: state }, share = Math.exp(held.circuit.logProb(given) - p);
      const found = held.circuit.marginals(given)[second].values;
      return upwards.map((at) => share * found[at]);
    });
    const axis = (column, states) => ({ name: column.name, discrete: column.discrete, points: states.map((state) => cell(column, state)) });
    return { x: axis(held.columns[first], across), y: axis(held.columns[second], upwards), values };
  },
};

/** The answer to a question, after what is drawn meanwhile; null where a newer one made it idle. */
export async function answered(kind, question, signal) {
  await new Promise((resolve) => setTimeout(resolve));
  return signal.aborted ? null : answer(model(), kind, question);
}

export function answer(held, kind, question) {
  return QUESTIONS[kind](held, question);
}

export const progress = async () => null; // answers come at once
export const endAll = () => {};

function memberShares(held, seen, messages) {
  return held.circuit.roots.length > 1 ? held.circuit.members(seen, messages) : [];
}

function seenPixels(held, pixels) {
  return Object.fromEntries(pixels.map((value, v) => [v, value]).filter(([, value]) => value !== null).map(([v, value]) => [v, nearest(held.columns[v].points, value)]));
}

/** The columns of the table and the numbers of their variables: those of a date are its parts. */
function tableOfParts({ columns, described }) {
  const dates = new Map(described.dates.flatMap(({ name, parts }) => parts.map((part) => [part, name]))), groups = new Map();
  columns.forEach(({ name }, v) => groups.set(dates.get(name) ?? name, [...(groups.get(dates.get(name) ?? name) ?? []), v]));
  return groups;
}

/** A cell of the table. Args: x: variable → number of its state or point, or { value }. */
function word({ columns, described }, name, x) {
  const own = (part) => columns.findIndex((column) => column.name === part), date = described.dates.find((one) => one.name === name);
  return date ? textOf(date, (part) => cell(columns[own(part)], x[own(part)])) : cell(columns[own(name)], x[own(name)]);
}

function seenCells(held, evidence) {
  const dates = new Map(held.described.dates.map((date) => [date.name, date]));
  const cells = Object.entries(evidence).flatMap(([name, value]) => (dates.has(name) ? Object.entries(partsOf(dates.get(name), value)) : [[name, value]]));
  return Object.fromEntries(cells.map(([name, value]) => {
    const v = held.columns.findIndex((column) => column.name === name), column = held.columns[v];
    const state = column.discrete ? column.states.indexOf(value) : nearest(column.points, value);
    if (state < 0 || Number.isNaN(state)) throw new Error(`${name}: ${value} is no value of this column. Fix: choose one that the page offers.`);
    return [v, state];
  }));
}

function nearest(points, value) {
  if (typeof value !== "number") return NaN;
  return points.reduce((best, point, i) => (Math.abs(point - value) < Math.abs(points[best] - value) ? i : best), 0);
}

const cell = (column, state) => (column.discrete ? column.states?.[state] : Number((state?.value === undefined ? column.points[state] : asInTable(column, state.value)).toPrecision(6)));

/** A number that was drawn, as the table has them: levels, multiples of the step, values that many rows share, within the bounds. */
function asInTable({ levels, step, spikes, least, most }, value) {
  if (levels.length) return levels[nearest(levels, value)];
  const near = step ? Math.round(value / step) * step : value, spike = spikes.find(([at, half]) => Math.abs(near - at) < half);
  return Math.min(Math.max(spike ? spike[0] : near, least ?? -Infinity), most ?? Infinity);
}

/** Some of the states or points of a column, evenly. */
function some({ points }) {
  const step = Math.ceil((points.length - 1) / (SIDE - 1)) || 1;
  return points.map((_, i) => i).filter((i) => i % step === 0);
}

function distribution(column, found) {
  const best = found.values.indexOf(Math.max(...found.values));
  return {
    values: found.values,
    mode: cell(column, best),
    ...(column.discrete ? {} : { points: column.points }),
    ...(column.kind === "count" || column.kind === "continuous" ? { mean: found.mean, deviation: Math.sqrt(found.variance) } : {}),
  };
}
