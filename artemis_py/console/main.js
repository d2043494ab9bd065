// The frame: which page is shown, when its data are read, and what is said about that.

import { asking, curl, LoginNeeded, path, read, Refused, Unreachable } from "./api.js";
import { addressPage, addressesPage } from "./addresses.js";
import { bridgesPage } from "./bridges.js";
import { element } from "./dom.js";
import { clock, duration, plain } from "./format.js";
import { connectionsPage, consumersPage, divertsPage, exchangesPage, membersPage } from "./lists.js";
import { Account } from "./login.js";
import { overviewPage } from "./overview.js";
import { queuePage } from "./queue.js";
import { queuesPage } from "./queues.js";
import { here, place } from "./routes.js";
import { Samples } from "./samples.js";
import { tokensPage } from "./tokens.js";

const PAGES = [
  ["", "Overview", overviewPage],
  ["queues", "Queues", queuesPage, queuePage],
  ["addresses", "Addresses", addressesPage, addressPage],
  ["connections", "Connections", connectionsPage],
  ["consumers", "Consumers", consumersPage],
  ["diverts", "Diverts", divertsPage],
  ["exchanges", "Exchanges", exchangesPage],
  ["bridges", "Bridges", bridgesPage],
  ["tokens", "Tokens", tokensPage],
  ["members", "Mesh", membersPage],
];

// A server that is away is asked this often, also while the refresh is stopped.
const RETRY_MS = 5000;
const SAID_MS = 10_000;

const INTERVAL_KEY = "artemis_py.console.interval";

const byId = (id) => document.getElementById(id);

class Console {
  constructor() {
    this.samples = new Samples();
    this.page = null;
    this.shownPath = null;
    this.reading = new AbortController();
    this.readAt = null;
    this.lostAt = null;
    this.isMet = false;
    this.account = new Account(this);
  }

  start() {
    byId("pages").append(...PAGES.map(([name, title]) =>
      element("li", { hidden: name === "members" }, element("a", { href: place(...(name ? [name] : [])) }, title))));
    byId("interval").value = localStorage.getItem(INTERVAL_KEY) ?? "5";
    byId("interval").addEventListener("change", () => {
      localStorage.setItem(INTERVAL_KEY, byId("interval").value);
      this.schedule();
    });
    byId("refresh").addEventListener("click", () => this.refresh());
    byId("copy").addEventListener("click", () => this.copy());
    byId("skip").addEventListener("click", (event) => {
      event.preventDefault();
      byId("main").focus();
    });
    addEventListener("hashchange", () => this.follow());
    document.addEventListener("keydown", (event) => this.pressed(event));
    document.addEventListener("visibilitychange", () => this.turned());
    setInterval(() => {
      this.tellAge();
      this.account.tick();
    }, 1000);
    this.follow();
  }

  /** Go to a place; a replaced one is not gone back to. */
  go(target, isReplaced = false) {
    if (isReplaced || location.hash === target) {
      history.replaceState(null, "", target);
    } else {
      history.pushState(null, "", target);
    }
    this.follow();
  }

  /** Show the page of the current place. One that is shown already reads its parameters again. */
  follow() {
    const { path: shownPath, names } = here();
    if (shownPath !== this.shownPath) {
      for (const open of document.querySelectorAll("dialog")) {
        open.close();
      }
      const isFirst = this.shownPath === null;
      this.shownPath = shownPath;
      this.page = this.make(names);
      byId("page").replaceChildren(this.page.element);
      document.title = `${plain(this.page.title)} – artemis_py console`;
      this.trouble(null);
      this.mark(names[0] ?? "");
      if (!isFirst) {
        scrollTo(0, 0);
        byId("page").querySelector("h1").focus();
      }
    }
    this.refresh();
  }

  make(names) {
    const found = PAGES.find(([name]) => name === (names[0] ?? ""));
    const makes = found?.[1 + Math.max(1, names.length)];
    if (makes && names.length < 3) {
      return makes(this, names[1]);
    }
    return {
      title: "No such page",
      element: element("section", {}, element("h1", { tabindex: "-1" }, "No such page"),
        element("p", {}, element("a", { href: place() }, "Overview"))),
      where: () => path("broker"),
      load: async () => {},
    };
  }

  mark(name) {
    PAGES.forEach(([own], index) => {
      const anchor = byId("pages").children[index].firstChild;
      if (own === name) {
        anchor.setAttribute("aria-current", "page");
      } else {
        anchor.removeAttribute("aria-current");
      }
    });
  }

  /** The page has come to the front, where somebody else may have logged in with another one, or has left it. */
  turned() {
    if (document.hidden) {
      this.schedule();
    } else {
      this.account.isKnown = false;
      this.refresh();
    }
  }

