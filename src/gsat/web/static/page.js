"use strict";
// Behaviour of the pages. They work without it, except for entering graphs and tables.

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// -- light and dark --------------------------------------------------------------------------------
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("gsat-theme", theme); } catch { /* private windows have no storage */ }
}
try {
  const kept = localStorage.getItem("gsat-theme");
  if (kept) document.documentElement.dataset.theme = kept;
} catch { /* as above */ }
one("#theme")?.addEventListener("click", () => {
  const set = document.documentElement.dataset.theme;
  const dark = set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
});

// -- parts that are loaded later, and parts that are updated ------------------------------------------------
async function fetchPart(address, options) {
  const answer = await fetch(address, { headers: { accept: "text/html" }, ...options });
  const text = await answer.text();
  if (!(answer.headers.get("content-type") || "").startsWith("text/html")) {
    let message = text;
    try { message = JSON.parse(text).error; } catch { /* not JSON */ }
    const line = document.createElement("p");
    line.className = "warn";
    line.setAttribute("role", "alert");
    line.textContent = message;
    return line.outerHTML;
  }
  const whole = new DOMParser().parseFromString(text, "text/html");
  const main = whole.querySelector("main"); // an error is a whole page
  return main ? main.innerHTML : text;
}
for (const part of all("[data-load]")) {
  fetchPart(part.dataset.load).then(text => { part.innerHTML = text; });
}
for (const part of all("[data-live]")) {
  setInterval(async () => {
    if (document.hidden) return;
    const chosen = new Set(all("input:checked", part).map(box => box.value));
    part.innerHTML = await fetchPart(part.dataset.live);
    for (const box of all("input[type=checkbox]", part)) box.checked = chosen.has(box.value);
    makeSortable(part);
    filterRows();
  }, 1000 * Number(part.dataset.seconds));
}

