// Two columns at a time as a heat map, given what is set of the others.

import { ask, latest } from "./ask.js";
import { element, inWords, notice, percent, tell } from "./dom.js";
import { paintHeat } from "./draw.js";
import { evidence } from "./evidence.js";
import { readState, writeState } from "./state.js";

export function showPair(main, model) {
  const names = model.columns.map((column) => column.name);
  const chosen = (side, otherwise) => (names.includes(readState().get(side)) ? readState().get(side) : otherwise);
  const canvas = element("canvas", { class: "heat", role: "img" });
  const across = element("p", { class: "axis across" }), upwards = element("p", { class: "axis upwards" });
  const given = element("p"), pointed = element("p", { class: "words" });
  let found = null;
  const refresh = latest(async (isOld) => {
    const [x, y] = [sides.x.value, sides.y.value];
    if (x === y) return notice("Choose two different columns.");
    const cells = evidence(model);
    const answer = await ask("pair", { x, y, evidence: cells });
    if (isOld()) return;
    found = answer;
    paintHeat(canvas, found.values);
    across.textContent = axisInWords(found.x);
    upwards.textContent = axisInWords(found.y);
    const set = Object.entries(cells).filter(([name]) => name !== x && name !== y);
    given.textContent = set.length ? `given ${set.map(([name, value]) => `${name} = ${value}`).join(", ")}` : "given nothing: set cells on the page Table";
    const top = likeliest(found.values);
    canvas.setAttribute("aria-label", `Joint distribution of ${x} and ${y}, highest at ${inWords(found.x.points[top[0]])} and ${inWords(found.y.points[top[1]])}`);
    pointed.textContent = cellInWords(found, ...top);
    notice("");
    tell(canvas.getAttribute("aria-label"));
  });
  const sides = Object.fromEntries([["x", names[0]], ["y", names[1]]].map(([side, otherwise]) => {
    const choose = (event) => {
      writeState({ [side]: event.target.value });
      refresh();
    };
    const menu = element("select", { id: `side-${side}`, onchange: choose }, names.map((name) => element("option", {}, name)));
    menu.value = chosen(side, otherwise);
    return [side, menu];
  }));
  canvas.addEventListener("pointermove", (event) => {
    if (!found) return;
    const box = canvas.getBoundingClientRect();
    const x = Math.min(Math.floor(((event.clientX - box.left) / box.width) * canvas.width), canvas.width - 1);
    const y = Math.min(Math.floor((1 - (event.clientY - box.top) / box.height) * canvas.height), canvas.height - 1);
    if (x >= 0 && y >= 0) pointed.textContent = cellInWords(found, x, y);
  });
  main.append(
    element("div", { class: "actions" },
      element("label", { for: "side-x" }, "across "), sides.x, element("label", { for: "side-y" }, "upwards "), sides.y),
    given,
    element("div", { class: "pair" }, upwards, canvas, across),
    pointed,
  );
  refresh();
}

function axisInWords({ name, points }) {
  return `${name}: ${inWords(points[0])} … ${inWords(points.at(-1))}`;
}

function likeliest(values) {
  let best = [0, 0];
  values.forEach((column, x) => column.forEach((value, y) => (best = value > values[best[0]][best[1]] ? [x, y] : best)));
  return best;
}

function cellInWords({ x, y, values }, i, j) {
  const value = values[i][j], isShare = x.discrete && y.discrete;
  return `${x.name} ${inWords(x.points[i])}, ${y.name} ${inWords(y.points[j])}: ${isShare ? percent(value) : `density ${inWords(value, 3)}`}`;
}
