import { registerDevice } from "/demo/push.js";
import { live, signIn, users, wish } from "/demo/server.js";
import { moments, STATES, told } from "/demo/words.js";

const KEPT = "lamplight-session";
const at = (selector) => document.querySelector(selector);
const names = new Map();
let session = null;
let shown = new Set();

function made(tag, text, properties = {}) {
  const element = Object.assign(document.createElement(tag), properties);
  element.textContent = text;
  return element;
}

function notice(words) {
  const place = at("#notice");
  place.textContent = words;
  place.hidden = false;
  clearTimeout(notice.timer);
  notice.timer = setTimeout(() => (place.hidden = true), 6000);
}

/** One wish at a time: buttons rest until the server has answered. */
async function during(work) {
  document.body.setAttribute("aria-busy", "true");
  for (const button of document.querySelectorAll("main button")) button.disabled = true;
  try {
    await work();
  } catch (error) {
    notice(error.message);
    if (error.status === 401) leave();
  } finally {
    document.body.removeAttribute("aria-busy");
    for (const button of document.querySelectorAll("main button")) button.disabled = false;
    if (session?.story) offerEnd(session.story);
  }
}

const act = (action) => during(() => wish(session.token, action));

function offerEnd({ state }) {
  at('[data-action="end"]').disabled = state === "free" || state === "ended";
}

function show(story) {
  const words = STATES[story.state];
  const changed = session.story?.state !== story.state;
  session.story = story;
  document.body.dataset.state = story.state;
  if (changed) {
    at("#home .badge").textContent = words.badge;
    at("#home h1").textContent = words.title(names.get(story.user) ?? story.user);
    const had = at("#wishes").contains(document.activeElement);
    at("#wishes").replaceChildren(
      ...words.wishes.map(({ action, label, main }) => {
        const button = made("button", label, { className: main ? "main" : "", onclick: () => act(action) });
        button.disabled = document.body.hasAttribute("aria-busy");
        return button;
      }),
    );
    // Whoever pressed a button with the keyboard goes on from there.
    if (had) at("#wishes button").focus();
  }
  at("#sentence").textContent = words.sentence(story.until && moments.day(story.until));
  at("#now").textContent = moments.full(story.now);
  at("#now").dateTime = new Date(story.now).toISOString();
  if (!document.body.hasAttribute("aria-busy")) offerEnd(story);
  at("#silence").hidden = story.events.length > 0;
  at("#events").replaceChildren(...story.events.map(line));
  shown = new Set(story.events.map(({ id }) => id));
  for (const part of ["#home", "#behind", "#sign-out"]) at(part).hidden = false;
  at("#welcome").hidden = true;
}

function line({ id, type, event_timestamp_ms: when }) {
  const [words, tone] = told(type);
  const item = made("li", "", { className: `${tone} ${shown.has(id) ? "" : "new"}`.trim() });
  item.append(made("b", words), made("time", moments.brief(when), { dateTime: new Date(when).toISOString() }));
  item.append(made("code", type));
  return item;
}

async function enter(kept) {
  const leaving = new AbortController();
  session = { ...kept, leaving, story: null };
  localStorage.setItem(KEPT, JSON.stringify(kept));
  register(kept.token);
  if (!(await live(kept.token, leaving.signal, (story) => leaving.signal.aborted || show(story)))) {
    notice("Please sign in again.");
    leave();
  }
}

/** A phone belongs to whoever signed in last. In an ordinary browser there is nothing to register, and that is fine. */
async function register(token) {
  const place = at("#device");
  try {
    const id = await registerDevice({ url: "/api/devices", token, platform: "web" });
    place.textContent = id
      ? "Notifications come to this phone."
      : "No notifications here: this is a browser, not the app, or they were refused.";
    place.dataset.player = id ?? "";
  } catch {
    place.textContent = "This phone could not be registered for notifications.";
  }
}

function leave() {
  session?.leaving.abort();
  session = null;
  shown = new Set();
  localStorage.removeItem(KEPT);
  document.body.dataset.state = "signed-out";
  for (const part of ["#home", "#behind", "#sign-out"]) at(part).hidden = true;
  at("#welcome").hidden = false;
  at("#users button")?.focus();
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEPT));
  } catch {
    return null;
  }
}

at("#sign-out").onclick = leave;
for (const button of document.querySelectorAll("[data-action]")) button.onclick = () => act(button.dataset.action);

await during(async () => {
  for (const { id, name } of await users()) {
    names.set(id, name);
    const button = made("button", name, { className: "main" });
    button.onclick = () => during(async () => void enter({ user: id, token: await signIn(id) }));
    at("#users").append(button);
  }
});
if (kept()?.token) enter(kept());
