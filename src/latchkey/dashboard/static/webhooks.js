// Reloads parts that are still in progress, until the page says that nothing is.

const answer = document.getElementById("answer");
if (answer) answer.focus({ preventScroll: true });

let leaving = false;
document.addEventListener("submit", () => (leaving = true));
window.addEventListener("pagehide", () => (leaving = true));
window.addEventListener("pageshow", () => (leaving = false));

for (const part of document.querySelectorAll("[data-refresh]")) watch(part.id, Number(part.dataset.refresh));

function watch(id, every) {
  setTimeout(async () => {
    // Not while the tab is hidden.
    if (!leaving && document.visibilityState === "visible") await refresh(id);
    if (document.getElementById(id)?.dataset.refresh) watch(id, every);
  }, every);
}

async function refresh(id) {
  const address = location.pathname.replace(/\/test$/, "") + location.search;
  let fresh;
  try {
    const reply = await fetch(address, { headers: { accept: "text/html" } });
    if (!reply.ok || leaving) return;
    fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  } catch {
    return; // Try again next time.
  }
  const [before, after] = [document.getElementById(id), fresh.getElementById(id)];
  if (!before || !after || plain(before) === plain(after)) return;
  const open = [...before.querySelectorAll("details")].map((one) => one.open);
  before.replaceWith(after);
  for (const place of ["h1", ".tools"]) {
    const [old, now] = [document.querySelector(place), fresh.querySelector(place)];
    if (old && now && old.innerHTML !== now.innerHTML) old.replaceChildren(...now.childNodes);
  }
  const details = [...after.querySelectorAll("details")];
  // New rows come first: keep open what was open.
  open.reverse().forEach((one, place) => (details[details.length - 1 - place].open = one));
}

/** The server's content, without what this script changed. */
function plain(part) {
  const copy = part.cloneNode(true);
  for (const time of copy.querySelectorAll("time")) time.removeAttribute("title");
  for (const details of copy.querySelectorAll("details")) details.removeAttribute("open");
  return copy.outerHTML;
}
