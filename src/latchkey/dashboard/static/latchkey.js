// Progressive enhancement. Everything works without it, except live updates.

for (const time of document.querySelectorAll("time[datetime]")) localise(time);

/** Shows the reader's local time on hover; pages use the project's time zone. */
export function localise(time) {
  const at = new Date(time.getAttribute("datetime"));
  if (!Number.isNaN(at.getTime())) time.title = at.toLocaleString(undefined, { dateStyle: "full", timeStyle: "long" });
}

for (const button of document.querySelectorAll("[data-copy]")) offerCopy(button);

export function offerCopy(button) {
  const source = button.closest(".snippet")?.querySelector("code");
  if (!source || !navigator.clipboard) return;
  const name = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = name), 1500);
  });
}

// A key that was downloaded as a file is read into its text field. Without the script it is pasted.
for (const chooser of document.querySelectorAll("[data-into]")) {
  chooser.hidden = false;
  chooser.addEventListener("change", async () => {
    if (chooser.files[0]) document.getElementById(chooser.dataset.into).value = await chooser.files[0].text();
  });
}

// A filter takes effect at once; without the script its button does it.
for (const form of document.querySelectorAll("form[data-at-once]")) {
  form.addEventListener("change", () => form.requestSubmit());
  for (const button of form.querySelectorAll("button")) button.hidden = true;
}

// The service checks a form and names every error beside its field. Only what it cannot see stops here, in the same way:
// half of a date, a box that is not ticked, and a form with a secret, which would have to be typed again.
for (const form of document.querySelectorAll("main form[method=post]")) form.noValidate = true;
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.noValidate) return;
  for (const mark of form.querySelectorAll(".wrong")) mark.remove();
  const wrong = [...form.elements].filter((one) => one.willValidate && !one.validity.valid);
  const unseen = (one) => one.validity.badInput || one.type === "checkbox" || form.querySelector("[type=password], [data-secret]");
  if (!wrong.some(unseen)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  for (const one of form.elements) if (!wrong.includes(one)) one.removeAttribute("aria-invalid");
  wrong.forEach((one, number) => {
    const said = document.createElement("span");
    Object.assign(said, { className: "wrong", id: `wrong-${number}`, textContent: one.validationMessage });
    (one.closest(".field") ?? one.parentElement).append(said);
    one.setAttribute("aria-invalid", "true");
    const others = (one.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id && !id.startsWith("wrong-"));
    one.setAttribute("aria-describedby", [said.id, ...others].join(" "));
  });
  wrong[0].focus();
});

// A double click must not submit a form twice. After a download (`data-stays`) the page is still there for the next one.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || "stays" in form.dataset) return;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "yes";
  for (const button of form.querySelectorAll("button")) button.setAttribute("aria-busy", "true");
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  for (const button of document.querySelectorAll("[aria-busy]")) button.removeAttribute("aria-busy");
});

// On a wide screen the menu is open; the style sheet does that where the browser knows how.
const menu = document.querySelector("details.menu");
const narrow = matchMedia("(max-width: 56rem)");
if (menu) {
  menu.open = !narrow.matches;
  narrow.addEventListener("change", () => (menu.open = !narrow.matches));
  document.addEventListener("click", (event) => {
    if (narrow.matches && menu.open && !event.target.closest(".side")) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !narrow.matches || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

// A plain table that is wider than its place, as on a phone, is shown as one block for each row, with the heading of its
// column beside each cell. For tables with a class of their own, the style sheets say what becomes of them.
const MOST_COLUMNS = 9;
const fitting = new ResizeObserver((changes) => changes.forEach((one) => fit(one.target)));
for (const table of document.querySelectorAll(".wide > table:not([class])")) stack(table);

function fit(place) {
  // Stacking changes the height, which is no reason to measure again.
  if (place.dataset.measured === String(place.clientWidth)) return;
  place.dataset.measured = place.clientWidth;
  const table = place.querySelector(":scope > table");
  table.classList.remove("stacked");
  table.classList.toggle("stacked", place.scrollWidth > place.clientWidth + 1);
}

export function stack(table) {
  // A heading that only a screen reader hears says no more than the button or link below it.
  const words = (cell) => (cell.querySelector(".hidden-words") ? "" : cell.innerText.replace(/\s+/g, " ").trim());
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map(words);
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
  const width = (row) => [...row.cells].reduce((sum, cell) => sum + cell.colSpan, 0);
  const plain = rows.every((row) => width(row) === heads.length);
  if (table.tHead?.rows.length !== 1 || !plain || heads.length > MOST_COLUMNS) return;
  // Their own display takes away what they are to a screen reader.
  table.setAttribute("role", "table");
  for (const group of [table.tHead, ...table.tBodies]) group.setAttribute("role", "rowgroup");
  for (const row of table.rows) row.setAttribute("role", "row");
  for (const cell of table.tHead.rows[0].cells) cell.setAttribute("role", "columnheader");
  for (const row of rows) {
    let place = 0;
    for (const cell of row.cells) {
      // What stands for several columns has a sentence, and no heading of its own.
      cell.dataset.label = cell.colSpan > 1 ? "" : heads[place];
      cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
      place += cell.colSpan;
    }
  }
  fit(table.parentElement);
  fitting.observe(table.parentElement);
}

const themes = document.querySelector("[data-theme-switch]");
if (themes) {
  themes.hidden = false;
  themes.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("latchkey-theme", root.dataset.theme);
    } catch {
      // Not stored: only for this page.
    }
  });
}

// `g` and the first letter of a menu item open its page: g o, g c, g e, g w … (charts: g h). `find.js` has the keys of the search.
let going = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key === "g") {
    going = Date.now();
  } else if (Date.now() - going < 1200) {
    going = 0;
    const links = [...document.querySelectorAll(".menu nav a")];
    const found = links.find((link) => (link.dataset.key ?? link.textContent[0].toLowerCase()) === event.key.toLowerCase());
    if (found) location.assign(found.href);
  }
});
