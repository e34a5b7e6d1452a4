// Tooltips of charts. The numbers come from the table below the picture, so both always agree.
// Pointer: hover, or tap and drag. Keyboard: arrows, Page up and down, Home, End; Escape hides the tooltip.

for (const plot of document.querySelectorAll(".plot[data-table]")) explain(plot);

function explain(plot) {
  const table = document.getElementById(plot.dataset.table);
  const count = Number(plot.dataset.count);
  if (!table || !count) return;
  const heads = [...table.tHead.rows[0].cells].slice(1);
  const rows = new Map([...table.tBodies[0].rows].map((row) => [Number(row.dataset.place), row]));
  const drawing = plot.querySelector("svg");
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("width", `${100 / count}%`);
  cursor.setAttribute("height", "100%");
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  // Assistive technology reads the value of the slider instead.
  tip.setAttribute("aria-hidden", "true");
  plot.append(tip);
  let place = count - 1;

  plot.tabIndex = 0;
  plot.setAttribute("role", "slider");
  plot.setAttribute("aria-orientation", "horizontal");
  plot.setAttribute("aria-valuemin", "1");
  plot.setAttribute("aria-valuemax", String(count));
  say();

  function say() {
    const row = rows.get(place);
    plot.setAttribute("aria-valuenow", String(place + 1));
    plot.setAttribute("aria-valuetext", row ? [period(row), ...shown(row).map(({ name, value }) => `${name} ${value}`)].join(", ") : "");
  }

  function period(row) {
    return row.cells[0].textContent.trim().replace(/\s+/g, " ");
  }

  function shown(row) {
    return [...row.cells].slice(1).map((cell, at) => ({
      name: heads[at].textContent.trim(),
      key: heads[at].dataset.key,
      value: cell.textContent.trim(),
    }));
  }

  function show(next) {
    const moved = Math.min(Math.max(next, 0), count - 1);
    const row = rows.get(moved);
    if (!row) return;
    if (moved !== place || tip.hidden) {
      place = moved;
      fill(row);
      say();
    }
    tip.hidden = false;
    cursor.setAttribute("x", `${(100 * place) / count}%`);
    if (!cursor.parentNode) drawing.prepend(cursor);
    // Beside the column, on the side with more room.
    const middle = (plot.clientWidth * (place + 0.5)) / count;
    const half = plot.clientWidth / (2 * count) + 8;
    const left = middle > plot.clientWidth / 2 ? middle - half - tip.offsetWidth : middle + half;
    const least = -plot.offsetLeft;
    const most = plot.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(Math.min(left, most), least)}px`;
    // Where there is no room beside the column, it stands below the picture and not on it.
    tip.classList.toggle("below", plot.clientWidth < 2 * tip.offsetWidth + 2 * half);
  }

  function fill(row) {
    const heading = document.createElement("p");
    heading.textContent = period(row);
    const list = document.createElement("dl");
    for (const { name, key, value } of shown(row)) {
      const term = document.createElement("dt");
      const swatch = key === undefined ? null : plot.closest(".picture")?.querySelector(`[data-key="${key}"] .swatch`);
      term.append(swatch ? swatch.cloneNode(true) : document.createElement("span"));
      const words = document.createElement("span");
      words.className = "name";
      words.textContent = name;
      term.append(words);
      const detail = document.createElement("dd");
      detail.textContent = value;
      list.append(term, detail);
    }
    tip.replaceChildren(heading, list);
  }

  function hide() {
    tip.hidden = true;
    cursor.remove();
  }

  function follow(event) {
    const box = plot.getBoundingClientRect();
    show(Math.floor(((event.clientX - box.left) / box.width) * count));
  }

  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", follow);
  plot.addEventListener("pointerleave", (event) => {
    // After a tap the tooltip stays, until somewhere else is tapped.
    if (event.pointerType === "mouse" && document.activeElement !== plot) hide();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!plot.contains(event.target)) hide();
  });
  plot.addEventListener("focus", () => {
    if (plot.matches(":focus-visible")) show(place);
  });
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const far = Math.max(Math.round(count / 10), 2);
    const next = {
      ArrowRight: place + 1, ArrowUp: place + 1, ArrowLeft: place - 1, ArrowDown: place - 1,
      PageUp: place + far, PageDown: place - far, Home: 0, End: count - 1,
    }[event.key];
    if (event.key === "Escape") hide();
    else if (next !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      show(next);
    }
  });
}

// The form of a chart: a choice takes effect at once. Values of a filter are ticked first and then applied.
for (const form of document.querySelectorAll("[data-chart-form]")) {
  const choices = form.querySelector(".choices");
  if (matchMedia("(max-width: 44rem)").matches && !form.querySelector(".values")) choices.open = false;
  const range = form.elements.namedItem("range");
  form.querySelector("[data-show]").hidden = true;
  form.addEventListener("change", ({ target }) => {
    if (target.type === "checkbox") return;
    if (target.type === "date") {
      if (!target.value) return;
      range.value = "dates";
    }
    form.requestSubmit();
  });
  form.addEventListener("formdata", ({ formData }) => {
    // Short addresses: a named range needs no dates, and an empty choice says nothing.
    if (range && range.value !== "dates") for (const name of ["from", "to"]) formData.delete(name);
    for (const [name, value] of [...formData]) if (value === "") formData.delete(name);
  });
}
