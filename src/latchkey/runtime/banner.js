/*
 * A notification as a phone shows it: a card that slides in over the app, disappears, and opens on a tap.
 * Runs in an isolated world (the page's scripts see only an empty element). No inline style and no markup from strings:
 * it works under any content security policy, and text is never markup.
 */
(function (notification, seconds) {
  "use strict";
  var name = "latchkey-notifications";
  var place = document.querySelector(name);
  var shelf = place && place.latchkeyShelf;
  if (!shelf) {
    if (place) place.remove();
    place = document.createElement(name);
    place.setAttribute("popover", "manual");
    var root = place.attachShadow({ mode: "closed" });
    var sheet = new CSSStyleSheet();
    sheet.replaceSync(
      ":host { all: initial; position: fixed; inset: 0 0 auto 0; border: 0; padding: 8px; background: none; }" +
        ".shelf { display: flex; flex-direction: column; gap: 8px; max-width: 440px; margin: 0 auto; }" +
        ".card { font: 15px/1.35 system-ui, sans-serif; color: #16181d; background: #fffffff2; text-align: left;" +
        "  border: 0; border-radius: 18px; padding: 12px 16px; box-shadow: 0 8px 28px #0004; cursor: pointer;" +
        "  animation: come .35s cubic-bezier(.2, .9, .3, 1.1); }" +
        ".heading { display: block; font-weight: 600; }" +
        "@keyframes come { from { transform: translateY(-120%); } }" +
        "@media (prefers-color-scheme: dark) { .card { color: #f3f4f6; background: #26282ef2; } }" +
        "@media (prefers-reduced-motion) { .card { animation: none; } }"
    );
    root.adoptedStyleSheets = [sheet];
    shelf = document.createElement("div");
    shelf.className = "shelf";
    shelf.setAttribute("role", "status");
    root.append(shelf);
    place.latchkeyShelf = shelf;
    document.documentElement.append(place);
  }
  // Shown again each time, so that it is above a dialog that was opened later.
  if (place.matches(":popover-open")) place.hidePopover();
  place.showPopover();

  var card = document.createElement("button");
  card.className = "card";
  ["heading", "content"].forEach(function (part) {
    var line = document.createElement("span");
    line.className = part;
    line.textContent = notification[part];
    card.append(line);
  });
  card.addEventListener("click", function () {
    card.remove();
    if (notification.url) location.assign(notification.url);
  });
  shelf.prepend(card);
  setTimeout(function () {
    card.remove();
  }, seconds * 1000);
})
