// Continues a count that takes longer than one request, until it is complete.
// Without this script a link does the same.

const said = document.createElement("p");
said.className = "hidden-words";
said.setAttribute("role", "status");
document.querySelector("main").append(said);

for (;;) {
  const section = document.querySelector("[data-counting]");
  const link = section?.querySelector("a[data-count-on]");
  if (!link) {
    // Announced once, at the end: changing numbers are useless in a screen reader.
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
