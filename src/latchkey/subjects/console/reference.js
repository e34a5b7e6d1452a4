// The search, and the console: a request with the rights of the dashboard's session, or with a pasted key. The key is in
// a variable of this page only. Whatever comes from outside is shown as text.

const WIDE = matchMedia("(min-width: 60.01rem)");
const areas = document.querySelector(".areas");
const unfold = () => { areas.open = WIDE.matches; };
unfold();
WIDE.addEventListener("change", unfold);

const openTarget = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (!target) return;
  if (target.tagName === "DETAILS") target.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", openTarget);

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// The search.

const search = document.getElementById("search");
const found = document.getElementById("found");
let operations = null;
let chosen = -1;

async function loaded() {
  operations ??= fetch("/docs/search.json").then((reply) => reply.json());
  return operations;
}

function choose(place) {
  const options = [...found.children];
  chosen = options.length ? (place + options.length) % options.length : -1;
  options.forEach((option, number) => option.setAttribute("aria-selected", number === chosen));
  options[chosen]?.scrollIntoView({ block: "nearest" });
  if (chosen >= 0) search.setAttribute("aria-activedescendant", options[chosen].id);
  else search.removeAttribute("aria-activedescendant");
}

function close() {
  found.hidden = true;
  search.setAttribute("aria-expanded", "false");
}

async function look() {
  const all = await loaded();
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (one) => `${one.method} ${one.path} ${one.summary}`.toLowerCase();
  const hits = words.length ? all.filter((one) => words.every((word) => text(one).includes(word))).slice(0, 20) : [];
  found.replaceChildren(...hits.map((one, number) => {
    const link = element("a", { href: one.href, tabIndex: -1 }, `${one.method} ${one.path}`, element("small", {}, one.summary));
    const option = element("li", { id: `found-${number}`, role: "option" }, link);
    link.addEventListener("click", close);
    return option;
  }));
  if (words.length && !hits.length) found.append(element("li", { role: "option" }, "Nothing found."));
  found.hidden = !words.length;
  search.setAttribute("aria-expanded", String(!found.hidden));
  choose(hits.length ? 0 : -1);
}

search.form.hidden = false;
search.addEventListener("input", look);
search.form.addEventListener("submit", (event) => event.preventDefault());
search.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
  else if (event.key === "Enter") found.children[chosen]?.querySelector("a")?.click();
  else if (event.key === "Escape") close();
  else return;
  event.preventDefault();
});
// A press on a hit leaves the focus in the field.
found.addEventListener("mousedown", (event) => event.preventDefault());
search.addEventListener("blur", close);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
  event.preventDefault();
  search.focus();
});

// The console.

const bar = document.getElementById("session");
const forms = [...document.querySelectorAll("form.console")];
let member = null;
let project = "";
let key = "";

function show(...children) {
  bar.replaceChildren(...children);
  bar.hidden = false;
  const ready = Boolean(member?.projects.length || key);
  for (const form of forms) form.hidden = !ready;
  fill();
}

function fill() {
  for (const input of document.querySelectorAll("form.console input[name=project_id]")) input.value = project || input.value;
}

function asMember() {
  const select = element("select", { name: "project" }, ...member.projects.map((one) => new Option(`${one.name} (${one.role})`, one.id)));
  select.value = project;
  select.addEventListener("change", () => { project = select.value; fill(); });
  show(element("form", {}, `You are signed in as ${member.email}. `, element("label", {}, "Project ", select)),
    element("p", {}, "Requests are sent with the rights of your role in this project. Changes are in its audit log."));
}

function asKey() {
  const away = element("button", { type: "button" }, "Forget it");
  away.addEventListener("click", () => { key = project = ""; start(); });
  show(element("p", {}, "Requests are sent with the key that you pasted. It is kept until you leave this page. ", away));
}

function asNobody(words) {
  const input = element("input", { type: "password", autocomplete: "off", placeholder: "sk_…", required: true });
  const form = element("form", {}, element("label", {}, "API key ", input), element("button", {}, "Use this key"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    key = input.value.trim();
    input.value = "";
    const reply = await ask("GET", "/v2/projects", "").catch(() => null);
    if (reply?.status === 401) {
      key = "";
      return asNobody("This key is not known here.");
    }
    if (reply?.status === 200) project = JSON.parse(reply.body).items[0]?.id ?? "";
    asKey();
  });
  const link = element("a", { href: `/dashboard/sign-in?next=${encodeURIComponent(location.pathname)}` }, "Sign in");
  show(element("p", {}, words ? `${words} ` : "To try operations here: ", link, ", or paste an API key."), form);
}

async function start() {
  const reply = await fetch("/dashboard/console", { redirect: "manual" }).catch(() => null);
  member = reply?.ok ? await reply.json() : null;
  if (!member) return asNobody("");
  const asked = new URLSearchParams(location.search).get("project");
  project = (member.projects.find((one) => one.id === asked) ?? member.projects[0])?.id ?? "";
  if (project) asMember();
  else show(element("p", {}, "You are signed in, and belong to no project."));
}

async function ask(method, target, body) {
  if (!key) return askAsMember(method, target, body);
  const headers = { authorization: `Bearer ${key}`, ...(body ? { "content-type": "application/json" } : {}) };
  const reply = await fetch(target, { method, headers, body: body || undefined, credentials: "omit", cache: "no-store" });
  return { status: reply.status, body: await reply.text() };
}

async function askAsMember(method, target, body) {
  const path = `/dashboard/projects/${encodeURIComponent(project)}/console`;
  const form = new URLSearchParams({ csrf: member.csrf, method, target, body, confirm: "on" });
  const reply = await (method === "GET"
    ? fetch(`${path}?${new URLSearchParams({ target })}`, { redirect: "manual" })
    : fetch(path, { method: "POST", body: form, redirect: "manual" }));
  if (reply.type === "opaqueredirect" || reply.status === 401) {
    member = null;
    asNobody("You are signed out.");
    throw new Error("You are signed out.");
  }
  if (reply.ok) return reply.json();
  const page = new DOMParser().parseFromString(await reply.text(), "text/html");
  throw new Error(page.querySelector("main p")?.textContent.trim() || `The console answered ${reply.status}.`);
}

function target(form) {
  const query = new URLSearchParams();
  let path = form.dataset.path;
  for (const input of form.querySelectorAll("input[data-in]")) {
    if (input.dataset.in === "path") path = path.replace(`{${input.name}}`, encodeURIComponent(input.value));
    else if (input.value) query.append(input.name, input.value);
  }
  return query.size ? `${path}?${query}` : path;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

for (const form of forms) {
  const [state, shown, button] = [".state", ".reply", "button"].map((name) => form.querySelector(name));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    state.className = "state";
    state.textContent = "Sending…";
    try {
      const reply = await ask(form.dataset.method, target(form), form.elements.body?.value ?? "");
      state.textContent = `Status ${reply.status}`;
      state.classList.add(reply.status < 400 ? "good" : "bad");
      shown.textContent = pretty(reply.body) || "(no body)";
      shown.hidden = false;
    } catch (error) {
      state.textContent = error.message;
      state.classList.add("bad");
      shown.hidden = true;
    } finally {
      button.disabled = false;
      if (form.elements.confirm) form.elements.confirm.checked = false;
    }
  });
}

openTarget();
start();
