"use strict";
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, table = head.closest("table"), body = table.tBodies[0];
    const column = head.cellIndex, down = head.getAttribute("aria-sort") !== "descending";
    const value = (row) => {
      const cell = row.cells[column], number = parseFloat(cell.dataset.value);
      return cell.dataset.value === undefined ? cell.textContent : Number.isNaN(number) ? -Infinity : number;
    };
    const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
    const rows = [...body.rows].sort((a, b) => order(value(a), value(b)) * (down ? -1 : 1));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...rows);
  });
}
