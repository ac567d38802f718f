// An image of which parts are erased or drawn; several exact completions, and how likely all this is.

import { ask, latest } from "./ask.js";
import { button, element, inWords, notice, tell } from "./dom.js";
import { paintPixels } from "./draw.js";
import { memberList } from "./members.js";
import { kept, packed, pixelsOf } from "./picture.js";
import { readState, writeState } from "./state.js";
import { surface } from "./surface.js";

const COUNT = 6;

export function showImage(main, model) {
  const [height, width, channels = 1] = model.shape, sides = [height, width, channels], range = model.range;
  const found = kept(model);
  const state = {
    pixels: found ?? Array(model.variables).fill(null),
    seed: Number(readState().get("seed") ?? 0),
    class: model.classes.includes(readState().get("class")) ? readState().get("class") : null,
    tool: "erase", brush: Math.max(1, Math.round(height / 9)), ink: Array(channels).fill(channels === 1 ? range[1] : range[0]),
  };
  const canvas = surface(state, sides, range, changed);
  const tiles = Array.from({ length: COUNT }, (_, i) => tile(i, (values) => put(values)));
  const [mean, spread] = ["Mean of every pixel", "Spread of every pixel"].map((words) => element("canvas", { class: "pixels", role: "img", "aria-label": words }));
  const likely = element("p", { class: "big", id: "likelihood" }, "–"), words = element("p", { class: "words" }), members = element("div");

  let isNew = !found;
  const refresh = latest(async (isOld) => {
    const { pixels, seed } = state;
    const { completions } = await ask("completions", { pixels, count: COUNT, seed, ...(state.class === null ? {} : { class: state.class }) });
    notice("");
    if (isNew) return begin(completions[0]);
    completions.forEach((values, i) => tiles[i].paint(values, sides, range));
    if (isOld()) return;
    showLikelihood(await ask("likelihood", { pixels }));
    if (isOld()) return;
    const all = await ask("spread", { pixels });
    paintPixels(mean, all.mean, sides, range);
    paintPixels(spread, all.deviation, sides, [0, Math.max(...all.deviation, 1e-9)]);
    tell("Completions are up to date.");
  });

  function showLikelihood({ log_prob, bits, seen, members: shares }) {
    likely.textContent = seen ? `${inWords(log_prob)} nats` : "Nothing is seen";
    words.textContent = seen ? `log p of the ${seen} number${seen > 1 ? "s" : ""} seen: ${inWords(bits, 3)} bits each` : "These are samples of the model.";
    members.replaceChildren(...memberList(shares, model, model.classes.length ? { chosen: state.class, choose } : {}));
  }

  function changed() {
    writeState({ pixels: packed(model, state.pixels), seed: String(state.seed), class: state.class });
    refresh();
  }
  function put(values) {
    state.pixels = [...values];
    canvas.paint();
    changed();
  }
  /** A first image: a sample, its lower half erased. */
  function begin(sample) {
    isNew = false;
    put(sample.map((value, v) => (2 * v < sample.length ? value : null)));
  }
  function choose(name) {
    state.class = state.class === name ? null : name;
    const at = [...members.querySelectorAll("button")].indexOf(document.activeElement);
    changed();
    members.querySelectorAll("button").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.name === state.class)));
    if (at >= 0) members.querySelectorAll("button")[at]?.focus();
  }
  function again() {
    state.seed += 1;
    changed();
  }
  async function read(file) {
    try {
      put(await pixelsOf(file, model));
      notice("");
    } catch {
      notice(`${file.name}: no image that the browser can read. Choose a PNG or JPEG file.`);
    }
  }
  const files = (list) => list.length && read(list[0]);
  main.append(element("div", { class: "image",
    ondragover: (event) => event.preventDefault(),
    ondrop: (event) => {
      event.preventDefault();
      files(event.dataTransfer.files);
    } },
    element("section", { class: "draw", "aria-label": "The image" }, tools(state, model, range), canvas.node,
      element("p", { id: "keys", class: "words" }, "Erase or draw with mouse or touch, or with the arrow keys and the space bar; drop a picture. Orange stripes are erased.")),
    element("section", { class: "tiles" }, element("h2", {}, "Exact completions"), element("div", { class: "grid" }, tiles.map((one) => one.node)),
      element("p", { class: "words" }, "Six samples of all that is erased, given all that is seen. Choose one to go on with it.")),
    element("section", { class: "know" }, element("h2", {}, "Each pixel by itself"),
      element("div", { class: "grid two" }, [[mean, "mean"], [spread, "spread"]].map(([picture, title]) => element("figure", {}, picture, element("figcaption", {}, title)))),
      element("h2", {}, "How likely is it?"), likely, words, members),
    element("div", { class: "acts actions" }, button("Sample again", again, { id: "again" }),
      button("Erase all", () => put(Array(model.variables).fill(null))), button("Blank", () => put(Array(model.variables).fill(channels === 1 ? range[0] : range[1]))),
      element("label", { class: "button" }, "Open a picture", element("input", { type: "file", accept: "image/*", id: "file", onchange: (event) => files(event.target.files) }))),
  ));
  canvas.paint();
  refresh();
}

/** A completion, which is adopted when it is chosen. */
function tile(i, adopt) {
  const canvas = element("canvas", { class: "pixels" });
  let own = null;
  const node = button(canvas, () => own && adopt(own), { class: "picture", "aria-label": `Go on with completion ${i + 1}` });
  const paint = (values, sides, range) => paintPixels(canvas, (own = values), sides, range);
  return { node, paint };
}

/** Erase or draw, how wide, and in which grey or colour. */
function tools(state, model, [low, high]) {
  const tool = (name, title) => element("label", {}, element("input", { type: "radio", name: "tool", value: name, checked: name === state.tool, onchange: () => (state.tool = name) }), title);
  const range = (title, least, most, step, value, set) =>
    element("label", { class: "knob" }, title, element("input", { type: "range", id: title, min: least, max: most, step, value, oninput: (event) => set(Number(event.target.value)) }));
  const colour = () => element("label", { class: "knob" }, "ink", element("input", { type: "color", id: "ink", value: "#000000", oninput: (event) =>
    (state.ink = [1, 3, 5].map((at) => {
      const value = low + (parseInt(event.target.value.slice(at, at + 2), 16) / 255) * (high - low);
      return model.levels ? Math.round(value) : value;
    })) }));
  return element("div", { class: "actions" },
    element("fieldset", { class: "choice", "aria-label": "Tool" }, tool("erase", "Erase"), tool("draw", "Draw")),
    range("brush", 1, Math.max(2, model.shape[0] >> 1), 1, state.brush, (value) => (state.brush = value)),
    state.ink.length === 1 ? range("ink", low, high, model.levels ? 1 : "any", state.ink[0], (value) => (state.ink = [value])) : colour());
}
