// The page: a panel for each task that a served run has, with one run or two side by side.

import { Latest, caption, models, post, settled } from "./api.js";
import { Card, make } from "./draw.js";

const NAMES = { translation: "Translate", captioning: "Caption", "language-modeling": "Continue" };
const MOST = 5; // outputs shown

class Panel {
  constructor(task, known) {
    this.known = known.filter(model => model.task === task);
    this.element = document.getElementById(task);
    this.part = name => this.element.querySelector(name);
    this.slots = []; // [{card, latest}]
    this.#choosers();
    this.add(this.known[0]);
    if (this.known.length > 1) this.add(this.known[1]);
    this.soon = settled(() => this.ask());
  }

  add(model) {
    const slot = { card: this.card(model), latest: new Latest() };
    const choose = slot.card.part(".choose select");
    choose.append(...this.known.map(one => new Option(one.name, one.name, false, one === model)));
    slot.card.part(".choose").hidden = this.known.length < 2 || this.slots.length > 0; // the second: "compare with"
    choose.addEventListener("change", () => {
      slot.card.model = this.known.find(one => one.name === choose.value);
      this.ask(slot);
    });
    this.slots.push(slot);
    this.part(".cards").append(slot.card.element);
    return slot;
  }

  // Whether a second run stands beside the first, and which.
  #choosers() {
    const compare = this.part(".compare");
    compare.hidden = this.known.length < 2;
    const select = compare.querySelector("select");
    select.append(...this.known.map((one, place) => new Option(one.name, one.name, false, place === 1)));
    select.append(new Option("nothing", ""));
    select.addEventListener("change", () => {
      const old = this.slots.splice(1, 1)[0];
      old?.latest.drop();
      old?.card.element.remove();
      const model = this.known.find(one => one.name === select.value);
      if (model) this.ask(this.add(model));
    });
  }

  card(model) {
    return new Card(model);
  }

  // Ask for one slot, or for all.
  ask(only) {
    for (const slot of only ? [only] : this.slots) {
      if (this.empty()) {
        slot.latest.drop();
        slot.card.clear();
        continue;
      }
      slot.card.busy();
      const begin = performance.now();
      slot.latest.ask(signal => this.question(slot.card.model, signal), {
        done: answer => this.answered(slot.card, answer, Math.round(performance.now() - begin)),
        failed: sentence => slot.card.fail(sentence),
      });
    }
  }

  answered(card, answer, milliseconds) {
    const cut = answer.cut.length ? `cut to ${card.model.max_length} tokens; ` : "";
    card.show(answer.outputs[0], answer.inside, `${cut}${milliseconds} ms`);
  }

  fields(model) {
    return { model: model.name, nbest: Math.min(MOST, model.beam_size), scores: true, inside: true };
  }
}

class Typed extends Panel {
  constructor(task, known) {
    super(task, known);
    this.field = this.part("textarea");
    this.field.addEventListener("input", this.soon);
    const examples = this.known.find(model => model.examples.length)?.examples ?? [];
    const select = this.part(".examples select");
    this.part(".examples").hidden = this.part(".another").hidden = !examples.length;
    select.append(...examples.map(line => new Option(line, line)));
    const pick = () => this.set(this.example(select.value));
    select.addEventListener("change", pick);
    this.part(".another").addEventListener("click", () => {
      select.selectedIndex = (select.selectedIndex + 1) % examples.length;
      pick();
    });
    if (examples.length) pick();
    else this.ask(); // what may come first
  }

  example(line) {
    return line;
  }

  set(text) {
    this.field.value = text;
    this.ask();
  }

  empty() {
    return this.field.value.trim() === "";
  }

  // The text as a line, and as the model wants it: with spaces around punctuation if it was trained on such text.
  text(model) {
    const line = this.field.value.replace(/\s+/g, " ").trim();
    return model.tokenized ? line.replace(/([^\s\p{L}\p{N}])(?=\s|$)/gu, " $1").replace(/ +/g, " ").trim() : line;
  }
}