  /** Forget what was read, because its reader has gone. */
  forget() {
    this.reading.abort();
    clearTimeout(this.timer);
    for (const open of document.querySelectorAll("dialog")) {
      open.close();
    }
    document.body.classList.add("outside");
    byId("page").replaceChildren();
    byId("broker").textContent = "";
    this.trouble(null);
    this.samples = new Samples();
    this.shownPath = null;
    this.readAt = null;
    this.isMet = false;
  }

  /** Read what the page shows. */
  async refresh() {
    this.reading.abort();
    clearTimeout(this.timer);
    const reading = new AbortController();
    this.reading = reading;
    try {
      byId("curl").textContent = curl(this.page.where());
      if (!this.account.isKnown) {
        await this.account.identify(reading.signal);
      }
      await Promise.all([this.page.load(reading.signal), this.meet(reading.signal)]);
      document.body.classList.remove("outside");
      this.readAt = Date.now();
      this.lostAt = null;
      this.trouble(null);
    } catch (error) {
      if (reading.signal.aborted) {
        return;
      }
      // Other requests may still be under way, and would show what is older than the next ones.
      reading.abort();
      this.failed(error);
    }
    this.tellAge();
    this.schedule();
  }

  /** Ask once for the name of the broker, and whether it belongs to a mesh: neither changes while it runs. */
  async meet(signal) {
    if (this.isMet) {
      return;
    }
    const [{ name }, { count }] = await Promise.all([
      read(asking(path("broker"), { attributes: "name" }), signal), read(path("cluster-connections"), signal)]);
    byId("broker").textContent = plain(name);
    byId("pages").lastChild.hidden = count === 0;
    this.isMet = true;
  }

  /** Read the attributes of the broker. Sums over many queues take time, so only the page that shows them asks. */
  async sample(signal) {
    const broker = await read(path("broker"), signal);
    this.samples.add(broker.uptimeMillis, broker);
    return broker;
  }

  failed(error) {
    if (error instanceof Unreachable) {
      this.lostAt ??= Date.now();
      this.isMet = false;
      const since = `The broker has not answered since ${clock(this.lostAt)}`;
      this.trouble(`${since}. It is asked again every ${RETRY_MS / 1000} s; what you see is from before.`);
    } else if (error instanceof LoginNeeded) {
      // The account has heard of it, and asks.
      this.lostAt = null;
    } else if (error instanceof Refused) {
      this.lostAt = null;
      document.body.classList.remove("outside");
      this.trouble(error.message);
    } else {
      this.trouble(`This page has a fault: ${error.message}`);
      console.error(error);
    }
  }

  trouble(text) {
    const shown = byId("trouble");
    document.body.classList.toggle("lost", this.lostAt !== null);
    if (text === null) {
      shown.hidden = true;
    } else if (shown.hidden || shown.textContent !== plain(text)) {
      shown.textContent = plain(text);
      shown.hidden = false;
    }
  }

  schedule() {
    clearTimeout(this.timer);
    if (this.account.isAsking) {
      return;
    }
    const seconds = Number(byId("interval").value);
    if (this.lostAt !== null) {
      this.timer = setTimeout(() => this.refresh(), RETRY_MS);
    } else if (seconds > 0 && !document.hidden) {
      this.timer = setTimeout(() => this.refresh(), seconds * 1000);
    }
  }

  tellAge() {
    if (this.readAt !== null) {
      const age = Date.now() - this.readAt;
      byId("age").textContent = age < 1000 ? "Read now" : `Read ${duration(age)} ago`;
    }
  }

  /** Show what became of an action; readers of the screen hear it, too. */
  say(text) {
    this.#speak(text, false);
  }

  /** Tell only readers of the screen. */
  whisper(text) {
    this.#speak(text, true);
  }

  #speak(text, isUnseen) {
    const said = byId("said");
    clearTimeout(this.silence);
    said.classList.toggle("unseen", isUnseen);
    said.textContent = plain(text);
    this.silence = setTimeout(() => { said.textContent = ""; }, SAID_MS);
  }

  async copy() {
    const text = byId("curl").textContent;
    try {
      await navigator.clipboard.writeText(text);
      this.say("Copied.");
    } catch {
      // Only pages that came over TLS or from this machine may write there.
      getSelection().selectAllChildren(byId("curl"));
      this.say("Selected: copy it with your keyboard.");
    }
  }

  pressed(event) {
    const isTyping = event.target.closest("input, select, textarea, dialog");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    event.preventDefault();
    if (!document.querySelector("#page input[type=search]")) {
      this.go(place("queues"));
    }
    document.querySelector("#page input[type=search]").focus();
  }
}

new Console().start();
