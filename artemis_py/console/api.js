// The HTTP API of the broker: where it is, how it is asked, and what its refusals mean.

const BASE = "/api/v1";

// A list of 100,000 queues takes a second; whoever is silent for longer than this is away.
const READ_TIMEOUT_MS = 20_000;

const AWAY = new Set([502, 503, 504]);

// `?login=basic` asks with the browser's own dialog, for those who want it; then there is no log-out.
const hasOwnLogin = new URLSearchParams(location.search).get("login") !== "basic";

// What the broker has said about the session; null without one.
let session = null;

let tell = () => {};

/** The server answered, and did not do it. */
export class Refused extends Error {
  constructor(status, detail, code) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

/** It did not do it because nobody is logged in, or not as somebody who may. */
export class LoginNeeded extends Refused {}

/** Have a function called for each request that needs a login. */
export function whenLoginNeeded(listener) {
  tell = listener;
}

/** Return who asks, and by which way: `{user, by}`. */
export async function who(signal = new AbortController().signal) {
  return remembered(await read(path("login"), signal));
}

export async function logIn(name, password) {
  return remembered(await request("POST", path("login"), { name, password }));
}

export async function logOut() {
  await request("POST", path("logout"));
  session = null;
}

/** Return when the session ends if nothing is read, and whether that is because nothing is; null without a session. */
export function sessionEnd() {
  if (session === null) {
    return null;
  }
  const idleEnd = session.usedAt + session.idleMs;
  return idleEnd < session.endsAt ? { at: idleEnd, isIdle: true } : { at: session.endsAt, isIdle: false };
}

function remembered(answer) {
  const now = Date.now();
  session = answer.csrf === undefined ? null : { user: answer.user, csrf: answer.csrf, usedAt: now,
    idleMs: answer.idleSeconds * 1000, endsAt: now + answer.leftSeconds * 1000 };
  return answer;
}

/** There was no answer. */
export class Unreachable extends Error {}

/** Return where a collection is, or one resource in it. Names may contain anything. */
export function path(collection, name = null) {
  if (name === null) {
    return `${BASE}/${collection}`;
  }
  // Browsers take `.` and `..` out of every path, encoded or not, and some proxies decode a slash.
  if (name === "." || name === ".." || name === "-" || String(name).includes("/")) {
    return `${BASE}/${collection}/-?name=${encoded(name)}`;
  }
  return `${BASE}/${collection}/${encoded(name)}`;
}

/** Return where something of a resource is. */
export function below(where, segment) {
  const [before, ...query] = where.split("?");
  return [`${before}/${segment}`, ...query].join("?");
}

/** Return a path with its parameters; those that are empty or null are left out. */
export function asking(where, parameters) {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== null && value !== "");
  const text = pairs.map(([name, value]) => `${name}=${encoded(value)}`).join("&");
  return text ? `${where}${where.includes("?") ? "&" : "?"}${text}` : where;
}

function encoded(value) {
  // The apostrophe too, so that the command for a shell needs no escapes.
  return encodeURIComponent(value).replaceAll("'", "%27");
}

export function read(where, signal) {
  return request("GET", where, undefined, AbortSignal.any([signal, AbortSignal.timeout(READ_TIMEOUT_MS)]));
}

export function create(kind, body) {
  return request("POST", path(kind), body);
}

/** Delete a resource; `isForced` does so although it is in use. */
export function remove(where, isForced = false) {
  return request("DELETE", isForced ? asking(where, { force: "true" }) : where);
}

/** Run an operation with its parameters; return its result. */
export async function perform(where, operation, ...parameters) {
  const answer = await request("POST", below(where, operation), parameters);
  return answer.result;
}

/**
 * Run an operation that treats part of a queue until all is treated, or the signal says stop.
 *
 * Return how many messages were treated, and whether some stayed because they could not go where they should.
 */
export async function performInParts(where, operation, wanted, signal, progress) {
  let treated = 0;
  let leftAlone = 0;
  let next = null;
  do {
    const part = next === null ? wanted : { ...wanted, from: next };
    const answer = await perform(where, operation, part);
    treated += answer.count;
    leftAlone += answer.leftAlone;
    next = answer.next;
    progress(treated);
  } while (next !== null && !signal.aborted);
  return { treated, leftAlone, isComplete: next === null };
}

async function request(method, where, body, signal, isAgain = false) {
  const headers = { Accept: "application/json" };
  if (hasOwnLogin) {
    headers["X-Artemis-Login"] = "page";
  }
  if (session !== null && method !== "GET") {
    headers["X-Artemis-Csrf"] = session.csrf;
  }
  if (method !== "GET") {
    headers["Content-Type"] = "application/json";
  }
  let response;
  let text;
  try {
    // With the origin, because a page whose URL has a name and a password hands both on to what is relative to it, and
    // such requests are not made.
    response = await fetch(`${location.origin}${where}`, {
      method, headers, signal, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body),
    });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new Unreachable(error.name === "TimeoutError" ? "no answer in time" : error.message);
  }
  if (AWAY.has(response.status) && !isProblem(response)) {
    throw new Unreachable(`status ${response.status}`);
  }
  const answer = parsed(text);
  if (session !== null && response.status !== 401) {
    session.usedAt = Date.now();
  }
  if (!response.ok) {
    if (answer?.code === "cross-site" && !isAgain && await isOtherSession()) {
      return request(method, where, body, signal, true);
    }
    throw refusal(response.status, answer, where);
  }
  return answer;
}

/** Tell whether the same user has logged in again in another tab, so that this one must send other headers. */
async function isOtherSession() {
  const before = session;
  const { user } = await who();
  return before !== null && session !== null && session.csrf !== before.csrf && user === before.user;
}

function refusal(status, answer, where) {
  const detail = String(answer?.detail ?? answer?.title ?? `The server answered with status ${status}.`);
  if (status !== 401 || !hasOwnLogin) {
    return new Refused(status, detail, answer?.code);
  }
  const needed = new LoginNeeded(status, detail, answer?.code);
  if (where !== path("login") || needed.code !== "login-failed") {
    session = null;
    tell(needed);
  }
  return needed;
}

function isProblem(response) {
  return (response.headers.get("Content-Type") ?? "").startsWith("application/problem+json");
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Return the command that asks the same in a shell; curl asks for the password. */
export function curl(where) {
  return `curl --user NAME '${location.origin}${where}'`;
}
