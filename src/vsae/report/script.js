(() => {
  "use strict";
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Light, dark, or as the system says.
  const button = document.getElementById("theme");
  const themes = ["", "light", "dark"];
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme ? theme[0].toUpperCase() + theme.slice(1) : "Auto";
  };
  button.hidden = false;
  button.addEventListener("click", () => show(themes[(themes.indexOf(root.dataset.theme || "") + 1) % 3]));
  show(root.dataset.theme || "");

  // What a part of a figure says, beside the pointer.
  const tip = document.getElementById("tip");
  const place = (event) => {
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 6)) + "px";
    tip.style.top = (event.clientY + height + 24 > innerHeight ? event.clientY - height - 10 : event.clientY + 16) + "px";
  };
  document.addEventListener("pointerover", (event) => {
    const said = event.target.closest && event.target.closest("[data-t]");
    tip.hidden = !said;
    if (said) { tip.textContent = said.dataset.t; place(event); }
  });
  document.addEventListener("pointermove", (event) => { if (!tip.hidden) place(event); });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  // Tables are sorted by a click on a heading, and back by another.
  const value = (row, i) => {
    const cell = row.cells[i];
    if (!("v" in cell.dataset)) return cell.textContent.trim().toLowerCase();
    return cell.dataset.v === "" ? -Infinity : Number(cell.dataset.v);
  };
  for (const table of all("table.sortable")) {
    all("thead th", table).forEach((heading, i) => {
      heading.tabIndex = 0;
      heading.setAttribute("role", "button");
      const sort = () => {
        const numbers = "v" in (table.tBodies[0].rows[0]?.cells[i]?.dataset || {});
        const before = heading.getAttribute("aria-sort");
        const down = before ? before === "ascending" : numbers;
        all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [value(row, i), row]);
        rows.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      };
      heading.addEventListener("click", sort);
      heading.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
  }

  // Only columns whose name has this text.
  const filter = document.getElementById("filter");
  filter.parentElement.hidden = false;
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const part of all("[data-column]")) {
      part.classList.toggle("out", wanted !== "" && !part.dataset.column.toLowerCase().includes(wanted));
    }
    if (wanted) all("details.more").forEach((more) => { more.open = true; });
  });

  // On a phone, the contents are in the way.
  if (matchMedia("(max-width: 900px)").matches) document.querySelector("#toc details").open = false;

  // One grouping at a time.
  const select = document.getElementById("by");
  if (select) {
    select.parentElement.hidden = false;
    const parts = all("[data-by]");
    const choose = () => parts.forEach((part) => { part.hidden = part.dataset.by !== select.value; });
    select.addEventListener("change", choose);
    choose();
  }

  // The contents say where the reader is.
  const links = new Map(all("#toc a").map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  all("main section").forEach((section) => watch.observe(section));

  // Paper cannot be clicked on.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((part) => { part.open = false; }));
})();
