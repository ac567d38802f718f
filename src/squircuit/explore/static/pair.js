// Two columns at a time as a heat map, given what is set of the others.

import { ask, latest } from "./ask.js";
import { partInWords } from "./date.js";
import { button, element, inWords, notice, percent, tell } from "./dom.js";
import { paintHeat } from "./draw.js";
import { evidence } from "./evidence.js";
import { readState, writeState } from "./state.js";

const NAMED = 12, TICKS = 5; // states that have their names along an axis, and numbers

export function showPair(main, model) {
  const names = model.columns.map((column) => column.name);
  const dates = new Map(model.dates.flatMap((date) => date.parts.map((part) => [part, date])));
  const inTable = (name) => (dates.has(name) ? `${dates.get(name).name}: ${partInWords(name, dates.get(name))}` : name);
  const canvas = element("canvas", { class: "heat", role: "img" });
  const axes = { x: element("div", { class: "ticks across" }), y: element("div", { class: "ticks upwards" }) };
  const given = element("p", { class: "words" }), pointed = element("p", { class: "words" });
  let found = null;
  const refresh = latest(async (isOld) => {
    const [x, y] = [sides.x.value, sides.y.value];
    if (x === y) return notice("Both are the same column. Choose two different ones.");
    const cells = evidence(model);
    const answer = await ask("pair", { x, y, evidence: cells });
    if (isOld()) return;
    found = answer;
    paintHeat(canvas, found.values);
    canvas.classList.toggle("states", found.x.discrete || found.y.discrete);
    for (const side of ["x", "y"]) showTicks(axes[side], found[side]);
    const set = Object.entries(cells).filter(([name]) => name !== x && name !== y);
    given.textContent = set.length ? `given ${set.map(([name, value]) => `${name} = ${inWords(value)}`).join(", ")}` : "given nothing; cells that are set on the page Table count here, too";
    const top = likeliest(found.values);
    canvas.setAttribute("aria-label", `Joint distribution of ${x} and ${y}, highest at ${inWords(found.x.points[top[0]])} and ${inWords(found.y.points[top[1]])}`);
    pointed.textContent = `Highest: ${cellInWords(found, ...top)}`;
    notice("");
    tell("The heat map is up to date.");
  });
  const sides = Object.fromEntries(["x", "y"].map((side, i) => {
    const choose = (event) => {
      writeState({ [side]: event.target.value });
      refresh();
    };
    const menu = element("select", { id: `side-${side}`, onchange: choose }, names.map((name) => element("option", { value: name }, inTable(name))));
    menu.value = names.includes(readState().get(side)) ? readState().get(side) : names[i];
    return [side, menu];
  }));
  function swap() {
    [sides.x.value, sides.y.value] = [sides.y.value, sides.x.value];
    writeState({ x: sides.x.value, y: sides.y.value });
    refresh();
  }
  canvas.addEventListener("pointermove", (event) => {
    if (!found) return;
    const box = canvas.getBoundingClientRect();
    const x = Math.min(Math.floor(((event.clientX - box.left) / box.width) * canvas.width), canvas.width - 1);
    const y = Math.min(Math.floor((1 - (event.clientY - box.top) / box.height) * canvas.height), canvas.height - 1);
    if (x >= 0 && y >= 0) pointed.textContent = cellInWords(found, x, y);
  });
  main.append(
    element("div", { class: "actions" },
      element("label", { for: "side-x" }, "across"), sides.x, element("label", { for: "side-y" }, "upwards"), sides.y, button("Swap", swap)),
    given,
    element("div", { class: "pair" }, axes.y, canvas, axes.x),
    pointed,
  );
  refresh();
}

function showTicks(place, { points, discrete }) {
  const isNamed = discrete && points.length <= NAMED;
  const some = isNamed ? points : Array.from({ length: TICKS }, (_, i) => points[Math.round((i * (points.length - 1)) / (TICKS - 1))]);
  place.classList.toggle("states", isNamed);
  place.replaceChildren(...some.map((point) => element("span", {}, inWords(point, 3))));
}

function likeliest(values) {
  let best = [0, 0];
  values.forEach((column, x) => column.forEach((value, y) => (best = value > values[best[0]][best[1]] ? [x, y] : best)));
  return best;
}

function cellInWords({ x, y, values }, i, j) {
  const value = values[i][j], isShare = x.discrete && y.discrete;
  return `${x.name} ${inWords(x.points[i], 3)}, ${y.name} ${inWords(y.points[j], 3)}: ${isShare ? percent(value) : `density ${inWords(value, 3)}`}`;
}
