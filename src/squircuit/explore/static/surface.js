// A canvas on which pixels are erased and drawn by mouse, touch or keys.

import { element, inWords } from "./dom.js";
import { paintPixels } from "./draw.js";

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** The canvas of state.pixels; it reads state.tool, state.brush and state.ink, and calls `changed`. */
export function surface(state, sides, range, changed) {
  const [height, width, channels] = sides;
  const node = element("canvas", { class: "pixels surface", tabindex: 0, role: "application", "aria-describedby": "keys" });
  let cursor = [height >> 1, width >> 1], before = null; // where the keys are, and where the pointer was

  function paint() {
    paintPixels(node, state.pixels, sides, range);
    const [i, j] = cursor;
    if (node.matches(":focus-visible")) {
      const context = node.getContext("2d");
      context.fillStyle = "rgba(99, 102, 241, 0.7)";
      context.fillRect(j, i, 1, 1);
    }
    const here = state.pixels.slice((i * width + j) * channels, (i * width + j + 1) * channels);
    node.setAttribute("aria-label", `Image, row ${i + 1}, column ${j + 1}: ${here[0] === null ? "erased" : here.map((value) => inWords(value)).join(" ")}`);
  }

  /** Use the tool on all pixels of the brush around a place. */
  function apply(row, column) {
    const ink = state.tool === "erase" ? Array(channels).fill(null) : state.ink;
    const [top, left] = [row, column].map((at) => Math.round(at - (state.brush - 1) / 2));
    for (let i = Math.max(top, 0); i < Math.min(top + state.brush, height); i++)
      for (let j = Math.max(left, 0); j < Math.min(left + state.brush, width); j++) state.pixels.splice((i * width + j) * channels, channels, ...ink);
  }

  function placeOf(event) {
    const box = node.getBoundingClientRect();
    return [((event.clientY - box.top) / box.height) * height - 0.5, ((event.clientX - box.left) / box.width) * width - 0.5];
  }

  const inside = (place) => place.map((at, axis) => Math.min(Math.max(Math.round(at), 0), sides[axis] - 1));

  function drag(event) {
    if (before === null) return;
    const now = placeOf(event), steps = Math.ceil(Math.max(...now.map((at, axis) => Math.abs(at - before[axis])))) || 1;
    for (let step = 1; step <= steps; step++) apply(...now.map((at, axis) => before[axis] + ((at - before[axis]) * step) / steps));
    before = now;
    cursor = inside(now);
    paint();
    changed();
  }

  node.addEventListener("pointerdown", (event) => {
    node.setPointerCapture(event.pointerId);
    before = placeOf(event);
    drag(event);
  });
  node.addEventListener("pointermove", drag);
  for (const end of ["pointerup", "pointercancel"]) node.addEventListener(end, () => (before = null));
  for (const change of ["focus", "blur"]) node.addEventListener(change, paint);
  node.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (!move && event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    if (move) cursor = inside(cursor.map((at, axis) => at + move[axis]));
    else apply(...cursor);
    paint();
    if (!move) changed();
  });
  return { node, paint };
}
