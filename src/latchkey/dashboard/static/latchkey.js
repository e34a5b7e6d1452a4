// Progressive enhancement. Everything works without it, except live updates.

for (const time of document.querySelectorAll("time[datetime]")) localise(time);

/** Shows the reader's local time on hover; pages use UTC, like the logs and the API. */
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

// A filter takes effect at once; without the script its button does it.
for (const form of document.querySelectorAll("form[data-at-once]")) {
  form.addEventListener("change", () => form.requestSubmit());
  for (const button of form.querySelectorAll("button")) button.hidden = true;
}

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

// On a phone the menu starts collapsed.
const menu = document.querySelector("details.menu");
if (menu && matchMedia("(max-width: 56rem)").matches) menu.open = false;

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

// `/` focuses the search; `g` and the first letter of a menu item open its page: g o, g c, g e, g w …
let going = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    } else {
      const customers = [...document.querySelectorAll(".menu a")].find((link) => link.textContent === "Customers");
      if (customers) location.assign(customers.href);
    }
  } else if (event.key === "g") {
    going = Date.now();
  } else if (Date.now() - going < 1200) {
    going = 0;
    const links = [...document.querySelectorAll(".menu a")];
    const found = links.find((link) => link.textContent[0].toLowerCase() === event.key.toLowerCase());
    if (found) location.assign(found.href);
  }
});
