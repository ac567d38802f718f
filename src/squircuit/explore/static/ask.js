// Questions. Of each kind the newest wins; long ones tell how far they are, and can be cancelled.

import { notice } from "./dom.js";
import { answered, endAll, progress } from "./server.js";
import { readState } from "./state.js";

const running = new Map(); // kind → AbortController
const PATIENCE = 400; // milliseconds until progress is shown, and between looks at it
const SLOW = 600; // milliseconds after which an answer is given up for a newer question

/** Thrown in place of an answer that a newer question made idle, or that was cancelled. */
export class Replaced extends Error {}

/** The answer; an Error with a line for the user; or Replaced. */
export async function ask(kind, question = {}) {
  running.get(kind)?.abort();
  const control = new AbortController(), model = readState().get("model");
  running.set(kind, control);
  const watch = setTimeout(watchProgress, PATIENCE);
  try {
    const answer = await answered(kind, model ? { ...question, model } : question, control.signal);
    if (answer === null || control.signal.aborted) throw new Replaced();
    return answer;
  } finally {
    clearTimeout(watch);
    if (running.get(kind) === control) running.delete(kind);
  }
}

/** End all that this page waits for. */
export function cancel() {
  for (const control of running.values()) control.abort();
  running.clear();
  endAll();
  showProgress(null);
}

async function watchProgress() {
  while (running.size) {
    const share = await progress();
    if (share === null) break;
    if (running.size) showProgress(share);
    await new Promise((resolve) => setTimeout(resolve, PATIENCE));
  }
  showProgress(null);
}

function showProgress(share) {
  const place = document.getElementById("progress");
  place.hidden = share === null;
  if (share !== null) place.querySelector("progress").value = share;
}

/** A function that does some work with the newest state: not while it is being done, but again at its end.
 *  So answers keep coming while the mouse is moved. The work is told whether a newer question waits. */
export function latest(work) {
  let number = 0, since = null, isOld = false;
  async function run() {
    const own = ++number;
    since = performance.now();
    isOld = false;
    try {
      await work(() => isOld || own !== number);
    } catch (error) {
      if (!(error instanceof Replaced)) notice(error.message);
    }
    if (own !== number) return;
    since = null;
    if (isOld) run();
  }
  return () => {
    if (since !== null && performance.now() - since < SLOW) isOld = true;
    else run();
  };
}
