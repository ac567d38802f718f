// Pictures: pixels, heat maps, bars and curves.

import { inWords, percent, svgElement } from "./dom.js";

export const UNKNOWN = [249, 146, 60]; // orange, which no grey can be
const WIDE = 240, HIGH = 64; // of bars and curves

/** Pixels on a canvas of their size: one channel dark on white, three are colours; null is not known. */
export function paintPixels(canvas, values, [height, width, channels = 1], [low, high]) {
  canvas.width = width;
  canvas.height = height;
  const picture = new ImageData(width, height);
  for (let pixel = 0; pixel < width * height; pixel++) {
    const own = values.slice(pixel * channels, (pixel + 1) * channels);
    const colour = own.includes(null) ? UNKNOWN : own.map((value) => (255 * (value - low)) / (high - low || 1));
    const shown = own.includes(null) || channels === 3 ? colour : Array(3).fill(255 - colour[0]);
    picture.data.set([...shown, 255], 4 * pixel);
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

/** Shares from 0 to 1, (x, y), as a heat map whose y goes upwards. */
export function paintHeat(canvas, values) {
  canvas.width = values.length;
  canvas.height = values[0].length;
  const most = Math.max(...values.map((column) => Math.max(...column)), 1e-300);
  const picture = new ImageData(canvas.width, canvas.height);
  values.forEach((column, x) =>
    column.forEach((value, y) => picture.data.set(heat(value / most), 4 * ((canvas.height - 1 - y) * canvas.width + x))),
  );
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

const HEAT = [[247, 247, 255], [180, 190, 254], [99, 102, 241], [67, 56, 202], [30, 27, 75]];

function heat(share) {
  const place = Math.sqrt(share) * (HEAT.length - 1);
  const below = Math.min(Math.floor(place), HEAT.length - 2);
  return [...HEAT[below].map((from, i) => from + (place - below) * (HEAT[below + 1][i] - from)), 255];
}

/** The probabilities of states as bars. */
export function bars(values, labels, words) {
  const most = Math.max(...values, 1e-300), step = WIDE / values.length;
  const shapes = values.map((value, i) =>
    svgElement("rect", {
      x: i * step + (step > 4 ? 1 : 0),
      width: Math.max(step - (step > 4 ? 2 : 0), 0.5),
      y: HIGH * (1 - value / most),
      height: (HIGH * value) / most,
      class: "bar",
    }, svgElement("title", {}, `${labels[i]}: ${percent(value)}`)),
  );
  return picture(shapes, words);
}

/** A density; the part between two quantiles is shaded darker. */
export function curve(points, values, ends, words) {
  const low = points[0], width = points.at(-1) - low || 1, most = Math.max(...values, 1e-300);
  const places = points.map((x, i) => [((x - low) / width) * WIDE, HIGH * (1 - values[i] / most)]);
  const area = (some) =>
    some.length < 2 ? "" : `M${some[0][0]} ${HIGH}${some.map(([x, y]) => `L${x.toFixed(2)} ${y.toFixed(2)}`).join("")}L${some.at(-1)[0]} ${HIGH}Z`;
  const inner = ends ? places.filter((_, i) => points[i] >= ends[0] && points[i] <= ends[1]) : places;
  return picture([svgElement("path", { d: area(places), class: "tails" }), svgElement("path", { d: area(inner), class: "bar" })], words);
}

/** Lines over epochs: names → numbers, null where there is none. */
export function lines(series, words) {
  const all = Object.values(series).flat().filter((value) => typeof value === "number");
  const low = Math.min(...all), height = Math.max(...all) - low || 1;
  const paths = Object.entries(series).map(([name, values]) => {
    const places = values
      .map((value, i) => [value, (i / Math.max(values.length - 1, 1)) * WIDE])
      .filter(([value]) => typeof value === "number")
      .map(([value, x]) => `${x.toFixed(2)} ${(HIGH * (1 - (value - low) / height)).toFixed(2)}`);
    return svgElement("path", { d: places.length ? `M${places.join("L")}` : "", class: `line ${name}` });
  });
  return picture(paths, words);
}

function picture(shapes, words) {
  return svgElement("svg", { viewBox: `0 -2 ${WIDE} ${HIGH + 4}`, preserveAspectRatio: "none", role: "img", "aria-label": words, class: "chart" }, shapes);
}

/** Where nearly all of a distribution lies, in words. */
export function spreadInWords(found, states) {
  if (states) {
    const order = found.values.map((value, i) => [value, states[i]]).sort((a, b) => b[0] - a[0]).slice(0, 3);
    return order.map(([value, state]) => `${state} ${percent(value)}`).join(", ");
  }
  if (!found.quantiles) return `likeliest ${inWords(found.mode)}`;
  return `${inWords(found.mean)} ± ${inWords(found.deviation, 3)}; 90 % in ${inWords(found.quantiles[0])} … ${inWords(found.quantiles[2])}`;
}
