// An image of which parts are erased or drawn; several exact completions, and how likely all this is.

import { ask, latest } from "./ask.js";
import { element, inWords, notice, tell } from "./dom.js";
import { paintPixels } from "./draw.js";
import { readState, writeState } from "./state.js";
import { memberBars } from "./table.js";

const COUNT = 6;
const MOST_KEPT = 4096; // numbers that an address holds

export function showImage(main, model) {
  const [height, width, channels = 1] = model.shape, [low, high] = model.range;
  const state = {
    pixels: kept(model) ?? Array(model.variables).fill(null),
    seed: Number(readState().get("seed") ?? 0),
    tool: "erase", brush: Math.max(1, Math.round(height / 9)), ink: high, cursor: [height >> 1, width >> 1],
  };
  const canvas = element("canvas", { class: "pixels", tabindex: 0, role: "application", "aria-describedby": "keys" });
  const pictures = Array.from({ length: COUNT }, (_, i) => adopted(i));
  const mean = element("canvas", { class: "pixels", role: "img", "aria-label": "Mean of every pixel" });
  const spread = element("canvas", { class: "pixels", role: "img", "aria-label": "Spread of every pixel" });
  const words = element("p", { id: "likelihood", class: "words" }), members = element("div");
  const sides = [height, width, channels];

  let isNew = !kept(model);
  const refresh = latest(async (isOld) => {
    const { pixels, seed } = state;
    const found = await ask("completions", { pixels, count: COUNT, seed });
    notice("");
    if (isNew) return begin(found.completions[0]);
    found.completions.forEach((one, i) => {
      paintPixels(pictures[i].canvas, one, sides, [low, high]);
      pictures[i].values = one;
    });
    if (isOld()) return;
    const likely = await ask("likelihood", { pixels });
    words.textContent = likely.seen
      ? `log p of what is seen: ${inWords(likely.log_prob)} nats, ${inWords(likely.bits, 3)} bits for each of ${likely.seen} numbers`
      : "Nothing is seen: these are samples of the model.";
    members.replaceChildren(...memberBars(likely.members, model));
    if (isOld()) return;
    const all = await ask("spread", { pixels });
    paintPixels(mean, all.mean, sides, [low, high]);
    paintPixels(spread, all.deviation, sides, [0, Math.max(...all.deviation, 1e-9)]);
    tell("Completions are up to date.");
  });

  function changed() {
    paint();
    writeState({ pixels: packed(model, state.pixels), seed: String(state.seed) });
    refresh();
  }

  function paint() {
    paintPixels(canvas, state.pixels, sides, [low, high]);
    const [i, j] = state.cursor;
    if (document.activeElement === canvas) {
      const context = canvas.getContext("2d");
      context.fillStyle = "rgba(99, 102, 241, 0.7)";
      context.fillRect(j, i, 1, 1);
    }
    const here = state.pixels[(i * width + j) * channels];
    canvas.setAttribute("aria-label", `Image, row ${i + 1}, column ${j + 1}: ${here === null ? "erased" : inWords(here)}`);
  }

  /** Use the tool on all pixels of the brush around a place. */
  function apply(row, column) {
    const radius = (state.brush - 1) / 2;
    for (let i = Math.ceil(row - radius); i <= row + radius; i++)
      for (let j = Math.ceil(column - radius); j <= column + radius; j++)
        if (i >= 0 && j >= 0 && i < height && j < width)
          state.pixels.fill(state.tool === "erase" ? null : state.ink, (i * width + j) * channels, (i * width + j + 1) * channels);
  }

  function place(event) {
    const box = canvas.getBoundingClientRect();
    return [((event.clientY - box.top) / box.height) * height - 0.5, ((event.clientX - box.left) / box.width) * width - 0.5];
  }

  let before = null; // where the pointer was
  function drag(event) {
    if (before === null) return;
    const now = place(event), steps = Math.ceil(Math.max(Math.abs(now[0] - before[0]), Math.abs(now[1] - before[1]))) || 1;
    for (let step = 1; step <= steps; step++) {
      const at = (axis) => before[axis] + ((now[axis] - before[axis]) * step) / steps;
      apply(at(0), at(1));
    }
    before = now;
    state.cursor = [0, 1].map((axis) => Math.min(Math.max(Math.round(now[axis]), 0), sides[axis] - 1));
    changed();
  }
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    before = place(event);
    drag(event);
  });
  canvas.addEventListener("pointermove", drag);
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (before = null));
  for (const change of ["focus", "blur"]) canvas.addEventListener(change, paint);
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move && event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    if (!move) {
      apply(...state.cursor);
      return changed();
    }
    state.cursor = state.cursor.map((old, axis) => Math.min(Math.max(old + move[axis], 0), sides[axis] - 1));
    paint();
  });

  /** A first image: a sample, its lower half erased. */
  function begin(sample) {
    isNew = false;
    state.pixels = sample.map((value, v) => (2 * v < sample.length ? value : null));
    changed();
  }
  function put(values) {
    state.pixels = [...values];
    changed();
  }
  function adopted(i) {
    const own = element("canvas", { class: "pixels" });
    const made = { canvas: own, values: null };
    made.node = element("button", { type: "button", class: "picture", "aria-label": `Continue with completion ${i + 1}`, onclick: () => made.values && put(made.values) }, own);
    return made;
  }
  const again = () => {
    state.seed += 1;
    changed();
  };
  async function read(file) {
    try {
      put(await pixelsOf(file, model));
      notice("");
    } catch {
      notice(`${file.name}: no image that the browser can read. Choose a PNG or JPEG file.`);
    }
  }
  main.addEventListener("dragover", (event) => event.preventDefault());
  main.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) read(event.dataTransfer.files[0]);
  });
  const file = element("input", { type: "file", accept: "image/*", id: "file", onchange: (event) => event.target.files.length && read(event.target.files[0]) });
  const tool = (name, title) => element("label", {}, element("input", { type: "radio", name: "tool", value: name, checked: name === state.tool, onchange: () => (state.tool = name) }), ` ${title}`);
  const scale = (title, id, least, most, step) => element("label", {}, `${title} `, element("input", { type: "range", id, min: least, max: most, step, value: state[id], oninput: (event) => (state[id] = Number(event.target.value)) }));

  main.append(
    element("div", { class: "image" },
      element("section", {}, element("h2", {}, "The image"), canvas,
        element("p", { id: "keys", class: "hint" }, "Erase (orange) or draw with mouse or touch; or with the arrow keys and the space bar. Drop a picture here."),
        element("fieldset", {}, element("legend", {}, "Tool"), tool("erase", "Erase"), tool("draw", "Draw"),
          scale("brush", "brush", 1, Math.max(2, height >> 1), 1), scale("ink", "ink", low, high, model.levels ? 1 : "any")),
        element("div", { class: "actions" },
          element("button", { type: "button", id: "again", onclick: again }, "Sample again"),
          element("button", { type: "button", onclick: () => put(Array(model.variables).fill(null)) }, "Erase all"),
          element("button", { type: "button", onclick: () => put(Array(model.variables).fill(low)) }, "Blank"),
          element("label", { for: "file" }, "File "), file)),
      element("section", {}, element("h2", {}, "Completions, exact samples"), element("div", { class: "grid" }, pictures.map((one) => one.node)),
        element("p", { class: "hint" }, "Choose one to go on with it."), words, members),
      element("section", {}, element("h2", {}, "Mean and spread"), element("div", { class: "grid" }, mean, spread)),
    ),
  );
  paint();
  refresh();
}