class Translation extends Typed {
  question(model, signal) {
    return post("/translate", { ...this.fields(model), lines: [this.text(model)] }, signal);
  }
}

class LanguageModel extends Typed {
  constructor(task, known) {
    super(task, known);
    const temperature = this.part("input[type=range]");
    temperature.addEventListener("input", () => (this.part("output").textContent = temperature.value));
    this.seed = 0;
    this.part(".go").addEventListener("click", () => {
      for (const slot of this.slots) this.#more(slot.card, Number(temperature.value));
    });
  }

  card(model) {
    return new Card(model, { next: true, picked: token => this.#pick(token) });
  }

  // The beginning of the line, so that there is something to continue.
  example(line) {
    const words = line.split(" ");
    return words.slice(0, Math.ceil(words.length / 2)).join(" ");
  }

  empty() {
    return false;
  }

  question(model, signal) {
    return post("/score", { model: model.name, targets: [this.text(model)], inside: true }, signal);
  }

  answered(card, answer, milliseconds) {
    card.show([{ text: this.field.value, score: null }], [answer.inside], `${milliseconds} ms`);
  }

  // A word that was clicked goes to the end of the text.
  #pick(word) {
    const text = this.field.value.trimEnd();
    this.set(text ? `${text} ${word}` : word);
  }

  async #more(card, temperature) {
    const prompt = this.text(card.model);
    const asked = { model: card.model.name, prompt, lines: 3, temperature, seed: this.seed++ };
    try {
      card.lines(prompt, (await post("/generate", asked)).outputs);
    } catch (error) {
      card.fail(error.message);
    }
  }
}

class Captioning extends Panel {
  constructor(task, known) {
    super(task, known);
    const input = this.part("input");
    const drop = this.part(".drop");
    input.addEventListener("change", () => this.take(input.files[0]));
    for (const name of ["dragover", "dragleave", "drop"]) {
      drop.addEventListener(name, event => {
        event.preventDefault();
        drop.classList.toggle("over", name === "dragover");
        if (name === "drop" && event.dataTransfer.files.length) this.take(event.dataTransfer.files[0]);
      });
    }
  }

  async take(file) {
    if (!file) return;
    this.file = file;
    this.ask();
    const canvas = this.part("canvas");
    this.part(".drop").classList.remove("full");
    try {
      const image = await createImageBitmap(file);
      const scale = Math.min(1, 900 / Math.max(image.width, image.height));
      canvas.width = Math.round(image.width * scale);
      canvas.height = Math.round(image.height * scale);
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      this.part(".drop").classList.add("full");
    } catch {
      canvas.width = canvas.height = 0; // the browser cannot show it; the server says whether it is an image
    }
  }

  empty() {
    return !this.file;
  }

  question(model, signal) {
    return caption(this.file, this.fields(model), signal);
  }
}

// One tab a task, as WAI-ARIA describes them.
function tabs(panels) {
  const list = document.getElementById("tabs");
  const buttons = panels.map(([task, panel]) => {
    const tab = make("button", "", NAMES[task]);
    tab.type = "button";
    tab.id = `tab-${task}`;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", task);
    panel.element.setAttribute("role", "tabpanel");
    panel.element.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => open(task));
    return tab;
  });
  const open = task => {
    panels.forEach(([name, panel], place) => {
      panel.element.hidden = name !== task;
      buttons[place].setAttribute("aria-selected", String(name === task));
      buttons[place].tabIndex = name === task ? 0 : -1;
    });
  };
  list.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const here = buttons.indexOf(document.activeElement);
    const next = buttons[(here + step + buttons.length) % buttons.length];
    next.focus();
    next.click();
  });
  list.append(...buttons);
  list.hidden = panels.length < 2;
  open(panels[0][0]);
}

const kinds = { translation: Translation, captioning: Captioning, "language-modeling": LanguageModel };
try {
  const known = await models();
  const tasks = Object.keys(kinds).filter(task => known.some(model => model.task === task));
  tabs(tasks.map(task => [task, new kinds[task](task, known)]));
} catch (error) {
  document.getElementById("trouble").textContent = error.message;
}
