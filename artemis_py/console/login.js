// Who uses the console: the page to log in, the dialog when a session has ended, and the way out.

import { LoginNeeded, logIn, logOut, Refused, sessionEnd, whenLoginNeeded, who } from "./api.js";
import { button, element, named, nodes } from "./dom.js";
import { clock, plain } from "./format.js";

// Time before the end of a session at which its user is told (WCAG 2.2.1 asks for 20 seconds or more).
const NOTICE_MS = 2 * 60_000;

const byId = (id) => document.getElementById(id);

export class Account {
  constructor(app) {
    this.app = app;
    this.user = null;
    this.by = null;
    this.isKnown = false;
    this.isAsking = false;
    this.isChecking = false;
    this.box = null;
    whenLoginNeeded((error) => this.ask(error));
    byId("log-in").addEventListener("click", () => this.askInDialog("Log in", []));
    byId("log-out").addEventListener("click", () => this.leave());
    byId("stay").addEventListener("click", () => this.stay());
  }

  /** Find out who asks, and show it. Raises LoginNeeded. */
  async identify(signal) {
    const { user, by } = await who(signal);
    this.isKnown = true;
    this.user = user;
    this.by = by;
    const shown = byId("user");
    shown.replaceChildren(user === null ? "Not logged in" : named(user));
    shown.title = user === null || by === "session" ? "" : `Logged in by ${by}`;
    byId("log-out").hidden = by !== "session";
    byId("log-in").hidden = user !== null;
    byId("account").hidden = false;
  }

  /** Ask for a login, because a request was refused without one. */
  async ask(error) {
    if (this.isAsking) {
      return;
    }
    // A user that is known lacks a permission, and may have another name.
    const isKnown = this.isKnown;
    this.isAsking = true;
    this.isKnown = false;
    // Somebody may also have logged out in another tab.
    const hasEnded = error.code === "session-ended" || this.by === "session";
    this.by = null;
    if (hasEnded && await this.goesOn()) {
      this.isAsking = false;
      this.app.say("Your session has ended. What you see now needs no login.");
      this.app.refresh();
      return;
    }
    if (document.body.classList.contains("outside")) {
      this.askInPage(isKnown ? error.message : null);
    } else if (hasEnded) {
      this.askInDialog("Your session has ended", ["Log in to go on. The page stays as it is."]);
    } else {
      this.askInDialog("Log in", [error.message]);
    }
  }

  /** Tell whether requests are answered without the session that has ended. */
  async goesOn() {
    try {
      await this.identify();
      return true;
    } catch {
      return false;
    }
  }

  askInPage(says, status = null) {
    this.isAsking = true;
    const done = () => {
      byId("gate").replaceChildren();
      this.app.forget();
      this.app.follow();
      byId("main").focus();
    };
    byId("gate").replaceChildren(...nodes([
      element("h1", { tabindex: "-1" }, "Log in"),
      element("p", {}, "Broker at ", named(location.host)),
      says === null ? null : element("p", { class: "trouble" }, says),
      status === null ? null : element("p", { role: "status" }, status),
      this.form("", done),
    ]));
    document.title = "Log in – artemis_py console";
    byId("gate").querySelector("input").focus();
  }

  askInDialog(title, says) {
    if (this.box !== null) {
      return;
    }
    this.isAsking = true;
    byId("ending").hidden = true;
    const close = () => {
      this.isAsking = false;
      this.box.remove();
      this.box = null;
      if (this.isKnown) {
        this.app.schedule();
      } else {
        this.user = null;
        byId("user").textContent = "Not logged in";
        byId("log-in").hidden = false;
        byId("log-out").hidden = true;
        this.app.trouble("You are not logged in. What you see is from before.");
      }
    };
    const done = () => {
      this.box.close();
      this.app.say("Logged in.");
      this.app.refresh();
    };
    const cancel = button("Not now", () => this.box.close());
    this.box = element("dialog", { "aria-labelledby": "login-title", close },
      element("h2", { id: "login-title" }, title), says.map((line) => element("p", {}, line)),
      this.form(this.user ?? "", done, cancel));
    document.body.append(this.box);
    this.box.showModal();
    this.box.querySelector(this.user ? "[name=password]" : "[name=username]").focus();
  }

  /** Return the form; `done` is called when the user has logged in. */
  form(user, done, cancel = null) {
    const trouble = element("p", { class: "trouble", role: "alert", id: "login-trouble", hidden: true });
    const name = element("input", { type: "text", name: "username", value: user, required: true, spellcheck: "false",
      autocomplete: "username", autocapitalize: "none" });
    const password = element("input", { type: "password", name: "password", required: true,
      autocomplete: "current-password", "aria-describedby": "login-trouble" });
    const act = element("button", { type: "submit", class: "main" }, "Log in");
    const send = async (event) => {
      event.preventDefault();
      act.disabled = true;
      act.textContent = "Logging in…";
      trouble.hidden = true;
      try {
        await logIn(name.value, password.value);
        await this.identify();
        this.isAsking = false;
        done();
      } catch (error) {
        trouble.textContent = plain(reason(error));
        trouble.hidden = false;
        password.focus();
        password.select();
      }
      act.disabled = false;
      act.textContent = "Log in";
    };
    return element("form", { class: "login", method: "post", submit: send },
      element("label", { class: "field" }, element("span", {}, "Name"), name),
      element("label", { class: "field" }, element("span", {}, "Password"), password),
      trouble, element("div", { class: "buttons" }, cancel, act));
  }

  /** End the session, and show nothing any more that needed it. */
  async leave() {
    try {
      await logOut();
    } catch (error) {
      if (!(error instanceof LoginNeeded)) {
        this.app.say(error.message);
        return;
      }
    }
    this.isKnown = false;
    this.user = null;
    this.by = null;
    this.app.forget();
    // What follows needs no second question.
    this.isAsking = true;
    if (await this.goesOn()) {
      this.isAsking = false;
      this.app.say("Logged out.");
      this.app.follow();
    } else {
      byId("account").hidden = true;
      this.askInPage(null, "You have logged out.");
    }
  }

  /** Use the session, or begin another one if its time is over. */
  stay() {
    if (sessionEnd()?.isIdle) {
      this.app.refresh();
    } else {
      this.askInDialog("Log in again", ["A session ends some hours after its beginning."]);
    }
  }

  /** Tell that the session is about to end; called each second. */
  tick() {
    const end = sessionEnd();
    const left = end === null || this.isAsking ? Infinity : end.at - Date.now();
    if (left <= 0 && !this.isChecking && this.app.lostAt === null) {
      this.isChecking = true;
      this.app.refresh().finally(() => { this.isChecking = false; });
    }
    const isNear = left > 0 && left < NOTICE_MS;
    if (isNear && byId("ending").hidden) {
      byId("ending-text").textContent = `Your session ends at ${clock(end.at)}.`;
      byId("stay").textContent = end.isIdle ? "Stay logged in" : "Log in again";
    }
    byId("ending").hidden = !isNear;
  }
}

function reason(error) {
  if (error instanceof LoginNeeded) {
    return "The name or the password is wrong.";
  }
  return error instanceof Refused ? error.message : "The broker does not answer. Try again.";
}
