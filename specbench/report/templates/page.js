"use strict";
(() => {
  const number = (text) => {
    const found = text.replace(/,/g, "").match(/^-?\d+(\.\d+)?(e-?\d+)?/i);
    return found ? parseFloat(found[0]) : NaN;
  };
  const order = (a, b) => {
    const x = number(a), y = number(b);
    if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    if (!Number.isNaN(x)) return -1;
    if (!Number.isNaN(y)) return 1;
    return a.localeCompare(b);
  };
  const sortable = (table) => {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.title = "Sort by this column";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        [...table.tHead.rows[0].cells].forEach((cell) => cell.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...body.rows];
        rows.sort((a, b) => (up ? 1 : -1) * order(a.cells[column].textContent, b.cells[column].textContent));
        body.append(...rows);
      });
    });
  };
  const filterable = (table, box, id) => {
    const holder = document.createElement("div");
    const label = document.createElement("label");
    const input = document.createElement("input");
    const told = document.createElement("span");
    holder.className = "filter";
    input.id = id;
    input.type = "search";
    input.placeholder = "words, all must match";
    label.htmlFor = id;
    label.textContent = "Filter rows";
    told.setAttribute("role", "status");
    holder.append(label, input, told);
    box.before(holder);
    const rows = [...table.tBodies[0].rows].map((row) => [row, row.textContent.toLowerCase()]);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let kept = 0;
      rows.forEach(([row, text]) => {
        const match = words.every((word) => text.includes(word));
        row.hidden = !match;
        kept += match ? 1 : 0;
      });
      told.textContent = words.length ? `${kept} of ${rows.length} rows` : "";
    });
  };
  document.querySelectorAll(".table").forEach((box, index) => {
    const table = box.querySelector("table");
    if (!table || table.tBodies[0].rows.length < 2) return;
    sortable(table);
    if (table.tBodies[0].rows.length > 6) filterable(table, box, `filter-${index}`);
  });
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let one = target.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  if (location.hash) reveal();
  const opened = [];
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details:not([open])").forEach((one) => { one.open = true; opened.push(one); });
  });
  window.addEventListener("afterprint", () => opened.splice(0).forEach((one) => { one.open = false; }));
  const dialog = document.createElement("dialog");
  const close = document.createElement("button");
  const stage = document.createElement("div");
  close.type = "button";
  close.className = "zoom";
  close.textContent = "Close";
  close.addEventListener("click", () => dialog.close());
  dialog.append(close, stage);
  dialog.setAttribute("aria-label", "Enlarged plot");
  document.body.append(dialog);
  dialog.addEventListener("close", () => stage.replaceChildren());
  document.querySelectorAll("figure").forEach((figure) => {
    const svg = figure.querySelector("svg");
    if (!svg) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "zoom";
    button.textContent = "Enlarge";
    button.setAttribute("aria-label", `Enlarge: ${figure.querySelector("figcaption").textContent}`);
    button.addEventListener("click", () => {
      stage.replaceChildren(svg.cloneNode(true), figure.querySelector("figcaption").cloneNode(true));
      dialog.showModal();
    });
    figure.append(button);
  });
})();
