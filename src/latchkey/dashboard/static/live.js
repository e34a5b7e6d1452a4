// Adds new events at the top of the list as they are committed. Data of the server is inserted as text, never as markup.

// Imported by its URL on this page: under another URL it would be loaded and run twice.
const { localise } = await import(document.querySelector('script[src*="/latchkey.js"]').src);

const MOST_ROWS = 300;
const TRIES = [2, 5, 10, 30, 60];

const place = document.querySelector("[data-live]");
if (place && window.EventSource) watch(place);

function watch(place) {
  const rows = place.querySelector("[data-rows]");
  const template = place.querySelector("template[data-row]");
  const bar = document.querySelector("[data-live-bar]");
  const status = bar.querySelector("[data-live-status]");
  const light = bar.querySelector("[data-light]");
  const button = bar.querySelector("[data-live-pause]");
  const older = document.querySelector("[data-older] a");
  const held = [];
  let after = Number(place.dataset.after);
  let source;
  let paused = false;
  let arrived = 0;
  let left = 0;
  let tries = 0;
  let words = "";
  bar.hidden = false;
  connect();

  function connect() {
    const address = new URL(place.dataset.live, location);
    address.searchParams.set("after", after);
    source = new EventSource(address);
    source.addEventListener("open", () => {
      tries = 0;
      say("");
      light.className = "light on";
    });
    source.addEventListener("happened", (message) => {
      const row = JSON.parse(message.data);
      // Never twice, even after a reconnect.
      if (row.position <= after) return;
      after = row.position;
      if (!paused) return show(row);
      held.push(row);
      if (held.length > MOST_ROWS) held.shift(), (left += 1);
      tell();
    });
    source.addEventListener("deliveries", (message) => {
      const row = JSON.parse(message.data);
      const found = held.find((one) => one.id === row.id);
      if (found) found.deliveries = row.deliveries;
      const shown = [...rows.children].find((one) => one.dataset.event === row.id);
      if (shown) showDeliveries(shown, row.deliveries);
    });
    source.addEventListener("skipped", (message) => {
      left += JSON.parse(message.data).count;
      tell();
    });
    source.addEventListener("over", () => {
      source.close();
      light.className = "light";
      button.hidden = true;
      say("You are signed out, or no longer in this project. Reload to go on.");
    });
    source.addEventListener("error", () => {
      light.className = "light lost";
      if (source.readyState !== EventSource.CLOSED) return say("Connecting again…");
      // The browser has given up; retry for a while.
      if (tries >= TRIES.length) return say("No longer live. Reload to go on.");
      say("Connecting again…");
      setTimeout(connect, TRIES[tries++] * 1000);
    });
  }

  function show(row) {
    const line = template.content.firstElementChild.cloneNode(true);
    const part = (name) => line.querySelector(`[data-${name}]`);
    line.dataset.position = row.position;
    line.dataset.event = row.id;
    line.classList.add("fresh");
    part("at").setAttribute("datetime", row.at);
    part("at").textContent = row.at_text;
    localise(part("at"));
    part("type").textContent = row.type;
    part("type").className = `badge ${row.kind}`;
    part("type").href = row.href;
    part("customer").replaceChildren(...parted(row.customer));
    if (row.customer_href) part("customer").href = row.customer_href;
    part("product").replaceChildren(...parted(row.product));
    part("environment").textContent = row.environment;
    showDeliveries(line, row.deliveries);
    rows.prepend(line);
    for (const hidden of document.querySelectorAll("[data-table]")) hidden.hidden = false;
    for (const empty of document.querySelectorAll("[data-empty]")) empty.hidden = true;
    while (rows.children.length > MOST_ROWS) trim();
    for (const stale of document.querySelectorAll("[data-stale]")) stale.hidden = false;
    arrived += 1;
    tell();
  }

  /** Removes the last row; the next page begins with it. */
  function trim() {
    rows.lastElementChild.remove();
    if (!older) return;
    const address = new URL(older.href);
    address.searchParams.set("before", rows.lastElementChild.dataset.position);
    older.href = address;
    older.closest("[data-older]").hidden = false;
  }

  /** An id with places to break into lines, as the filter `parted` of the templates makes them. */
  function parted(text) {
    const parts = text.split(/(?<=[_@:/-])(?=[\p{L}\p{N}{])/u);
    return parts.flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part]));
  }

  function showDeliveries(line, deliveries) {
    const badges = deliveries.map(({ kind, text }) => {
      const badge = document.createElement("span");
      badge.className = `badge ${kind}`;
      badge.textContent = text;
      return badge;
    });
    line.querySelector("[data-deliveries]").replaceChildren(...badges.flatMap((badge) => [badge, " "]));
  }

  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Resume list" : "Pause list";
    if (!paused) for (const row of held.splice(0)) show(row);
    tell();
  });

  function say(text) {
    words = text;
    tell();
  }

  // One announcement at a time: a screen reader must not read one for each of a hundred events.
  let telling;
  function tell() {
    telling ??= setTimeout(() => {
      telling = undefined;
      const events = (count) => `${count} new event${count === 1 ? "" : "s"}`;
      const parts = [words || (paused ? `Paused, ${events(held.length)} waiting` : arrived ? `Live, ${events(arrived)}` : "Live")];
      if (left) parts.push(`${left} more not shown, reload to see them`);
      const text = parts.join("; ");
      if (status.textContent !== text) status.textContent = text;
    }, 400);
  }
}
