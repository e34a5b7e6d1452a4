// A count that takes longer than a page may is gone on with, a piece at a time, until it is complete.
// Without this there is a link that does the same.

const said = document.createElement("p");
said.className = "hidden-words";
said.setAttribute("role", "status");
document.querySelector("main").append(said);

for (;;) {
  const section = document.querySelector("[data-counting]");
  const link = section?.querySelector("a[data-count-on]");
  if (!link) {
    // Told once, at the end: numbers that rush by are no use to who listens.
    said.textContent = section?.querySelector("[data-counted]")?.textContent ?? "";
    break;
  }
  const reply = await fetch(link.href);
  const next = new DOMParser().parseFromString(await reply.text(), "text/html").querySelector("[data-counting]");
  if (!reply.ok || !next) {
    location.assign(link.href);
    break;
  }
  section.replaceWith(document.adoptNode(next));
}