// -- tables that sort and filter ---------------------------------------------------------------------
let sorted = null; // column and direction, kept when the table is updated
function sortBy(table, column, direction) {
  const value = row => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = Number(text);
    return text === "" || text === "–" ? null : Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const rows = [...table.tBodies[0].rows].map(row => [value(row), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return direction * (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a < typeof b ? -1 : 1);
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
  for (const button of all(".sort", table)) button.removeAttribute("aria-sort");
  one(".sort", table.tHead.rows[0].cells[column])?.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
  for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
  table.tHead.rows[0].cells[column].setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
}
function makeSortable(within = document) {
  for (const table of all("table.sortable", within)) {
    for (const button of all(".sort", table)) {
      button.addEventListener("click", () => {
        const column = button.closest("th").cellIndex;
        const again = sorted && sorted.column === column;
        const numeric = button.closest("th").classList.contains("n");
        sorted = { column, direction: again ? -sorted.direction : numeric ? -1 : 1 };
        sortBy(table, column, sorted.direction);
      });
    }
    if (sorted) sortBy(table, sorted.column, sorted.direction);
  }
}
function filterRows() {
  for (const field of all("[data-filter]")) {
    const wanted = field.value.trim().toLowerCase();
    for (const row of all(`#${field.dataset.filter} tbody tr`)) {
      row.hidden = Boolean(wanted) && !row.textContent.toLowerCase().includes(wanted);
    }
  }
}
makeSortable();
for (const field of all("[data-filter]")) field.addEventListener("input", filterRows);
const preselected = new URLSearchParams(location.search).get("compare");
for (const box of all("input[name=run][type=checkbox]")) if (box.value === preselected) box.checked = true;
one("#compare-form")?.addEventListener("submit", event => {
  const chosen = all("input[name=run]:checked");
  if (chosen.length >= 2 && chosen.length <= 4) return;
  event.preventDefault();
  const button = one("#compare-button");
  button.setCustomValidity("Choose two to four runs on the same data.");
  button.reportValidity();
  button.setCustomValidity("");
});

// -- filters apply immediately -----------------------------------------------------------------------------
for (const form of all("form[data-submit]")) {
  form.addEventListener("change", event => {
    if (event.target.type !== "search") form.requestSubmit();
  });
  form.addEventListener("submit", () => { // leave empty fields out of the address
    for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
  });
}
addEventListener("pageshow", () => { for (const field of all("form[data-submit] :disabled")) field.disabled = false; });

// -- one graph: highlight an edge and its row together -------------------------------------------
function light(scope, edge) {
  for (const part of all(".lit", scope)) part.classList.remove("lit");
  if (edge === null) return null;
  for (const part of all(`[data-edge="${CSS.escape(edge)}"]`, scope)) part.classList.add("lit");
  return one(`tr[data-edge="${CSS.escape(edge)}"]`, scope);
}
function edgeOf(event) {
  return event.target.closest?.("[data-edge]")?.dataset.edge ?? null;
}
addEventListener("pointerover", event => {
  const scope = event.target.closest?.(".graph-page, .answer-card, .beside");
  if (!scope) return;
  const edge = edgeOf(event);
  const row = light(scope, edge);
  if (row && !event.target.closest("table")) row.scrollIntoView({ block: "nearest" });
});
addEventListener("focusin", event => {
  const row = event.target.closest?.("tr[data-edge]");
  if (row) light(row.closest(".graph-page, .answer-card"), row.dataset.edge);
});
addEventListener("click", event => { // a click or tap focuses the row
  const edge = event.target.closest?.(".paper") ? edgeOf(event) : null;
  if (edge !== null) one(`#edges tr[data-edge="${CSS.escape(edge)}"]`)?.focus();
});
one("#edges")?.addEventListener("keydown", event => {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const row = event.target.closest("tr");
  if (step && row?.[step]) { event.preventDefault(); row[step].focus(); }
});
one(".scroll")?.addEventListener("keydown", event => {
  if (event.target.classList.contains("scroll") && event.key === "ArrowDown") {
    const first = one("#edges tbody tr");
    if (first) { event.preventDefault(); first.focus(); }
  }
});

// -- one graph: sliders -----------------------------------------------------------------------------------
const view = one("#view");
if (view) {
  const top = one("#top"), level = one("#level"), truth = one("#truth"), picture = one("#picture");
  const rows = all("#edges tbody tr"), scores = rows.map(row => Number(row.dataset.score));
  let latest = 0;
  function shown() {
    const count = Number(top.value), whole = count === 0 || count >= Number(top.max);
    one("#top-out").textContent = whole ? "all" : count;
    one("#level-out").textContent = whole ? "–" : (scores[count - 1] ?? 0).toFixed(2);
    rows.forEach((row, place) => row.classList.toggle("beyond", !whole && place >= count));
    for (const link of all("[data-kind]")) link.href = `${view.dataset.download}${link.dataset.kind}?top=${whole ? 0 : count}`;
  }
  async function redraw() {
    shown();
    const turn = ++latest;
    const query = new URLSearchParams({ top: top.value, truth: !truth || truth.checked ? "yes" : "no" });
    const text = await fetchPart(`${view.dataset.picture}?${query}`);
    if (turn !== latest) return; // a later request has overtaken this one
    picture.innerHTML = text;
    history.replaceState(null, "", `?${query}`);
  }
  top.addEventListener("input", () => {
    const count = Number(top.value);
    level.value = count === 0 ? 0 : scores[count - 1] ?? 0;
    redraw();
  });
  level.addEventListener("input", () => {
    const above = scores.filter(score => score >= Number(level.value)).length;
    top.value = Number(level.value) === 0 || above === scores.length ? 0 : Math.max(above, 1);
    redraw();
  });
  truth?.addEventListener("change", redraw);
  view.addEventListener("submit", event => event.preventDefault());
  if (Number(top.value)) level.value = scores[Number(top.value) - 1] ?? 0;
  shown();
}

// -- try your own -------------------------------------------------------------------------------------------
const answers = one("#answers");
async function ask(address, body, type) {
  answers.classList.add("busy");
  try {
    answers.innerHTML = await fetchPart(address, { method: "POST", body, headers: { accept: "text/html", "content-type": type } });
  } catch (problem) {
    answers.textContent = `The service can't be reached: ${problem.message}`;
  } finally {
    answers.classList.remove("busy");
  }
}
const graphForm = one("#graph-form");
graphForm?.addEventListener("submit", event => {
  event.preventDefault();
  ask(graphForm.dataset.post, one("#graph").value, "application/json");
});
one("#use-example")?.addEventListener("click", event => { one("#graph").value = event.target.dataset.text; });
const file = one("#file"), drop = one("#drop");
function send(chosen) {
  if (chosen) ask(`${file.dataset.post}?name=${encodeURIComponent(chosen.name)}`, chosen, "text/csv");
}
file?.addEventListener("change", () => send(file.files[0]));
drop?.addEventListener("dragover", event => { event.preventDefault(); drop.classList.add("over"); });
drop?.addEventListener("dragleave", () => drop.classList.remove("over"));
drop?.addEventListener("drop", event => {
  event.preventDefault();
  drop.classList.remove("over");
  send(event.dataTransfer.files[0]);
});

// -- keyboard -------------------------------------------------------------------------------------------------
const help = one("#help");
one("#keys")?.addEventListener("click", () => help.showModal());
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || help?.open) return;
  if (event.target.matches("input, textarea, select, [data-edge]")) return;
  const go = link => { if (link) { event.preventDefault(); link.click(); } };
  if (event.key === "/") {
    const field = one("input[type=search], #smiles");
    if (field) { event.preventDefault(); field.focus(); }
  } else if (event.key === "ArrowLeft") go(one("a[rel=prev]"));
  else if (event.key === "ArrowRight") go(one("a[rel=next]"));
  else if (event.key === "g") go(one("#to-graphs"));
  else if (event.key === "t") go(one("#truth"));
  else if (event.key === "?") help?.showModal();
  else if ((event.key === "[" || event.key === "]") && view) {
    const top = one("#top");
    const from = Number(top.value) || (event.key === "[" ? Number(top.max) : 0);
    top.value = Math.max(1, from + (event.key === "]" ? 1 : -1));
    top.dispatchEvent(new Event("input"));
  }
});
