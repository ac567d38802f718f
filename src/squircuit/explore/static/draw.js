// Pictures: pixels, heat maps, bars and curves.

import { inWords, percent, svgElement } from "./dom.js";

const WIDE = 240, HIGH = 64; // of bars and curves
const HEAT = {
  light: [[255, 255, 255], [199, 203, 252], [120, 122, 245], [67, 56, 202], [30, 27, 75]],
  dark: [[28, 32, 39], [49, 46, 120], [99, 92, 235], [170, 172, 253], [248, 248, 255]],
};

/** Pixels on a canvas of their size: one channel dark on white, three are colours; what is not known lets the ground through. */
export function paintPixels(canvas, values, [height, width, channels = 1], [low, high]) {
  canvas.width = width;
  canvas.height = height;
  const image = new ImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    const own = values.slice(pixel * channels, (pixel + 1) * channels);
    const shares = own.map((value) => (255 * (value - low)) / (high - low || 1));
    if (!own.includes(null)) image.data.set([...(channels === 3 ? shares : Array(3).fill(255 - shares[0])), 255], 4 * pixel);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Shares from 0 to 1, (x, y), as a heat map whose y goes upwards. */
export function paintHeat(canvas, values) {
  canvas.width = values.length;
  canvas.height = values[0].length;
  const most = Math.max(...values.map((column) => Math.max(...column)), 1e-300);
  const colours = HEAT[matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"];
  const image = new ImageData(canvas.width, canvas.height);
  values.forEach((column, x) =>
    column.forEach((value, y) => image.data.set(heat(value / most, colours), 4 * ((canvas.height - 1 - y) * canvas.width + x))),
  );
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function heat(share, colours) {
  const place = Math.sqrt(share) * (colours.length - 1);
  const below = Math.min(Math.floor(place), colours.length - 2);
  return [...colours[below].map((from, i) => from + (place - below) * (colours[below + 1][i] - from)), 255];
}

/** The probabilities of states as bars; the one with the number `marked` has a line. */
function bars(values, labels, marked, words) {
  const most = Math.max(...values, 1e-300), step = WIDE / values.length, gap = step > 4 ? 1 : 0;
  const shapes = values.map((value, i) =>
    svgElement("rect", { x: i * step + gap, width: Math.max(step - 2 * gap, 0.5), y: HIGH * (1 - value / most), height: (HIGH * value) / most, class: "bar" },
      svgElement("title", {}, `${labels[i]}: ${percent(value)}`)),
  );
  return chart([...shapes, ...(marked >= 0 ? [mark((marked + 0.5) * step)] : [])], words);
}

/** A density; the part between two quantiles is darker, and the value `marked` has a line. */
function curve(points, values, ends, marked, words) {
  const low = points[0], width = points.at(-1) - low || 1, most = Math.max(...values, 1e-300);
  const across = (x) => ((Math.min(Math.max(x, low), points.at(-1)) - low) / width) * WIDE;
  const places = points.map((x, i) => [across(x), HIGH * (1 - values[i] / most)]);
  const area = (some) =>
    some.length < 2 ? "" : `M${some[0][0]} ${HIGH}${some.map(([x, y]) => `L${x.toFixed(2)} ${y.toFixed(2)}`).join("")}L${some.at(-1)[0]} ${HIGH}Z`;
  const inner = ends ? places.filter((_, i) => points[i] >= ends[0] && points[i] <= ends[1]) : places;
  return chart([svgElement("path", { d: area(places), class: "tails" }), svgElement("path", { d: area(inner), class: "bar" }),
    ...(marked === undefined ? [] : [mark(across(marked))])], words);
}

/** The distribution of a column: bars of its states, or a curve; `place` is the number of a state, or a value. */
export function chartOf(found, states, place, words) {
  if (states) return bars(found.values, states, place, words);
  return curve(found.points, found.values, found.quantiles && [found.quantiles[0], found.quantiles[2]], place, words);
}

function mark(x) {
  return svgElement("line", { x1: x, x2: x, y1: 0, y2: HIGH, class: "mark" });
}

/** Lines over epochs: names → numbers, null where there is none; and the ends of the axis. */
export function lines(series, words) {
  const all = Object.values(series).flat().filter((value) => typeof value === "number");
  const low = Math.min(...all), high = Math.max(...all);
  const paths = Object.entries(series).map(([name, values]) => {
    const places = values
      .map((value, i) => [value, (i / Math.max(values.length - 1, 1)) * WIDE])
      .filter(([value]) => typeof value === "number")
      .map(([value, x]) => `${x.toFixed(2)} ${(HIGH * (1 - (value - low) / (high - low || 1))).toFixed(2)}`);
    return svgElement("path", { d: places.length ? `M${places.join("L")}` : "", class: `line ${name}` });
  });
  return { low, high, node: chart(paths, words) };
}

function chart(shapes, words) {
  return svgElement("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": words, class: "chart" }, shapes);
}

/** Where nearly all of a distribution lies, in words. */
export function spreadInWords(found, states) {
  if (found.quantiles || found.deviation !== undefined) {
    const range = found.quantiles ? `, 90 % in ${inWords(found.quantiles[0], 3)} … ${inWords(found.quantiles[2], 3)}` : "";
    return `${inWords(found.mean, 3)} ± ${inWords(found.deviation, 2)}${range}`;
  }
  if (!states) return `likeliest ${inWords(found.mode)}`;
  const order = found.values.map((value, i) => [value, states[i]]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  return order.map(([value, state]) => `${state} ${percent(value)}`).join(", ");
}
