"use strict";
// Filters, sorting, and the pages of single runs, which lie compressed in the same file until they are opened.
(() => {
  const overview = document.getElementById("overview");
  const runPage = document.getElementById("run");
  const form = document.getElementById("filters");
  const rows = [...document.querySelectorAll("#run-table tbody tr")];

  function filter() {
    const wanted = new FormData(form);
    const shown = new Set();
    for (const row of rows) {
      const fits = row.dataset.workload.toLowerCase().includes(wanted.get("workload").trim().toLowerCase())
        && ["condition", "status", "agent"].every((name) => !wanted.get(name) || wanted.get(name) === row.dataset[name]);
      row.hidden = !fits;
      if (fits) shown.add(row.dataset.key);
    }
    for (const chart of document.querySelectorAll("#every-run .small")) {
      let any = false;
      for (const line of chart.querySelectorAll("a[data-key]")) {
        const fits = shown.has(line.dataset.key);
        line.style.display = fits ? "" : "none";
        any ||= fits;
      }
      chart.hidden = !any;
    }
    document.getElementById("shown").textContent = `${shown.size} of ${rows.length} runs`;
  }

  function value(row, column) {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = parseFloat(text.replaceAll(",", ""));
    return cell.classList.contains("number") ? (Number.isNaN(number) ? null : number) : text;
  }

  function sort(table, column, heading) {
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const order = [...body.rows].map((row) => [value(row, column), row]);
    order.sort(([a], [b]) => {
      // What is unknown comes last either way.
      if (a === null || b === null) return (a === null) - (b === null);
      const way = typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
      return down ? -way : way;
    });
    body.append(...order.map(([, row]) => row));
  }

  function makeSortable(table) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sort(table, column, heading));
    });
  }

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }

  async function route() {
    const asked = location.hash.startsWith("#run=") ? location.hash.slice(5) : null;
    overview.hidden = asked !== null;
    runPage.hidden = asked === null;
    if (asked === null) {
      runPage.replaceChildren();
      document.getElementById(location.hash.slice(1))?.scrollIntoView();
      return;
    }
    const data = [...document.getElementsByClassName("run-data")].find((one) => one.dataset.key === asked);
    if (!data) {
      runPage.textContent = "This file has no such run. ";
    } else if (typeof DecompressionStream === "undefined") {
      runPage.textContent = "This browser cannot unpack the page of a run; any browser since 2023 can. ";
    } else {
      // Escaped when it was made; the page's policy keeps anything in it from running.
      const html = await unpacked(data.textContent);
      if (location.hash !== `#run=${asked}`) return;
      runPage.innerHTML = html;
    }
    if (!runPage.firstElementChild) {
      const back = document.createElement("a");
      back.href = "#runs";
      back.textContent = "All runs";
      runPage.append(back);
    }
    scrollTo(0, 0);
  }

  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  addEventListener("hashchange", route);
  filter();
  route();
})();
