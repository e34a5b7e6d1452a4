// Before the first paint, so that a chosen theme does not flash.
try {
  const chosen = localStorage.getItem("latchkey-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is not available: use the system's theme.
}
