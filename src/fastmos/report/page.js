"use strict";

// Tables: a button in a column's head sorts by it; numbers before text, empty cells last.
function value(row, column) {
  const cell = row.cells[column];
  const shown = cell.dataset.value ?? cell.textContent.trim();
  return shown === "" ? null : Number.isNaN(Number(shown)) ? shown : Number(shown);
}

function compare(a, b, direction) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return direction * (typeof a === "number" ? a - b : a.localeCompare(b));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.querySelectorAll("th[data-column]")];
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map(row => [value(row, Number(head.dataset.column)), row]);
      rows.sort((a, b) => compare(a[0], b[0], up ? 1 : -1));
      body.append(...rows.map(pair => pair[1]));
    });
  }
}

// What scrolls sideways shows that there is more, until its end is reached.
const wide = [...document.querySelectorAll(".scroll")];
function fade(part) {
  part.classList.toggle("more", part.scrollLeft + part.clientWidth < part.scrollWidth - 2);
}
for (const part of wide) part.addEventListener("scroll", () => fade(part), { passive: true });
window.addEventListener("resize", () => wide.forEach(fade));
wide.forEach(fade);

// Word tables: the search shows the rows that hold a word, and marks it; a cell holds the words of its row in order of
// their columns, with a dot for an empty one.
const search = document.getElementById("search");
const rows = [...document.querySelectorAll(".words tbody tr")].map(row => {
  const cell = row.querySelector("td");
  return { row, cell, words: cell.textContent.split(" ") };
});

function find(wanted) {
  let found = 0;
  for (const { row, cell, words } of rows) {
    const here = words.map(word => wanted !== "" && word !== "·" && word.toLowerCase().includes(wanted));
    const hits = here.filter(Boolean).length;
    found += hits;
    row.hidden = wanted !== "" && hits === 0;
    if (!hits) {
      if (cell.firstElementChild) cell.textContent = words.join(" ");
      continue;
    }
    cell.textContent = "";
    words.forEach((word, column) => {
      if (!here[column]) return cell.append(word + " ");
      const mark = document.createElement("mark");
      mark.textContent = word;
      mark.title = "column " + column;
      cell.append(mark, " ");
    });
  }
  for (const details of document.querySelectorAll("details.table")) {
    if (wanted !== "") details.open = details.querySelector("tbody tr:not([hidden])") !== null;
  }
  document.getElementById("count").textContent = wanted === "" ? "" : found === 1 ? "1 word" : found + " words";
}

search?.addEventListener("input", () => find(search.value.trim().toLowerCase()));

// A link to a part that is folded away unfolds it.
function unfold() {
  const target = location.hash.length > 1 ? document.getElementById(location.hash.slice(1)) : null;
  target?.closest("details")?.setAttribute("open", "");
}
for (const part of document.querySelectorAll("details")) part.addEventListener("toggle", () => wide.forEach(fade));
window.addEventListener("hashchange", unfold);
unfold();
