// Questions to the program. Of each kind the newest wins; long ones tell how far they are.

import { notice } from "./dom.js";

const page = Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("");
const running = new Map(); // kind → AbortController
const PATIENCE = 400; // milliseconds until progress is shown
const AGAIN = 1500; // milliseconds between attempts to reach the program

/** Thrown in place of an answer that a newer question made idle, or that was cancelled. */
export class Replaced extends Error {}

/** The answer; an Error with a line for the user; or Replaced. */
export async function ask(kind, question = {}) {
  running.get(kind)?.abort();
  const control = new AbortController();
  running.set(kind, control);
  const watch = setTimeout(watchProgress, PATIENCE);
  try {
    return await answered(kind, question, control.signal);
  } finally {
    clearTimeout(watch);
    if (running.get(kind) === control) running.delete(kind);
  }
}

async function answered(kind, question, signal) {
  for (;;) {
    const done = await reached(`ask/${kind}`, { ...question, page }, signal);
    if (signal.aborted) throw new Replaced();
    if (done) {
      notice("");
      const answer = await done.json();
      if (done.ok) return answer;
      if (done.status === 409) throw new Replaced();
      if (done.status !== 429 && done.status !== 503) throw new Error(answer.error);
    } else {
      notice("The program does not answer. Was it ended? Start it again; this page will go on if its address is the same.");
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN));
    if (signal.aborted) throw new Replaced();
  }
}

async function reached(address, question, signal) {
  try {
    return await fetch(address, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(question),
      signal,
    });
  } catch {
    return null;
  }
}

/** End all that this page waits for. */
export function cancel() {
  for (const control of running.values()) control.abort();
  running.clear();
  reached(`cancel/${page}`, {});
  showProgress(null);
}

async function watchProgress() {
  while (running.size) {
    try {
      const shares = Object.values(await (await fetch(`progress/${page}`)).json());
      if (running.size) showProgress(shares.length ? Math.min(...shares.map((share) => share ?? 0)) : 0);
    } catch {
      break; // the question itself will say that the program is not there
    }
    await new Promise((resolve) => setTimeout(resolve, PATIENCE));
  }
  showProgress(null);
}

function showProgress(share) {
  const place = document.getElementById("progress");
  place.hidden = share === null;
  if (share !== null) place.querySelector("progress").value = share;
}

const SLOW = 600; // milliseconds after which an answer is given up for a newer question

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