/** A picture file as numbers of the model: fitted into its shape; one channel is dark on white. */
async function pixelsOf(file, model) {
  const [height, width, channels = 1] = model.shape, [low, high] = model.range;
  const bitmap = await createImageBitmap(file);
  const context = element("canvas", { width, height }).getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  const shares = Array.from({ length: width * height }, (_, pixel) => {
    const colours = [...data.slice(4 * pixel, 4 * pixel + 3)].map((value) => value / 255);
    return channels === 3 ? colours : [1 - (colours[0] + colours[1] + colours[2]) / 3];
  }).flat();
  const values = shares.map((share) => low + share * (high - low));
  return model.levels ? values.map(Math.round) : values;
}

/** The image as text for the address: which pixels are seen, and their numbers as bytes. */
function packed(model, pixels) {
  if (pixels.length > MOST_KEPT) return null;
  const [low, high] = model.range;
  const bytes = pixels.flatMap((value) => (value === null ? [0, 0] : [1, Math.round((255 * (value - low)) / (high - low || 1))]));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function kept(model) {
  const text = readState().get("pixels"), [low, high] = model.range;
  try {
    const bytes = atob((text ?? "").replaceAll("-", "+").replaceAll("_", "/"));
    if (bytes.length !== 2 * model.variables) return null;
    return Array.from({ length: model.variables }, (_, i) => {
      if (!bytes.charCodeAt(2 * i)) return null;
      const value = low + (bytes.charCodeAt(2 * i + 1) / 255) * (high - low);
      return model.levels ? Math.round(value) : value;
    });
  } catch {
    return null;
  }
}
