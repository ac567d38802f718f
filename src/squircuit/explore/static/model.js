// What is true of the model whatever is asked: size, properties, log Z, drawing, training, members.

import { ask, Replaced } from "./ask.js";
import { element, inWords, notice, percent } from "./dom.js";
import { lines } from "./draw.js";
import { tableOf } from "./table.js";

export function showModel(main, model) {
  const parts = { properties: part("Properties"), drawing: part("Circuit") };
  const facts = {
    model: model.words,
    variables: model.variables,
    layers: model.layers,
    ...(model.shape ? { shape: model.shape.join(" × ") } : {}),
    ...Object.fromEntries(Object.entries(model.notes).filter(([, value]) => typeof value === "string")),
  };
  main.append(
    element("dl", {}, Object.entries(facts).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, inWords(value, 12))])),
    ...(model.history ? [trainingPart(model.history)] : []),
    ...(model.members.length ? [membersPart(model)] : []),
    ...Object.values(parts).map((one) => one.node),
  );
  fill(parts.properties, "properties", (found) => [
    element("p", {}, `log Z = ${inWords(found.log_z, 3)}, exact`),
    tableOf(["", "property", "reason"], found.properties.map((one) => [one.mark, one.name, one.where ? `${one.reason} (${one.where})` : one.reason])),
  ]);
  fill(parts.drawing, "drawing", drawn);
}

function part(title) {
  const place = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, "…");
  return { node: element("section", {}, element("h2", {}, title), place), place };
}

async function fill({ place }, kind, shown) {
  try {
    place.replaceChildren(...shown(await ask(kind)));
  } catch (error) {
    if (error instanceof Replaced) place.textContent = "cancelled";
    else notice(error.message);
  }
}

function drawn({ svg, groups }) {
  const rows = groups.map((group) => [group.kind, String(group.layers), String(group.units)]);
  const listed = tableOf(["kind, from the root down", "layers", "units of each"], rows);
  if (!svg) return [element("p", {}, "Too many layers to draw one by one; equal ones are on one line."), listed];
  const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", "The layers of the circuit");
  return [document.importNode(picture, true), listed];
}

function trainingPart(history) {
  const series = { train: history.rows.map((row) => row.train), valid: history.rows.map((row) => row.valid) };
  const best = history.rows.find((row) => row.epoch === history.best_epoch);
  const words = `${history.stopped} after ${history.rows.length} epochs` +
    (best ? `; best in epoch ${best.epoch}: ${inWords(best.valid ?? best.train)} ${history.unit === "bits" ? "bits per dimension" : history.unit}` : "");
  return element("section", {}, element("h2", {}, "Training"), lines(series, `Loss by epoch: ${words}`),
    element("p", {}, element("span", { class: "key train" }, "train"), " ", element("span", { class: "key valid" }, "valid"), ` ${words}`));
}

function membersPart(model) {
  const rows = model.members.map((member, i) => [model.classes[i] ?? String(i + 1), percent(member.share), member.words]);
  return element("section", {}, element("h2", {}, "Members of the mixture"), tableOf(["member", "weight", "root"], rows));
}
