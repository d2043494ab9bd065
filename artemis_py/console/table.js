// A list of the API as a table. The server sorts it, searches it and cuts it into pages; the place says how.

import { asking, path, read } from "./api.js";
import { button, element, fill, value } from "./dom.js";
import { counted, plural, whole } from "./format.js";
import { changed, here } from "./routes.js";

const PAGE_ROWS = 100;

// Long enough for the next letter, too short to be waited for.
const TYPING_MS = 250;

/**
 * One table.
 *
 * `kind` is the list of the API, `noun` what a row is, `key` the field that tells rows apart. A column has `field`,
 * `title`, and if its cell shows more than the value: `cell(row)`, and `value(row)`, which is all that the cell depends
 * on. `searched` are the fields that a search may look into, `unsearched` is the filter without one, and `fixed` is
 * always the filter. `prefix` tells the parameters of two tables in one place apart. A table that `isTop` has only its
 * first rows, in one order.
 */
export class ListTable {
  constructor(app, { kind, noun, key, columns, searched = [], unsearched = {}, fixed = null, sort, order = "asc",
    prefix = "", hasHidden = false, rows = PAGE_ROWS, isTop = false, empty = null }) {
    Object.assign(this, { app, kind, noun, columns, key, searched, unsearched, fixed, prefix, hasHidden, rows, isTop });
    this.initial = { sort, order };
    this.empty = empty ?? `There are no ${plural(noun)}.`;
    this.shown = new Map();
    this.body = element("tbody");
    this.heads = new Map();
    this.count = element("p", { class: "count" });
    this.pager = element("nav", { class: "pager", "aria-label": `Pages of ${plural(noun)}` });
    const table = element("table", {}, element("caption", { class: "unseen" }, plural(noun)),
      element("thead", {}, element("tr", {}, columns.map((column) => this.head(column)))), this.body);
    const label = `Table of ${plural(noun)}`;
    this.scroll = element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label, hidden: true },
      table);
    this.element = element("div", { class: "list" }, searched.length > 0 ? this.searching() : null, this.count,
      this.scroll, this.pager);
  }

  head(column) {
    const kind = column.isNumber ? "number" : null;
    if (this.isTop || column.isFixed) {
      return element("th", { scope: "col", class: kind }, column.title);
    }
    const click = () => this.sortBy(column);
    const head = element("th", { scope: "col", class: kind }, button(column.title, click, { class: "sort" }));
    this.heads.set(column.field, head);
    return head;
  }

  searching() {
    const typed = () => this.typed();
    this.search = element("input", { type: "search", spellcheck: "false", autocomplete: "off", input: typed });
    const label = element("label", { class: "search" }, "Search ", this.search);
    if (this.searched.length > 1) {
      this.field = element("select", { change: () => this.go({ field: this.field.value, page: null }) },
        this.searched.map(([field, title]) => element("option", { value: field }, title)));
    }
    const all = element("input", { type: "checkbox",
      change: () => this.go({ all: all.checked ? "1" : null, page: null }) });
    this.all = all;
    return element("form", { class: "searching", role: "search", submit: (event) => event.preventDefault() }, label,
      this.field ? element("label", {}, "in ", this.field) : null,
      this.hasHidden ? element("label", { class: "flag" }, all, " Show internal and temporary ones") : null);
  }

  typed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.element.isConnected) {
        this.go({ search: this.search.value, page: null }, true);
      }
    }, TYPING_MS);
  }

  go(changes, isReplaced = false) {
    this.isAsked = true;
    const own = Object.entries(changes).map(([name, found]) => [this.prefix + name, found]);
    this.app.go(changed(Object.fromEntries(own)), isReplaced);
  }

  sortBy(column) {
    const { sort, order } = this.state();
    const first = column.isNumber ? "desc" : "asc";
    const other = order === "asc" ? "desc" : "asc";
    this.go({ sort: column.field, order: sort === column.field ? other : first, page: null });
  }

  /** Return what the place says about this table. */
  state() {
    const { query } = here();
    const get = (name) => query.get(this.prefix + name);
    const page = Number.parseInt(get("page") ?? "1", 10);
    return {
      search: get("search") ?? "",
      field: get("field") ?? this.searched[0]?.[0],
      sort: get("sort") ?? this.initial.sort,
      order: get("order") ?? this.initial.order,
      page: page >= 1 ? page : 1,
      isAll: get("all") === "1",
    };
  }

  /** Return where the API has what the place asks for. */
  where() {
    const state = this.isTop ? { ...this.initial, search: "", page: 1, isAll: false } : this.state();
    let filter = this.unsearched;
    if (this.fixed !== null) {
      filter = { ...this.fixed, operation: "EQUALS" };
    } else if (state.search !== "") {
      filter = { field: state.field, operation: "CONTAINS", value: state.search };
    } else if (this.hasHidden && !state.isAll) {
      filter = { field: "hidden", operation: "EQUALS", value: "false" };
    }
    return asking(path(this.kind), { ...filter, sortField: state.sort, sortOrder: state.order,
      page: state.page, pageSize: this.rows });
  }

  async load(signal) {
    const state = this.state();
    this.follow(state);
    const { data, count } = await read(this.where(), signal);
    // The API has one filter: a search finds internal ones too, and they are left out here.
    const isCut = this.hasHidden && !state.isAll && state.search !== "";
    const rows = isCut ? data.filter((row) => !row.hidden) : data;
    this.show(rows);
    this.scroll.hidden = rows.length === 0;
    this.tell(state, count, data.length - rows.length);
    return rows;
  }

  /** Make the controls show what the place says. */
  follow(state) {
    if (this.search && document.activeElement !== this.search) {
      this.search.value = state.search;
    }
    if (this.field) {
      this.field.value = state.field;
    }
    if (this.all) {
      this.all.checked = state.isAll;
    }
    for (const [field, head] of this.heads) {
      if (field === state.sort) {
        head.setAttribute("aria-sort", state.order === "desc" ? "descending" : "ascending");
      } else {
        head.removeAttribute("aria-sort");
      }
    }
  }

  tell(state, count, left) {
    if (this.isTop) {
      this.count.textContent = count === 0 ? this.empty : "";
      return;
    }
    const first = (state.page - 1) * this.rows + 1;
    const last = Math.min(count, state.page * this.rows);
    let text = count === 0 ? (state.search === "" ? this.empty : `No ${this.noun} contains this.`)
      : counted(count, this.noun);
    if (count > this.rows) {
      text += first > count ? "; this page is empty now" : `; these are ${whole(first)} to ${whole(last)}`;
    }
    if (left > 0) {
      text += `; ${whole(left)} internal or temporary ${left === 1 ? "one is" : "ones are"} not shown`;
    }
    this.count.textContent = text;
    if (this.isAsked) {
      this.isAsked = false;
      this.app.whisper(text);
    }
    fill(this.pager, [state.page, count, here().query.toString()], () => this.turning(state.page, count));
  }

  turning(page, count) {
    const pages = Math.ceil(count / this.rows);
    const turn = (number, text) => element("a", { href: changed({ [`${this.prefix}page`]: number }) }, text);
    return [
      page > 1 ? turn(Math.min(page - 1, pages), "Previous page") : null,
      pages > 1 ? element("span", {}, `Page ${whole(page)} of ${whole(pages)}`) : null,
      page < pages ? turn(page + 1, "Next page") : null,
    ];
  }

  /** Show rows. Those that stay keep their elements, so that focus and selected text survive a refresh. */
  show(rows) {
    const focused = document.activeElement;
    const before = this.shown;
    this.shown = new Map();
    for (const row of rows) {
      const key = String(row[this.key]);
      this.shown.set(key, before.get(key) ?? new Row(this.columns));
      before.delete(key);
    }
    for (const gone of before.values()) {
      gone.element.remove();
    }
    let index = 0;
    for (const row of rows) {
      const shown = this.shown.get(String(row[this.key]));
      shown.update(row);
      if (this.body.children[index] !== shown.element) {
        this.body.insertBefore(shown.element, this.body.children[index] ?? null);
      }
      index += 1;
    }
    if (focused?.isConnected && document.activeElement !== focused) {
      focused.focus({ preventScroll: true });
    }
  }
}

class Row {
  constructor(columns) {
    this.columns = columns;
    this.cells = columns.map((column) => (column.isHead ? element("th", { scope: "row" })
      : element("td", { class: column.isNumber ? "number" : null })));
    this.element = element("tr", {}, this.cells);
  }

  update(row) {
    this.columns.forEach((column, index) => {
      const seen = column.value ? column.value(row) : row[column.field];
      fill(this.cells[index], seen, () => (column.cell ? column.cell(row) : value(row[column.field])));
    });
  }
}
