// Adds rows for more variants to the form.
const button = document.querySelector("[data-another-variant]");
const most = Number(button.dataset.anotherVariant);
const rows = () => document.querySelectorAll("[data-variant]");

function offer() {
  button.hidden = rows().length >= most;
}

button.addEventListener("click", () => {
  const last = [...rows()].at(-1);
  const number = rows().length + 1;
  const row = last.cloneNode(true);
  for (const label of row.querySelectorAll("label")) {
    label.htmlFor = label.htmlFor.replace(/\d+$/, number);
    label.firstElementChild.textContent = `Variant ${number}: `;
  }
  for (const input of row.querySelectorAll("input, select")) {
    input.id = input.id.replace(/\d+$/, number);
    input.name = input.name.replace(/\d+$/, number);
    input.value = "";
    input.required = false;
  }
  last.after(row);
  row.querySelector("input").focus();
  offer();
});
offer();
