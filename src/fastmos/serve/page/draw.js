// Drawing an answer: the words in the colors of the softmaxes that said them, what each softmax would have said, what was
// read, and the other outputs. Text of models and users is only ever set as textContent.

const END = "⟨eos⟩";
let tokens = 0; // drawn so far: each has an id

export function make(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

export const percent = part => (part >= 0.995 ? "100" : part < 0.0095 ? "<1" : String(Math.round(100 * part))) + " %";

// The same softmax has the same color in all parts of a card: hues around the circle, in turns lighter and darker.
export function tone(element, softmax, count) {
  element.classList.add("tone");
  element.style.setProperty("--hue", String(Math.round(255 + (360 * softmax) / count) % 360));
  element.style.setProperty("--turn", softmax % 2 ? "1" : "0");
  return element;
}

const shown = (token, ends = true) => (token === END ? "end" : ends ? token : token.replace(/@@$/, ""));
const guessed = token => (token === END ? "end" : token.replace(/@@$/, "…"));

function most(values) {
  return values.indexOf(Math.max(...values));
}

// The token to look at first, before the end: where the softmaxes differ most in their share and what was expected of
// them; with one softmax, where it was least sure.
function mostTelling(choices) {
  const surprise = choice =>
    choice.prior.length > 1
      ? choice.prior.reduce((sum, prior, softmax) => sum + Math.abs(prior - choice.responsibility[softmax]), 0)
      : -(choice.log_prob ?? -Infinity);
  return choices.length > 1 ? most(choices.slice(0, -1).map(surprise)) : 0;
}

function part(name, share, softmax, count) {
  const bar = tone(make("span", name), softmax, count);
  bar.style.setProperty("--share", String(share));
  return bar;
}

export class Card {
  #choices = [];
  #chosen = 0;
  #inside = null;
  #outputs = [];

  constructor(model, { next = false, picked = () => {} } = {}) {
    this.next = next; // the last token is not there yet: a language model's next one
    this.picked = picked; // called with a token that was clicked, of the next ones
    this.element = document.getElementById("card").content.firstElementChild.cloneNode(true);
    this.part = name => this.element.querySelector(name);
    this.model = model;
    const strip = this.part(".tokens");
    strip.addEventListener("keydown", event => this.#key(event));
    strip.addEventListener("focus", () => this.select(this.#chosen));
    for (const name of ["pointerover", "click"]) {
      strip.addEventListener(name, event => {
        const token = event.target.closest("[role=option]");
        if (token) this.select(Number(token.dataset.place));
      });
      this.part(".map").addEventListener(name, event => {
        if (event.target.dataset.place) this.select(Number(event.target.dataset.place));
      });
    }
  }

  set model(model) {
    this.known = model;
    this.part("h2").textContent = model.name;
    const head = { softmax: "one softmax", mos: "mixture", shortlist: "shortlist mixture", moc: "mixture of contexts" };
    const name = head[model.head] ?? model.head;
    const parts = [
      model.mixtures > 1 ? `${name} of ${model.mixtures}` : name,
      model.body.replaceAll("-", " "),
      `${model.vocab_size.toLocaleString("en")} tokens`,
      `${(model.parameters / 1e6).toFixed(1)} M parameters`,
    ];
    this.part(".about").textContent = parts.join(" · ");
    this.part(".tokens").setAttribute("aria-label", `Output of ${model.name}, token by token`);
  }

  get model() {
    return this.known;
  }

  busy() {
    this.element.setAttribute("aria-busy", "true");
  }

  clear() {
    this.element.removeAttribute("aria-busy");
    this.part(".body").hidden = true;
    this.part(".problem").textContent = this.part(".said").textContent = "";
  }

  fail(sentence) {
    this.clear();
    this.part(".problem").textContent = sentence;
  }

  // outputs: [{text, log_prob, score}], inside: one of each, notes: words about the answer
  show(outputs, inside, notes) {
    this.clear();
    this.#outputs = outputs;
    this.#inside = inside;
    this.part(".body").hidden = false;
    this.part(".said").textContent = `${this.model.name}: ${outputs[0].text || "nothing"}`;
    this.part(".notes").textContent = notes;
    this.part(".best").hidden = this.next;
    this.#best();
    this.output(0);
  }

  // Show one of the outputs.
  output(number) {
    const { choices, attention, source } = this.#inside[number];
    this.#choices = choices;
    for (const [place, button] of [...this.part(".best ol").querySelectorAll("button")].entries()) {
      button.setAttribute("aria-pressed", String(place === number));
    }
    this.#tokens();
    this.#legend();
    this.#attention(source, attention);
    this.select(this.next ? choices.length - 1 : mostTelling(choices));
  }

  // Show what each softmax would have said in the place of a token.
  select(place) {
    this.#chosen = place;
    const options = [...this.part(".tokens").querySelectorAll("[role=option]")];
    for (const [number, option] of options.entries()) option.setAttribute("aria-selected", String(number === place));
    this.part(".tokens").setAttribute("aria-activedescendant", options[place].id);
    for (const cell of this.part(".map").querySelectorAll("[data-place]")) {
      cell.classList.toggle("here", Number(cell.dataset.place) === place);
    }
    this.#inspect(this.#choices[place], place);
  }

  lines(prompt, lines) {
    const list = this.part(".lines ol");
    this.part(".lines").hidden = false;
    list.replaceChildren(
      ...lines.map(line => {
        const item = make("li");
        item.append(make("span", "quiet", prompt + " "), make("span", "", line));
        return item;
      }),
    );
  }

  #key(event) {
    const last = this.#choices.length - 1;
    const places = { ArrowRight: this.#chosen + 1, ArrowLeft: this.#chosen - 1, Home: 0, End: last };
    if (!(event.key in places)) return;
    event.preventDefault();
    this.select(Math.min(last, Math.max(0, places[event.key])));
  }

  #is_next(place) {
    return this.next && place === this.#choices.length - 1;
  }

  #tokens() {
    const words = [];
    const open = () => {
      const made = make("span", "word");
      made.setAttribute("role", "group"); // of a listbox's options; others are not allowed between the two
      return made;
    };
    let word = open();
    this.#choices.forEach((choice, place) => {
      const token = make("span", "token");
      token.id = `token-${++tokens}`;
      token.setAttribute("role", "option");
      token.dataset.place = String(place);
      const text = this.#is_next(place) ? "next" : shown(choice.token, choice.ends_word);
      const name = make("span", choice.token === END ? "text end" : "text", text);
      const shares = this.#is_next(place) ? choice.prior : choice.responsibility;
      const count = shares.length;
      const bar = make("span", count > 1 ? "bar" : "bar plain");
      bar.append(...shares.flatMap((share, softmax) => (share > 0.004 ? [part("share", share, softmax, count)] : [])));
      if (count > 1) tone(token, most(shares), count);
      const who = count > 1 ? `, softmax ${most(shares) + 1}, ${percent(Math.max(...shares))}` : "";
      token.setAttribute("aria-label", text + who);
      token.append(name, bar);
      word.append(token);
      if (choice.ends_word || choice.token === END) {
        words.push(word, document.createTextNode(" "));
        word = open();
      }
    });
    words.push(word);
    this.part(".tokens").replaceChildren(...words.filter(one => one.nodeType === 3 || one.childNodes.length));
  }

  // The share of each softmax in the whole output.
  #legend() {
    const count = this.#choices[0].prior.length;
    const said = this.next ? this.#choices.slice(0, -1) : this.#choices;
    this.part(".legend").hidden = count < 2 || !said.length;
    if (count < 2 || !said.length) return;
    const total = softmax => said.reduce((sum, choice) => sum + choice.responsibility[softmax], 0) / said.length;
    const items = [...Array(count).keys()].map(softmax => {
      const item = tone(make("li"), softmax, count);
      const share = total(softmax);
      item.style.setProperty("--share", String(share));
      item.classList.toggle("silent", share < 0.005);
      item.append(make("b", "chip", String(softmax + 1)), make("span", "", percent(share)));
      item.setAttribute("aria-label", `softmax ${softmax + 1}: ${percent(share)} of the output`);
      return item;
    });
    this.part(".legend ul").replaceChildren(...items);
  }

  #inspect(choice, place) {
    const title = this.part(".inspector h3");
    const many = choice.prior.length > 1 ? "each softmax alone would say" : "the softmax would say";
    title.replaceChildren();
    if (this.#is_next(place)) title.append("What may come next");
    else {
      const sure = choice.log_prob === null ? "" : ` (${percent(Math.exp(choice.log_prob))}), `;
      title.append("At ", make("q", "", shown(choice.token, choice.ends_word)), `${sure}${many}`);
    }
    const count = choice.prior.length;
    const next = this.#is_next(place);
    const head = make("tr");
    const columns = count > 1 ? ["softmax", "prior", ...(next ? [] : ["share"]), "would say"] : ["", "would say"];
    head.append(...columns.map(name => Object.assign(make("th", "", name), { scope: "col" })));
    const rows = [this.#row(count > 1 ? "mixture" : "softmax", null, choice, choice.mixture, columns.length)];
    choice.softmaxes.forEach((guesses, softmax) => rows.push(this.#row(softmax, softmax, choice, guesses, columns.length)));
    this.part(".inspector table").replaceChildren(head, ...rows);
  }

  #row(name, softmax, choice, guesses, columns) {
    const row = make("tr");
    const count = choice.prior.length;
    const first = make("th");
    first.scope = "row";
    if (softmax === null) {
      first.textContent = name;
      if (columns > 2) first.colSpan = columns - 1;
      row.className = "whole";
      row.append(first);
    } else {
      tone(row, softmax, count);
      first.append(make("b", "chip", String(softmax + 1)));
      row.append(first, this.#amount(choice.prior[softmax]));
      if (columns > 3) row.append(this.#amount(choice.responsibility[softmax]));
      row.classList.toggle("silent", choice.prior[softmax] < 0.005);
    }
    const cell = make("td");
    const list = make("ul", "guesses");
    for (const [token, prob] of guesses) {
      const item = make("li", token === choice.token && !this.#is_next(this.#chosen) ? "guess same" : "guess");
      const word = !token.endsWith("@@") && !token.startsWith("⟨"); // a piece of a word cannot stand in a text
      const inner = this.next && word ? make("button") : make("span");
      inner.append(make("span", "text", guessed(token)), make("span", "quiet", percent(prob)));
      inner.style.setProperty("--share", String(prob));
      if (inner.tagName === "BUTTON") {
        inner.type = "button";
        inner.title = "add it to the text";
        inner.addEventListener("click", () => this.picked(token));
      }
      item.append(inner);
      list.append(item);
    }
    cell.append(list);
    row.append(cell);
    return row;
  }

  #amount(share) {
    const cell = make("td", "amount");
    cell.append(make("span", "", percent(share)));
    cell.style.setProperty("--share", String(share));
    return cell;
  }

  #attention(source, attention) {
    const section = this.part(".attention");
    section.hidden = attention === null;
    if (attention === null) return;
    const map = this.part(".map");
    map.style.setProperty("--columns", String(source.length));
    const cells = [make("span", "corner")];
    for (const token of source) cells.push(make("span", "column", guessed(token)));
    const told = [];
    this.#choices.forEach((choice, place) => {
      const row = make("span", "row", shown(choice.token, choice.ends_word));
      row.dataset.place = String(place);
      cells.push(row);
      attention[place].forEach((weight, column) => {
        const cell = make("span", "cell");
        cell.dataset.place = String(place);
        cell.title = `${shown(choice.token, choice.ends_word)} ← ${guessed(source[column])}: ${percent(weight)}`;
        cell.style.setProperty("--share", String(weight));
        cells.push(cell);
      });
      const best = most(attention[place]);
      told.push(`${shown(choice.token, choice.ends_word)} from ${guessed(source[best])} ${percent(attention[place][best])}`);
    });
    map.replaceChildren(...cells);
    map.setAttribute("role", "img");
    map.setAttribute("aria-label", `What was read most: ${told.join(", ")}`);
  }

  #best() {
    const items = this.#outputs.map((output, number) => {
      const item = make("li");
      const button = make("button", "output");
      button.type = "button";
      button.append(make("span", "text", output.text || "(nothing)"));
      if (output.score !== null) button.append(make("span", "quiet", output.score.toFixed(2)));
      button.addEventListener("click", () => this.output(number));
      item.append(button);
      return item;
    });
    this.part(".best ol").replaceChildren(...items);
  }
}
