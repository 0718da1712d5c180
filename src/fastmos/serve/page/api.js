// Calls of the server. An answer that is no longer wanted is dropped.

export class Problem extends Error {}

async function call(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("the server does not answer; is it still running?");
  }
  let message;
  try {
    message = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(`the server answered with status ${response.status}, but not in JSON`);
  }
  if (!response.ok) throw new Problem(message.error ?? `status ${response.status}`);
  return message;
}

export const models = async () => (await call("/models")).models;

export function post(path, message, signal) {
  const headers = { "content-type": "application/json" };
  return call(path, { method: "POST", headers, body: JSON.stringify(message), signal });
}

export function caption(file, fields, signal) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("image", file);
  return call("/caption", { method: "POST", body: form, signal });
}

// The latest of several askings: each one aborts those before it.
export class Latest {
  #controller = null;

  async ask(question, { done, failed }) {
    this.#controller?.abort();
    const mine = (this.#controller = new AbortController());
    try {
      const answer = await question(mine.signal);
      if (this.#controller === mine) done(answer);
    } catch (error) {
      if (error.name === "AbortError" || this.#controller !== mine) return;
      failed(error instanceof Problem ? error.message : "the page failed; reload it");
      if (!(error instanceof Problem)) throw error;
    }
  }

  drop() {
    this.#controller?.abort();
    this.#controller = null;
  }
}

// Calls `work` when nothing has asked for it for a while.
export function settled(work, milliseconds = 250) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds);
  };
}
