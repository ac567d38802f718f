// An image as numbers of the model: from a file, and as text in the address.

import { element } from "./dom.js";
import { readState } from "./state.js";

const MOST_KEPT = 4096; // numbers that an address holds

/** A picture file fitted into the model's shape; one channel is dark on white. */
export async function pixelsOf(file, model) {
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

/** The image as text for the address: which pixels are seen, and their numbers as bytes; null: it is too large. */
export function packed(model, pixels) {
  if (pixels.length > MOST_KEPT) return null;
  const [low, high] = model.range;
  const bytes = pixels.flatMap((value) => (value === null ? [0, 0] : [1, Math.round((255 * (value - low)) / (high - low || 1))]));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The image that the address holds; null: none of this model. */
export function kept(model) {
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
