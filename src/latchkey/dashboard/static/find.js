// Results while somebody types, as a list below the search box. Without this script the box leads to a page of results.

const form = document.querySelector("form[data-find]");
const input = form?.querySelector("input");
const WAIT = 150;

if (input) {
  const list = document.createElement("div");
  list.className = "found";
  list.id = "found";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Results");
  list.hidden = true;
  const said = document.createElement("p");
  said.className = "hidden-words";
  said.setAttribute("aria-live", "polite");
  form.append(list, said);
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-expanded", "false");
  input.setAttribute("aria-controls", list.id);
  // A narrow screen is most likely a phone, which has no such key.
  const key = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl K";
  input.placeholder = matchMedia("(max-width: 44rem)").matches ? "Search" : `Search  ${key}`;

  let waiting = 0;
  let asking = null;
  let options = [];
  let active = -1;

  const close = () => {
    clearTimeout(waiting);
    asking?.abort();
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    choose(-1);
  };

  const choose = (place) => {
    options[active]?.setAttribute("aria-selected", "false");
    active = place;
    const option = options[active];
    if (!option) return input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  };

  const show = ({ groups, note }) => {
    list.replaceChildren();
    options = [];
    active = -1;
    groups.forEach((group, number) => {
      const part = document.createElement("div");
      part.setAttribute("role", "group");
      part.setAttribute("aria-labelledby", `found-${number}`);
      const title = document.createElement("div");
      title.className = "found-title";
      title.id = `found-${number}`;
      title.setAttribute("role", "presentation");
      title.textContent = group.title;
      part.append(title);
      for (const one of group.results) {
        const option = document.createElement("a");
        option.id = `found-option-${options.length}`;
        option.href = one.href;
        option.tabIndex = -1;
        option.setAttribute("role", "option");
        option.setAttribute("aria-selected", "false");
        const name = document.createElement("bdi");
        name.textContent = one.title;
        const detail = document.createElement("small");
        detail.textContent = one.detail;
        option.append(name, detail);
        options.push(option);
        part.append(option);
      }
      list.append(part);
    });
    said.textContent = options.length === 1 ? "1 result" : `${options.length || "No"} results`;
    if (note || !options.length) {
      const words = document.createElement("p");
      words.className = "found-note";
      words.textContent = note || "Nothing found.";
      if (options.length) list.append(words);
      else list.replaceChildren(words);
    }
    list.hidden = false;
    // A list without options is no list to a screen reader; the status says that there is none.
    list.setAttribute("role", options.length ? "listbox" : "presentation");
    input.setAttribute("aria-expanded", String(options.length > 0));
  };

  const ask = async () => {
    asking?.abort();
    const text = input.value;
    if (!text.trim()) return close();
    asking = new AbortController();
    try {
      const reply = await fetch(`${form.action}.json?q=${encodeURIComponent(text)}`, { signal: asking.signal });
      // Signed out meanwhile, or the server has trouble: the form still works.
      if (!reply.ok || reply.redirected) return close();
      const found = await reply.json();
      if (input.value === text && document.activeElement === input) show(found);
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  };

  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, WAIT);
  });
  input.addEventListener("focus", () => {
    if (input.value.trim() && list.hidden) ask();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (!list.hidden) event.preventDefault();
      return close();
    }
    if (list.hidden || !options.length) return;
    const last = options.length - 1;
    if (event.key === "ArrowDown") choose(active === last ? 0 : active + 1);
    else if (event.key === "ArrowUp") choose(active <= 0 ? last : active - 1);
    else if (event.key === "Enter" && active >= 0) options[active].click();
    else return;
    event.preventDefault();
  });
  form.addEventListener("focusout", (event) => {
    if (!form.contains(event.relatedTarget)) close();
  });
  // The list must not take the focus from the box before the click arrives.
  list.addEventListener("mousedown", (event) => event.preventDefault());

  // Ctrl-K or Cmd-K anywhere, and / outside of fields.
  document.addEventListener("keydown", (event) => {
    const command = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k";
    const slash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, textarea, select");
    if (!command && !slash) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}
