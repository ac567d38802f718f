// What is true of the model whatever is asked: size, properties, log Z, drawing, training, members.

import { ask, Replaced } from "./ask.js";
import { element, inWords, notice, percent, tableOf } from "./dom.js";
import { lines } from "./draw.js";

export function showModel(main, model) {
  const facts = {
    model: model.words,
    layers: model.layers,
    ...(model.shape ? { shape: model.shape.join(" × ") } : {}),
    ...Object.fromEntries(Object.entries(model.notes).filter(([, value]) => typeof value === "string")),
  };
  if (model.kind === "other") main.append(element("p", { class: "words" }, `This model has ${model.variables} columns, too many to show one by one.`));
  const z = element("dd", {}, "…");
  const parts = { properties: part("Properties"), drawing: part("Circuit", "circuit") };
  main.append(
    element("section", { class: "card" }, element("dl", {}, element("dt", {}, "log Z"), z,
      Object.entries(facts).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, inWords(value, 12))]))),
    ...(model.history?.rows.length ? [trainingPart(model.history)] : []),
    ...(model.members.length ? [membersPart(model)] : []),
    ...Object.values(parts).map((one) => one.node),
  );
  fill(parts.properties, "properties", (found) => {
    z.textContent = `${Math.abs(found.log_z) < 1e-3 && found.log_z ? found.log_z.toExponential(1).replaceAll("-", "−") : inWords(found.log_z)}, exact`;
    const rows = found.properties.map((one) => [one.mark, one.name, one.where ? `${one.reason} (${one.where})` : one.reason]);
    return [tableOf(["", "property", "why"], rows, found.properties.map((one) => (one.holds ? null : "no")))];
  });
  fill(parts.drawing, "drawing", drawn);
}

function part(title, name = "") {
  const place = element("div", { class: `scroll ${name}`, tabindex: 0, role: "region", "aria-label": title }, "…");
  return { node: element("section", { class: "card" }, element("h2", {}, title), place), place };
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
  const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  parsed.setAttribute("role", "img");
  parsed.setAttribute("aria-label", "The layers of the circuit");
  return [document.importNode(parsed, true), listed];
}

function trainingPart(history) {
  const series = { train: history.rows.map((row) => row.train), valid: history.rows.map((row) => row.valid) };
  const unit = history.unit === "bits" ? "bits per dimension" : history.unit;
  const best = history.rows.find((row) => row.epoch === history.best_epoch);
  const words = `${history.stopped ? `${history.stopped}; ` : ""}${history.rows.length} epochs` +
    (best ? `; best in epoch ${best.epoch}: ${inWords(best.valid ?? best.train)} ${unit}` : "");
  const { low, high, node } = lines(series, `Loss by epoch: ${words}`);
  const ends = (name, texts) => element("div", { class: `ends ${name}` }, texts.map((text) => element("span", {}, inWords(text, 3))));
  return element("section", { class: "card" }, element("h2", {}, "Training"),
    element("div", { class: "plot" }, ends("", [high, low]), node, ends("across", [history.rows[0].epoch, `epoch ${history.rows.at(-1).epoch}`])),
    element("p", { class: "words" }, element("span", { class: "key train" }, "train"), " \u2002 ", element("span", { class: "key valid" }, "valid"), ` \u2002 ${words}`));
}

function membersPart(model) {
  const rows = model.members.map((member, i) => [model.classes[i] ?? String(i + 1), percent(member.share), member.words]);
  return element("section", { class: "card" }, element("h2", {}, "Members of the mixture"), tableOf(["member", "weight", "root"], rows));
}
