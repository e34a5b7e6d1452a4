import { registerDevice } from "/demo/push.js";
import { forgetDevice, live, offer, signIn, wish } from "/demo/server.js";
import { moments, price, STATES, told } from "/demo/words.js";

const KEPT = "lamplight-session";
const at = (selector) => document.querySelector(selector);
const names = new Map();
let cost = "";
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

/** One request at a time: buttons are disabled until the server has responded. */
async function during(work) {
  const had = document.activeElement;
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
    if (session?.story) limitDesk(session.story);
    // A disabled button loses the focus; restore it for keyboard users.
    if (document.activeElement === document.body) (had.isConnected && !had.disabled ? had : at("#wishes button"))?.focus();
  }
}

const act = (action) => during(() => wish(session.token, action));

function limitDesk({ state }) {
  at("[data-action=end]").disabled = state === "free" || state === "ended";
  at("[data-action=fail]").disabled = state !== "pro";
}

function show(story) {
  const words = STATES[story.state];
  const changed = session.story?.state !== story.state;
  const follow = session.follow || (changed && at("#wishes").contains(document.activeElement));
  session.follow = false;
  session.story = story;
  document.body.dataset.state = story.state;
  if (changed) {
    at("#home .badge").textContent = words.badge;
    at("#home h1").textContent = words.title(names.get(story.user) ?? story.user);
    at("#wishes").replaceChildren(
      ...words.wishes.map(({ action, label, main }) => {
        const button = made("button", label(cost), { className: main ? "main" : "", onclick: () => act(action) });
        button.disabled = document.body.hasAttribute("aria-busy");
        return button;
      }),
    );
  }
  at("#sentence").textContent = words.sentence(story.until && moments.day(story.until));
  at("#now").textContent = moments.full(story.now);
  at("#now").dateTime = new Date(story.now).toISOString();
  if (!document.body.hasAttribute("aria-busy")) limitDesk(story);
  at("#silence").hidden = story.events.length > 0;
  at("#events").replaceChildren(...story.events.map(line));
  shown = new Set(story.events.map(({ id }) => id));
  for (const part of ["#home", "#behind", "#sign-out"]) at(part).hidden = false;
  at("#welcome").hidden = true;
  if (follow) at("#wishes button").focus();
}

function line({ id, type, event_timestamp_ms: when }) {
  const [words, tone] = told(type);
  const item = made("li", "", { className: `${tone} ${shown.has(id) ? "" : "new"}`.trim() });
  item.append(made("b", words), made("time", moments.brief(when), { dateTime: new Date(when).toISOString() }));
  item.append(made("code", type));
  return item;
}

async function enter(kept, { follow = false } = {}) {
  const leaving = new AbortController();
  session = { ...kept, leaving, follow, story: null };
  localStorage.setItem(KEPT, JSON.stringify(kept));
  register(kept.token);
  if (!(await live(kept.token, leaving.signal, (story) => leaving.signal.aborted || show(story)))) {
    notice("Please sign in again.");
    leave();
  }
}

/** A phone belongs to the user who signed in last. In an ordinary browser there is nothing to register. */
async function register(token) {
  const place = at("#device");
  try {
    const id = await registerDevice({ url: "/api/devices", token, platform: "web" });
    place.textContent = id
      ? "Notifications come to this phone."
      : "No notifications here: this is a browser, not the app, or they were refused.";
    place.dataset.player = id ?? "";
    if (session?.token === token) session.player = id;
  } catch {
    place.textContent = "This phone could not be registered for notifications.";
  }
}

function leave() {
  session?.leaving.abort();
  // Notifications for this user must not reach the next user of the phone.
  if (session?.player) forgetDevice(session.token, session.player).catch(() => {});
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

async function begin() {
  try {
    const { users, ...product } = await offer();
    cost = price(product);
    for (const { id, name } of users) {
      names.set(id, name);
      const button = made("button", name, { className: "main" });
      button.onclick = () => during(async () => void enter({ token: await signIn(id) }, { follow: true }));
      at("#users").append(button);
    }
    if (kept()?.token) enter(kept());
  } catch (error) {
    notice(error.message);
    setTimeout(begin, 2000);
  }
}

begin();
